//! The compiler's stages for one target, each callable alone.

use super::CompileResult;
use super::target_among;
use crate::error::Result;
use crate::ir::lir::{Program, StateDecl};
use crate::ir::mir::{Graph, ParamKind};
use crate::ir::verify::verify;
use crate::ir::{GraphModule, hir};
use crate::lower::{lower_all_rows, lower_module};
use crate::passes::{self, FusionReport, Optimised, Watch};
use crate::plan::{self, ALIGNMENT};
use crate::target::{CompileOptions, DispatchPolicy, FusionTarget, KernelDispatch, Target};
use crate::types::{Binding, DType, DimBinding};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// Who is told what fused.
pub type ReportSink = Arc<dyn Fn(&FusionReport) + Send + Sync>;

/// A target with options, and the stages from a module to a program.
#[derive(Clone)]
pub struct CompilePipeline {
    /// The device.
    pub target: Target,
    /// The choices: alignment, claims, dispatch, clean fusion and the rest stand here once.
    pub options: CompileOptions,
    on_report: Option<ReportSink>,
}

impl fmt::Debug for CompilePipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompilePipeline")
            .field("target", &self.target)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Default for CompilePipeline {
    /// The reference executor, the one that is always there, with default options. Nothing is read
    /// from the environment.
    fn default() -> Self {
        Self::new(Target::reference())
    }
}

impl CompilePipeline {
    /// Default options on a target, whose limits they follow.
    pub fn new(target: Target) -> Self {
        CompilePipeline { target, options: CompileOptions::default(), on_report: None }
    }

    /// A pipeline for a device by its name among those that are `built`, or for the backend that the
    /// options name: that wins.
    ///
    /// # Errors
    /// As [`target_among`].
    pub fn for_device(device: &str, options: CompileOptions, built: &[Target]) -> Result<Self> {
        let target = match options.fusion_target.explicit() {
            // The device's own description has its limits; a backend's name the usual ones.
            Some(t) if FusionTarget::of_device(first_word(device)) != Ok(t) => {
                target_among(t.name(), built)?
            }
            _ => target_among(device, built)?,
        };
        Ok(Self::new(target).with_options(options))
    }

    /// With all options replaced.
    #[must_use]
    pub fn with_options(mut self, options: CompileOptions) -> Self {
        self.options = options;
        self
    }

    /// Whether a near miss is an error.
    #[must_use]
    pub fn with_assert_fusion_clean(mut self, clean: bool) -> Self {
        self.options.assert_clean = clean;
        self
    }

    /// With these operators as the target's claim.
    #[must_use]
    pub fn with_supported_ops<'a>(mut self, ops: impl IntoIterator<Item = &'a str>) -> Self {
        self.options = self.options.with_supported_ops(ops);
        self
    }

    /// With this policy and no kind of its own.
    #[must_use]
    pub fn with_kernel_dispatch(self, policy: DispatchPolicy) -> Self {
        self.with_kernel_dispatch_config(KernelDispatch { policy, ..KernelDispatch::default() })
    }

    /// With this dispatch.
    #[must_use]
    pub fn with_kernel_dispatch_config(mut self, dispatch: KernelDispatch) -> Self {
        self.options.dispatch = dispatch;
        self
    }

    /// Calls `sink` with the report of every compilation: the way to print it, in a page too.
    #[must_use]
    pub fn on_fusion_report(mut self, sink: ReportSink) -> Self {
        self.on_report = Some(sink);
        self
    }

    /// HIR to MIR, verified.
    ///
    /// # Errors
    /// `BadGraph` with the label of the block that does not fit.
    pub fn lower_hir(&self, module: &hir::Module) -> Result<Graph> {
        self.lower_by(lower_module, module)
    }

    /// HIR to MIR, verified, where every row of a language model reaches its head: what a session runs.
    ///
    /// # Errors
    /// As [`lower_hir`](Self::lower_hir).
    pub fn lower_entry(&self, module: &hir::Module) -> Result<Graph> {
        self.lower_by(lower_all_rows, module)
    }

    fn lower_by(
        &self,
        lower: fn(&hir::Module, DType) -> Result<Graph>,
        module: &hir::Module,
    ) -> Result<Graph> {
        let g = match self.options.fusion_policy {
            Some(policy) => lower(&module.clone().with_policy(policy), self.options.kv)?,
            None => lower(module, self.options.kv)?,
        };
        verify(&g)?;
        Ok(g)
    }

    /// Control flow that can be resolved is, then nodes that nothing reads go.
    ///
    /// # Errors
    /// As the passes.
    pub fn preprocess_mir(&self, g: Graph) -> Result<Graph> {
        passes::preprocess(g, &self.target, &self.options)
    }

    /// Every pass the target gains from.
    ///
    /// # Errors
    /// As [`passes::optimise`].
    pub fn optimize(&self, g: Graph) -> Result<Graph> {
        Ok(self.optimize_with_report(g)?.0)
    }

    /// [`optimize`](Self::optimize) with what fused.
    ///
    /// # Errors
    /// As [`passes::optimise`].
    pub fn optimize_with_report(&self, g: Graph) -> Result<(Graph, FusionReport)> {
        let done = self.optimize_watched(g, &mut Watch::default())?;
        Ok((done.graph, done.fusion))
    }

    /// Every pass, looked on by a watch: times, text after a pass, a pass to stop after.
    ///
    /// # Errors
    /// As [`passes::optimise_watched`].
    pub fn optimize_watched(&self, g: Graph, watch: &mut Watch<'_>) -> Result<Optimised> {
        let done = passes::optimise_watched(g, &self.target, &self.options, watch)?;
        if let Some(sink) = &self.on_report {
            sink(&done.fusion);
        }
        Ok(done)
    }

    /// A legal graph to a program, with the pipeline's alignment. A graph with unbound symbols
    /// becomes a program without steps, to be [specialised](Self::specialize_lir).
    ///
    /// # Errors
    /// As [`plan::plan`].
    pub fn plan_lir(&self, g: Graph) -> Result<Program> {
        self.plan_lir_with_options(g, &self.options)
    }

    /// [`plan_lir`](Self::plan_lir) with other options.
    ///
    /// # Errors
    /// As [`plan::plan`].
    pub fn plan_lir_with_options(&self, g: Graph, options: &CompileOptions) -> Result<Program> {
        if !g.symbols().is_empty() {
            return Ok(unplanned(g));
        }
        let states = graph_states(&g)?;
        plan::plan(g, &states, &self.target, options)
    }

    /// A legal graph to a program whose symbols are bound at each run, each at most its bound: the
    /// way to have `PAST_SEQ` in neither key nor plan.
    ///
    /// # Errors
    /// As [`plan::plan_bounded`].
    pub fn plan_lir_bounded(&self, g: Graph, bounds: &Binding) -> Result<Program> {
        let states = graph_states(&g)?;
        plan::plan_bounded(g, bounds, &states, &self.target, &self.options)
    }

    /// HIR to a program.
    ///
    /// # Errors
    /// As the stages.
    pub fn compile_hir(&self, module: &hir::Module) -> Result<CompileResult> {
        self.compile_mir(self.lower_hir(module)?)
    }

    /// MIR to a program; symbols that the options bind are bound first.
    ///
    /// # Errors
    /// As the stages.
    pub fn compile_mir(&self, g: Graph) -> Result<CompileResult> {
        self.compile_mir_watched(g, &mut Watch::default())?.finished()
    }

    /// [`compile_mir`](Self::compile_mir).
    ///
    /// # Errors
    /// As the stages.
    pub fn compile_graph(&self, g: Graph) -> Result<CompileResult> {
        self.compile_mir(g)
    }

    /// A module at any stage; LIR is returned as it is, with an empty report.
    ///
    /// # Errors
    /// As the stages.
    pub fn compile_module(&self, module: GraphModule) -> Result<CompileResult> {
        match module {
            GraphModule::Hir(m) => self.compile_hir(&m),
            GraphModule::Mir(g) => self.compile_mir(*g),
            GraphModule::Lir(p) => {
                Ok(CompileResult { lir: Arc::new(*p), fusion: Arc::new(FusionReport::default()) })
            }
        }
    }

    /// A program with symbols bound: types are inferred again from the parameters on, the passes
    /// run on what is static now, and the result is planned anew.
    ///
    /// # Errors
    /// `BadGraph` for a symbol the program does not have (with the nearest), or a size that
    /// contradicts a type rule (with the node).
    pub fn specialize_lir(&self, lir: &Program, binding: &Binding) -> Result<Program> {
        let template = lir.template.as_ref().map_or(&lir.graph, |t| &t.graph);
        let g = bind(template, binding)?;
        verify(&g)?;
        // Element types were chosen on the symbolic graph; asked again, operators that have fused
        // since would be other classes, with other types.
        let mut options = self.options.clone();
        options.without.push("auto_mixed_precision".into());
        let (g, _) = passes::optimise(g, &self.target, &options)?;
        self.plan_lir(g)
    }
}

fn first_word(device: &str) -> &str {
    device.split_whitespace().next().unwrap_or_default()
}

/// A graph with symbols bound.
///
/// # Errors
/// `BadGraph` for an unknown symbol or a contradiction.
pub(crate) fn bind(g: &Graph, binding: &Binding) -> Result<Graph> {
    binding.only(&g.symbols()).map_err(|e| e.at(format!("@{}", g.name)))?;
    g.specialize(&g.name, binding)
}

/// The states of a graph, as its own list.
fn graph_states(g: &Graph) -> Result<Vec<StateDecl>> {
    g.params
        .iter()
        .filter(|p| p.kind == ParamKind::State)
        .map(|p| {
            let ty = g.ty(p.value).clone();
            Ok(StateDecl { name: p.name.clone(), bytes: ty.bytes()?, ty })
        })
        .collect()
}

/// A program that has its graph and no plan.
fn unplanned(g: Graph) -> Program {
    Program {
        name: g.name.clone(),
        steps: Vec::new(),
        weights: Vec::new(),
        states: Vec::new(),
        control: None,
        inputs: Vec::new(),
        outputs: Vec::new(),
        arena_bytes: 0,
        arena_segments: Vec::new(),
        alignment: ALIGNMENT,
        largest_live_bytes: 0,
        unshared_bytes: 0,
        template: None,
        fingerprint: 0,
        graph: g,
    }
}
