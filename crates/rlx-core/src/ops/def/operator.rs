//! What an operator's file says, and what a decomposition writes to.

use super::field::{self, Field};
use crate::error::{Error, Result};
use crate::ops::{Attrs, Op};
use crate::types::{Binding, Type, ValueId};
use alloc::vec::Vec;

/// How a result may share memory with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    /// The result needs memory of its own, disjoint from every operand.
    None,
    /// The result is the operand's bytes from an offset on: no step runs.
    View {
        /// Index of the operand.
        operand: usize,
        /// Bytes into the operand.
        byte_offset: u64,
    },
    /// Each element of result 0 depends on the same element of that operand alone, so it may be
    /// written in place when the operand dies here.
    Elementwise {
        /// Index of the operand.
        operand: usize,
    },
}

/// Which rows of an operand the results need, where both have a row, or several, for each token of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// Any row: a token's results may depend on the rows of every token.
    All,
    /// A token's results depend on that token's rows alone, or on earlier tokens' too.
    Same,
    /// Only the rows of tokens that are there, which the control block's `len` counts: the operator skips the
    /// others itself.
    Live,
}

/// What a precision policy and a profiler want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Matrix products, attention.
    Compute,
    /// Norms, sampling.
    Reduction,
    /// Maps.
    Elementwise,
    /// Copies, gathers, views.
    Movement,
    /// Constants and tables.
    Boundary,
}

/// Types of a region of control flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// What it takes: its captures, in order.
    pub params: Vec<Type>,
    /// What it gives.
    pub results: Vec<Type>,
}

/// What a decomposition writes to: a graph, seen from here.
pub trait Emit {
    /// The type of a value.
    fn ty(&self, v: ValueId) -> &Type;

    /// Appends an operator. Errors from its type rule.
    fn emit(&mut self, op: Op, inputs: &[ValueId]) -> Result<Vec<ValueId>>;

    /// Appends control flow with its bodies, one for each name of `op.regions()`. Errors from its
    /// type rule and from the bodies.
    fn emit_regions(
        &mut self,
        op: Op,
        inputs: &[ValueId],
        bodies: &mut [Body<'_>],
    ) -> Result<Vec<ValueId>>;
}

/// How a decomposition writes a region: types of its parameters, and what makes its results of
/// them. A body sees its parameters alone.
pub struct Body<'a> {
    /// Types of the parameters.
    pub params: Vec<Type>,
    /// Writes the body and gives its results.
    #[allow(clippy::type_complexity)]
    pub write: &'a mut dyn FnMut(&mut dyn Emit, &[ValueId]) -> Result<Vec<ValueId>>,
}

impl dyn Emit + '_ {
    /// Appends an operator with one result.
    ///
    /// # Errors
    /// From the type rule.
    pub fn one(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> Result<ValueId> {
        let results = self.emit(op.into(), inputs)?;
        results.first().copied().ok_or_else(|| Error::internal("an operator without results"))
    }
}

/// What an operator's file says. Its attributes are those of a [`Field`].
pub trait Operator: Field {
    /// The name in text IR.
    const NAME: &'static str;
    /// What kind of work it is.
    const CLASS: Class;

    /// Attributes in print order.
    fn attrs(&self) -> Attrs {
        self.put("", Attrs::none())
    }

    /// The operator of printed attributes. Errors on unknown, missing or mistyped ones.
    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        field::read(Self::NAME, attrs)
    }

    /// The type rule: results of these operands, or why there are none.
    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>>;

    /// Names of its regions: control flow only.
    fn regions(&self) -> &'static [&'static str] {
        &[]
    }

    /// The type rule of control flow, which sees its regions' types too.
    fn infer_regions(&self, operands: &[&Type], regions: &[Signature]) -> Result<Vec<Type>> {
        let _ = regions;
        self.infer(operands)
    }

    /// The same results from simpler operators, or `None` for a primitive.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let _ = (e, operands);
        Ok(None)
    }

    /// What result 0 may share, with operands of these types.
    fn alias(&self, operands: &[&Type]) -> Alias {
        let _ = operands;
        Alias::None
    }

    /// Replaces symbols of its attributes by their sizes. Errors on overflow.
    fn bind(&mut self, binding: &Binding) -> Result<()> {
        let _ = binding;
        Ok(())
    }

    /// `(operand, result)` pairs of states that are written.
    fn writes(&self) -> &'static [(usize, usize)] {
        &[]
    }

    /// The operand that is the control block, of so many operands.
    fn control(&self, operands: usize) -> Option<usize> {
        let _ = operands;
        None
    }

    /// Which rows of an operand the results need.
    fn row_use(&self, operand: usize, operands: &[&Type]) -> RowUse {
        let _ = (operand, operands);
        RowUse::All
    }
}
