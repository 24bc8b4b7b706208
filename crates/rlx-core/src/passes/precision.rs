//! Automatic mixed precision: every node in the element type that the policy gives its class.
//!
//! ```text
//! %y = matmul %x, %w        =>      %h = cast %x {to = f16}
//!   (f32, policy auto_mixed)        %v = cast %w {to = f16}
//!                                   %t = matmul %h, %v
//!                                   %y = cast %t {to = f32}
//! ```
//!
//! Halves what activations and dense weights move; kernels accumulate in f32 whatever they store.
//! A value is cast to a type at most once. Casts of weights are done when they are loaded, where
//! the plan has that transform.
//!
//! Only tensors of f32, f16 and bf16 are retyped. Integers, truth values, packed weights, states and
//! f64, which nobody writes by chance, keep their types; so do parameters and constants, and what
//! the graph returns. An operator that takes no other type stays in f32, between casts; where its
//! tables alone want f32, they stay. A cast that somebody wrote keeps the type it casts to. Bodies
//! of control flow are graphs of their own: their captures and results keep the types they have.
//!
//! Runs before the fusions, on static or symbolic shapes. `AlwaysF32` changes nothing.

use super::casts::Casts;
use super::{Context, policy_float, weights};
use crate::error::Result;
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Class, Op, Signature};
use crate::target::{Precision, PrecisionPolicy};
use crate::types::{DType, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Retypes in place; returns the number of nodes that compute in another type, and of casts.
pub fn auto_mixed_precision(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let policy = &cx.options.precision;
    let f32_only = |p: &PrecisionPolicy| match p {
        PrecisionPolicy::AlwaysF32 => true,
        PrecisionPolicy::Custom(map) => map.values().all(|&p| p == Precision::F32),
        _ => false,
    };
    if f32_only(policy) { Ok(0) } else { retype(g, policy) }
}

fn retype(g: &mut Graph, policy: &PrecisionPolicy) -> Result<usize> {
    let written = g.types.clone();
    // Parameters, and what is made of nothing: their types are the boundary's.
    let mut boundary = vec![false; g.types.len()];
    for p in &g.params {
        boundary[p.value.0 as usize] = true;
    }
    let mut casts = Casts::default();
    let (before, mut changed) = (g.nodes.len(), 0);
    let mut nodes = Vec::with_capacity(before);
    for mut node in core::mem::take(&mut g.nodes) {
        for body in &mut node.regions {
            changed += retype(body, policy)?;
        }
        if node.op.class() == Class::Boundary {
            node.outputs.iter().for_each(|v| boundary[v.0 as usize] = true);
        }
        let to = policy.of(node.op.class()).dtype();
        let (dtypes, results) = choose(g, &node, to, &written, &boundary)?;
        for (v, dtype) in node.inputs.iter_mut().zip(dtypes) {
            *v = casts.get(g, &mut nodes, *v, dtype, &node.label);
        }
        let other = node.outputs.iter().zip(&results).any(|(v, ty)| g.ty(*v) != ty);
        for (v, ty) in node.outputs.iter().zip(results) {
            g.types[v.0 as usize] = ty;
        }
        changed += usize::from(other);
        nodes.push(node);
    }
    for i in 0..g.outputs.len() {
        let v = g.outputs[i].value;
        let Some(ty) = written.get(v.0 as usize) else { continue };
        let label = format!("{}/out", g.outputs[i].name);
        g.outputs[i].value = casts.get(g, &mut nodes, v, ty.dtype, &label);
    }
    changed += nodes.len() - before;
    g.nodes = nodes;
    Ok(changed)
}

/// Element types of a node's operands, and its results' types: the first of these that the type
/// rule takes.
///
/// 1. Every float in `to`.
/// 2. Floats that come from other nodes in `to`, parameters and tables as they are.
/// 3. Every float in f32.
/// 4. Everything as it was written.
fn choose(
    g: &Graph,
    node: &Node,
    to: DType,
    written: &[Type],
    boundary: &[bool],
) -> Result<(Vec<DType>, Vec<Type>)> {
    let have: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
    let original: Vec<DType> = node.inputs.iter().map(|v| written[v.0 as usize].dtype).collect();
    let as_is: Vec<DType> = have.iter().map(|t| t.dtype).collect();
    let f64s = have.iter().any(|t| t.kind == crate::types::Kind::Tensor && is_f64(t.dtype));
    // A cast says what it gives and takes anything; control flow has its bodies' types.
    let tries = if matches!(node.op, Op::Cast(_)) {
        vec![as_is]
    } else if !node.regions.is_empty() || f64s {
        vec![original]
    } else {
        let weights = weights(&node.op);
        let all = |to: DType, keep: &dyn Fn(usize, ValueId) -> bool| -> Vec<DType> {
            let each = node.inputs.iter().enumerate().map(|(i, &v)| {
                let have = g.ty(v);
                match policy_float(have) {
                    // The file's own f16 and bf16 weights are read as they are.
                    Some(f) if weights.contains(&i) && f != DType::F32 => f,
                    Some(_) if keep(i, v) => written[v.0 as usize].dtype,
                    Some(_) => to,
                    None => have.dtype,
                }
            });
            each.collect()
        };
        let is_table = |v: ValueId| boundary.get(v.0 as usize).copied().unwrap_or(false);
        // A table that is read by the row is not worth a copy of it.
        let rows = matches!(node.op, Op::Gather(_));
        vec![
            all(to, &|i, _| rows && i == 0),
            all(to, &|_, v| is_table(v)),
            all(DType::F32, &|_, _| false),
            original,
        ]
    };
    let bodies: Vec<Signature> = node.regions.iter().map(Graph::signature).collect();
    let mut last = None;
    for dtypes in tries {
        let types: Vec<Type> =
            have.iter().zip(&dtypes).map(|(t, &dtype)| Type { dtype, ..(*t).clone() }).collect();
        let types: Vec<&Type> = types.iter().collect();
        match node.op.infer_regions(&types, &bodies) {
            Ok(results) => return Ok((dtypes, results)),
            Err(e) => last = Some(e.at(node.label.clone())),
        }
    }
    Err(last.unwrap_or_else(|| crate::error::Error::internal("a node without a type")))
}

fn is_f64(dtype: DType) -> bool {
    dtype.is_float() && !matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("precision", super::auto_mixed_precision);
    }
}
