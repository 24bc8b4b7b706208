//! From a lowered graph to a program, under a watch: every pass, then the plan. The graph is a language model's,
//! lowered for a step, or any network's.

use super::pipeline::bind;
use super::{CompilePipeline, CompileResult};
use crate::error::{Error, Result};
use crate::ir::GraphModule;
use crate::ir::hir::Module;
use crate::ir::lir::Program;
use crate::ir::mir::Graph;
use crate::ir::verify::verify;
use crate::lower::{ProgramSpec, check_target, lower, states};
use crate::passes::pipeline::{LOWER, PLAN, check_names};
use crate::passes::{Context, DispatchReport, FusionReport, Optimised, Watch};
use crate::plan::plan;
#[cfg(feature = "parallel")]
use crate::{
    ir::{lir::StateDecl, mir::ParamKind},
    passes::tensor_parallel,
};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
#[cfg(feature = "parallel")]
use alloc::vec::Vec;

/// What a watched compilation gives.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program, or the graph where compilation was told to stop.
    pub module: GraphModule,
    /// What fused.
    pub fusion: FusionReport,
    /// How operators run.
    pub dispatch: DispatchReport,
}

impl CompilePipeline {
    /// Compiles one program of a language model.
    ///
    /// # Errors
    /// `BadGraph` where shapes do not fit, with the block's label; `Unsupported` with every weight the
    /// target cannot read or every node it does not run, or for caches of a type it has not, or with
    /// every miss where the options assert that there is none; `Usage` for a pass that the options
    /// leave out and nobody knows.
    pub fn compile_program(&self, module: &Module, spec: &ProgramSpec) -> Result<CompileResult> {
        self.compile_program_watched(module, spec, &mut Watch::default())?.finished()
    }

    /// [`compile_program`](Self::compile_program) under a watch.
    ///
    /// # Errors
    /// As [`compile_program`](Self::compile_program); `Usage` for a pass of the watch that nobody knows.
    pub fn compile_program_watched(
        &self,
        module: &Module,
        spec: &ProgramSpec,
        watch: &mut Watch<'_>,
    ) -> Result<Compiled> {
        let (target, options) = (&self.target, &self.options);
        check_names(options, watch)?;
        let with_policy = options.fusion_policy.map(|policy| module.clone().with_policy(policy));
        let module = with_policy.as_ref().unwrap_or(module);
        check_target(module, options.kv, target)?;
        let start = watch.now();
        let g = lower(module, spec, options.caches())?;
        #[cfg(feature = "parallel")]
        let g = match target.claims.ranks {
            ranks if ranks.count > 1 => tensor_parallel(&g, ranks)?,
            _ => g,
        };
        self.passes_and_plan(g, start, watch, |g| {
            let states = states(module, options.caches())?;
            #[cfg(feature = "parallel")]
            let states = own_states(states, &g)?;
            plan(g, &states, target, options)
        })
    }

    /// A graph of any network to a program, as [`compile_mir`](Self::compile_mir), under a watch.
    ///
    /// # Errors
    /// As [`compile_mir`](Self::compile_mir); `Usage` for a pass of the watch that nobody knows.
    pub fn compile_mir_watched(&self, g: Graph, watch: &mut Watch<'_>) -> Result<Compiled> {
        check_names(&self.options, watch)?;
        let start = watch.now();
        // The last place where a graph's author can be wrong: passes take what is well formed.
        verify(&g)?;
        let mut g = self.preprocess_mir(g)?;
        if !self.options.binding.is_empty() {
            g = bind(&g, &self.options.binding)?;
        }
        self.passes_and_plan(g, start, watch, |g| self.plan_lir(g))
    }

    /// Every pass over a graph that was lowered from `start` on, then the plan.
    fn passes_and_plan(
        &self,
        g: Graph,
        start: Option<f64>,
        watch: &mut Watch<'_>,
        plan: impl FnOnce(Graph) -> Result<Program>,
    ) -> Result<Compiled> {
        if watch.seen(LOWER, g.nodes.len(), start, g.nodes.len(), &|| g.to_string()) {
            let Context { report: fusion, dispatch, .. } =
                Context::new(&self.target, &self.options);
            return Ok(Compiled { module: GraphModule::Mir(Box::new(g)), fusion, dispatch });
        }
        let Optimised { graph, fusion, dispatch, finished } = self.optimize_watched(g, watch)?;
        if !finished {
            return Ok(Compiled { module: GraphModule::Mir(Box::new(graph)), fusion, dispatch });
        }
        let start = watch.now();
        let program = plan(graph)?;
        let nodes = program.graph.nodes.len();
        watch.seen(PLAN, program.steps.len(), start, nodes, &|| program.to_string());
        Ok(Compiled { module: GraphModule::Lir(Box::new(program)), fusion, dispatch })
    }
}

/// A rank's states, where the graph has them: its caches have its own heads.
#[cfg(feature = "parallel")]
fn own_states(mut states: Vec<StateDecl>, g: &Graph) -> Result<Vec<StateDecl>> {
    for p in g.params.iter().filter(|p| p.kind == ParamKind::State) {
        for s in states.iter_mut().filter(|s| s.name == p.name) {
            s.ty = g.ty(p.value).clone();
            s.bytes = s.ty.bytes()?;
        }
    }
    Ok(states)
}

impl Compiled {
    /// The program and what fused.
    ///
    /// # Errors
    /// `Internal` where a watch ended the compilation before there was one.
    pub(super) fn finished(self) -> Result<CompileResult> {
        match self.module {
            GraphModule::Lir(program) => {
                Ok(CompileResult { lir: Arc::new(*program), fusion: Arc::new(self.fusion) })
            }
            other => Err(Error::internal(format!("compiling ended at {}", other.stage().name()))),
        }
    }
}
