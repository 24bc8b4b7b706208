//! Compute while compiling what depends on nothing else.
//!
//! ```text
//! %a = constant {type = f32, dims = [2], values = [1.0, 2.0]}
//! %b = map %a {f = exp}            =>      %b = constant {… values = [2.7182817, 7.389056]}
//! ```
//!
//! A node whose operands are all constants is run by the oracle and becomes a constant, of each
//! result. Saves the node at every step; a chain folds in one walk, and constants that only folded
//! nodes read go as it does, so a long chain holds two at a time. Results have the bits that the
//! oracle gives, rounded once from f64, where a device's kernel might differ in the last place.
//!
//! Leaves alone:
//! - results of more than [`RESULT_BYTES`], and operands of more than [`OPERAND_BYTES`]: a constant
//!   is carried by the program and uploaded, which for a large one costs more than computing it;
//! - results that are larger than their operands once a graph's constants have [`TOTAL_BYTES`];
//! - nodes that would bring the multiply-adds spent on a graph above [`ARITHMETIC`]: a product of two
//!   constants may be small and long in coming;
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
#[cfg(feature = "reference")]
pub const RESULT_BYTES: u64 = 1 << 20;
/// Bytes of all operands together at most.
#[cfg(feature = "reference")]
pub const OPERAND_BYTES: u64 = 16 << 20;
/// Bytes up to which a graph's constants may grow.
#[cfg(feature = "reference")]
pub const TOTAL_BYTES: u64 = 64 << 20;

/// Multiply-adds at most, or elements where nothing is multiplied, of all that is folded of a graph:
/// some tenths of a second.
#[cfg(feature = "reference")]
pub const ARITHMETIC: u64 = 1 << 26;

/// Folds in place; returns the number of nodes that became constants, those of regions too.
#[cfg(not(feature = "reference"))]
pub fn fold(_: &mut Graph, _: &mut Context<'_>) -> Result<usize> {
    Ok(0)
}

/// Folds in place; returns the number of nodes that became constants, those of regions too.
#[cfg(feature = "reference")]
pub fn fold(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    oracle::fold(g, &mut cx.folded)
}

#[cfg(feature = "reference")]
mod oracle {
    use super::{ARITHMETIC, OPERAND_BYTES, RESULT_BYTES, TOTAL_BYTES};
    use crate::error::Result;
    use crate::ir::mir::{Graph, Node, ValueId};
    use crate::ops::{Class, Constant, Op};
    use crate::reference::{View, run};
    use crate::sorted::{Map, Set};
    use crate::types::{DType, Kind, Type};
    use alloc::vec;
    use alloc::vec::Vec;

    pub(super) fn fold(g: &mut Graph, spent_on: &mut u64) -> Result<usize> {
        let mut changed = 0;
        for body in g.nodes.iter_mut().flat_map(|n| &mut n.regions) {
            changed += fold(body, spent_on)?;
        }
        let mut reads = vec![0usize; g.types.len()];
        let returned = g.outputs.iter().map(|o| &o.value);
        let read = g.nodes.iter().flat_map(|n| &n.inputs).chain(returned);
        read.for_each(|v| reads[v.0 as usize] += 1);
        let mut known: Map<ValueId, Constant> = Map::new();
        let mut spent: Set<ValueId> = Set::new();
        let mut total = 0u64;
        let mut nodes = Vec::with_capacity(g.nodes.len());
        for node in core::mem::take(&mut g.nodes) {
            if let Op::Constant(c) = &node.op {
                total += c.data.len() as u64;
                known.insert(node.outputs[0], c.clone());
                nodes.push(node);
                continue;
            }
            let Some(results) = folded(g, &node, &known, total, spent_on) else {
                nodes.push(node);
                continue;
            };
            for v in &node.inputs {
                reads[v.0 as usize] -= 1;
                if reads[v.0 as usize] == 0
                    && let Some(c) = known.remove(v)
                {
                    total -= c.data.len() as u64;
                    spent.insert(*v);
                }
            }
            for (&v, data) in node.outputs.iter().zip(results) {
                let c = Constant { ty: g.ty(v).clone(), data: data.into() };
                total += c.data.len() as u64;
                nodes.push(Node::new(c.clone(), &[], &[v], node.label.clone()));
                known.insert(v, c);
            }
            changed += 1;
        }
        nodes.retain(|n| n.outputs.first().is_none_or(|v| !spent.contains(v)));
        g.nodes = nodes;
        Ok(changed)
    }

    /// Bytes of the node's results, if it is one to fold.
    fn folded(
        g: &Graph,
        node: &Node,
        known: &Map<ValueId, Constant>,
        total: u64,
        spent_on: &mut u64,
    ) -> Option<Vec<Vec<u8>>> {
        if !worth(g, node) {
            return None;
        }
        let operands: Vec<&Constant> =
            node.inputs.iter().map(|v| known.get(v)).collect::<Option<_>>()?;
        let bytes: u64 = operands.iter().map(|c| c.data.len() as u64).sum();
        let results = node.outputs.iter().map(|&v| g.ty(v).bytes().ok()).sum::<Option<u64>>()?;
        let grows = results > bytes && total.saturating_add(results) > TOTAL_BYTES;
        if operands.is_empty() || bytes > OPERAND_BYTES || grows {
            return None;
        }
        let work = spent_on.checked_add(arithmetic(g, node)?).filter(|n| *n <= ARITHMETIC)?;
        let views: Vec<View<'_>> = operands.iter().map(|c| View::new(&c.ty, &c.data)).collect();
        // What fails may have cost as much.
        *spent_on = work;
        run(&node.op, &views).ok()
    }

    /// What the oracle computes for the node at most: its operands' elements, and for each of its
    /// results' elements what is summed there. `None` for more than 64 bits.
    fn arithmetic(g: &Graph, node: &Node) -> Option<u64> {
        let elements = |v: &ValueId| g.ty(*v).shape.elements().ok();
        let sum =
            |values: &[ValueId]| values.iter().try_fold(0u64, |n, v| n.checked_add(elements(v)?));
        let terms = match (&node.op, &node.inputs[..]) {
            (Op::MatMul(_) | Op::BatchMatMul(_) | Op::LoraMatMul(_), [x, ..]) => {
                g.ty(*x).shape.last().as_static()?
            }
            // Banks side by side, and experts that are summed.
            (Op::GroupedMatMul(op), [x, ..]) => {
                let each = match op.epilogue.sums() {
                    true => g.ty(*node.inputs.get(op.parts().ids)?).shape.last().as_static()?,
                    false => op.segments as u64,
                };
                g.ty(*x).shape.last().as_static()?.checked_mul(each)?
            }
            (Op::Route(_), _) => 64,
            #[cfg(feature = "vision")]
            (Op::Conv(_) | Op::ConvTranspose(_), [_, w, ..]) => elements(w)?,
            #[cfg(feature = "vision")]
            (Op::Pool(pool), _) => pool.kernel.iter().try_fold(1u64, |n, &k| n.checked_mul(k))?,
            (Op::Sort(_) | Op::TopK(_), _) => 64,
            // One walk over each row: what their operands have.
            (Op::Reduce(_) | Op::CumSum(_) | Op::ArgMax(_) | Op::ArgMin(_), _) => 1,
            (Op::Softmax(_) | Op::RmsNorm(_) | Op::LayerNorm(_), _) => 1,
            (op, _) if !matches!(op.class(), Class::Compute | Class::Reduction) => 1,
            // Each result may be a sum over all of an operand.
            (_, inputs) => inputs.iter().map(elements).try_fold(1u64, |n, m| Some(n.max(m?)))?,
        };
        sum(&node.outputs)?.checked_mul(terms)?.checked_add(sum(&node.inputs)?)
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
    use super::*;
    use crate::ops::{BatchMatMul, Constant, Expand, MatMul, Op};
    use crate::target::{CompileOptions, Target};
    use crate::types::{DType, Shape, Type};
    use alloc::format;
    use alloc::vec;

    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fold", fold);
    }

    #[test]
    fn constants_grow_to_their_limit_and_a_second_run_changes_nothing() {
        let mut g = Graph::new("f");
        for i in 0..70 {
            let x = Constant::scalar(DType::F32, i.into()).unwrap();
            let x = g.push1(x, &[], "x").unwrap();
            let dims = Shape::of(&[RESULT_BYTES / 4]);
            let y = g.push1(Expand { dims }, &[x], "y").unwrap();
            g.output(&format!("y{i}"), y);
        }
        let (target, options) = (Target::reference(), CompileOptions::default());
        let mut cx = Context::new(&target, &options);
        let n = fold(&mut g, &mut cx).unwrap();
        assert_eq!(n as u64, TOTAL_BYTES / RESULT_BYTES - 1, "and the scalars");
        assert_eq!(fold(&mut g, &mut cx).unwrap(), 0);
        assert_eq!(g.nodes.iter().filter(|n| matches!(n.op, Op::Expand(_))).count(), 70 - n);
    }

    /// `[m, k] [k, n]` of constants, as often as said.
    fn products(m: u64, k: u64, n: u64, times: usize) -> Graph {
        let mut g = Graph::new("f");
        let constant = |g: &mut Graph, dims: [u64; 2]| {
            let ty = Type::tensor(DType::F16, Shape::of(&dims));
            let data = vec![0; ty.bytes().unwrap() as usize].into();
            g.push1(Constant { ty, data }, &[], "c").unwrap()
        };
        for i in 0..times {
            let (a, b) = (constant(&mut g, [m, k]), constant(&mut g, [k, n]));
            let y = g.push1(BatchMatMul { transpose_b: false }, &[a, b], "y").unwrap();
            g.output(&format!("y{i}"), y);
        }
        g
    }

    fn folded(mut g: Graph) -> (usize, u64) {
        let (target, options) = (Target::reference(), CompileOptions::default());
        let mut cx = Context::new(&target, &options);
        let n = fold(&mut g, &mut cx).unwrap();
        assert_eq!(fold(&mut g, &mut cx).unwrap(), 0, "and a second run changes nothing");
        (n, cx.folded)
    }

    #[test]
    fn a_small_product_of_large_constants_that_would_take_long_stays() {
        // 700 x 700 results of f16 are below every limit of bytes.
        const { assert!(2 * 700 * 700 <= RESULT_BYTES && 700 * 700 * 700 > ARITHMETIC) };
        assert_eq!(folded(products(700, 700, 700, 1)), (0, 0));
        // Weights of a matmul are [out, in]: the width is what is summed.
        let mut g = products(700, 700, 700, 0);
        let ty = Type::tensor(DType::F16, Shape::of(&[700, 700]));
        let data = vec![0; ty.bytes().unwrap() as usize].into();
        let c = g.push1(Constant { ty, data }, &[], "c").unwrap();
        let y = g.push1(MatMul::plain(), &[c, c], "y").unwrap();
        g.output("y", y);
        assert_eq!(folded(g), (0, 0));
    }

    #[test]
    fn many_products_fold_until_the_graph_has_spent_its_multiply_adds() {
        let one = 100 * 400 * 100 + 2 * 100 * 400;
        let all = ARITHMETIC / one;
        assert_eq!(folded(products(100, 400, 100, all as usize + 5)), (all as usize, all * one));
    }
}
