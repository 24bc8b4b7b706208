//! Remove nodes that nothing needs.
//!
//! A node lives if a result of the graph, or the last version of a state it writes, needs it. So
//! an inner chunk of a prompt, which returns nothing, keeps the last layer's cache writes and
//! loses its attention and feed-forward: one layer's work saved each chunk.

use super::Context;
use crate::error::Result;
use crate::ir::mir::Graph;
use alloc::vec;

/// Removes in place; returns the number of nodes removed. Unused weights and inputs go too; states
/// stay, since every program of a model has the same ones.
pub fn dce(g: &mut Graph, _: &mut Context<'_>) -> Result<usize> {
    let mut live = vec![false; g.types.len()];
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
    g.params.retain(|p| p.kind == crate::ir::mir::ParamKind::State || live[p.value.0 as usize]);
    Ok(before - g.nodes.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("dce", super::dce);
    }
}
