//! `linear` and `lm_head`: one matmul.

use super::{Lowering, linear_params};
use crate::error::Result;
use crate::ir::hir::LinearWeights;
use crate::ir::mir::ValueId;
use crate::ops::MatMul;
use alloc::vec;

/// `x W^T + b`.
pub(super) fn linear(
    cx: &mut Lowering<'_>,
    x: ValueId,
    w: &LinearWeights,
    label: &str,
) -> Result<ValueId> {
    let (weight, bias) = linear_params(cx, w)?;
    let mut operands = vec![x, weight];
    operands.extend(bias);
    cx.g.push1(MatMul { bias: bias.is_some(), ..MatMul::plain() }, &operands, label)
}
