//! A program with its weights by name: what a caller keeps, and clones for nothing.

use super::{CompileResult, ModelCompilePipeline, ModelExecutionConfig};
#[cfg(feature = "reference")]
use crate::error::Code;
use crate::error::{Error, Result};
use crate::ir::GraphModule;
use crate::nearest::nearest;
#[cfg(feature = "reference")]
use crate::ops::Op;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Weights by name, little-endian as their types say. Shared by every program of a model.
pub type Params = Arc<BTreeMap<String, Vec<u8>>>;

/// A compiled program and the weights it reads. Cloning copies pointers; nothing is compiled again
/// and no weight is copied.
#[derive(Clone, Debug)]
pub struct Executable {
    result: CompileResult,
    params: Params,
}

impl Executable {
    /// Joins a program and weights, which may be more than it reads.
    ///
    /// # Errors
    /// `BadFile` for a weight that is missing (with the nearest names) or has another length.
    pub fn new(result: CompileResult, params: Params) -> Result<Self> {
        // Constants that the host makes are made when the program runs.
        for w in result.lir.weights.iter().filter(|w| w.computed.is_none()) {
            let Some(bytes) = params.get(&w.name) else {
                let near = nearest(&w.name, params.keys().map(String::as_str), 3);
                let hint = match near.is_empty() {
                    true => format!("{} weights were given", params.len()),
                    false => format!("the nearest names: {}", near.join(", ")),
                };
                return Err(Error::bad_file(format!("weight {} is missing", w.name)).hint(hint));
            };
            if bytes.len() as u64 != w.ty.bytes()? {
                return Err(Error::bad_file(format!(
                    "weight {} has {} bytes, {} has {}",
                    w.name,
                    bytes.len(),
                    w.ty,
                    w.ty.bytes()?
                )));
            }
        }
        Ok(Executable { result, params })
    }

    /// The compiled program and its report.
    pub fn result(&self) -> &CompileResult {
        &self.result
    }

    /// The weights.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Runs the program once on the reference executor, from zeroed states, and returns its outputs
    /// by name.
    ///
    /// # Errors
    /// `Usage` for an input that is missing, unknown or of another length; as the operators.
    #[cfg(feature = "reference")]
    pub fn run_reference(&self, inputs: &[(&str, &[u8])]) -> Result<Vec<(String, Vec<u8>)>> {
        use crate::plan::replay::{Memory, replay};
        let program = &self.result.lir;
        if let Some((name, _)) = inputs.iter().find(|i| program.input(i.0).is_none()) {
            let known: Vec<&str> = program.inputs.iter().map(|i| i.name.as_str()).collect();
            return Err(Error::usage(format!("the program has no input {name}"))
                .hint(format!("inputs: {}", known.join(", "))));
        }
        let mut memory = Memory::of(program);
        for (place, decl) in memory.inputs.iter_mut().zip(&program.inputs) {
            let given = inputs.iter().find(|i| i.0 == decl.name);
            let bytes = given.map(|i| i.1).filter(|b| b.len() == place.len()).ok_or_else(|| {
                let got = given.map_or(0, |i| i.1.len());
                Error::usage(format!(
                    "input {} has {got} bytes, {} has {}",
                    decl.name, decl.ty, decl.bytes
                ))
            })?;
            place.copy_from_slice(bytes);
        }
        // Every name was looked up in `new`.
        let weight = |name: &String| self.params.get(name).map_or(&[][..], Vec::as_slice);
        let made: Vec<Option<Vec<u8>>> = program
            .weights
            .iter()
            .map(|w| w.computed.as_ref().map(|(op, operands)| constant(op, operands)).transpose())
            .collect::<Result<_>>()?;
        let weights: Vec<&[u8]> = program
            .weights
            .iter()
            .zip(&made)
            .map(|(w, made)| made.as_deref().unwrap_or_else(|| weight(&w.name)))
            .collect();
        let outputs = replay(program, &weights, &mut memory)?;
        Ok(program.outputs.iter().map(|o| o.name.clone()).zip(outputs).collect())
    }
}

/// Bytes of a constant that the host makes.
#[cfg(feature = "reference")]
fn constant(op: &Op, operands: &[String]) -> Result<Vec<u8>> {
    if let Some(name) = operands.first() {
        let what = format!("{} of the weight {name} is made when a model is loaded", op.name());
        return Err(Error::new(Code::Unsupported, what).hint("load it on a device"));
    }
    let results = crate::reference::run(op, &[])?;
    results.into_iter().next().ok_or_else(|| Error::internal("an operator without results"))
}

/// The variant of a config from the cache, compiled if it is not there, over these weights.
///
/// # Errors
/// As [`ModelCompilePipeline::get_or_compile_config`] and [`Executable::new`].
pub fn compile_built_with_config(
    cache: &mut ModelCompilePipeline,
    model: u64,
    config: &ModelExecutionConfig,
    build: impl FnOnce() -> Result<GraphModule>,
    params: &Params,
) -> Result<Executable> {
    let (result, _) = cache.get_or_compile_config(model, config, build)?;
    Executable::new(result, params.clone())
}
