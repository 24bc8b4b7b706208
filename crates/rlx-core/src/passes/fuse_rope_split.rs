//! Rotate q and k and write both caches in the step that splits the row's attention.
//!
//! ```text
//! %q1, %kc1, %vc1 = rope_kv_write %q, %k, %v, %t, %kc, %vc, %ctl
//! %acc, %stats = attention_split %q1, %kc1, %vc1, %ctl
//!                             =>      %acc, %stats, %kc1, %vc1 = rope_attention_split %q, %k, %v, %t, %kc, %vc, %ctl
//! ```
//!
//! Saves a launch and a write and a read of the rotated q; each split rotates its own heads of q, and
//! the split that has the row's own position writes the caches.
//!
//! Runs behind `split_attention`. Leaves alone: a rotated q with another reader, caches that are read
//! before the split, control blocks that differ, and targets without the operator.

use super::{Context, Rewrite};
use crate::error::Result;
use crate::ir::mir::{Graph, ValueId};
use crate::ops::{Op, RopeAttentionSplit};

/// Fuses in place; returns the number of splits that rotate.
pub fn fuse_rope_split(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let Op::AttentionSplit(split) = &g.nodes[i].op else { continue };
        let &[q1, kc1, vc1, ctl] = g.nodes[i].inputs.as_slice() else { continue };
        let Some(at) = rewrite.maker(q1).filter(|&at| !rewrite.is_gone(at)) else { continue };
        let rope = &g.nodes[at];
        let Op::RopeKvWrite(turn) = &rope.op else { continue };
        let early = |v: &ValueId| rewrite.readers(*v).iter().any(|&j| j < i);
        if rope.outputs != [q1, kc1, vc1]
            || rope.inputs.last() != Some(&ctl)
            || (turn.head_dim, turn.ring) != (split.whole.head_dim, split.whole.ring)
            || !rewrite.alone(q1)
            || [kc1, vc1].iter().any(early)
        {
            continue;
        }
        let op =
            Op::from(RopeAttentionSplit { style: turn.style, norm: None, split: split.clone() });
        let inputs = rope.inputs.clone();
        if !cx.fuses(g, &op, &inputs) {
            continue;
        }
        rewrite.replace(i, op, inputs, &[at]).outputs.extend([kc1, vc1]);
    }
    Ok(rewrite.finish())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_rope_split", super::fuse_rope_split);
    }
}
