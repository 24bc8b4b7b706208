//! Attention without a cache as encoders and vision models have it: projections around `sdpa`.

use super::Lowering;
use super::linear::Weights;
use crate::error::Result;
use crate::ir::mir::ValueId;
use crate::ops::{Epilogue, Sdpa};
use alloc::format;
use alloc::vec::Vec;

impl Lowering<'_> {
    /// q, k and v of one input: segments of one matmul when fused.
    pub(super) fn qkv(
        &mut self,
        x: ValueId,
        w: &[Weights; 3],
        label: &str,
    ) -> Result<[ValueId; 3]> {
        let parts = ["q", "k", "v"].map(|part| format!("{label}_{part}"));
        if self.direct && self.alike(w) {
            let y = self.segments(x, w, Epilogue::None, &[], &parts[0])?;
            return Ok([y[0], y[1], y[2]]);
        }
        let q = self.linear(x, w[0], &parts[0])?;
        let k = self.linear(x, w[1], &parts[1])?;
        Ok([q, k, self.linear(x, w[2], &parts[2])?])
    }

    /// Attention of projected q, k and v, and the projection of its result.
    pub(super) fn sdpa(
        &mut self,
        qkv: [ValueId; 3],
        (op, masks): (Sdpa, Vec<ValueId>),
        o: Weights,
        label: &str,
    ) -> Result<ValueId> {
        let mut operands = Vec::from(qkv);
        operands.extend(masks);
        let a = self.g.push1(op, &operands, label)?;
        self.linear(a, o, &format!("{label}_o"))
    }
}
