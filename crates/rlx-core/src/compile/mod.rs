//! Compiling as a caller sees it: a pipeline for a target, results that specialise, variants of a
//! model and the cache that holds them.
//!
//! ```text
//! GraphModule ──▶ CompilePipeline ──▶ CompileResult { lir, fusion } ──specialize──▶ CompileResult
//!                      ▲
//! ModelExecutionConfig = component + preset ──▶ ModelCompilePipeline (templates, LRU of variants)
//! ```
//!
//! The passes themselves, and their order, are in [`passes`](crate::passes).

mod cache;
mod component;
mod config;
mod device;
mod executable;
mod manifest;
mod pipeline;
mod program;
mod result;

pub use cache::{ModelCompilePipeline, content_key};
pub use component::{CompilationMode, ModelComponent, ModelPhase, ModelVariant};
pub use config::ModelExecutionConfig;
pub use device::{
    compile_graph_legacy, compile_graph_preset, compile_graph_with_profile, compile_hir_preset,
    compile_hir_with_profile, options_for, options_for_device, packed_device, target_among,
    with_packed_options,
};
pub use executable::{Executable, Params, compile_built_with_config};
pub use manifest::{BindingEntry, BindingManifest};
pub(crate) use pipeline::bind;
pub use pipeline::{CompilePipeline, ReportSink};
pub use program::Compiled;
pub use result::CompileResult;
