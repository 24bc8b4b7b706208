//! A program as MLX runs it: a tape of instructions, each of which makes one array of earlier ones.
//!
//! The shim runs a tape with one call, so that nothing of a step crosses the border between Rust and C++ but its
//! arguments and results, and MLX's own `compile` can trace it. Equal instructions are one.

mod build;
mod code;
mod dtype;
mod write;

pub(crate) use code::{Code, header};
pub(crate) use dtype::Kind;

use std::collections::HashMap;

/// An array of a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reg(u32);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Instruction {
    code: Code,
    inputs: Vec<Reg>,
    ints: Vec<i64>,
    /// Bits of numbers, so that instructions can be compared.
    numbers: Vec<u64>,
}

/// Instructions over parameters.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    parameters: u32,
    instructions: Vec<Instruction>,
    known: HashMap<Instruction, Reg>,
}

impl Tape {
    /// The next parameter. Parameters come before all instructions.
    pub(crate) fn parameter(&mut self) -> Reg {
        debug_assert!(self.instructions.is_empty(), "parameters come first");
        self.parameters += 1;
        Reg(self.parameters - 1)
    }

    /// An instruction's array.
    pub(crate) fn call(
        &mut self,
        code: Code,
        inputs: &[Reg],
        ints: &[i64],
        numbers: &[f64],
    ) -> Reg {
        let numbers = numbers.iter().map(|x| x.to_bits()).collect();
        let new = Instruction { code, inputs: inputs.to_vec(), ints: ints.to_vec(), numbers };
        let next = Reg(self.parameters + self.instructions.len() as u32);
        let reg = *self.known.entry(new.clone()).or_insert(next);
        if reg == next {
            self.instructions.push(new);
        }
        reg
    }

    /// An instruction without integers and numbers.
    pub(crate) fn op(&mut self, code: Code, inputs: &[Reg]) -> Reg {
        self.call(code, inputs, &[], &[])
    }

    /// An instruction with integers.
    pub(crate) fn with(&mut self, code: Code, inputs: &[Reg], ints: &[i64]) -> Reg {
        self.call(code, inputs, ints, &[])
    }

    /// The words that the shim reads: the instructions that results need, and when arrays are dropped.
    pub(crate) fn finish(self, results: &[Reg]) -> Vec<i64> {
        write::words(&self, results)
    }
}
