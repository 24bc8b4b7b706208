//! A file's tensors as a model's author asks for them: by role, with the shape they must have. What
//! was asked for is remembered, so that a tensor that no weight named is found.

use super::checkpoint::{Checkpoint, Source};
use super::naming::Naming;
use crate::error::{Code, Error, Result};
use crate::gguf::ModelFiles;
use crate::ir::hir::{LinearWeights, Weight};
use crate::types::{DType, Shape, Type};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

/// Where tensors are looked up.
pub struct Tensors<'a> {
    from: From<'a>,
    /// Names that a weight has, or that are known to change nothing.
    asked: RefCell<BTreeSet<String>>,
}

#[derive(Clone, Copy)]
enum From<'a> {
    /// A checkpoint's own.
    Checkpoint(&'a Checkpoint<'a>),
    /// A file's element types in every shape that is asked for, and the file's layer whose types
    /// each layer has.
    Like(&'a Checkpoint<'a>, &'a [u64]),
}

/// `[a, b]` as people write shapes: `a x b`.
fn by(dims: &[u64]) -> String {
    let texts: Vec<String> = dims.iter().map(|d| format!("{d}")).collect();
    texts.join(" x ")
}

impl<'a> Tensors<'a> {
    /// A checkpoint's tensors.
    pub fn new(checkpoint: &'a Checkpoint<'a>) -> Self {
        Tensors { from: From::Checkpoint(checkpoint), asked: RefCell::default() }
    }

    /// The element types of a checkpoint's tensors, in every shape that is asked for: what a model is
    /// made from that has this one's kernels and other sizes. Layer `i` has the types of the checkpoint's
    /// layer `layers[i]`.
    pub fn like(checkpoint: &'a Checkpoint<'a>, layers: &'a [u64]) -> Self {
        Tensors { from: From::Like(checkpoint, layers), asked: RefCell::default() }
    }

    /// How these files name tensors.
    pub fn naming(&self) -> Naming {
        match self.from {
            From::Checkpoint(c) | From::Like(c, _) => c.naming(),
        }
    }

    /// Element type and sizes, outermost first; of [`like`](Self::like) the file's sizes. Whoever asks
    /// says what the tensor is for, so it counts as read.
    pub fn find(&self, name: &str) -> Option<(DType, &'a [u64])> {
        let found = match self.from {
            From::Checkpoint(c) => c.tensor(name),
            From::Like(c, layers) => {
                let of_layer = c.naming().layer_of(name).and_then(|(layer, part)| {
                    let layer = layers.get(usize::try_from(layer).ok()?)?;
                    Some(c.naming().part(*layer, part))
                });
                c.tensor(of_layer.as_deref().unwrap_or(name))
            }
        };
        if found.is_some() {
            self.asked.borrow_mut().insert(name.to_string());
        }
        found
    }

    /// Whether the file has a tensor of that name.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Marks tensors that change nothing this model returns: `known` says which.
    pub fn inert(&self, known: impl Fn(&str) -> bool) {
        if let From::Checkpoint(c) = self.from {
            let names = c.names().filter(|name| known(name)).map(ToString::to_string);
            self.asked.borrow_mut().extend(names);
        }
    }

    /// Fails for a tensor that no weight named.
    ///
    /// # Errors
    /// `Unsupported` naming the tensor: the model has a part that this version does not know.
    pub fn finish(&self) -> Result<()> {
        let From::Checkpoint(c) = self.from else { return Ok(()) };
        let asked = self.asked.borrow();
        let Some(name) = c.names().find(|name| !asked.contains(*name)) else { return Ok(()) };
        let (dtype, dims) = c.tensor(name).unwrap_or((DType::F32, &[]));
        let what = format!(
            "tensor {name} ({dtype}, {}) belongs to no part of the model that this version knows",
            by(dims)
        );
        let mut error = match c.source {
            Source::Gguf(files) => files.bad_tensor(name, what),
            Source::Transformers { .. } => Error::bad_file(what).at("model.safetensors"),
        };
        error.code = Code::Unsupported;
        Err(error.hint("update RLX; results without it would not be those of the model's maker"))
    }

    /// The tensor of that name and shape.
    ///
    /// # Errors
    /// `BadFile` if it is missing or has another shape, with both shapes.
    pub fn weight(&self, name: &str, dims: &[u64]) -> Result<Weight> {
        let Some((dtype, have)) = self.find(name) else {
            let missing = Error::bad_file(format!("tensor {name} is missing"))
                .hint("the file is incomplete, or of another architecture");
            return Err(match self.files() {
                Some(files) => missing.at(files.metadata.file()),
                None => missing,
            });
        };
        if have != dims && !matches!(self.from, From::Like(..)) {
            let what = format!("tensor {name} is {}, expected {}", by(have), by(dims));
            return Err(match self.files() {
                Some(files) => files.bad_tensor(name, what),
                None => Error::bad_file(what),
            });
        }
        Ok(Weight { name: name.into(), ty: Type::tensor(dtype, Shape::of(dims)) })
    }

    /// The GGUF file whose place an error names.
    fn files(&self) -> Option<&'a ModelFiles> {
        match self.from {
            From::Checkpoint(Checkpoint { source: Source::Gguf(files), .. }) => Some(files),
            From::Checkpoint(_) | From::Like(..) => None,
        }
    }

    /// A linear layer `name.weight` of `[out, in]`, with `name.bias` if the file has it.
    ///
    /// # Errors
    /// As [`weight`](Self::weight).
    pub fn linear(&self, name: &str, out: u64, input: u64) -> Result<LinearWeights> {
        self.linear_biased(name, [out, input], None)
    }

    /// The same where the configuration says whether there is a bias.
    ///
    /// # Errors
    /// As [`weight`](Self::weight), and where the file says otherwise.
    pub fn linear_biased(
        &self,
        name: &str,
        [out, input]: [u64; 2],
        expected: Option<bool>,
    ) -> Result<LinearWeights> {
        let weight = self.weight(&format!("{name}.weight"), &[out, input])?;
        let bias = format!("{name}.bias");
        let bias = match (self.has(&bias), expected) {
            (true, Some(false)) => {
                return Err(Error::bad_file(format!(
                    "there is a tensor {bias}, and the configuration says that there is none"
                ))
                .hint("use the config.json that belongs to the weights"));
            }
            (true, _) | (false, Some(true)) => Some(self.weight(&bias, &[out])?),
            (false, _) => None,
        };
        Ok(LinearWeights { weight, bias })
    }
}
