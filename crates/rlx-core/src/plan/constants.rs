//! Which values of a graph the host makes while loading, and how.
//!
//! If a value depends on weights and constants alone, and [`Recipe`](crate::ir::recipe::Recipe) has its
//! operators, it is a weight of its own, and no step makes it. A view of a weight needs no place. A recipe that only
//! moves bytes may have any size; one that computes needs small tensors. A larger value stays a step, which is slow
//! but correct.

use crate::error::{Error, Result};
use crate::ir::lir::WeightUse;
use crate::ir::mir::{Graph, Node, ParamKind, ValueId};
use crate::ir::recipe::{HOST_TENSOR_BYTES, Recipe, stays_on_host};
use crate::ops::Op;
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

/// Most transforms on top of each other.
const DEPTH: usize = 16;

/// The recipe of every value that is a weight of its own but no tensor of the file. With `whole`, steps make the
/// values that depend on tensors, because the part of a tensor that a program reads may depend on its sizes. Values of
/// tensors that stay on the host are made whenever a program asks for them.
///
/// # Errors
/// `BadGraph` for a table of a value that is no weight.
pub(super) fn recipes(g: &Graph, whole: bool) -> Result<Vec<Option<Recipe>>> {
    // Every value that the host could make, tensors of the file and views too, with its depth.
    let mut known: Vec<Option<(Recipe, usize)>> = vec![None; g.types.len()];
    for p in g.params.iter().filter(|p| p.kind == ParamKind::Weight) {
        let recipe = Recipe::Tensor { name: p.name.clone(), ty: g.ty(p.value).clone() };
        known[p.value.0 as usize] = Some((recipe, 0));
    }
    let mut out = vec![None; g.types.len()];
    for node in &g.nodes {
        let [v] = node.outputs.as_slice() else { continue };
        let of: Option<Vec<(Recipe, usize)>> =
            node.inputs.iter().map(|x| known[x.0 as usize].clone()).collect();
        let Some(of) = of else {
            if matches!(node.op, Op::RopeTable(_)) {
                return Err(Error::bad_graph("rope_table reads a value that is no weight")
                    .at(node.label.clone()));
            }
            continue;
        };
        let depth = of.iter().map(|r| r.1 + 1).max().unwrap_or(0);
        let of: Vec<Recipe> = of.into_iter().map(|r| r.0).collect();
        let Some(recipe) = Recipe::made(&node.op, of, g.ty(*v).clone()) else { continue };
        let is_table = matches!(node.op, Op::RopeTable(_));
        if depth > DEPTH || !(is_table || can_be_made(&recipe)) {
            continue;
        }
        let made_later = || recipe.tensors().iter().all(|t| stays_on_host(t.1));
        if whole && !is_table && !recipe.is_view() && !made_later() {
            continue;
        }
        if !recipe.is_view() {
            out[v.0 as usize] = Some(recipe.clone());
        }
        known[v.0 as usize] = Some((recipe, depth));
    }
    Ok(out)
}

/// Of every value, whether the host makes it while loading, so that no step does.
///
/// # Errors
/// As [`recipes`].
pub(crate) fn at_load(g: &Graph, whole: bool) -> Result<Vec<bool>> {
    Ok(recipes(g, whole)?.iter().map(Option::is_some).collect())
}

/// The tables that are made of tensors, whatever the sizes of symbols are: a session makes them while it loads.
pub(crate) fn tables(g: &Graph) -> Vec<WeightUse> {
    let table = |node: &Node| {
        let ([v], Op::RopeTable(_)) = (node.outputs.as_slice(), &node.op) else { return None };
        let tensor = |x: &ValueId| {
            let p = g.params.iter().find(|p| p.value == *x && p.kind == ParamKind::Weight)?;
            Some(Recipe::Tensor { name: p.name.clone(), ty: g.ty(*x).clone() })
        };
        let of: Vec<Recipe> = node.inputs.iter().map(tensor).collect::<Option<_>>()?;
        let recipe = Recipe::made(&node.op, of, g.ty(*v).clone())?;
        (!recipe.tensors().is_empty()).then(|| WeightUse::new(recipe))
    };
    g.nodes.iter().filter_map(table).collect()
}

fn can_be_made(recipe: &Recipe) -> bool {
    let small = |ty: &Type| ty.bytes().is_ok_and(|n| n <= HOST_TENSOR_BYTES);
    recipe.is_view() || recipe.runs().is_some() || recipe.tensors().iter().all(|t| small(t.1))
}
