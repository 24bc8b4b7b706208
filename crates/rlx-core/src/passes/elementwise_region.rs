//! Make one node of a chain of elementwise operators.
//!
//! ```text
//! %t = zip %a, %b {f = mul}
//! %u = map %t {f = silu}        =>    %y = elementwise_region %a, %b, %c
//! %y = zip %u, %c {f = add}               {steps = [[mul, i0, i1], [silu, s0], [add, s1, i2]]}
//! ```
//!
//! Saves a launch, a write and a read for every step but the last. A chain grows from its last
//! node backwards: a node joins when all its readers have, it is not returned, it has the last
//! node's shape, and the chain keeps within the limits. What it reads may be smaller and repeat
//! (NumPy broadcasting); element types may differ, each step rounds to its own.
//!
//! Runs after the matmul fusions, which want some of these nodes as prologue or epilogue; what is
//! left over is this pass's. `decompose` of the region is the chain again.
//!
//! Leaves alone: everything on a target that names no limits, since it runs no regions, or under
//! `unfuse_regions`; chains that the target's kernel does not take; single nodes; a node with a
//! reader outside the chain; views of states, which may not be read later than they are; what the
//! host makes of weights while loading, which is no step.

use super::{Context, Rewrite};
use crate::error::{Error, Result};
use crate::ir::mir::{Graph, ValueId};
use crate::ops::{Alias, Operator, Region, RegionStep, StepFn, StepOperand};
use crate::plan::at_load;
use crate::sorted::{Map, Set};
use crate::target::{Path, RegionLimits, Target};
use crate::types::{Kind, Type};
use alloc::vec;
use alloc::vec::Vec;

/// Fuses in place; returns the number of regions made, those inside control flow too.
pub fn elementwise_region(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let Some(limits) = cx.target.region_limits else { return Ok(0) };
    if cx.options.unfuse_regions {
        return Ok(0);
    }
    let loaded = at_load(g, cx.options.whole_weights)?;
    fuse(g, cx.options.region_limits.unwrap_or(limits), cx.target, &loaded)
}

/// Whether the target's kernel takes the region, where it has one for some.
fn takes(target: &Target, region: &Region, g: &Graph, operands: &[ValueId]) -> bool {
    let types: Vec<&Type> = operands.iter().map(|&v| g.ty(v)).collect();
    let native = || target.path(&region.clone().into(), &types) == Ok(Path::Native);
    !target.claims.has(Region::NAME) || native()
}

fn fuse(g: &mut Graph, limits: RegionLimits, target: &Target, loaded: &[bool]) -> Result<usize> {
    let mut made = 0;
    for body in g.nodes.iter_mut().flat_map(|n| &mut n.regions) {
        made += fuse(body, limits, target, &[])?;
    }
    let is_loaded = |v: ValueId| loaded.get(v.0 as usize) == Some(&true);
    let stateful = stateful(g);
    let mut rewrite = Rewrite::new(g);
    let mut taken = vec![false; rewrite.g.nodes.len()];
    // From the last node on: the end of a chain is met before the rest of it.
    for root in (0..taken.len()).rev() {
        let g = &*rewrite.g;
        if taken[root] || StepFn::of(&g.nodes[root].op).is_none() {
            continue;
        }
        if is_loaded(g.nodes[root].outputs[0]) {
            continue;
        }
        let shape = &g.ty(g.nodes[root].outputs[0]).shape;
        let mut chain = Set::from_iter([root]);
        let mut reads: Set<ValueId> = g.nodes[root].inputs.iter().copied().collect();
        let maker = |&v: &ValueId| rewrite.maker(v);
        let mut candidates: Set<usize> = reads.iter().filter_map(maker).collect();
        // The latest first: all its readers are decided.
        while let Some(at) = candidates.pop_last() {
            let node = &g.nodes[at];
            let [v] = node.outputs[..] else { continue };
            let joins = !taken[at]
                && !is_loaded(v)
                && StepFn::of(&node.op).is_some()
                && g.ty(v).shape == *shape
                && rewrite.readers(v).iter().all(|user| chain.contains(user))
                && !g.is_output(v)
                && !node.inputs.iter().any(|x| stateful[x.0 as usize]);
            let new: Set<ValueId> = node.inputs.iter().copied().collect();
            let count = reads.len() + new.iter().filter(|v| !reads.contains(v)).count() - 1;
            if joins && chain.len() < limits.steps && count <= limits.inputs {
                reads.remove(&v);
                reads.extend(node.inputs.iter().copied());
                chain.insert(at);
                candidates.extend(node.inputs.iter().filter_map(maker));
            }
        }
        if chain.len() < 2 {
            continue;
        }
        let (region, operands) = region(g, &chain)?;
        if !takes(target, &region, g, &operands) {
            continue;
        }
        let chain: Vec<usize> = chain.iter().copied().collect();
        chain.iter().for_each(|&at| taken[at] = true);
        rewrite.replace(root, region, operands, &chain);
    }
    Ok(made + rewrite.finish())
}

/// True for versions of states and views of them.
fn stateful(g: &Graph) -> Vec<bool> {
    let mut out: Vec<bool> = g.types.iter().map(|ty| ty.kind == Kind::State).collect();
    for node in &g.nodes {
        if let Alias::View { operand, .. } = g.alias(node)
            && let (Some(y), Some(x)) = (node.outputs.first(), node.inputs.get(operand))
        {
            out[y.0 as usize] |= out[x.0 as usize];
        }
    }
    out
}

/// The chain as an operator, and what it reads, in the order it does.
fn region(g: &Graph, chain: &Set<usize>) -> Result<(Region, Vec<ValueId>)> {
    let mut known: Map<ValueId, StepOperand> = Map::new();
    let (mut operands, mut steps) = (Vec::new(), Vec::new());
    for &at in chain.iter() {
        let node = &g.nodes[at];
        let f = StepFn::of(&node.op);
        let f = f.ok_or_else(|| Error::internal("a chain has another operator"))?;
        let mut reads = Vec::with_capacity(node.inputs.len());
        for &v in &node.inputs {
            reads.push(*known.get_or_insert_with(v, || {
                operands.push(v);
                StepOperand::Input(operands.len() - 1)
            }));
        }
        known.extend(node.outputs.iter().map(|&v| (v, StepOperand::Step(steps.len()))));
        steps.push(RegionStep { f, operands: reads });
    }
    Ok((Region { steps }, operands))
}

#[cfg(test)]
mod tests {
    use crate::compile::compile_graph_legacy;
    use crate::ir::parse::parse;
    use crate::targets;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn goldens() {
        crate::passes::testing::goldens("elementwise_region", super::elementwise_region);
    }

    #[test]
    fn a_chain_runs_in_one_step_and_no_step_that_has_no_kernel() {
        let gpu = targets::gpu();
        let steps = |last: &str| {
            let text = format!(
                "func @f {{\n  input %a : tensor<2x3xf32>\n  input %b : tensor<3xf32>\n  \
                 %0 = zip %a, %b {{f = mul}} -> tensor<2x3xf32>\n  \
                 %1 = map %0 {{f = silu}} -> tensor<2x3xf32>\n  \
                 %2 = {last} -> tensor<2x3xf32>\n  return y = %2\n}}\n"
            );
            let made = compile_graph_legacy(&gpu, parse(&text).expect("a graph"));
            made.map(|made| {
                made.lir.steps.iter().map(|s| s.op.name().to_string()).collect::<Vec<_>>()
            })
        };
        assert_eq!(steps("zip %1, %a {f = add}").unwrap(), ["elementwise_region"]);
        // A step that has no kernel is the error, not its chain.
        let e = steps("map %1 {f = sin}").unwrap_err();
        assert!(e.to_string().contains("sin"), "{e}");
    }
}
