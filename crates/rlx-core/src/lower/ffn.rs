//! `swiglu_ffn`: `down(silu(gate x) * up x)`.

use super::{Lowering, linear};
use crate::error::Result;
use crate::ir::hir::FfnWeights;
use crate::ir::mir::ValueId;
use crate::ops::{Binary, Map, Unary, Zip};
use alloc::format;

pub(super) fn swiglu(
    cx: &mut Lowering<'_>,
    x: ValueId,
    w: &FfnWeights,
    label: &str,
) -> Result<ValueId> {
    let gate = linear::linear(cx, x, &w.gate, &format!("{label}_gate"))?;
    let up = linear::linear(cx, x, &w.up, &format!("{label}_up"))?;
    let act = cx.g.push1(Map { f: Unary::Silu }, &[gate], &format!("{label}_act"))?;
    let h = cx.g.push1(Zip { f: Binary::Mul }, &[act, up], &format!("{label}_mul"))?;
    linear::linear(cx, h, &w.down, &format!("{label}_down"))
}
