//! What the runtime asks of a model, whatever its family.

use super::checkpoint::Checkpoint;
use super::naming::{Naming, gguf_layer};
use super::tensors::Tensors;
use super::widen;
use crate::error::{Error, Result};
use crate::ir::hir::Module;
use crate::lower::LOGITS;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// The entry of an encoder: ids to rows and to one vector of each text; pixels to rows and to one vector of each
/// image; samples to what is said in each frame.
pub const ENCODE: &str = "encode";

/// Positions of a language model's caches where nobody says how many.
pub const USUAL_CONTEXT: u64 = 4096;

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It goes on with a text, token by token.
    Generate,
    /// It makes vectors of a text: one a token, and one of all.
    Embed,
    /// It makes vectors of an image: one a patch, and one of all.
    Features,
    /// It writes down what is said in a sound.
    Transcribe,
    /// It finds the places of an image that belong to a thing.
    Segment,
    /// It makes images of words, or of numbers that stand for them.
    Imagine,
}

impl Task {
    /// What a model of this task does, behind `it`.
    pub fn does(self) -> &'static str {
        match self {
            Task::Generate => "generates text",
            Task::Embed => "makes vectors of texts",
            Task::Features => "makes vectors of images",
            Task::Transcribe => "writes down what is said",
            Task::Segment => "finds things in images",
            Task::Imagine => "makes images",
        }
    }

    /// What has this task, as a sentence's end.
    pub fn comes_from(self) -> &'static str {
        match self {
            Task::Generate => "text comes from a language model such as llama",
            Task::Embed => "a vector of a text comes from an encoder such as bert",
            Task::Features => "a vector of an image comes from a model such as dinov2",
            Task::Transcribe => "a transcript comes from a model such as wav2vec2",
            Task::Segment => "masks come from a model such as sam",
            Task::Imagine => "images come from a model such as flux2",
        }
    }

    /// The command that asks a model of this task.
    pub fn asked(self) -> &'static str {
        match self {
            Task::Generate => "`rlx run` asks it;",
            Task::Embed => "`rlx embed` asks it;",
            Task::Features => "`rlx features` asks it;",
            Task::Transcribe => "`rlx transcribe` asks it;",
            Task::Segment => "`rlx segment` asks it;",
            Task::Imagine => "`rlx imagine` asks it;",
        }
    }
}

/// How a model of block diffusion fills a block of masks, pass by pass: what its family says where the caller says
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Diffusion {
    /// Positions of a block, which see each other: 1 or more.
    pub block: u64,
    /// Whether there is one block, which has the whole text: the prompt and the answer. It is as long as the context.
    pub whole: bool,
    /// The id of a position that has no token yet, within the vocabulary.
    pub mask: u32,
    /// A pass fixes every position whose token has more than this probability.
    pub threshold: f32,
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
    /// Positions it was trained for; of an image, its patches and what stands beside them.
    pub context: u64,
    /// Tokens it knows; 0 where it has none.
    pub vocab: u64,
    /// Width of its rows: of an embedding, the vector's length.
    pub width: u64,
}

/// A checkpoint's configuration.
pub trait Model {
    /// What is known of it.
    fn facts(&self) -> Facts;

    /// The decoder that it is, if it is one.
    #[cfg(any(feature = "encode", feature = "vision"))]
    fn decoder(&self) -> Option<&super::decoder::Decoder> {
        None
    }

    /// The model over `context` positions; of a model of several networks the first.
    /// [`module`](trait.Model.html#method.module) is what to call: it also sees that every tensor was read.
    ///
    /// # Errors
    /// `BadFile` for a tensor that is missing or has another shape.
    fn build(&self, tensors: &Tensors<'_>, context: u64) -> Result<Module>;

    /// Every network of the model, by the name of its entry. Most have one; those of several share weights.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    fn networks(&self, tensors: &Tensors<'_>, context: u64) -> Result<Vec<(&'static str, Module)>> {
        let name = if self.facts().task == Task::Generate { LOGITS } else { ENCODE };
        Ok(Vec::from([(name, self.build(tensors, context)?)]))
    }

    /// The same model with everything small that costs time, made of copies of these layers: what a
    /// device's kernels are checked with. Heads keep their width and their groups, rows the remainders
    /// that kernels and blocks see.
    fn small(&self, layers: &[u64]) -> Box<dyn Model>;

    /// The same model with these layers alone, at their own sizes, and a small vocabulary: what a device is timed
    /// with. `None` where that is no language model.
    fn only(&self, layers: &[u64]) -> Option<Box<dyn Model>> {
        let _ = layers;
        None
    }

    /// The first layer that is built as this one is, the element types of its tensors apart.
    fn kind(&self, layer: u64) -> u64 {
        let _ = layer;
        0
    }

    /// The layer and the part that a tensor of its GGUF file is; `None` for what is in no layer.
    fn layer_of<'n>(&self, tensor: &'n str) -> Option<(u64, &'n str)> {
        gguf_layer(tensor)
    }

    /// How it fills blocks, if it generates text by block diffusion and not token by token.
    fn diffusion(&self) -> Option<Diffusion> {
        None
    }

    /// The same model with blocks of so many positions; `None` where it has no blocks.
    fn with_block(&self, block: u64) -> Option<Box<dyn Model>> {
        let _ = block;
        None
    }

    /// Whether a tensor is a table of embeddings, whose rows are activations.
    fn is_embedding(&self, tensor: &str) -> bool {
        [Naming::Gguf, Naming::Transformers].iter().any(|n| n.embedding() == tensor)
    }

    /// Whether a tensor has what a recurrence fades by, as negative numbers: states would grow without a bound
    /// by positive ones.
    fn is_decay(&self, tensor: &str) -> bool {
        tensor.ends_with(".ssm_a")
    }
}

impl dyn Model + '_ {
    /// The model over `context` positions, every tensor of the checkpoint accounted for.
    ///
    /// # Errors
    /// As [`build`](Model::build); `Unsupported` for a tensor that no weight named.
    pub fn module(&self, checkpoint: &Checkpoint<'_>, context: u64) -> Result<Module> {
        let tensors = Tensors::new(checkpoint);
        let mut module = self.build(&tensors, context)?;
        if self.facts().task != Task::Generate {
            widen::vectors(&mut module);
        }
        tensors.finish()?;
        Ok(module)
    }

    /// Positions of the caches: as many as are asked for, or as many as the model was trained for, at most
    /// [`USUAL_CONTEXT`].
    ///
    /// # Errors
    /// `Usage` for none, or more than the model was trained for.
    pub fn positions(&self, asked: Option<u64>) -> Result<u64> {
        let trained = self.facts().context;
        match asked {
            Some(n) if n == 0 || n > trained => {
                let what = format!("a context of {n} tokens: this model takes 1 to {trained}");
                Err(Error::usage(what))
            }
            Some(n) => Ok(n),
            None => Ok(trained.min(USUAL_CONTEXT)),
        }
    }
}
