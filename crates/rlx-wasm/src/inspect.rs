//! What the compiler makes of a network, from its headers alone: texts of every stage, what fused and what did not,
//! the arena as a picture, and the shaders of a GPU.

use crate::answer::{Object, Written};
use crate::executor::Executor;
use crate::network::{Files, Headers, about};
use crate::request::Options;
use crate::trace::Traceable;
use rlx_core::compile::{CompilePipeline, Compiled};
use rlx_core::ir::GraphModule;
use rlx_core::ir::lir::Program;
use rlx_core::models::Task;
use rlx_core::passes::{DispatchReport, FusionReport, Watch};
use rlx_core::plan::{WeightPlan, picture};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::network::entries;
use rlx_core::runtime::session::{Entry, Preview};
use rlx_core::target::CompileOptions;
use rlx_core::types::{BATCH, Binding, SEQ};
use rlx_core::{Code, Error, Result};
use rlx_webgpu::device::Shader;

/// Rows of a text in a program of an entry, or fewer where the model takes fewer.
const ROWS: u64 = 128;

/// A network that is looked at.
pub(crate) struct Inspector {
    headers: Headers,
    options: CompileOptions,
    /// Facts about the model; none for a graph.
    model: Option<Object>,
    longest: u64,
    /// A language model, which has programs that generate text.
    language: Option<Box<CompiledModel>>,
    /// The entries of another network.
    entries: Vec<Entry>,
}

/// The program of an entry, and what was said while it was made.
struct Placed {
    program: Box<Program>,
    plan: WeightPlan,
    fusion: FusionReport,
    dispatch: DispatchReport,
}

/// A program and what was said while it was made.
struct Seen<'a> {
    name: &'a str,
    hir: Option<String>,
    program: &'a Program,
    plan: &'a WeightPlan,
    fusion: &'a FusionReport,
    dispatch: &'a DispatchReport,
    state_bytes: u64,
}

impl Inspector {
    /// Compiles a language model, or lists the entries of another network. Call it after all headers.
    pub fn new(files: Files, executor: &Executor, options: &Options) -> Result<Self> {
        let mut headers = files.headers()?;
        let target = executor.device.target();
        let mut compile = CompileOptions::default();
        if let Some(activations) = options.activations {
            compile.activations = activations.prompts;
        }
        let (mut model, mut longest, mut language) = (None, ROWS, None);
        let graph = headers.graph.take();
        let entries = match (graph, &headers.weights) {
            (Some(graph), _) => vec![graph],
            (None, None) => {
                return Err(Error::internal("`inspect` was called before there was a file"));
            }
            (None, Some(weights)) => {
                let checkpoint = weights.checkpoint(&headers.config);
                let (entries, facts) = entries(&checkpoint, options.context)?;
                (model, longest) = (Some(about(&facts)), facts.context);
                if facts.task == Task::Generate {
                    let mut asked = ModelOptions::by(&target.policy);
                    (asked.context, asked.block) = (options.context, options.block);
                    asked.conversations = options.conversations;
                    asked.compile.kv = options.kv.unwrap_or(asked.compile.kv);
                    asked.activations = options.activations.unwrap_or(asked.activations);
                    let compiled = CompiledModel::new(&checkpoint, target, &asked)?;
                    language = Some(Box::new(compiled));
                }
                if language.is_some() { Vec::new() } else { entries }
            }
        };
        Ok(Inspector { headers, options: compile, model, longest, language, entries })
    }

    /// `{"model", "target", "programs"}`.
    pub fn about(&self, executor: &Executor) -> String {
        let programs: Vec<&str> = match &self.language {
            Some(compiled) => compiled.specs.iter().map(|s| s.name.as_str()).collect(),
            None => self.entries.iter().map(|e| e.name.as_str()).collect(),
        };
        Object::new()
            .with("model", &self.model)
            .with("target", &executor.device.target().describe())
            .with("programs", &programs)
            .text()
    }

    /// All stages of a program.
    ///
    /// # Errors
    /// `Usage` for a program that is not there; as compiling it.
    pub fn program(&self, name: &str, executor: &Executor) -> Result<String> {
        let target = executor.device.target();
        let Some(compiled) = &self.language else {
            return self.entry(self.named(name)?, executor);
        };
        let at = compiled.program(name).ok_or_else(|| no_program(name))?;
        let pipeline = CompilePipeline::new(target.clone());
        let pipeline = pipeline.with_options(compiled.options[at].clone());
        let watch = &mut Watch::default();
        let again =
            pipeline.compile_program_watched(&compiled.module, &compiled.specs[at], watch)?;
        let seen = Seen {
            name,
            hir: Some(compiled.module.to_string()),
            program: &compiled.programs[at],
            plan: &compiled.plan,
            fusion: &compiled.reports[at],
            dispatch: &again.dispatch,
            state_bytes: compiled.state_bytes(),
        };
        seen.text(executor)
    }

    /// A program with all that it needs to run.
    ///
    /// # Errors
    /// As [`program`](Self::program).
    pub fn traceable(&self, name: &str, executor: &Executor) -> Result<Traceable> {
        if let Some(compiled) = &self.language {
            let at = compiled.program(name).ok_or_else(|| no_program(name))?;
            return Ok(Traceable {
                program: compiled.programs[at].clone(),
                plan: compiled.plan.clone(),
                states: compiled.states.clone(),
                context: Some(compiled.context),
            });
        }
        let Placed { program, plan, .. } = self.place(self.named(name)?, executor)?;
        Ok(Traceable { states: program.states.clone(), program: *program, plan, context: None })
    }

    fn named(&self, name: &str) -> Result<&Entry> {
        self.entries.iter().find(|e| e.name == name).ok_or_else(|| no_program(name))
    }

    /// All stages of an entry, for one text of usual length.
    fn entry(&self, entry: &Entry, executor: &Executor) -> Result<String> {
        let Placed { program, plan, fusion, dispatch } = self.place(entry, executor)?;
        let hir = match &entry.module {
            GraphModule::Hir(module) => Some(module.to_string()),
            _ => None,
        };
        let state_bytes = program.states.iter().map(|s| s.bytes).sum();
        let (plan, program) = (&plan, &*program);
        let (fusion, dispatch) = (&fusion, &dispatch);
        Seen { name: &entry.name, hir, program, plan, fusion, dispatch, state_bytes }.text(executor)
    }

    /// Compiles an entry for one text of usual length.
    fn place(&self, entry: &Entry, executor: &Executor) -> Result<Placed> {
        let preview = Preview::new(entry, executor.device.target(), &self.options)?;
        let mut sizes = Binding::new();
        for symbol in preview.graph().symbols() {
            let size = match symbol.as_str() {
                BATCH => 1,
                SEQ => ROWS.min(self.longest),
                _ => {
                    let what = format!("the entry {} has the size {symbol}", entry.name);
                    return Err(Error::usage(what).hint("only BATCH and SEQ have a usual value"));
                }
            };
            sizes.insert(symbol, size);
        }
        let Compiled { module, fusion, dispatch } =
            preview.compile(&sizes, &mut Watch::default())?;
        let GraphModule::Lir(mut program) = module else {
            return Err(Error::internal("compiling ended before there was a program"));
        };
        let checkpoint = self.headers.weights.as_ref().map(|w| w.checkpoint(&self.headers.config));
        let plan = preview.place(&mut program, checkpoint.as_ref()).map_err(|e| {
            match (e.code, &checkpoint) {
                (Code::BadFile, None) => e.hint("give the file that has it as `weights`"),
                _ => e,
            }
        })?;
        Ok(Placed { program, plan, fusion, dispatch })
    }
}

fn no_program(name: &str) -> Error {
    Error::usage(format!("there is no program {name}"))
}

impl Seen<'_> {
    fn text(&self, executor: &Executor) -> Result<String> {
        let Seen { program, plan, .. } = self;
        Ok(Object::new()
            .with("name", &self.name)
            .with("hir", &self.hir)
            .with("mir", &program.graph.to_string())
            .with("lir", &program.to_string())
            .with("fusion", &Written(self.fusion.json()))
            .with("dispatch", &Written(self.dispatch.json()))
            .with("memory", &picture(program)?)
            .with("nodes", &program.graph.nodes.len())
            .with("steps", &program.steps.len())
            .with("weightBytes", &plan.bytes())
            .with("stateBytes", &self.state_bytes)
            .with("arenaBytes", &program.arena_bytes)
            .with("largestLiveBytes", &program.largest_live_bytes)
            .with("unsharedBytes", &program.unshared_bytes)
            .with("fingerprint", &format!("{:016x}", program.fingerprint))
            .with("kernels", &self.kernels(executor)?)
            .text())
    }

    /// The shaders, each once, and which of them a step launches; none on the CPU.
    fn kernels(&self, executor: &Executor) -> Result<Option<Object>> {
        let Some(webgpu) = &executor.webgpu else { return Ok(None) };
        let (mut texts, mut steps) = (Vec::new(), Vec::new());
        for (step, shader) in
            self.program.steps.iter().zip(webgpu.shaders(self.program, self.plan)?)
        {
            let (text, groups) = match shader {
                None => (None, None),
                Some(Shader { wgsl, groups }) => {
                    let known = texts.iter().position(|t| *t == wgsl);
                    let at = known.unwrap_or(texts.len());
                    if known.is_none() {
                        texts.push(wgsl);
                    }
                    (Some(at), Some(groups.to_vec()))
                }
            };
            let step = Object::new().with("label", &step.label).with("operator", &step.op.name());
            steps.push(step.with("shader", &text).with("groups", &groups));
        }
        Ok(Some(Object::new().with("shaders", &texts).with("steps", &steps)))
    }
}
