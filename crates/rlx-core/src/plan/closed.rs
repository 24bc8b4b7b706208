//! A program as one graph, for devices that take graphs and not steps.

use super::constants::recipes;
use crate::error::Result;
use crate::ir::lir::Program;
use crate::ir::mir::{Graph, Param, ParamKind};
use crate::ir::recipe::Recipe;
use crate::ops::Op;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Constants of at most this many bytes stay in the graph, where a device's compiler sees their values.
const INLINE: usize = 1 << 10;

/// A graph that is a function of its parameters alone.
#[derive(Clone, Debug)]
pub struct Closed {
    /// The graph.
    pub graph: Graph,
    /// The name of each parameter in the program; a weight that the host makes has its recipe's name.
    pub names: Vec<String>,
}

/// The program's graph as a function of its parameters alone: what the host makes while loading are weights, of those
/// that [`Program::weights`] lists; small constants stay. Nodes and weights that nothing reads are gone.
///
/// # Errors
/// `BadGraph` for a table of a value that is no weight.
pub fn closed(program: &Program) -> Result<Closed> {
    let mut g = program.graph.clone();
    let loaded: BTreeSet<&str> = program.weights.iter().map(|w| w.name.as_str()).collect();
    let recipes = recipes(&g, false)?;
    let mut made = vec![false; g.types.len()];
    for node in &g.nodes {
        let small = matches!(&node.op, Op::Constant(c) if c.data.len() <= INLINE);
        for &value in node.outputs.iter().filter(|_| !small) {
            let name = recipes[value.0 as usize].as_ref().map(Recipe::name);
            if let Some(name) = name.filter(|name| loaded.contains(name.as_str())) {
                made[value.0 as usize] = true;
                g.params.push(Param { name, kind: ParamKind::Weight, value });
            }
        }
    }
    g.nodes.retain(|n| !n.outputs.iter().any(|v| made[v.0 as usize]));
    drop_unread(&mut g);
    let names = g.params.iter().map(|p| p.name.clone()).collect();
    // A recipe's name is no name of a parameter, which texts of graphs have.
    for (i, p) in g.params.iter_mut().enumerate().filter(|(_, p)| made[p.value.0 as usize]) {
        p.name = format!("made.{i}");
    }
    Ok(Closed { graph: g.renumbered(), names })
}

/// Drops nodes whose results nothing reads, then weights.
fn drop_unread(g: &mut Graph) {
    let mut read = vec![false; g.types.len()];
    let results = g.outputs.iter().map(|o| o.value);
    for v in results.chain(g.final_states().into_iter().map(|s| s.1)) {
        read[v.0 as usize] = true;
    }
    let mut keep = Vec::with_capacity(g.nodes.len());
    for node in g.nodes.iter().rev() {
        let used = node.outputs.iter().any(|v| read[v.0 as usize]);
        keep.push(used);
        if used {
            node.inputs.iter().for_each(|v| read[v.0 as usize] = true);
        }
    }
    let mut keep = keep.into_iter().rev();
    g.nodes.retain(|_| keep.next().unwrap_or(true));
    g.params.retain(|p| p.kind != ParamKind::Weight || read[p.value.0 as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Binary, Constant, Map, Reshape, Unary, Zip};
    use crate::target::{CompileOptions, Target};
    use crate::types::{DType, Shape, Type};

    fn constant(g: &mut Graph, n: u64) -> crate::types::ValueId {
        let c = Constant::f32s(&[n], &vec![0.5; n as usize]).expect("as many");
        g.push1(c, &[], "c").expect("a constant")
    }

    #[test]
    fn what_loading_makes_is_a_weight_and_small_constants_stay() {
        let mut g = Graph::new("f");
        let ty = Type::tensor(DType::F32, Shape::of(&[1024]));
        let x = g.param(ParamKind::Input, "x", ty.clone());
        let w = g.param(ParamKind::Weight, "w", ty);
        let (large, small) = (constant(&mut g, 1024), constant(&mut g, 1));
        let scaled = g.push1(Zip { f: Binary::Mul }, &[w, large], "scaled").expect("a weight");
        let dims = Shape::of(&[1024]);
        let view = g.push1(Reshape { dims }, &[scaled], "view").expect("a view");
        let y = g.push1(Zip { f: Binary::Add }, &[x, view], "y").expect("a sum");
        let y = g.push1(Zip { f: Binary::Mul }, &[y, small], "half").expect("a product");
        g.push1(Map { f: Unary::Exp }, &[y], "unread").expect("a function");
        g.output("y", y);
        let program = crate::plan::plan(g, &[], &Target::reference(), &CompileOptions::default());
        let Closed { graph: g, names } = closed(&program.expect("a program")).expect("a graph");
        assert_eq!(names[0], "x");
        assert!(names.len() == 2 && names[1].starts_with("zip(w, constant("), "{names:?}");
        let ops: Vec<_> = g.nodes.iter().map(|n| n.label.as_str()).collect();
        assert_eq!(ops, ["c", "view", "y", "half"]);
        crate::ir::verify::verify(&g).expect("well formed");
    }
}
