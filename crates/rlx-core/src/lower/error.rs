//! What is wrong with a block before its operators are asked.

use crate::error::Error;
use crate::ir::hir::Block;
use alloc::format;
use alloc::string::String;

/// A block whose inputs do not fit its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LowerError {
    /// Too few or too many inputs.
    WrongInputCount {
        /// The block.
        op: String,
        /// How many its attributes ask for.
        expected: usize,
        /// How many it has.
        got: usize,
    },
    /// An attribute says that there is a bias, and there is none.
    MissingBias {
        /// The block.
        op: String,
    },
}

impl LowerError {
    /// What is wrong with `got` inputs of a block, if anything.
    pub fn of(block: &Block, got: usize) -> Option<LowerError> {
        let expected = block.inputs()?;
        if expected == got {
            return None;
        }
        let op = block.name().into();
        // One bias or all of a pair's.
        let bias = block.has_bias() && (1..=2).contains(&expected.saturating_sub(got)) && got >= 2;
        Some(match bias {
            true => Self::MissingBias { op },
            false => Self::WrongInputCount { op, expected, got },
        })
    }
}

impl From<LowerError> for Error {
    fn from(e: LowerError) -> Error {
        match e {
            LowerError::WrongInputCount { op, expected, got } => {
                Error::bad_graph(format!("{op} takes {expected} inputs, got {got}"))
            }
            LowerError::MissingBias { op } => {
                Error::bad_graph(format!("{op} is told to have a bias, but no input is one"))
                    .hint("give it the bias, or leave the attribute out")
            }
        }
    }
}
