//! A file's tensors as a model's author asks for them: by role, with the shape they must have.

use crate::error::{Error, Result};
use crate::gguf::ModelFiles;
use crate::ir::hir::{LinearWeights, Weight};
use crate::safetensors;
use crate::types::{DType, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// How a file names its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// llama.cpp's: `blk.0.attn_q.weight`.
    Gguf,
    /// transformers': `model.layers.0.self_attn.q_proj.weight`.
    Transformers,
}

/// Where tensors are looked up.
#[derive(Clone, Copy)]
pub enum Tensors<'a> {
    /// A GGUF file or its shards.
    Gguf(&'a ModelFiles),
    /// A safetensors file.
    Safetensors(&'a safetensors::Header),
    /// A GGUF file's types, for a model of other sizes.
    Like(Like<'a>),
}

/// The element types of a file's tensors, in every shape that is asked for: what a model is made
/// from that has this one's kernels and other sizes.
#[derive(Clone, Copy)]
pub struct Like<'a> {
    /// The file.
    pub files: &'a ModelFiles,
    /// The file's layer whose types each layer has.
    pub layers: &'a [u64],
}

impl Like<'_> {
    fn get(&self, name: &str) -> Option<(DType, &[u64])> {
        let of_layer = name.strip_prefix("blk.").and_then(|rest| {
            let (layer, part) = rest.split_once('.')?;
            let layer = self.layers.get(layer.parse::<usize>().ok()?)?;
            Some(format!("blk.{layer}.{part}"))
        });
        let found = self.files.tensors.get(of_layer.as_deref().unwrap_or(name));
        found.map(|(_, t)| (t.dtype, t.dims.as_slice()))
    }
}

/// `[a, b]` as people write shapes: `a x b`.
fn by(dims: &[u64]) -> String {
    let texts: Vec<String> = dims.iter().map(|d| format!("{d}")).collect();
    texts.join(" x ")
}

impl Tensors<'_> {
    /// How these files name tensors.
    pub fn naming(&self) -> Naming {
        match self {
            Self::Gguf(_) | Self::Like(_) => Naming::Gguf,
            Self::Safetensors(_) => Naming::Transformers,
        }
    }

    /// Element type and sizes, outermost first; of [`Like`] the file's sizes.
    pub fn find(&self, name: &str) -> Option<(DType, &[u64])> {
        match self {
            Self::Gguf(files) => files.tensors.get(name).map(|(_, t)| (t.dtype, t.dims.as_slice())),
            Self::Safetensors(h) => {
                h.tensors.get(name).map(|t| (DType::Scalar(t.dtype), t.shape.as_slice()))
            }
            Self::Like(like) => like.get(name),
        }
    }

    /// Shard, byte offset in it, and bytes of a tensor; [`Like`] has none.
    pub fn locate(&self, name: &str) -> Option<(u32, u64, u64)> {
        match self {
            Self::Gguf(f) => f.tensors.get(name).map(|(s, t)| (*s as u32, t.offset, t.bytes)),
            Self::Safetensors(h) => h.tensors.get(name).map(|t| (0, t.offset, t.bytes)),
            Self::Like(_) => None,
        }
    }

    /// The tensor of that name and shape.
    ///
    /// # Errors
    /// `BadFile` if it is missing or has another shape, with both shapes.
    pub fn weight(&self, name: &str, dims: &[u64]) -> Result<Weight> {
        let Some((dtype, have)) = self.find(name) else {
            let missing = Error::bad_file(format!("tensor {name} is missing"))
                .hint("the file is incomplete, or of another architecture");
            return Err(match self {
                Self::Gguf(files) => missing.at(files.metadata.file()),
                Self::Safetensors(_) | Self::Like(_) => missing,
            });
        };
        if have != dims && !matches!(self, Self::Like(_)) {
            let what = format!("tensor {name} is {}, expected {}", by(have), by(dims));
            return Err(match self {
                Self::Gguf(files) => files.bad_tensor(name, what),
                Self::Safetensors(_) | Self::Like(_) => Error::bad_file(what),
            });
        }
        Ok(Weight { name: name.into(), ty: Type::tensor(dtype, Shape::of(dims)) })
    }

    /// A linear layer `name.weight` of `[out, in]`, with `name.bias` if the file has it.
    ///
    /// # Errors
    /// As [`weight`](Self::weight).
    pub fn linear(&self, name: &str, out: u64, input: u64) -> Result<LinearWeights> {
        let weight = self.weight(&format!("{name}.weight"), &[out, input])?;
        let bias = format!("{name}.bias");
        let bias = match self.find(&bias) {
            Some(_) => Some(self.weight(&bias, &[out])?),
            None => None,
        };
        Ok(LinearWeights { weight, bias })
    }
}
