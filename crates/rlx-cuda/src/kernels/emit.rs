//! Prints what is constant of a step in front of a kernel's text, and collects its arguments.

use rlx_core::ir::lir::{Slice, Space};
use rlx_core::plan::WeightPlan;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use std::fmt::{Display, Write};

/// Memory that an argument points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A buffer of the weight plan.
    Weights(u32),
    /// A state of the session.
    State(u32),
    /// The session's arena.
    Arena,
    /// An input of the program.
    Input(u32),
    /// Memory of the model for what kernels of one step leave each other.
    Scratch,
    /// Numbers of the model that are zero before and after every kernel: its blocks count in them.
    Counts,
    /// None: the argument is a number.
    Number,
}

/// An argument: a place in memory, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The memory.
    pub memory: Memory,
    /// Bytes from its start; the number.
    pub offset: u64,
}

/// A kernel's definitions and arguments.
pub(super) struct Emit<'a> {
    plan: &'a WeightPlan,
    /// The control block's state, and rows of a token, where a step leaves the rows of absent tokens out.
    live: Option<(u32, u64)>,
    pub definitions: String,
    /// Decoders of weights that the text names.
    pub decoders: Vec<&'static str>,
    pub arguments: Vec<Argument>,
}

impl<'a> Emit<'a> {
    pub fn new(plan: &'a WeightPlan, live: Option<(u32, u64)>) -> Self {
        Emit { plan, live, definitions: String::new(), decoders: Vec::new(), arguments: Vec::new() }
    }

    /// Defines a word of the text.
    pub fn define(&mut self, name: &str, value: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.definitions, "#define {name} {value}");
    }

    /// A line of the text.
    pub fn line(&mut self, text: &str) {
        self.definitions += text;
        self.definitions += "\n";
    }

    /// Defines a size, which kernels have in 32 bits.
    ///
    /// # Errors
    /// `Unsupported` for a larger one.
    pub fn size(&mut self, name: &str, n: u64) -> Result<()> {
        let n = super::word(n)?;
        self.define(name, format_args!("{n}u"));
        Ok(())
    }

    /// Defines, with this prefix, the decoder of weights of a type and the bytes of their rows of `k`.
    ///
    /// # Errors
    /// `Unsupported` for a type without one.
    pub fn weights(&mut self, prefix: &str, dtype: DType, k: u64) -> Result<()> {
        let decoder = super::decoder(dtype)
            .ok_or_else(|| super::unsupported(format!("weights of {dtype}")))?;
        let bytes =
            dtype.row_bytes(k).ok_or_else(|| Error::internal("a row of no whole blocks"))?;
        self.decoders.push(decoder);
        match super::planes::decoder(dtype, k) {
            Some(in_planes) => self.define(&format!("{prefix}FORMAT"), in_planes),
            None => self.define(&format!("{prefix}FORMAT"), decoder),
        }
        self.size(&format!("{prefix}ROW_BYTES"), bytes)
    }

    /// Defines `apply`, a function of x.
    pub fn apply(&mut self, body: &str) {
        let body = format!("{{ return {body}; }}");
        self.line(&format!("__device__ __forceinline__ float apply(float x) {body}"));
    }

    /// Defines a number.
    pub fn number(&mut self, name: &str, x: f32) {
        // The nine digits of an f32 read back as it; infinities have no digits.
        let text = if x.is_finite() {
            format!("{x:.9e}f")
        } else {
            format!("__uint_as_float({:#x}u)", x.to_bits())
        };
        self.define(name, text);
    }

    /// The next argument: where a slice begins.
    ///
    /// # Errors
    /// `Internal` for a weight that is not in the plan.
    pub fn argument(&mut self, slice: &Slice) -> Result<()> {
        let place = self.place(slice)?;
        self.arguments.push(place);
        Ok(())
    }

    /// Where a slice begins.
    ///
    /// # Errors
    /// `Internal` for a weight that is not in the plan.
    pub fn place(&self, slice: &Slice) -> Result<Argument> {
        let (memory, start) = match slice.space {
            Space::Arena => (Memory::Arena, 0),
            Space::State => (Memory::State(slice.index), 0),
            Space::Input => (Memory::Input(slice.index), 0),
            Space::Weight => {
                let missing =
                    || Error::internal(format!("weight {} is not in the plan", slice.index));
                let entry = self.plan.entries.get(slice.index as usize).ok_or_else(missing)?;
                (Memory::Weights(entry.buffer), entry.offset)
            }
        };
        Ok(Argument { memory, offset: start + slice.offset })
    }

    /// Defines whether a row is one that nobody reads. The next argument is the control block, if there is a question:
    /// `CTL_PARAMETER` is its parameter behind others.
    pub fn late_rows(&mut self) -> bool {
        match self.live {
            Some((state, rows)) => {
                self.arguments.push(Argument { memory: Memory::State(state), offset: 0 });
                self.define("CTL_PARAMETER", ", const u32* __restrict__ ctl");
                self.define("IS_LATE(row)", format_args!("((row) >= ctl[1] * {rows}u)"));
            }
            None => {
                self.define("CTL_PARAMETER", "");
                self.define("IS_LATE(row)", "false");
            }
        }
        self.live.is_some()
    }
}
