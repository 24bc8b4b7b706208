//! Passes: one file each, a function on the graph that returns how much it changed. No pass holds
//! state or knows a device by name; fusions ask the target.

mod bake;
mod cleanup;
mod control_flow;
mod cse;
mod dce;
mod elementwise_region;
mod fold;
mod fuse_glu;
mod fuse_norm_prologue;
mod fuse_residual;
mod fuse_rope_kv_write;
mod fuse_segments;
mod legalise;
pub mod pipeline;
mod report;
mod simplify;
mod sweep;

pub use bake::bake;
pub use cleanup::cleanup;
pub use control_flow::control_flow;
pub use cse::cse;
pub use dce::dce;
pub use elementwise_region::elementwise_region;
pub use fold::fold;
pub use simplify::simplify;

pub use pipeline::{compile, optimise, preprocess};
pub use report::{FusionReport, Miss};

use crate::ir::mir::Graph;
use crate::target::{CompileOptions, Target};

/// What a pass may ask.
pub struct Context<'a> {
    /// The device.
    pub target: &'a Target,
    /// The policy.
    pub options: &'a CompileOptions,
    /// Where near misses go.
    pub report: FusionReport,
}

/// Removes the nodes whose indices are in `dead`, ascending.
fn remove_nodes(g: &mut Graph, dead: &[usize]) {
    let mut i = 0;
    g.nodes.retain(|_| {
        let keep = dead.binary_search(&i).is_err();
        i += 1;
        keep
    });
}

#[cfg(test)]
mod testing;
