//! Shapes that blocks need between their operators.

use super::Lowering;
use crate::error::{Error, Result};
use crate::ir::mir::ValueId;
#[cfg(feature = "vision")]
use crate::ops::Transpose;
use crate::ops::{Reshape, Slice};
use crate::types::{Dim, Shape};
use alloc::format;
use alloc::vec::Vec;

impl Lowering<'_> {
    /// Sizes of a value that must have `N` axes.
    pub(super) fn dims<const N: usize>(&self, what: &str, x: ValueId) -> Result<[Dim; N]> {
        let ty = self.g.ty(x);
        <[Dim; N]>::try_from(ty.shape.0.clone())
            .map_err(|_| Error::bad_graph(format!("{what} is {ty}, expected {N} axes")))
    }

    pub(super) fn reshape(&mut self, x: ValueId, dims: Vec<Dim>, label: &str) -> Result<ValueId> {
        self.g.push1(Reshape { dims: Shape(dims) }, &[x], label)
    }

    #[cfg(feature = "vision")]
    pub(super) fn transpose(&mut self, x: ValueId, perm: &[usize], label: &str) -> Result<ValueId> {
        self.g.push1(Transpose { perm: perm.to_vec() }, &[x], label)
    }

    /// `len` indices of an axis from `start` on.
    pub(super) fn slice(
        &mut self,
        x: ValueId,
        axis: usize,
        start: u64,
        len: Dim,
        label: &str,
    ) -> Result<ValueId> {
        self.g.push1(Slice { axis, start: Dim::from(start), len, step: 1 }, &[x], label)
    }
}
