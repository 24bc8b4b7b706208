//! The weight plan: from ranges of files to ranges of device buffers.

use crate::error::{Code, Error, Result};
use crate::ir::lir::{Program, Space};
use crate::ops::Op;
use crate::target::Limits;
use crate::types::Type;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Where a weight's bytes come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// Copied from a file.
    File {
        /// Which shard, as the caller numbers them.
        shard: u32,
        /// Bytes from the file's start.
        offset: u64,
    },
    /// Made on the host by the reference operator, from small tensors that the host keeps.
    Computed {
        /// What makes it.
        op: Op,
        /// Names of the tensors it reads.
        operands: Vec<String>,
    },
}

/// One weight's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Name in the file, or of the constant.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where its bytes come from.
    pub origin: Origin,
    /// Index of the buffer.
    pub buffer: u32,
    /// Bytes from the buffer's start, aligned as the target asks.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A device buffer of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes, a multiple of 4.
    pub bytes: u64,
}

/// A tensor that the host must keep while loading, because a constant is made from it.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Name in the file.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Which shard.
    pub shard: u32,
    /// Bytes from the file's start.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Every weight of a model, for all its programs.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct WeightPlan {
    /// Weights, in the order they were met.
    pub entries: Vec<Entry>,
    /// Buffers that hold them.
    pub buffers: Vec<Buffer>,
    /// Small tensors that constants are made from.
    pub host: Vec<HostTensor>,
}

/// Constants are made on the host from tensors of at most this many bytes.
const HOST_TENSOR_BYTES: u64 = 64 << 10;

impl WeightPlan {
    /// Merges the weights of all programs of a model. `find` gives shard, offset and bytes of a
    /// tensor of the file.
    ///
    /// # Errors
    /// `Unsupported` for a tensor above the target's binding limit; `BadFile` for one that the
    /// file does not have.
    pub fn new(
        programs: &[&Program],
        limits: &Limits,
        mut find: impl FnMut(&str) -> Option<(u32, u64, u64)>,
    ) -> Result<WeightPlan> {
        let mut plan = WeightPlan::default();
        let missing = |name: &str| {
            Error::bad_file(format!("tensor {name} is missing"))
                .hint("the file is incomplete, or of another model")
        };
        for program in programs {
            for used in &program.weights {
                if plan.entry(&used.name).is_some() {
                    continue;
                }
                let bytes = used.ty.bytes()?;
                let origin = match &used.computed {
                    None => {
                        let (shard, offset, have) =
                            find(&used.name).ok_or_else(|| missing(&used.name))?;
                        if have != bytes {
                            return Err(Error::bad_file(format!(
                                "tensor {} has {have} bytes, its type {} needs {bytes}",
                                used.name, used.ty
                            )));
                        }
                        Origin::File { shard, offset }
                    }
                    Some((op, operands)) => {
                        for name in operands {
                            let (shard, offset, bytes) = find(name).ok_or_else(|| missing(name))?;
                            if bytes > HOST_TENSOR_BYTES {
                                return Err(Error::new(
                                    Code::Unsupported,
                                    format!("a constant is made from {name} of {bytes} bytes"),
                                )
                                .hint(format!("{HOST_TENSOR_BYTES} bytes is the most")));
                            }
                            let ty = Type::tensor(
                                crate::types::DType::F32,
                                crate::types::Shape::of(&[bytes / 4]),
                            );
                            if !plan.host.iter().any(|h| h.name == *name) {
                                plan.host.push(HostTensor {
                                    name: name.clone(),
                                    ty,
                                    shard,
                                    offset,
                                    bytes,
                                });
                            }
                        }
                        Origin::Computed { op: op.clone(), operands: operands.clone() }
                    }
                };
                plan.place(&used.name, used.ty.clone(), origin, bytes, limits)?;
            }
        }
        Ok(plan)
    }

    fn place(
        &mut self,
        name: &str,
        ty: Type,
        origin: Origin,
        bytes: u64,
        limits: &Limits,
    ) -> Result<()> {
        let most = limits.binding.min(limits.buffer);
        if bytes > most {
            return Err(Error::new(
                Code::Unsupported,
                format!("tensor {name} has {bytes} bytes, this device binds at most {most}"),
            )
            .hint("use a smaller quantisation, or a device with larger bindings"));
        }
        let aligned = |n: u64| n.div_ceil(limits.alignment) * limits.alignment;
        let rounded = bytes.div_ceil(4) * 4;
        let offset = match self.buffers.last() {
            Some(b) if aligned(b.bytes) + rounded <= most => aligned(b.bytes),
            _ => {
                self.buffers.push(Buffer { bytes: 0 });
                0
            }
        };
        let buffer = self.buffers.len() as u32 - 1;
        // The branch above made sure there is a last buffer.
        if let Some(last) = self.buffers.last_mut() {
            last.bytes = offset + rounded;
        }
        self.entries.push(Entry { name: name.into(), ty, origin, buffer, offset, bytes });
        Ok(())
    }

    /// Index of the entry of that name.
    pub fn entry(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|e| e.name == name)
    }

    /// Turns a program's weight numbers into entries of this plan.
    ///
    /// # Errors
    /// `Internal` if the program was not among those the plan was made from.
    pub fn bind(&self, program: &mut Program) -> Result<()> {
        let numbers: Vec<u32> = program
            .weights
            .iter()
            .map(|w| {
                self.entry(&w.name)
                    .map(|i| i as u32)
                    .ok_or_else(|| Error::internal(format!("weight {} is not in the plan", w.name)))
            })
            .collect::<Result<_>>()?;
        let outputs = program.outputs.iter_mut().map(|o| &mut o.slice);
        let slices =
            program.steps.iter_mut().flat_map(|s| s.operands.iter_mut().chain(&mut s.results));
        for slice in slices.chain(outputs) {
            if slice.space == Space::Weight {
                slice.index = numbers[slice.index as usize];
            }
        }
        Ok(())
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|b| b.bytes).sum()
    }
}
