//! What the runtime asks of a model, whatever its family.

use super::checkpoint::Checkpoint;
use super::entry::Entry;
use super::naming::{TOKEN_EMBD, gguf_layer};
use super::registry::presets;
use super::tensors::Tensors;
use crate::error::{Code, Error, Result};
use crate::ir::hir::Module;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// The entry of an encoder: ids to rows, and to one vector of each text.
pub const ENCODE: &str = "encode";

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It goes on with a text, token by token.
    Generate,
    /// It makes vectors of a text: one a token, and one of all.
    Embed,
}

/// What is known of a model without its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Its family's name.
    pub family: &'static str,
    /// What it is for.
    pub task: Task,
    /// Layers.
    pub layers: u64,
    /// Positions it was trained for.
    pub context: u64,
    /// Tokens it knows.
    pub vocab: u64,
    /// Width of its rows: of an embedding, the vector's length.
    pub width: u64,
}

/// A checkpoint's configuration.
pub trait Model {
    /// What is known of it.
    fn facts(&self) -> Facts;

    /// The model over `context` positions. [`module`](trait.Model.html#method.module) is what
    /// to call: it also sees that every tensor was read.
    ///
    /// # Errors
    /// `BadFile` for a tensor that is missing or has another shape.
    fn build(&self, tensors: &Tensors<'_>, context: u64) -> Result<Module>;

    /// The same model with everything small that costs time, made of copies of these layers: what a
    /// device's kernels are checked with. Heads keep their width and their groups, rows the remainders
    /// that kernels and blocks see.
    fn small(&self, layers: &[u64]) -> Box<dyn Model>;

    /// The first layer that is built as this one is, the element types of its tensors apart.
    fn kind(&self, layer: u64) -> u64 {
        let _ = layer;
        0
    }

    /// The layer and the part that a tensor of its GGUF file is; `None` for what is in no layer.
    fn layer_of<'n>(&self, tensor: &'n str) -> Option<(u64, &'n str)> {
        gguf_layer(tensor)
    }

    /// Whether a tensor of its GGUF file is a table of embeddings, whose rows are activations.
    fn is_embedding(&self, tensor: &str) -> bool {
        tensor == TOKEN_EMBD
    }
}

impl dyn Model + '_ {
    /// The model over `context` positions, every tensor of the checkpoint accounted for.
    ///
    /// # Errors
    /// As [`build`](Model::build); `Unsupported` for a tensor that no weight named.
    pub fn module(&self, checkpoint: &Checkpoint<'_>, context: u64) -> Result<Module> {
        let tensors = Tensors::new(checkpoint);
        let module = self.build(&tensors, context)?;
        tensors.finish()?;
        Ok(module)
    }

    /// What the model can be asked in a [`Session`](crate::runtime::session::Session): of an encoder `encode`.
    ///
    /// # Errors
    /// As [`module`](trait.Model.html#method.module); `Unsupported` for a model that generates text, whose
    /// programs are steps of a generation.
    pub fn entries(&self, checkpoint: &Checkpoint<'_>) -> Result<Vec<Entry>> {
        let facts = self.facts();
        match facts.task {
            Task::Embed => {
                let module = self.module(checkpoint, facts.context)?;
                let profile = presets(facts.family).map(|p| p.rows.profile());
                Ok(Vec::from([Entry { name: ENCODE.into(), module: module.into(), profile }]))
            }
            Task::Generate => {
                let what = format!("a model of family {} generates text", facts.family);
                Err(Error::new(Code::Unsupported, what).hint(
                    "`rlx run` asks it; a vector of a text comes from an encoder such as bert",
                ))
            }
        }
    }
}
