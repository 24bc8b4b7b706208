//! The pipeline: this function is the compiler.

use super::{
    Context, FusionReport, dce, fuse_glu, fuse_norm_prologue, fuse_residual, fuse_rope_kv_write,
    fuse_segments, legalise,
};
use crate::error::Result;
use crate::ir::hir::Module;
use crate::ir::lir::Program;
use crate::ir::mir::Graph;
use crate::ir::verify::verify;
use crate::lower::{ProgramSpec, lower, states};
use crate::plan::plan;
use crate::target::{CompileOptions, Target};

/// A pass: changes the graph, returns how much.
type Pass = fn(&mut Graph, &mut Context<'_>) -> Result<usize>;

/// Compiles one program of a module for a target.
///
/// # Errors
/// `BadGraph` where shapes do not fit, with the block's label; `Unsupported` with every weight the
/// target cannot read.
pub fn compile(
    module: &Module,
    spec: &ProgramSpec,
    target: &Target,
    options: &CompileOptions,
) -> Result<(Program, FusionReport)> {
    let g = lower(module, spec, options.kv)?;
    let (g, report) = optimise(g, target, options)?;
    let program = plan(g, &states(module, options.kv)?, target, options)?;
    Ok((program, report))
}

/// Runs what a graph needs before it is a template: control flow that can be resolved is, and nodes
/// that nothing reads go.
///
/// # Errors
/// As the passes.
pub fn preprocess(mut g: Graph, target: &Target, options: &CompileOptions) -> Result<Graph> {
    let mut cx = Context { target, options, report: FusionReport::default() };
    dce::dce(&mut g, &mut cx)?;
    Ok(g)
}

/// Runs every pass the target gains from.
///
/// # Errors
/// As [`compile`].
pub fn optimise(
    mut g: Graph,
    target: &Target,
    options: &CompileOptions,
) -> Result<(Graph, FusionReport)> {
    let mut cx = Context { target, options, report: FusionReport::default() };
    let wants = target.fusions;
    let before = g.nodes.len();
    let passes: &[(&'static str, bool, Pass)] = &[
        ("dce", true, dce::dce),
        ("glu", wants.glu, fuse_glu::fuse_glu),
        ("segments", wants.segments, fuse_segments::fuse_segments), // after glu: takes what it left
        ("residual", wants.residual, fuse_residual::fuse_residual),
        ("norm_prologue", wants.norm_prologue, fuse_norm_prologue::fuse_norm_prologue),
        ("rope_kv_write", wants.rope_kv_write, fuse_rope_kv_write::fuse_rope_kv_write),
        ("legalise", true, legalise::legalise),
        ("dce", true, dce::dce), // takes the norms that prologues replaced
    ];
    if cfg!(debug_assertions) {
        verify(&g)?;
    }
    for &(name, wanted, pass) in passes {
        if !wanted || options.without.iter().any(|w| w == name) {
            continue;
        }
        let changed = pass(&mut g, &mut cx)?;
        cx.report.fused.push((name, changed));
        if cfg!(debug_assertions) {
            verify(&g).map_err(|e| e.hint(alloc::format!("after pass {name}")))?;
        }
    }
    cx.report.nodes = (before, g.nodes.len());
    Ok((g, cx.report))
}
