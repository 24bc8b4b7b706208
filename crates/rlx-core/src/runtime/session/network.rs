//! From a network's files to a session: the entries of a graph's text or of a checkpoint, and their weights. The
//! caller reads the files.

use crate::error::{Code, Error, Result};
#[cfg(feature = "parse")]
use crate::ir::GraphModule;
use crate::models::{self, Checkpoint, Facts, Task};
use crate::plan::{Origin, WeightPlan};
use crate::runtime::device::Device;
use crate::runtime::session::{Entry, Opening};
use crate::target::CompileOptions;
use crate::types::Type;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The entries of a checkpoint, and the facts known about its model. `context` is the number of positions in the
/// caches of a language model.
///
/// # Errors
/// As [`models::open`], building, and [`Model::positions`](trait.Model.html#method.positions).
pub fn entries(checkpoint: &Checkpoint<'_>, context: Option<u64>) -> Result<(Vec<Entry>, Facts)> {
    let model = models::open(checkpoint)?;
    Ok((model.entries(checkpoint, context)?, model.facts()))
}

/// Fails for a model that makes no vectors of texts.
///
/// # Errors
/// `Unsupported` for a model that generates text.
pub fn check_encoder(facts: &Facts) -> Result<()> {
    if facts.task == Task::Embed {
        return Ok(());
    }
    let what = format!("a model of family {} generates text", facts.family);
    Err(Error::new(Code::Unsupported, what)
        .hint("`rlx run` asks it; a vector of a text comes from an encoder such as bert"))
}

/// The entry of a graph's text; it has the graph's name.
///
/// # Errors
/// As the parser, with line and column; `Usage` for a program, because it is compiled for one device already.
#[cfg(feature = "parse")]
pub fn graph(text: &str) -> Result<Entry> {
    let module = GraphModule::parse(text)?;
    let name = match &module {
        GraphModule::Hir(m) => m.name.clone(),
        GraphModule::Mir(g) => g.name.clone(),
        GraphModule::Lir(_) => {
            return Err(Error::usage("this is a program, compiled for one device")
                .hint("give the graph that it was made from: blocks or operators"));
        }
    };
    Ok(Entry { name, module, profile: None })
}

/// Asks a device for the memory of a network's weights; `None` if there is no weight file.
///
/// # Errors
/// As [`Opening::new`]; `BadFile` if a weight's type differs from the graph's.
pub fn open(
    device: Arc<dyn Device>,
    entries: Vec<Entry>,
    weights: Option<&Checkpoint<'_>>,
    options: &CompileOptions,
) -> Result<Opening> {
    let locate = |name: &str| weights.and_then(|c| c.locate(name));
    let opening = Opening::new(device, entries, options, locate)?;
    if let Some(weights) = weights {
        check_types(weights, opening.weights().plan())?;
    }
    Ok(opening)
}

/// Fails if the type of any tensor in the files differs from the plan's.
pub(super) fn check_types(weights: &Checkpoint<'_>, plan: &WeightPlan) -> Result<()> {
    for entry in &plan.entries {
        same_type(weights, &entry.name, &entry.ty)?;
        if let Origin::Made(recipe) = &entry.origin {
            let mut tensors = recipe.tensors().into_iter();
            tensors.try_for_each(|(name, ty)| same_type(weights, name, ty))?;
        }
    }
    Ok(())
}

/// Fails if a tensor's type in the file differs from the graph's.
fn same_type(weights: &Checkpoint<'_>, name: &str, ty: &Type) -> Result<()> {
    let Some((dtype, dims)) = weights.tensor(name) else { return Ok(()) };
    let own: Vec<u64> = ty.shape.static_dims()?;
    let count = |dims: &[u64]| dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
    // A family may give a matrix another shape with as many elements.
    if dtype == ty.dtype && (own == dims || count(&own) == count(dims)) {
        return Ok(());
    }
    let dims: Vec<String> = dims.iter().map(|n| format!("{n}")).collect();
    let what =
        format!("tensor {name} is {dtype} [{}] in the file, the graph has {ty}", dims.join(", "));
    Err(Error::bad_file(what))
}
