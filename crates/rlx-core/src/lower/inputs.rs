//! Inputs of a block.

use crate::error::{Error, Result};
use crate::ir::mir::ValueId;
use alloc::vec::Vec;

/// Inputs of a block in order, once their number is known to be right.
pub(super) struct Inputs(Vec<ValueId>);

impl Inputs {
    pub(super) fn new(mut inputs: Vec<ValueId>) -> Self {
        inputs.reverse();
        Inputs(inputs)
    }

    /// The next one. Errors are faults of the block's row, which says how many there are.
    pub(super) fn one(&mut self) -> Result<ValueId> {
        self.0
            .pop()
            .ok_or_else(|| Error::internal("a block asks for more inputs than its row says"))
    }

    /// The next one if there is one of that kind.
    pub(super) fn maybe(&mut self, there: bool) -> Result<Option<ValueId>> {
        if there { self.one().map(Some) } else { Ok(None) }
    }

    /// A linear layer's weight and bias.
    pub(super) fn linear(&mut self, bias: bool) -> Result<(ValueId, Option<ValueId>)> {
        Ok((self.one()?, self.maybe(bias)?))
    }
}
