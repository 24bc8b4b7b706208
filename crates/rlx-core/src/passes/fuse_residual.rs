//! Add a residual where the product is made.
//!
//! ```text
//! %t = matmul %h, %w
//! %y = zip %x, %t {f = add}      =>      %y = matmul %h, %w, %x {epilogue = add}
//! ```
//!
//! The sum of a row's experts, a `grouped_matmul` with `sum`, takes it as `sum_add`.
//!
//! Saves a launch and a write and a read of the product.
//!
//! Leaves alone: a product that others read, one with an epilogue of its own, and an addend that
//! is repeated over rows (that is a bias).

use super::{Context, Reason, Rewrite};
use crate::error::Result;
use crate::ir::mir::Graph;
use crate::ops::{Binary, Epilogue, GroupedEpilogue, GroupedMatMul, MatMul, Op};
use crate::order;
use alloc::vec::Vec;

/// Fuses in place; returns the number of sums fused.
pub fn fuse_residual(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let Op::Zip(op) = &g.nodes[i].op else { continue };
        let inputs = g.nodes[i].inputs.clone();
        if op.f != Binary::Add || g.ty(inputs[0]) != g.ty(inputs[1]) {
            continue;
        }
        // The later operand first: the earlier one is the running residual.
        let mut candidates = [(inputs[1], inputs[0]), (inputs[0], inputs[1])];
        order::sort_by_key(&mut candidates, |c| core::cmp::Reverse(rewrite.maker(c.0)));
        let products = candidates.into_iter().filter_map(|(t, residual)| {
            let at = rewrite.maker(t)?;
            with_residual(&g.nodes[at].op).map(|op| (t, at, residual, op))
        });
        let products: Vec<_> = products.collect();
        let Some((_, at, residual, fused)) = products.iter().find(|p| rewrite.alone(p.0)) else {
            // A product that the graph returns is asked for; the sum cannot have it.
            if products.iter().any(|p| !g.is_output(p.0)) {
                let (label, context) = (g.nodes[i].label.clone(), "the product has another reader");
                cx.report.miss("residual", &label, Reason::MultiConsumer, context, "");
            }
            continue;
        };
        let (at, residual, fused) = (*at, *residual, fused.clone());
        let mut operands = g.nodes[at].inputs.clone();
        operands.push(residual);
        if !rewrite.gives(&fused, &operands, &g.nodes[i].outputs) || !cx.fuses(g, &fused, &operands)
        {
            continue;
        }
        let label = g.nodes[at].label.clone();
        rewrite.replace(i, fused, operands, &[at]).label = label;
    }
    Ok(rewrite.finish())
}

/// The product that adds a residual too.
fn with_residual(op: &Op) -> Option<Op> {
    match op {
        Op::MatMul(m) if m.segments == 1 && m.epilogue == Epilogue::None => {
            Some(MatMul { epilogue: Epilogue::Add, ..m.clone() }.into())
        }
        Op::GroupedMatMul(m) if m.epilogue == GroupedEpilogue::Sum => {
            Some(GroupedMatMul { epilogue: GroupedEpilogue::SumAdd, ..m.clone() }.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_residual", super::fuse_residual);
    }
}
