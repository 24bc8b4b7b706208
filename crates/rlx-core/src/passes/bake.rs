//! Make constants of parameters whose values are known.
//!
//! ```text
//! weight %scale : tensor<2xf32>      =>      %0 = constant {type = f32, dims = [2], …} // scale
//! ```
//!
//! `options.baked` has the bytes by the parameter's name. What depends on them alone is then
//! `fold`'s, and the host no longer hands them over.
//!
//! Runs first, with every symbol of those parameters bound. Leaves alone: names that this program
//! does not have, since programs of one model share their options, and states, which change.

use super::Context;
use crate::error::{Error, Result};
use crate::ir::mir::{Graph, Node, ParamKind};
use crate::ops::Constant;
use alloc::format;
use alloc::vec::Vec;

/// Bakes in place; returns the number of parameters that became constants.
///
/// # Errors
/// `BadGraph` for bytes that do not fit the parameter's type, naming both.
pub fn bake(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut constants = Vec::new();
    for p in g.params.iter().filter(|p| p.kind != ParamKind::State) {
        let Some(bytes) = cx.options.baked.get(&p.name) else { continue };
        let ty = g.ty(p.value).clone();
        let need = ty.bytes().map_err(|e| e.at(format!("baked {}", p.name)))?;
        if need != bytes.len() as u64 {
            return Err(Error::bad_graph(format!(
                "{} is {ty} of {need} bytes; {} bytes are baked",
                p.name,
                bytes.len()
            )));
        }
        let constant = Constant { ty, data: bytes.as_slice().into() };
        constants.push(Node::new(constant, &[], &[p.value], p.name.clone()));
    }
    let baked = constants.len();
    g.params.retain(|p| !constants.iter().any(|n| n.outputs[0] == p.value));
    g.nodes.splice(0..0, constants);
    Ok(baked)
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("bake", super::bake);
    }
}
