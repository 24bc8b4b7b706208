//! Which values share memory, and when each is needed.

use crate::error::Result;
use crate::ir::mir::{Graph, ParamKind, ValueId};
use crate::ops::{Alias, Op};
use alloc::vec;
use alloc::vec::Vec;

/// Where a value's bytes begin: a root and bytes into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub root: ValueId,
    pub offset: u64,
}

/// A root in the arena: its bytes and the steps from its writing to its last reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub root: ValueId,
    pub bytes: u64,
    pub from: usize,
    pub to: usize,
}

/// True for a node that is no step: views, and constants made at load.
pub(super) fn is_step(g: &Graph, node: &crate::ir::mir::Node) -> bool {
    let empty = node.outputs.iter().all(|&v| g.ty(v).bytes() == Ok(0));
    !matches!(g.alias(node), Alias::View { .. }) && !matches!(node.op, Op::RopeTable(_)) && !empty
}

/// Place of every value, and the arena's intervals over step numbers. Positions of steps are node
/// indices: in-order execution makes them exact.
pub(super) fn liveness(g: &Graph) -> Result<(Vec<Place>, Vec<Interval>)> {
    let mut place: Vec<Place> =
        (0..g.types.len()).map(|i| Place { root: ValueId(i as u32), offset: 0 }).collect();
    let mut last_read = vec![0usize; g.types.len()];
    let mut in_arena = vec![true; g.types.len()];
    for p in &g.params {
        in_arena[p.value.0 as usize] = false;
    }
    // Roots by views and states first: a reader of a view reads its root.
    for node in &g.nodes {
        if let Alias::View { operand, byte_offset } = g.alias(node) {
            let from = place[node.inputs[operand].0 as usize];
            place[node.outputs[0].0 as usize] =
                Place { root: from.root, offset: from.offset + byte_offset };
        }
        for &(operand, result) in node.op.writes() {
            place[node.outputs[result].0 as usize] = place[node.inputs[operand].0 as usize];
        }
        if matches!(node.op, Op::RopeTable(_)) {
            in_arena[node.outputs[0].0 as usize] = false;
        }
    }
    for (i, node) in g.nodes.iter().enumerate() {
        for v in &node.inputs {
            last_read[place[v.0 as usize].root.0 as usize] = i;
        }
    }
    for o in &g.outputs {
        last_read[place[o.value.0 as usize].root.0 as usize] = usize::MAX;
    }
    // In place: the result takes the operand's root when this is the operand's last reading. In
    // order of nodes, so that a chain shares one root.
    for (i, node) in g.nodes.iter().enumerate() {
        let Alias::Elementwise { operand } = g.alias(node) else { continue };
        let x = place[node.inputs[operand].0 as usize];
        let y = node.outputs[0];
        let same = g.ty(node.inputs[operand]).bytes()? == g.ty(y).bytes()?
            && g.ty(x.root).bytes()? == g.ty(y).bytes()?;
        let others = node
            .inputs
            .iter()
            .enumerate()
            .any(|(k, v)| k != operand && place[v.0 as usize].root == x.root);
        if in_arena[x.root.0 as usize] && last_read[x.root.0 as usize] == i && same && !others {
            last_read[x.root.0 as usize] = last_read[y.0 as usize].max(i);
            for p in &mut place {
                if p.root == y {
                    p.root = x.root;
                }
            }
        }
    }
    let mut intervals = Vec::new();
    for (i, node) in g.nodes.iter().enumerate() {
        for &v in &node.outputs {
            let bytes = g.ty(v).bytes()?;
            if place[v.0 as usize].root == v && in_arena[v.0 as usize] && bytes > 0 {
                let to = last_read[v.0 as usize].max(i).min(g.nodes.len());
                intervals.push(Interval { root: v, bytes, from: i, to });
            }
        }
    }
    debug_assert!(
        g.params
            .iter()
            .all(|p| p.kind != ParamKind::State || place[p.value.0 as usize].root == p.value)
    );
    Ok((place, intervals))
}

/// The most bytes live at one step: no arena can be smaller.
pub(super) fn largest_live(intervals: &[Interval], steps: usize) -> u64 {
    let mut delta = vec![0i64; steps + 2];
    for i in intervals {
        delta[i.from] += i.bytes as i64;
        delta[i.to + 1] -= i.bytes as i64;
    }
    let (mut live, mut most) = (0, 0);
    for d in delta {
        live += d;
        most = most.max(live);
    }
    most as u64
}
