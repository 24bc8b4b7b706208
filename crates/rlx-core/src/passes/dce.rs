//! Remove nodes that nothing needs.
//!
//! A node lives if a result of the graph, or the last version of a state it writes, needs it. So
//! an inner chunk of a prompt, which returns nothing, keeps the last layer's cache writes and
//! loses its attention and feed-forward: one layer's work saved each chunk.
//!
//! Leaves alone: a node of which one result lives; states, since every program of a model has the
//! same ones; the parameters of regions, which are their node's operands one for one.

use super::Context;
use crate::error::Result;
use crate::ir::mir::{Graph, ParamKind};
use alloc::vec;

/// Removes in place; returns the number of nodes removed, those of regions too. Unused weights and
/// inputs of the graph go with them.
pub fn dce(g: &mut Graph, _: &mut Context<'_>) -> Result<usize> {
    let mut live = vec![false; g.types.len()];
    let removed = remove_dead(g, &mut live);
    g.params.retain(|p| p.kind == ParamKind::State || live[p.value.0 as usize]);
    Ok(removed)
}

/// Removes dead nodes and sets `live` for every value that is needed, captures included.
fn remove_dead(g: &mut Graph, live: &mut [bool]) -> usize {
    for o in &g.outputs {
        live[o.value.0 as usize] = true;
    }
    for (_, v) in g.final_states() {
        live[v.0 as usize] = true;
    }
    let before = g.nodes.len();
    let mut keep = vec![false; before];
    for (i, node) in g.nodes.iter().enumerate().rev() {
        if node.outputs.iter().any(|v| live[v.0 as usize]) {
            keep[i] = true;
            for v in &node.inputs {
                live[v.0 as usize] = true;
            }
        }
    }
    let mut i = 0;
    g.nodes.retain(|_| {
        i += 1;
        keep[i - 1]
    });
    let mut removed = before - g.nodes.len();
    for body in g.nodes.iter_mut().flat_map(|n| &mut n.regions) {
        let mut live = vec![false; body.types.len()];
        removed += remove_dead(body, &mut live);
    }
    removed
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("dce", super::dce);
    }
}
