//! Make every node something the target runs.
//!
//! With int8 activations a matmul of packed weights reads int8 blocks of x:
//!
//! ```text
//! %y = matmul %x, %w      =>      %b = quantize_rows %x {to = q8_k}
//!                                 %y = matmul %b, %w
//! ```
//!
//! Blocks are as long as the weight's: 32 (`q8_0`) or 256 (`q8_k`). One quantisation serves every
//! matmul of that x. Leaves alone: f32, f16 and bf16 weights, and matmuls that mix block lengths.

use super::Context;
use crate::error::{Code, Error, Result};
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Op, QuantizeRows};
use crate::target::Activations;
use crate::types::{BlockFormat, DType};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The int8 blocks that a weight's kernels read, or `None` where activations stay f32.
pub fn activation_format(weight: DType) -> Option<BlockFormat> {
    match weight {
        DType::Block(b) if b.elements() == 256 => Some(BlockFormat::Q8K),
        DType::Block(b) if b.elements() == 32 => Some(BlockFormat::Q8_0),
        _ => None,
    }
}

/// Legalises in place; returns the number of matmuls that now read int8.
///
/// # Errors
/// `Unsupported` with every weight whose type the target cannot read.
pub fn legalise(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut missing: Vec<String> = Vec::new();
    for node in &g.nodes {
        let weights = match &node.op {
            Op::MatMul(m) => {
                let first = m.parts().weights;
                &node.inputs[first..first + m.segments]
            }
            Op::Gather(_) => &node.inputs[..1],
            _ => continue,
        };
        for &w in weights {
            if !cx.target.reads(g.ty(w).dtype) {
                let param = g.params.iter().find(|p| p.value == w);
                let name = param.map_or(&node.label, |p| &p.name);
                let line = format!("{name} is {}", g.ty(w).dtype);
                // A tied embedding is read twice and named once.
                if !missing.contains(&line) {
                    missing.push(line);
                }
            }
        }
    }
    if !missing.is_empty() {
        let names: Vec<&str> = cx.target.formats.iter().map(|f| f.name()).collect();
        return Err(Error::new(
            Code::Unsupported,
            format!("the {} device cannot read {}", cx.target.name, missing.join(", ")),
        )
        .hint(format!("it reads f32, f16, bf16, {}", names.join(", "))));
    }
    if cx.options.activations == Activations::F32 || !cx.target.int8 {
        return Ok(0);
    }
    let mut quantized: BTreeMap<(ValueId, BlockFormat), ValueId> = BTreeMap::new();
    let mut changed = 0;
    let mut nodes = Vec::with_capacity(g.nodes.len());
    for mut node in core::mem::take(&mut g.nodes) {
        if let Op::MatMul(m) = &node.op {
            let first = m.parts().weights;
            let mut formats = node.inputs[first..first + m.segments]
                .iter()
                .map(|&w| activation_format(g.ty(w).dtype));
            let format = formats.next().flatten();
            let x = node.inputs[0];
            if let Some(format) = format
                && formats.all(|f| f == Some(format))
                && m.norm.is_none()
                && g.ty(x).dtype == DType::F32
            {
                let b = match quantized.get(&(x, format)) {
                    Some(&b) => b,
                    None => {
                        let op = Op::from(QuantizeRows { format });
                        let ty = op.infer(&[g.ty(x)]).map_err(|e| e.at(node.label.clone()))?;
                        let b = g.value(ty[0].clone());
                        let label = format!("{}_x", node.label);
                        nodes.push(Node::new(op, &[x], &[b], label));
                        quantized.insert((x, format), b);
                        b
                    }
                };
                node.inputs[0] = b;
                changed += 1;
            }
        }
        nodes.push(node);
    }
    g.nodes = nodes;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("legalise", super::legalise);
    }
}
