//! A program with its weights by name: what a caller keeps, and clones for nothing.

use super::{CompileResult, ModelCompilePipeline, ModelExecutionConfig};
use crate::error::{Error, Result};
use crate::ir::GraphModule;
use crate::nearest::nearest;
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
        // What the host makes is made when the program runs, from these too.
        for (name, ty) in result.lir.weights.iter().flat_map(|w| w.tensors()) {
            let Some(bytes) = params.get(name) else {
                let near = nearest(name, params.keys().map(String::as_str), 3);
                let hint = match near.is_empty() {
                    true => format!("{} weights were given", params.len()),
                    false => format!("the nearest names: {}", near.join(", ")),
                };
                return Err(Error::bad_file(format!("weight {name} is missing")).hint(hint));
            };
            let (have, need) = (bytes.len(), ty.bytes()?);
            if have as u64 != need {
                return Err(Error::bad_file(format!(
                    "weight {name} has {have} bytes, {ty} has {need}"
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
        use crate::plan::replay::{ReplayMemory, replay};
        use crate::reference::make::make;
        let program = &self.result.lir;
        if let Some((name, _)) = inputs.iter().find(|i| program.input(i.0).is_none()) {
            let known: Vec<&str> = program.inputs.iter().map(|i| i.name.as_str()).collect();
            return Err(Error::usage(format!("the program has no input {name}"))
                .hint(format!("inputs: {}", known.join(", "))));
        }
        let mut memory = ReplayMemory::of(program);
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
        let tensor = |name: &str| self.params.get(name).map(Vec::as_slice);
        let made: Vec<Option<Vec<u8>>> = program
            .weights
            .iter()
            .map(|w| w.made.as_ref().map(|recipe| make(recipe, &tensor)).transpose())
            .collect::<Result<_>>()?;
        let weights: Vec<&[u8]> = program
            .weights
            .iter()
            .zip(&made)
            // Every name was looked up in `new`.
            .map(|(w, made)| made.as_deref().or_else(|| tensor(&w.name)).unwrap_or(&[]))
            .collect();
        let outputs = replay(program, &weights, &mut memory)?;
        Ok(program.outputs.iter().map(|o| o.name.clone()).zip(outputs).collect())
    }
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
