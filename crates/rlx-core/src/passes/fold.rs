//! Compute while compiling what depends on nothing else.
//!
//! ```text
//! %a = constant {type = f32, dims = [2], values = [1.0, 2.0]}
//! %b = map %a {f = exp}            =>      %b = constant {… values = [2.7182817, 7.389056]}
//! ```
//!
//! A node whose operands are all constants is run by the oracle and becomes a constant, of each
//! result. Saves the node at every step; a chain folds in one walk. Results have the bits that the
//! oracle gives, rounded once from f64, where a device's kernel might differ in the last place.
//!
//! Leaves alone:
//! - results of more than [`RESULT_BYTES`], and operands of more than [`OPERAND_BYTES`]: a constant
//!   is carried by the program and uploaded, which for a large one costs more than computing it;
//! - nodes without operands: constants are folded already, an `iota` is smaller than its elements,
//!   and a rope table is made when the program is loaded;
//! - nodes that fail, such as a division of integers by zero: they fail when they run;
//! - regions, which may not end; states; packed results.
//!
//! This pass needs the oracle. A build without the feature `reference`, as a page's is, leaves all
//! of this alone; the graphs of our model families have nothing to fold (see the tests of
//! `tests/passes`), so a page loses nothing.
//!
//! Runs after nothing; what it orphans `dce` takes.

use super::Context;
use crate::error::Result;
use crate::ir::mir::Graph;

/// Bytes of a result at most.
pub const RESULT_BYTES: u64 = 1 << 20;
/// Bytes of all operands together at most.
pub const OPERAND_BYTES: u64 = 16 << 20;

/// Folds in place; returns the number of nodes that became constants, those of regions too.
#[cfg(not(feature = "reference"))]
pub fn fold(_: &mut Graph, _: &mut Context<'_>) -> Result<usize> {
    Ok(0)
}

/// Folds in place; returns the number of nodes that became constants, those of regions too.
#[cfg(feature = "reference")]
pub fn fold(g: &mut Graph, _: &mut Context<'_>) -> Result<usize> {
    oracle::fold(g)
}

#[cfg(feature = "reference")]
mod oracle {
    use super::{OPERAND_BYTES, RESULT_BYTES};
    use crate::error::Result;
    use crate::ir::mir::{Graph, Node};
    use crate::ops::{Constant, Op};
    use crate::reference::{View, run};
    use crate::types::{DType, Kind, Type};
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    pub(super) fn fold(g: &mut Graph) -> Result<usize> {
        let mut changed = 0;
        for body in g.nodes.iter_mut().flat_map(|n| &mut n.regions) {
            changed += fold(body)?;
        }
        let mut known: BTreeMap<_, Constant> = BTreeMap::new();
        let mut nodes = Vec::with_capacity(g.nodes.len());
        for node in core::mem::take(&mut g.nodes) {
            if let Op::Constant(c) = &node.op {
                known.insert(node.outputs[0], c.clone());
                nodes.push(node);
                continue;
            }
            let operands: Option<Vec<&Constant>> =
                node.inputs.iter().map(|v| known.get(v)).collect();
            let operands = operands.filter(|_| worth(g, &node)).unwrap_or_default();
            let bytes: u64 = operands.iter().map(|c| c.data.len() as u64).sum();
            if operands.is_empty() || bytes > OPERAND_BYTES {
                nodes.push(node);
                continue;
            }
            let views: Vec<View<'_>> = operands.iter().map(|c| View::new(&c.ty, &c.data)).collect();
            let Ok(results) = run(&node.op, &views) else {
                nodes.push(node);
                continue;
            };
            for (&v, data) in node.outputs.iter().zip(results) {
                let c = Constant { ty: g.ty(v).clone(), data: data.into() };
                nodes.push(Node::new(c.clone(), &[], &[v], node.label.clone()));
                known.insert(v, c);
            }
            changed += 1;
        }
        g.nodes = nodes;
        Ok(changed)
    }

    fn worth(g: &Graph, node: &Node) -> bool {
        let small = |ty: &Type| ty.bytes().is_ok_and(|n| n <= RESULT_BYTES);
        let plain = |ty: &Type| ty.kind == Kind::Tensor && matches!(ty.dtype, DType::Scalar(_));
        node.regions.is_empty()
            && node.op.writes().is_empty()
            && node.outputs.iter().all(|&v| small(g.ty(v)) && plain(g.ty(v)))
    }
}

#[cfg(all(test, feature = "reference"))]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fold", super::fold);
    }
}
