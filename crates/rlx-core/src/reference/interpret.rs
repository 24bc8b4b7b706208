//! A graph node by node, every value in memory of its own: what any plan must agree with.

use super::{View, run_regions};
use crate::error::{Error, Result};
use crate::ir::mir::Graph;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What a graph gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreted {
    /// Bytes of each output, as [`Graph::outputs`] lists them.
    pub outputs: Vec<Vec<u8>>,
    /// Bytes of each parameter after the run: a state's last version, the others as they were.
    pub params: Vec<Vec<u8>>,
}

/// Runs a graph without symbols. `params` has the bytes of [`Graph::params`], in their order.
///
/// # Errors
/// As [`run_regions`], with the node's label; `Internal` for parameters that do not fit.
pub fn interpret(g: &Graph, params: &[&[u8]]) -> Result<Interpreted> {
    if params.len() != g.params.len() {
        return Err(Error::internal(format!(
            "@{} has {} parameters, got {}",
            g.name,
            g.params.len(),
            params.len()
        )));
    }
    let mut values: Vec<Vec<u8>> = vec![Vec::new(); g.types.len()];
    for (p, bytes) in g.params.iter().zip(params) {
        values[p.value.0 as usize] = bytes.to_vec();
    }
    for node in &g.nodes {
        let operands: Vec<View<'_>> =
            node.inputs.iter().map(|&v| View::new(g.ty(v), &values[v.0 as usize])).collect();
        let results = run_regions(&node.op, &node.regions, &operands)
            .map_err(|e| e.at(node.label.clone()))?;
        for (v, bytes) in node.outputs.iter().zip(results) {
            values[v.0 as usize] = bytes;
        }
    }
    let outputs = g.outputs.iter().map(|o| values[o.value.0 as usize].clone()).collect();
    let mut params: Vec<Vec<u8>> =
        g.params.iter().map(|p| values[p.value.0 as usize].clone()).collect();
    for (at, v) in g.final_states() {
        params[at] = values[v.0 as usize].clone();
    }
    Ok(Interpreted { outputs, params })
}
