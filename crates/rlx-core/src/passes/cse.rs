//! Compute once what is computed twice.
//!
//! ```text
//! %a = map %x {f = exp}
//! %b = map %x {f = exp}       =>      %a = map %x {f = exp}
//! %c = zip %a, %b                     %c = zip %a, %a
//! ```
//!
//! Two nodes are one when their operators are equal, to the last printed digit of an attribute,
//! and so are their operands; for sums and products, and of integers for minima and maxima, in
//! either order. (Which zero `max(0.0, -0.0)` is depends on the order.) Constants have no operands,
//! so equal constants become one. Saves the second node's work, launch and memory. Nodes with
//! regions are equal when their regions are.
//!
//! **States.** A version of a state is a value like any other: equal operands are the same version,
//! so both nodes read the same bytes whatever is written between them. The second node stood before
//! the next write, and so does the first. Where a node's result is a view of a state its readers
//! stand before that write too, so they may read the first view instead.
//!
//! Every operator is pure: a random one reads its seed as an operand, a user's one promises it.
//!
//! Leaves alone: nodes that write states. Runs after nothing; what it orphans `dce` takes.

use super::{Context, remove_nodes};
use crate::error::Result;
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Binary, Op};
use crate::order;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// Merges in place; returns the number of nodes removed, those of regions too.
pub fn cse(g: &mut Graph, _: &mut Context<'_>) -> Result<usize> {
    Ok(merge(g))
}

fn merge(g: &mut Graph) -> usize {
    let mut removed = 0;
    for body in g.nodes.iter_mut().flat_map(|n| &mut n.regions) {
        removed += merge(body);
    }
    let mut stands: Vec<ValueId> = (0..g.types.len() as u32).map(ValueId).collect();
    let mut seen: BTreeMap<(String, Vec<ValueId>), Vec<usize>> = BTreeMap::new();
    let mut gone = vec![false; g.nodes.len()];
    for i in 0..g.nodes.len() {
        for v in &mut g.nodes[i].inputs {
            *v = stands[v.0 as usize];
        }
        let node = &g.nodes[i];
        if !node.op.writes().is_empty() {
            continue;
        }
        let mut operands = node.inputs.clone();
        if commutes(g, node) {
            order::sort(&mut operands);
        }
        let alike = seen.entry((node.op.name().to_string(), operands)).or_default();
        match alike.iter().find(|&&j| same(&g.nodes[j], node)) {
            Some(&first) => {
                let (first, second) = (&g.nodes[first].outputs, &g.nodes[i].outputs);
                for (a, b) in first.iter().zip(second) {
                    stands[b.0 as usize] = *a;
                }
                gone[i] = true;
                removed += 1;
            }
            None => alike.push(i),
        }
    }
    for o in &mut g.outputs {
        o.value = stands[o.value.0 as usize];
    }
    remove_nodes(g, &gone);
    removed
}

/// True if the order of the operands changes nothing, not even which zero results.
fn commutes(g: &Graph, node: &Node) -> bool {
    let Op::Zip(zip) = &node.op else { return false };
    let float = node.inputs.iter().any(|&v| g.ty(v).dtype.is_float());
    match zip.f {
        Binary::Add | Binary::Mul => true,
        Binary::Min | Binary::Max => !float,
        _ => false,
    }
}

fn same(a: &Node, b: &Node) -> bool {
    if a.op != b.op || a.outputs.len() != b.outputs.len() || a.regions != b.regions {
        return false;
    }
    // -0.0 equals 0.0, and prints differently. A constant's bytes have been compared.
    matches!(a.op, Op::Constant(_)) || a.op.attrs().to_string() == b.op.attrs().to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("cse", super::cse);
    }
}
