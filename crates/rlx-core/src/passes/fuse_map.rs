//! Apply a function where the product is made.
//!
//! ```text
//! %t = matmul %x, %w
//! %y = map %t {f = gelu}      =>      %y = matmul %x, %w {map = gelu}
//! ```
//!
//! Saves a launch and a write and a read of the product.
//!
//! Runs after `fuse_bias`, which stands between the product and its function, and after `fuse_glu`,
//! which wants the function for itself. Leaves alone: a product that others read, or that has an
//! epilogue.

use super::{Context, Reason, Rewrite};
use crate::error::Result;
use crate::ir::mir::Graph;
use crate::ops::{Epilogue, MatMul, Op};
use crate::target::Path;

/// Fuses in place; returns the number of functions fused.
pub fn fuse_map(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let (Op::Map(map), &[t]) = (&g.nodes[i].op, g.nodes[i].inputs.as_slice()) else { continue };
        let f = map.f;
        let Some(at) = rewrite.maker(t) else { continue };
        let Op::MatMul(m) = &g.nodes[at].op else { continue };
        if m.segments != 1 || m.epilogue != Epilogue::None || !rewrite.alone(t) {
            continue;
        }
        let fused = Op::from(MatMul { epilogue: Epilogue::Map(f), ..m.clone() });
        if !cx.fuses(g, &fused, &g.nodes[at].inputs) {
            // Only a function that the target has elsewhere is one that its matmul lacks.
            if cx.path(&g.nodes[i].op, &[g.ty(t)]) == Ok(Path::Native) {
                let context = alloc::format!("no matmul of the target applies {}", f.name());
                let reason = Reason::UnsupportedEpilogueActivation;
                cx.report.miss("matmul_map", &g.nodes[i].label.clone(), reason, context, "");
            }
            continue;
        }
        let (inputs, label) = (g.nodes[at].inputs.clone(), g.nodes[at].label.clone());
        rewrite.replace(i, fused, inputs, &[at]).label = label;
    }
    Ok(rewrite.finish())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_map", super::fuse_map);
    }
}
