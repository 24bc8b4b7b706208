//! Opening a session: lowering the entries, planning the weights, asking for memory, putting bytes.

use super::begin::Begin;
use super::ids::Ids;
use super::{Built, Session, Signature, Source, Template, Unbound, VARIANTS};
use crate::compile::{CompilePipeline, ModelCompilePipeline};
use crate::error::{Code, Error, Result};
use crate::ir::GraphModule;
use crate::ir::lir::{Program, StateDecl, WeightUse};
use crate::ir::mir::{Graph, Param, ParamKind};
use crate::models::Entry;
use crate::ops::Op;
use crate::plan::{Located, WeightPlan, tables};
use crate::profile::CompileProfile;
use crate::runtime::device::{AnyId, Device, SessionId, Ticket};
use crate::runtime::memory::Fit;
use crate::runtime::model::CompiledModel;
use crate::runtime::session::load::Loader;
use crate::target::{CompileOptions, Target};
use crate::types::Type;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

impl Entry {
    /// Its inputs and its outputs, in the author's order, for a target.
    ///
    /// # Errors
    /// As lowering.
    pub fn signatures(
        &self,
        target: &Target,
        options: &CompileOptions,
    ) -> Result<(Vec<Signature>, Vec<Signature>)> {
        let template = Template::new(self.clone(), target, options)?;
        Ok((template.inputs, template.outputs))
    }
}

/// A session that is being opened. Weights go through its [`loader`](Self::loader). Dropping it frees everything.
pub struct Opening {
    loader: Loader,
    templates: Vec<Template>,
    states: Vec<StateDecl>,
    /// States and arena of programs that live as long as the session.
    memory: Option<(SessionId, Vec<u64>)>,
    /// Tickets of that memory.
    waiting: Vec<Ticket>,
    building: Vec<Ticket>,
    /// The memory that a language model needs, for an out-of-memory error.
    fit: Option<Fit>,
}

impl Template {
    fn new(entry: Entry, target: &Target, options: &CompileOptions) -> Result<Template> {
        let Entry { name, module, profile } = entry;
        let of = Unbound::new(module, profile.as_ref(), target, options.clone())?;
        let graph = &of.graph;
        let inputs = graph.params.iter().filter(|p| p.kind == ParamKind::Input);
        let inputs = inputs.map(|p| (&p.name, p.value)).collect::<Vec<_>>();
        let outputs = graph.outputs.iter().map(|o| (&o.name, o.value)).collect::<Vec<_>>();
        let signatures = |of: Vec<(&String, _)>| {
            let one =
                |(name, v): (&String, _)| Signature { name: name.clone(), ty: graph.ty(v).clone() };
            of.into_iter().map(one).collect::<Vec<_>>()
        };
        let (inputs, outputs) = (signatures(inputs), signatures(outputs));
        let ids = Ids::of(graph);
        Ok(Template { name, inputs, outputs, ids, of: Source::Graph(Box::new(of)) })
    }

    /// The entry of a program that lives as long as the session.
    pub(super) fn built(name: String, built: Built) -> Template {
        let signature = |name: &String, ty: &Type| Signature { name: name.clone(), ty: ty.clone() };
        let Program { inputs, outputs, .. } = &*built.program;
        let inputs = inputs.iter().map(|i| signature(&i.name, &i.ty)).collect();
        let outputs = outputs.iter().map(|o| signature(&o.name, &o.slice.ty)).collect();
        let ids = Ids::of(&built.program.graph);
        Template { name, inputs, outputs, ids, of: Source::Program(built) }
    }

    fn graph(&self) -> Option<&Graph> {
        match &self.of {
            Source::Graph(of) => Some(&of.graph),
            Source::Program(_) => None,
        }
    }
}

impl Unbound {
    /// Lowers a module for a target. The settings of the entry's profile override the options.
    pub(super) fn new(
        module: GraphModule,
        profile: Option<&CompileProfile>,
        target: &Target,
        mut options: CompileOptions,
    ) -> Result<Unbound> {
        if let Some(profile) = profile {
            profile.apply(&mut options);
        }
        let pipeline = CompilePipeline::new(target.clone()).with_options(options.clone());
        let g = match module {
            GraphModule::Hir(m) => pipeline.lower_entry(&m)?,
            GraphModule::Mir(g) => *g,
            GraphModule::Lir(p) => p.graph,
        };
        crate::ir::verify::verify(&g)?;
        let graph = pipeline.preprocess_mir(g)?;
        let begin = Begin::of(&graph, &states(&graph)?);
        Ok(Unbound { graph, options, begin })
    }
}

/// Every weight that the graphs read, with its type in the file, and the tables that loading makes of weights. A
/// tensor that only tables are made of stays on the host: its bytes have one place to go to.
pub(super) fn weights<'a>(graphs: impl IntoIterator<Item = &'a Graph>) -> Vec<WeightUse> {
    let graphs: Vec<&Graph> = graphs.into_iter().collect();
    let graphs = graphs.iter().copied();
    let params = graphs.clone().flat_map(|g| g.params.iter().map(move |p| (g, p)));
    let only_for_tables = |g: &Graph, p: &Param| {
        let mut readers = g.nodes.iter().filter(|n| n.inputs.contains(&p.value)).peekable();
        readers.peek().is_some() && readers.all(|n| matches!(n.op, Op::RopeTable(_)))
    };
    let weights = params.filter(|(g, p)| p.kind == ParamKind::Weight && !only_for_tables(g, p));
    let whole = |(g, p): (&Graph, &Param)| WeightUse {
        name: p.name.clone(),
        ty: g.ty(p.value).clone(),
        made: None,
    };
    weights.map(whole).chain(graphs.flat_map(tables)).collect()
}

/// A language model's programs, by their names.
fn named(compiled: &CompiledModel) -> Vec<(String, Arc<Program>)> {
    let all = compiled.specs.iter().zip(&compiled.programs);
    all.map(|(spec, program)| (spec.name.clone(), Arc::new(program.clone()))).collect()
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
    /// offset, bytes. If an entry has a profile, its settings override `options`.
    ///
    /// # Errors
    /// As lowering; `BadFile` for a tensor that is missing or has another size; `Unsupported` for entries
    /// whose states differ; errors that the device returns at once.
    pub fn new<L: Into<Located>>(
        device: Arc<dyn Device>,
        entries: Vec<Entry>,
        options: &CompileOptions,
        locate: impl FnMut(&str) -> Option<L>,
    ) -> Result<Self> {
        let options = CompileOptions { whole_weights: true, ..options.clone() };
        let target = device.target();
        let templates = entries.into_iter().map(|e| Template::new(e, target, &options));
        let templates = templates.collect::<Result<Vec<_>>>()?;
        let mut all: Option<Vec<StateDecl>> = None;
        for t in &templates {
            let Some(graph) = t.graph() else { continue };
            let own = states(graph)?;
            if all.as_ref().is_some_and(|all| *all != own) {
                let what = "the entries of a session have different states";
                return Err(Error::new(Code::Unsupported, what).at(t.name.clone()));
            }
            all = Some(own);
        }
        let weights = weights(templates.iter().filter_map(Template::graph));
        let plan = WeightPlan::of_later(&weights, &device.target().limits, locate)?;
        Ok(Opening {
            loader: Loader::new(device, plan)?,
            templates,
            states: all.unwrap_or_default(),
            memory: None,
            waiting: Vec::new(),
            building: Vec::new(),
            fit: None,
        })
    }

    /// Asks a device for the memory and pipelines of programs that live as long as the session, each under a name of
    /// its own. Their weights must be bound to `plan`, and `states` must be the states of each of them.
    ///
    /// # Errors
    /// Errors that the device returns at once. Later ones come from [`poll_ready`](Self::poll_ready) and
    /// [`poll`](Self::poll).
    pub fn of_programs(
        device: Arc<dyn Device>,
        plan: WeightPlan,
        states: Vec<StateDecl>,
        programs: Vec<(String, Arc<Program>)>,
    ) -> Result<Self> {
        Self::with(Loader::new(device, plan)?, states, programs)
    }

    /// Asks a device for the memory and pipelines of a language model's programs, as
    /// [`of_programs`](Self::of_programs).
    ///
    /// # Errors
    /// `OutOfMemory` for caches that the device cannot bind, with the context that it can; as
    /// [`of_programs`](Self::of_programs).
    pub fn programs(device: Arc<dyn Device>, compiled: &CompiledModel) -> Result<Self> {
        let fit = Fit::of(compiled, device.target());
        fit.bound()?;
        let loader = Loader::new(device, compiled.plan.clone()).map_err(|e| fit.refusal(e))?;
        let mut opening = Self::with(loader, compiled.states.clone(), named(compiled))?;
        opening.fit = Some(fit);
        Ok(opening)
    }

    fn with(
        loader: Loader,
        states: Vec<StateDecl>,
        programs: Vec<(String, Arc<Program>)>,
    ) -> Result<Self> {
        let mut arena = Vec::new();
        for (_, program) in &programs {
            program.widen(&mut arena);
        }
        let (session, ticket) = loader.device().session(loader.model(), &states, &arena)?;
        let mut opening = Opening {
            loader,
            templates: Vec::new(),
            states,
            memory: Some((session, arena)),
            waiting: Vec::from([ticket]),
            building: Vec::new(),
            fit: None,
        };
        opening.build_all(programs)?;
        Ok(opening)
    }

    /// Builds a language model's programs again, after the device has switched features off.
    ///
    /// # Errors
    /// Errors that the device returns at once.
    pub fn build(&mut self, compiled: &CompiledModel) -> Result<()> {
        for old in self.templates.drain(..) {
            if let Source::Program(built) = old.of {
                self.loader.device().free(AnyId::Program(built.id));
            }
        }
        self.building.clear();
        self.build_all(named(compiled))
    }

    fn build_all(&mut self, programs: Vec<(String, Arc<Program>)>) -> Result<()> {
        for (name, program) in programs {
            let (id, ticket) = self.loader.device().build(self.loader.model(), program.clone())?;
            self.templates.push(Template::built(name, Built { program, id }));
            self.building.push(ticket);
        }
        Ok(())
    }

    /// Waits until memory is there. Bytes may be put only then.
    ///
    /// # Errors
    /// Errors of the device; for a language model `OutOfMemory` says what it needs and which context to
    /// try ([`Fit::refusal`]).
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let answer = match ready!(poll_all(self.loader.device(), &mut self.waiting, cx)) {
            Ok(()) => ready!(self.loader.poll_ready(cx)),
            refused => refused,
        };
        Poll::Ready(answer.map_err(|e| match &self.fit {
            Some(fit) => fit.refusal(e),
            None => e,
        }))
    }

    /// The inputs of an entry, in the order its author gave; `None` for a name that no entry has.
    pub fn inputs(&self, entry: &str) -> Option<&[Signature]> {
        self.templates.iter().find(|t| t.name == entry).map(|t| t.inputs.as_slice())
    }

    /// The loader of the weights: the host puts every range of the plan.
    pub fn loader(&mut self) -> &mut Loader {
        &mut self.loader
    }

    /// The loader, shared.
    pub fn weights(&self) -> &Loader {
        &self.loader
    }

    /// Waits until every byte and every program is there.
    ///
    /// # Errors
    /// As [`Loader::poll_finish`]; errors of the device.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Err(e) = ready!(self.loader.poll_finish(cx)) {
            return Poll::Ready(Err(e));
        }
        poll_all(self.loader.device(), &mut self.building, cx)
    }

    /// The session. Call it after [`poll`](Self::poll) answered.
    pub fn finish(mut self) -> Session {
        let device = self.loader.device().clone();
        Session {
            cache: ModelCompilePipeline::with_capacity(device.target().clone(), VARIANTS),
            plan: self.loader.shared_plan(),
            on_host: self.loader.take_host(),
            model: self.loader.keep(),
            device,
            templates: core::mem::take(&mut self.templates),
            states: core::mem::take(&mut self.states),
            memory: self.memory.take(),
            variants: Vec::new(),
            ahead: Default::default(),
            turn: 0,
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some((session, _)) = self.memory.take() {
            self.loader.device().free(AnyId::Session(session));
        }
    }
}

/// Polls tickets, the last one first, until all have answered or one fails.
fn poll_all(
    device: &Arc<dyn Device>,
    tickets: &mut Vec<Ticket>,
    cx: &mut Context<'_>,
) -> Poll<Result<()>> {
    while let Some(&ticket) = tickets.last() {
        let answer = ready!(device.poll(ticket, cx));
        tickets.pop();
        if let Err(e) = answer {
            return Poll::Ready(Err(e));
        }
    }
    Poll::Ready(Ok(()))
}
