//! Steps over weights above the binding limit: one step for each part of the weight.
//!
//! A part is whole rows of the weight, a multiple of the target's row tile; the last may be shorter.
//! Each part has its own place in the weight plan. A matmul's steps write disjoint columns, a gather's
//! disjoint rows.

use crate::error::{Code, Error, Result};
use crate::ir::lir::{Part, Slice, Space, Step, WeightUse};
use crate::ir::recipe::Recipe;
use crate::ops::{self, Op};
use crate::target::Target;
use crate::types::{Dim, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Appends a step to `out`; if one of its weights is above the binding limit, as one step per part.
///
/// # Errors
/// `Unsupported` for such a weight where the operator or the target has no parts.
pub(super) fn split(
    step: Step,
    weights: &mut Vec<WeightUse>,
    target: &Target,
    out: &mut Vec<Step>,
) -> Result<()> {
    let most = target.limits.binding.min(target.limits.buffer);
    let is_large = |s: &Slice| s.space == Space::Weight && s.bytes > most;
    let Some(large) = step.operands.iter().find(|s| is_large(s)) else {
        out.push(step);
        return Ok(());
    };
    let name = weights.get(large.index as usize).map_or("", |w| w.name.as_str());
    let refuse = |why: &str| {
        Error::new(
            Code::Unsupported,
            format!(
                "tensor {name} has {} bytes, this device binds at most {most}{why}",
                large.bytes
            ),
        )
        .at(step.label.clone())
        .hint("use a smaller quantisation, or a device with larger bindings")
    };
    let Some(tile) = target.row_parts.map(|t| t.max(1)) else { return Err(refuse("")) };
    let (cut, last) = match &step.op {
        Op::MatMul(m) => {
            let at = m.parts();
            let weights: Vec<usize> = (at.weights..at.weights + m.segments).collect();
            let biases = at.biases.map(|b| (b..b + m.segments).collect::<Vec<_>>());
            ([weights.clone(), biases.unwrap_or_default()].concat(), weights)
        }
        Op::Gather(g) if g.axis == 0 => (vec![0], vec![0]),
        _ => return Err(refuse(", and only matmul and gather read a weight in parts")),
    };
    let rows = |k: usize| step.operands.get(k).and_then(|s| s.ty.shape.0.first()?.as_static());
    let of = rows(last[0]).unwrap_or(0);
    if last.iter().any(|&k| rows(k) != Some(of)) {
        return Err(refuse(", and segments of different sizes have no parts"));
    }
    if step.operands.iter().enumerate().any(|(k, s)| is_large(s) && !cut.contains(&k)) {
        return Err(refuse(", and it is no matrix of this step"));
    }
    // Rows of the widest weight that fit, in tiles.
    let row =
        last.iter().filter_map(|&k| step.operands[k].bytes.checked_div(of)).max().unwrap_or(0);
    let fit = most.checked_div(row).unwrap_or(0) / tile * tile;
    if fit == 0 {
        return Err(refuse(&format!(", less than {tile} rows of {row}")));
    }
    let mut first = 0;
    while first < of {
        let count = fit.min(of - first);
        let mut part = step.clone();
        part.part = Some(Part { first, rows: count, of });
        for &k in &cut {
            let whole = &step.operands[k];
            let narrow = rows_of(whole, first, count)?;
            part.operands[k] = match whole.space {
                // A part of a weight has a place of its own; of a bias, it is a view.
                Space::Weight if last.contains(&k) => place(whole, narrow, first, weights)?,
                _ => narrow,
            };
        }
        first += count;
        out.push(part);
    }
    Ok(())
}

/// Rows `first..first + count` of a slice.
fn rows_of(whole: &Slice, first: u64, count: u64) -> Result<Slice> {
    let of = whole.ty.shape.0.first().and_then(Dim::as_static).unwrap_or(0);
    let row = whole.bytes.checked_div(of).unwrap_or(0);
    let mut ty: Type = whole.ty.clone();
    if let Some(d) = ty.shape.0.first_mut() {
        *d = Dim::from(count);
    }
    let bytes = ty.bytes()?;
    Ok(Slice { offset: whole.offset + first * row, ty, bytes, ..whole.clone() })
}

/// The slice of a part in the weight that holds only that part.
fn place(whole: &Slice, part: Slice, first: u64, weights: &mut Vec<WeightUse>) -> Result<Slice> {
    let source =
        weights.get(whole.index as usize).ok_or_else(|| Error::internal("no such weight"))?;
    let recipe = match &source.made {
        Some(recipe) => recipe.clone(),
        None => Recipe::Tensor { name: source.name.clone(), ty: source.ty.clone() },
    };
    let rows = ops::Slice {
        axis: 0,
        start: Dim::from(first),
        len: part.ty.shape.0.first().cloned().unwrap_or(Dim::from(1u64)),
        step: 1,
    };
    let made = Recipe::Made { op: rows.into(), of: vec![recipe], ty: part.ty.clone() };
    let name = made.name();
    let index = match weights.iter().position(|w| w.name == name) {
        Some(at) => at,
        None => {
            weights.push(WeightUse { name, ty: part.ty.clone(), made: Some(made) });
            weights.len() - 1
        }
    };
    Ok(Slice { index: index as u32, offset: 0, ..part })
}
