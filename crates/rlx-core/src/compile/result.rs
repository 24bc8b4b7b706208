//! What a compilation gives.

use super::CompilePipeline;
use crate::error::Result;
use crate::ir::lir::Program;
use crate::ir::mir::Graph;
use crate::passes::FusionReport;
use crate::types::Binding;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A program and what fused on the way to it. Cloning copies two pointers.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileResult {
    /// The program. One with unbound symbols has its graph and no steps: it is a template.
    pub lir: Arc<Program>,
    /// What fused.
    pub fusion: Arc<FusionReport>,
}

impl CompileResult {
    /// Symbols that are not bound, sorted; a program with any has no plan yet.
    pub fn dynamic_symbols(&self) -> Vec<String> {
        self.lir.dynamic_symbols()
    }

    /// Whether symbols are left to bind.
    pub fn has_dynamic_dims(&self) -> bool {
        self.lir.has_dynamic_dims()
    }

    /// The optimised graph, for planning it again.
    pub fn graph(&self) -> &Graph {
        &self.lir.graph
    }

    /// The program with symbols bound and planned anew; the report is this one's.
    ///
    /// # Errors
    /// As [`CompilePipeline::specialize_lir`].
    pub fn specialize(&self, pipeline: &CompilePipeline, binding: &Binding) -> Result<Self> {
        let lir = pipeline.specialize_lir(&self.lir, binding)?;
        Ok(CompileResult { lir: Arc::new(lir), fusion: self.fusion.clone() })
    }
}
