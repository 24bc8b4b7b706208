//! Feed-forwards: `swiglu_ffn`, `geglu_ffn`, `mlp`.

use super::linear::Weights;
use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Binary, Epilogue, Map, Unary, Zip};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lowering<'_> {
    /// `f(x gate^T) * (x up^T)`: one matmul of two segments when fused.
    pub(super) fn glu(
        &mut self,
        x: ValueId,
        [gate, up]: [Weights; 2],
        f: Unary,
        label: &str,
    ) -> Result<ValueId> {
        if self.direct && self.alike(&[gate, up]) {
            let label = format!("{label}_gate_up");
            return self.segments(x, &[gate, up], Epilogue::Glu(f), &[], &label).map(|y| y[0]);
        }
        let gate = self.linear(x, gate, &format!("{label}_gate"))?;
        let up = self.linear(x, up, &format!("{label}_up"))?;
        let act = self.g.push1(Map { f }, &[gate], &format!("{label}_act"))?;
        self.g.push1(Zip { f: Binary::Mul }, &[act, up], &format!("{label}_mul"))
    }
}

/// `down(f(gate x) * up x)`, with a bias where `biases` says so.
fn glu_ffn(
    cx: &mut Lowering<'_>,
    mut i: Inputs,
    biases: [bool; 3],
    f: Unary,
    label: &str,
) -> Result<Vec<ValueId>> {
    let x = i.one()?;
    let (gate, up, down) = (i.linear(biases[0])?, i.linear(biases[1])?, i.linear(biases[2])?);
    let h = cx.glu(x, [gate, up], f, label)?;
    Ok(vec![cx.linear(h, down, &format!("{label}_down"))?])
}

impl Lower for hir::SwigluFfn {
    fn lower(&self, cx: &mut Lowering<'_>, i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        glu_ffn(cx, i, [self.gate_bias, self.up_bias, self.down_bias], Unary::Silu, label)
    }
}

impl Lower for hir::GegluFfn {
    fn lower(&self, cx: &mut Lowering<'_>, i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        glu_ffn(cx, i, [self.gate_bias, self.up_bias, self.down_bias], Unary::Gelu, label)
    }
}

impl Lower for hir::Mlp {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, first, second) = (i.one()?, i.linear(self.bias)?, i.linear(self.bias)?);
        let h = cx.linear_act(x, first, Some(self.act), &format!("{label}_up"))?;
        Ok(vec![cx.linear(h, second, &format!("{label}_down"))?])
    }
}
