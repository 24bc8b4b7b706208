//! Rotate q and k and write both caches in one step.
//!
//! ```text
//! %q1 = rope %q, %t, %ctl
//! %k1 = rope %k, %t, %ctl
//! %kc1 = kv_write %kc, %k1, %ctl
//! %vc1 = kv_write %vc, %v, %ctl   =>   %q1, %kc1, %vc1 = rope_kv_write %q, %k, %v, %t, %kc, %vc, %ctl
//! ```
//!
//! Saves three launches and a write and a read of the rotated k.
//!
//! The step stands where the last of the four stood. Leaves alone: a rotated k with another reader,
//! tables or control blocks that differ, and results that are read before the last of the four, or
//! by one of them.

use super::{Context, Reason, Rewrite};
use crate::error::Result;
use crate::ir::mir::{Graph, ValueId};
use crate::ops::{Op, RopeKvWrite};
use alloc::vec;
use alloc::vec::Vec;

/// Fuses in place; returns the number of layers fused.
pub fn fuse_rope_kv_write(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let Op::Attention(_) = &g.nodes[i].op else { continue };
        let at = |v: ValueId| rewrite.maker(v);
        let inputs = g.nodes[i].inputs.clone();
        let (Some(qr), Some(kw), Some(vw)) = (at(inputs[0]), at(inputs[1]), at(inputs[2])) else {
            continue;
        };
        // A second reader of caches that are fused already, or one cache for both.
        if kw == vw || [qr, kw, vw].iter().any(|&at| rewrite.is_gone(at)) {
            continue;
        }
        let (Op::Rope(rq), Op::KvWrite(k_write), Op::KvWrite(v_write)) =
            (&g.nodes[qr].op, &g.nodes[kw].op, &g.nodes[vw].op)
        else {
            continue;
        };
        let k1 = g.nodes[kw].inputs[1];
        let Some(kr) = at(k1) else { continue };
        let Op::Rope(rk) = &g.nodes[kr].op else { continue };
        let label = g.nodes[i].label.clone();
        if rq != rk || g.nodes[qr].inputs[1..] != g.nodes[kr].inputs[1..] {
            let context = "q and k rotate by different tables";
            cx.report.miss("rope_kv_write", &label, Reason::PartsDiffer, context, "");
            continue;
        }
        let ctl = g.nodes[qr].inputs[2];
        if [kw, vw].iter().any(|&at| g.nodes[at].inputs[2] != ctl) {
            let context = "control blocks differ";
            cx.report.miss("rope_kv_write", &label, Reason::PartsDiffer, context, "");
            continue;
        }
        if k_write != v_write {
            let context = "one cache is a ring";
            cx.report.miss("rope_kv_write", &label, Reason::PartsDiffer, context, "");
            continue;
        }
        if !rewrite.alone(k1) {
            let context = "the rotated k has another reader";
            cx.report.miss("rope_kv_write", &label, Reason::MultiConsumer, context, "");
            continue;
        }
        let op = RopeKvWrite { style: rq.style, head_dim: rq.head_dim, ring: k_write.ring };
        let [q, k] = [g.nodes[qr].inputs[0], g.nodes[kr].inputs[0]];
        let v = g.nodes[vw].inputs[1];
        let table = g.nodes[qr].inputs[1];
        let (kc, vc) = (g.nodes[kw].inputs[0], g.nodes[vw].inputs[0]);
        let outputs = vec![g.nodes[qr].outputs[0], g.nodes[kw].outputs[0], g.nodes[vw].outputs[0]];
        // The last of the four stands after all operands; it must stand before other readers.
        let last = qr.max(kr).max(kw).max(vw);
        let early = outputs.iter().any(|&v| rewrite.readers(v).iter().any(|&j| j <= last));
        if early {
            let context = "a result is read before the last write";
            cx.report.miss("rope_kv_write", &label, Reason::ReadTooEarly, context, "");
            continue;
        }
        let op = Op::from(op);
        let inputs = vec![q, k, v, table, kc, vc, ctl];
        let operands: Vec<_> = inputs.iter().map(|&v| g.ty(v)).collect();
        if op.infer(&operands).is_err() {
            let context = "rows or heads of q, k and v differ";
            cx.report.miss("rope_kv_write", &label, Reason::PartsDiffer, context, "");
            continue;
        }
        if !cx.fuses(g, &op, &inputs) {
            continue;
        }
        let node = rewrite.replace(last, op, inputs, &[qr, kr, kw, vw]);
        (node.outputs, node.label) = (outputs, alloc::format!("{label}_rope_kv"));
    }
    Ok(rewrite.finish())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_rope_kv_write", super::fuse_rope_kv_write);
    }
}
