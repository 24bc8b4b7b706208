//! The programs of an entry as a session compiles them, without a device: for a person who wants to see them.

use super::opening::weights;
use super::{Unbound, network};
use crate::compile::{CompilePipeline, Compiled, bind};
use crate::error::Result;
use crate::ir::lir::Program;
use crate::ir::mir::Graph;
use crate::models::{Checkpoint, Entry};
use crate::passes::Watch;
use crate::plan::WeightPlan;
use crate::target::{CompileOptions, Target};
use crate::types::Binding;

/// An entry that is lowered for a target. The symbols of its sizes are not bound.
pub struct Preview {
    lowered: Unbound,
    target: Target,
}

impl Preview {
    /// Lowers an entry. Its profile overrides `options`, as in a session.
    ///
    /// # Errors
    /// As lowering.
    pub fn new(entry: &Entry, target: &Target, options: &CompileOptions) -> Result<Preview> {
        let options = CompileOptions { whole_weights: true, ..options.clone() };
        let lowered = Unbound::new(entry.module.clone(), entry.profile.as_ref(), target, options)?;
        Ok(Preview { lowered, target: target.clone() })
    }

    /// The lowered graph, before any pass but the first clean-up.
    pub fn graph(&self) -> &Graph {
        &self.lowered.graph
    }

    /// How it is compiled.
    pub fn options(&self) -> &CompileOptions {
        &self.lowered.options
    }

    /// The program for these sizes of all symbols.
    ///
    /// # Errors
    /// `BadGraph` for a symbol that the graph does not have, or a size that contradicts a type rule; as
    /// [`CompilePipeline::compile_mir_watched`].
    pub fn compile(&self, sizes: &Binding, watch: &mut Watch<'_>) -> Result<Compiled> {
        let pipeline = CompilePipeline::new(self.target.clone());
        let pipeline = pipeline.with_options(self.lowered.options.clone());
        pipeline.compile_mir_watched(bind(&self.lowered.graph, sizes)?, watch)
    }

    /// Gives a program's weights their places, in the plan that is returned: of all of the entry's weights, and of
    /// what the host makes for this program.
    ///
    /// # Errors
    /// `BadFile` for a tensor that is missing, or is another one in the file; `Unsupported` for one that the target
    /// cannot bind.
    pub fn place(
        &self,
        program: &mut Program,
        files: Option<&Checkpoint<'_>>,
    ) -> Result<WeightPlan> {
        let (limits, locate) = (&self.target.limits, |name: &str| files?.locate(name));
        let mut plan = WeightPlan::of_later(&weights([&self.lowered.graph]), limits, locate)?;
        if let Some(files) = files {
            network::check_types(files, &plan)?;
        }
        if let Some(extended) = plan.extended(program, limits)? {
            plan = extended;
        }
        plan.bind(program)?;
        Ok(plan)
    }
}
