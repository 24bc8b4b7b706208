//! A session on its way: entries are lowered, weights planned, memory asked for, bytes put.

use super::{Session, Signature, Template, VARIANTS};
use crate::compile::{CompilePipeline, ModelCompilePipeline};
use crate::error::{Code, Error, Result};
use crate::ir::lir::{StateDecl, WeightUse};
use crate::ir::mir::{Graph, ParamKind};
use crate::ir::{Entry, GraphModule};
use crate::lower::CTL;
use crate::plan::WeightPlan;
use crate::runtime::device::Device;
use crate::runtime::load::Loader;
use crate::target::{CompileOptions, Target};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::{Context, Poll};

impl Entry {
    /// Its inputs and its outputs, in the order that its author gave, on a device of that description.
    ///
    /// # Errors
    /// As lowering.
    pub fn signatures(
        &self,
        target: &Target,
        options: &CompileOptions,
    ) -> Result<(Vec<Signature>, Vec<Signature>)> {
        let pipeline = CompilePipeline::new(target.clone()).with_options(options.clone());
        let template = Template::new(self.clone(), &pipeline)?;
        Ok((template.inputs, template.outputs))
    }
}

/// A session on its way. Weights go through its [`loader`](Self::loader). Dropping it frees everything.
pub struct Opening {
    loader: Loader,
    templates: Vec<Template>,
    states: Vec<StateDecl>,
    options: CompileOptions,
}

impl Template {
    fn new(entry: Entry, pipeline: &CompilePipeline) -> Result<Template> {
        let Entry { name, module } = entry;
        let g = match module {
            GraphModule::Hir(m) => pipeline.lower_hir(&m)?,
            GraphModule::Mir(g) => *g,
            GraphModule::Lir(p) => p.graph,
        };
        crate::ir::verify::verify(&g)?;
        let graph = pipeline.preprocess_mir(g)?;
        let inputs = graph.params.iter().filter(|p| p.kind == ParamKind::Input);
        let inputs = inputs.map(|p| (&p.name, p.value)).collect::<Vec<_>>();
        let outputs = graph.outputs.iter().map(|o| (&o.name, o.value)).collect::<Vec<_>>();
        let signatures = |of: Vec<(&String, _)>| {
            let one =
                |(name, v): (&String, _)| Signature { name: name.clone(), ty: graph.ty(v).clone() };
            of.into_iter().map(one).collect::<Vec<_>>()
        };
        let (inputs, outputs) = (signatures(inputs), signatures(outputs));
        Ok(Template { name, inputs, outputs, graph })
    }
}

/// Every weight that the templates read, as the file has it.
fn weights(templates: &[Template]) -> Vec<WeightUse> {
    let params = templates.iter().flat_map(|t| t.graph.params.iter().map(|p| (&t.graph, p)));
    let weights = params.filter(|(_, p)| p.kind == ParamKind::Weight);
    weights
        .map(|(g, p)| WeightUse { name: p.name.clone(), ty: g.ty(p.value).clone(), made: None })
        .collect()
}

/// The states of a graph.
fn states(g: &Graph) -> Result<Vec<StateDecl>> {
    let params = g.params.iter().filter(|p| p.kind == ParamKind::State);
    params
        .map(|p| {
            let ty = g.ty(p.value).clone();
            Ok(StateDecl { name: p.name.clone(), bytes: ty.bytes()?, ty })
        })
        .collect()
}

impl Opening {
    /// Plans a model's entries for a device and asks it for memory. `locate` finds tensors: shard, byte
    /// offset, bytes.
    ///
    /// # Errors
    /// As lowering; `BadFile` for a tensor that is missing or has another size; `Unsupported` for entries
    /// that read the control block of a generation, or whose states differ; what the device refuses at once.
    pub fn new(
        device: Rc<dyn Device>,
        entries: Vec<Entry>,
        options: &CompileOptions,
        locate: impl FnMut(&str) -> Option<(u32, u64, u64)>,
    ) -> Result<Self> {
        let options = CompileOptions { whole_weights: true, ..options.clone() };
        let pipeline = CompilePipeline::new(device.target().clone()).with_options(options.clone());
        let templates = entries.into_iter().map(|e| Template::new(e, &pipeline));
        let templates = templates.collect::<Result<Vec<_>>>()?;
        let mut all: Option<Vec<StateDecl>> = None;
        for t in &templates {
            let own = states(&t.graph)?;
            if own.iter().any(|s| s.name == CTL) {
                let what = format!("{} is a step of a generation", t.name);
                return Err(Error::new(Code::Unsupported, what)
                    .hint("a session runs graphs without a control block; generate text instead"));
            }
            if all.as_ref().is_some_and(|all| *all != own) {
                let what = "the entries of a session have different states";
                return Err(Error::new(Code::Unsupported, what).at(t.name.clone()));
            }
            all = Some(own);
        }
        let plan = WeightPlan::of(&weights(&templates), &device.target().limits, locate)?;
        let loader = Loader::weights(device, plan)?;
        Ok(Opening { loader, templates, states: all.unwrap_or_default(), options })
    }

    /// The weights on their way: a host waits for memory and puts every range of the plan.
    pub fn loader(&mut self) -> &mut Loader {
        &mut self.loader
    }

    /// Waits until every byte is there.
    ///
    /// # Errors
    /// As [`Loader::poll_finish`].
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.loader.poll_finish(cx)
    }

    /// The session. Call when [`poll`](Self::poll) answered.
    pub fn finish(self) -> Session {
        let Opening { loader, templates, states, options } = self;
        let (device, plan) = (loader.device().clone(), loader.shared_plan());
        Session {
            cache: ModelCompilePipeline::for_target(device.target().clone(), VARIANTS),
            model: loader.finish_weights(),
            device,
            templates,
            options,
            plan,
            states,
            memory: None,
            variants: Vec::new(),
            ahead: Default::default(),
            turn: 0,
        }
    }
}
