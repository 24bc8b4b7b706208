//! Fuse gate and up projections with their product.
//!
//! ```text
//! %g = matmul %x, %wg
//! %u = matmul %x, %wu
//! %a = map %g {f = silu}
//! %h = zip %a, %u {f = mul}      =>      %h = matmul %x, %wg, %wu {segments = 2, glu = silu}
//! ```
//!
//! Saves two launches and, a row, 5 F reads and writes of f32 (F is the feed-forward width): the
//! two products never leave the workgroup that made them.
//!
//! Either side of the product may be the gate. Runs before `fuse_segments`, which would merge gate
//! and up without their product. Leaves alone: products of different inputs, a gate or up with a
//! bias on one side only, or read by others.

use super::{Context, Reason, Rewrite};
use crate::error::Result;
use crate::ir::mir::{Graph, ValueId};
use crate::ops::{Binary, Epilogue, MatMul, Op};
use crate::target::Path;
use alloc::vec;

/// Fuses in place; returns the number of products fused.
pub fn fuse_glu(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let Op::Zip(op) = &g.nodes[i].op else { continue };
        if op.f != Binary::Mul {
            continue;
        }
        // A product has no order: the activation may be either factor.
        let is_map =
            |v: ValueId| rewrite.maker(v).is_some_and(|at| matches!(g.nodes[at].op, Op::Map(_)));
        let [mut a, mut u] = [g.nodes[i].inputs[0], g.nodes[i].inputs[1]];
        if !is_map(a) && is_map(u) {
            (a, u) = (u, a);
        }
        let (Some(act), Some(up)) = (rewrite.maker(a), rewrite.maker(u)) else {
            continue;
        };
        let Op::Map(f) = &g.nodes[act].op else { continue };
        let f = f.f;
        let Some(gate) = rewrite.maker(g.nodes[act].inputs[0]) else { continue };
        let (Op::MatMul(mg), Op::MatMul(mu)) = (&g.nodes[gate].op, &g.nodes[up].op) else {
            continue;
        };
        let label = g.nodes[i].label.clone();
        if mg != mu || mg.segments != 1 || mg.norm.is_some() || mg.epilogue != Epilogue::None {
            let hint = "give both a bias or neither";
            let context = "gate and up differ in form";
            cx.report.miss("glu", &label, Reason::PartsDiffer, context, hint);
            continue;
        }
        if g.nodes[gate].inputs[0] != g.nodes[up].inputs[0] {
            let context = "gate and up read different inputs";
            cx.report.miss("glu", &label, Reason::SwigluNotSharedInput, context, "");
            continue;
        }
        // A result that the graph returns is asked for; one that another node reads is a chance.
        let parts = [a, u, g.nodes[gate].outputs[0]];
        if !parts.iter().all(|&v| rewrite.alone(v)) {
            if !parts.iter().any(|&v| g.is_output(v)) {
                let context = "an intermediate has another reader";
                cx.report.miss("glu", &label, Reason::MultiConsumer, context, "");
            }
            continue;
        }
        let bias = mg.bias;
        let (gin, uin) = (g.nodes[gate].inputs.clone(), g.nodes[up].inputs.clone());
        let mut inputs = vec![gin[0], gin[1], uin[1]];
        if bias {
            inputs.extend([gin[2], uin[2]]);
        }
        let fused = MatMul { segments: 2, bias, epilogue: Epilogue::Glu(f), ..MatMul::plain() };
        let fused = Op::from(fused);
        if !rewrite.gives(&fused, &inputs, &g.nodes[i].outputs) || !cx.fuses(g, &fused, &inputs) {
            if cx.path(&g.nodes[act].op, &[g.ty(g.nodes[act].inputs[0])]) == Ok(Path::Native) {
                let context = alloc::format!("no matmul of the target applies {}", f.name());
                let reason = Reason::UnsupportedEpilogueActivation;
                cx.report.miss("glu", &label, reason, context, "");
            }
            continue;
        }
        let node = rewrite.replace(i, fused, inputs, &[gate, up, act]);
        node.label = label.replace("_mul", "_gate_up");
    }
    Ok(rewrite.finish())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_glu", super::fuse_glu);
    }
}
