//! Add a bias where the product is made.
//!
//! ```text
//! %t = matmul %x, %w
//! %y = zip %t, %b {f = add}      =>      %y = matmul %x, %w, %b {bias = true}
//! ```
//!
//! `%b` has one axis, as long as the product's last. Saves a launch and a write and a read of the
//! product. The bias is added before the one rounding, so results may differ by that rounding.
//!
//! Runs before `fuse_glu` and `fuse_segments`, which carry biases along. Leaves alone: a product
//! that others read, one that has a bias or an epilogue, and addends of other shapes; one that is
//! repeated over rows and has axes of length one in front is a miss: it only needs another shape.

use super::{Context, Reason, Rewrite};
use crate::error::Result;
use crate::ir::mir::{Graph, ValueId};
use crate::ops::{Binary, Epilogue, MatMul, Op};

/// Fuses in place; returns the number of biases fused.
pub fn fuse_bias(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let (Op::Zip(op), &[a, b]) = (&g.nodes[i].op, g.nodes[i].inputs.as_slice()) else {
            continue;
        };
        if op.f != Binary::Add {
            continue;
        }
        let product = |v: ValueId| {
            let at = rewrite.maker(v)?;
            let Op::MatMul(m) = &g.nodes[at].op else { return None };
            let plain = m.segments == 1 && !m.bias && m.epilogue == Epilogue::None;
            plain.then_some((at, m.clone()))
        };
        // An addend that is a product itself has as many axes as the other: that is a residual.
        let Some((t, bias, at, m)) = [(a, b), (b, a)]
            .into_iter()
            .filter(|(t, bias)| {
                g.ty(*bias).shape.rank() < g.ty(*t).shape.rank() || wide(g, *t, *bias)
            })
            .find_map(|(t, bias)| product(t).map(|(at, m)| (t, bias, at, m)))
        else {
            continue;
        };
        if g.ty(bias).shape.last() != g.ty(t).shape.last() {
            continue;
        }
        let label = g.nodes[i].label.clone();
        if g.ty(bias).shape.rank() != 1 {
            let context = alloc::format!("the addend is {}", g.ty(bias));
            let hint = "give the bias one axis";
            cx.report.miss("matmul_bias", &label, Reason::BiasRankTooHigh, context, hint);
            continue;
        }
        if !rewrite.alone(t) {
            if !g.is_output(t) {
                let context = "the product has another reader";
                cx.report.miss("matmul_bias", &label, Reason::MultiConsumer, context, "");
            }
            continue;
        }
        let fused = Op::from(MatMul { bias: true, ..m });
        let mut inputs = g.nodes[at].inputs.clone();
        inputs.push(bias);
        if !rewrite.gives(&fused, &inputs, &g.nodes[i].outputs) || !cx.fuses(g, &fused, &inputs) {
            continue;
        }
        let label = g.nodes[at].label.clone();
        rewrite.replace(i, fused, inputs, &[at]).label = label;
    }
    Ok(rewrite.finish())
}

/// True if the bias is repeated over rows though it has as many axes as the product.
fn wide(g: &Graph, t: ValueId, bias: ValueId) -> bool {
    let (t, bias) = (&g.ty(t).shape, &g.ty(bias).shape);
    let front = bias.0.iter().rev().skip(1);
    bias.rank() > 1 && bias != t && front.into_iter().all(|d| d.as_static() == Some(1))
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_bias", super::fuse_bias);
    }
}
