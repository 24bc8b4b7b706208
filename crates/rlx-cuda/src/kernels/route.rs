//! `route`: the experts of each row, a block a row.

use super::takes::{self, Taken};
use super::{Context, Kernel, matrix, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{LEAST_SUM, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// The most experts whose choice and score fit a block's shared memory.
const MOST: u64 = 4096;

/// Logits of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known = [
        "top_k",
        "sigmoid",
        "normalise",
        "scale",
        "choice_bias",
        "groups",
        "top_groups",
        "group_sum",
    ];
    takes::knows(op, &known)?;
    takes::are_f32(operands)?;
    match operands.first().map(|logits| logits.shape.last().as_static()) {
        Some(Some(n)) if n > MOST => {
            Err(format!("its kernel ranks at most {MOST} experts, not {n}"))
        }
        _ => Ok(()),
    }
}

pub(super) fn route(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Route(op) = &step.op else { return Err(mismatch(step)) };
    let (rows, experts) = matrix(&step.operands[0])?;
    if rows == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    emit.argument(&step.operands[0])?;
    let choice = match step.operands.get(1) {
        Some(bias) => {
            emit.argument(bias)?;
            "(scores[e] + bias[e])"
        }
        None if op.chooses_by_score() => "scores[e]",
        None => "x[e]",
    };
    let has_bias = step.operands.len() > 1;
    emit.define("BIAS_PARAMETER", if has_bias { ", const float* __restrict__ bias" } else { "" });
    emit.define("CHOICE(e)", choice);
    emit.late_rows();
    for result in &step.results {
        emit.argument(result)?;
    }
    emit.size("EXPERTS", experts)?;
    emit.size("TOP_K", op.top_k as u64)?;
    if op.sigmoid {
        emit.define("SIGMOID", "");
    }
    if op.normalise {
        emit.define("NORMALISE", "");
        emit.number("LEAST_SUM", LEAST_SUM);
    }
    if op.has_groups() {
        emit.size("GROUPS", op.groups as u64)?;
        emit.size("TOP_GROUPS", op.top_groups as u64)?;
        emit.size("GROUP_SUM", op.group_sum as u64)?;
    }
    emit.number("SCALE", op.scale.unwrap_or(1.0));
    Ok(vec![emit.kernel("route", include_str!("route.cu"), [rows, 1, 1], 128)?])
}
