//! A model compiled for a device: its programs, its states, its weight plan. Compiling reads no
//! weight bytes.

use crate::compile::CompilePipeline;
use crate::error::{Code, Error, Result};
use crate::gguf::ModelFiles;
use crate::ir::hir::{Block, Module};
use crate::ir::lir::{Program, StateDecl};
use crate::lower::{CANVAS, COUNTS, CTL, PARAMS, ProgramSpec, states};
use crate::models::{self, Checkpoint, Diffusion, Model, Task};
use crate::passes::FusionReport;
use crate::plan::{Located, WeightPlan};
use crate::profile::Presets;
use crate::safetensors;
use crate::safetensors::json::Json;
use crate::target::{Activations, CompileOptions, Policy, ProgramActivations, Target};
use crate::types::{DType, Shape, Type};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Positions that the cache of a layer with a window keeps beyond the window, at least: a conversation whose last
/// answer is asked for again, or begins otherwise, goes on from its rows if it is no longer than that.
const CACHE_SPARE: u64 = 512;

/// The state that has the rows of conversations besides the one in the caches.
pub(super) const CONVERSATIONS: &str = "conversations";

/// What to compile.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelOptions {
    /// Positions the caches hold; `None`: [`models::USUAL_CONTEXT`], or fewer where the model was trained
    /// for fewer.
    pub context: Option<u64>,
    /// Rows of a prompt's chunk.
    pub chunk: u64,
    /// Options of the compiler: caches, passes. Each program has its own type of activations, as `activations` says.
    pub compile: CompileOptions,
    /// Activation types in matmuls of packed weights.
    pub activations: ProgramActivations,
    /// Whether the presets of the model's family change `compile`, each for its programs. Otherwise `compile` is
    /// used unchanged.
    pub presets: bool,
    /// Programs to compile. Of a model that fills blocks, those that sample a token become one that fills a block.
    pub programs: Vec<ProgramSpec>,
    /// Positions of a block, of a model that fills blocks; `None`: as many as it was trained with.
    pub block: Option<u64>,
    /// Bytes for the rows of conversations besides the one in the caches; 0: none.
    pub conversations: u64,
}

impl ModelOptions {
    /// Programs of a chat: decode, inner chunk, last chunk.
    pub fn chat(chunk: u64) -> Self {
        ModelOptions {
            context: None,
            chunk,
            compile: CompileOptions {
                cache_spare: Some(chunk.max(CACHE_SPARE)),
                ..CompileOptions::default()
            },
            activations: Activations::F32.into(),
            presets: true,
            programs: Vec::from([
                ProgramSpec::decode(),
                ProgramSpec::prefill(chunk),
                ProgramSpec::prefill_last(chunk),
            ]),
            block: None,
            conversations: 0,
        }
    }

    /// Programs of a chat, as the policy of the device's target recommends.
    pub fn by(policy: &Policy) -> Self {
        let mut options = Self::chat(policy.chunk);
        if let Some(rows) = policy.short {
            options = options.with_short(rows);
        }
        options.compile.kv = policy.kv;
        options.activations = policy.activations;
        options
    }

    /// Adds a program for a last chunk of at most `rows`: the rest of a prompt, or a whole short one. For devices on
    /// which a program's rows cost time even if a submission leaves them empty.
    #[must_use]
    pub fn with_short(mut self, rows: u64) -> Self {
        self.programs.push(ProgramSpec::prefill_short(rows));
        self
    }

    /// The compiler's options for one of the programs, of a model whose family has these presets.
    pub(super) fn of_program(
        &self,
        spec: &ProgramSpec,
        presets: Option<Presets>,
    ) -> CompileOptions {
        let mut own = self.compile.clone();
        own.activations = if spec.is_short() {
            self.activations.of_short_prompts()
        } else {
            self.activations.of_rows(spec.seq)
        };
        if let Some(presets) = presets.filter(|_| self.presets) {
            presets.profile(spec.seq).apply(&mut own);
        }
        own
    }

    /// Adds programs that also return a prompt's last logits. Call it after [`with_short`](Self::with_short), whose
    /// program then has one of them too.
    #[must_use]
    pub fn with_logits(mut self) -> Self {
        let short = self.programs.iter().find(|p| p.is_short()).cloned();
        self.programs.push(ProgramSpec::prefill_last(self.chunk).with_logits());
        self.programs.extend(short.map(ProgramSpec::with_logits));
        self
    }
}

/// A compiled model.
#[derive(Clone, Debug)]
pub struct CompiledModel {
    /// The model as its author wrote it.
    pub module: Module,
    /// What each program does, in the order asked for.
    pub specs: Vec<ProgramSpec>,
    /// Programs, with their weights bound to the plan.
    pub programs: Vec<Program>,
    /// The compile options of each program.
    pub options: Vec<CompileOptions>,
    /// The fusion report of each program.
    pub reports: Vec<FusionReport>,
    /// States of a session.
    pub states: Vec<StateDecl>,
    /// Where every weight goes.
    pub plan: WeightPlan,
    /// Positions the caches hold.
    pub context: u64,
    /// Rows of a prompt's chunk.
    pub chunk: u64,
    /// How it fills blocks, if it generates text by block diffusion.
    pub diffusion: Option<Diffusion>,
}

impl CompiledModel {
    /// Compiles a GGUF model.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_gguf(files: &ModelFiles, target: &Target, options: &ModelOptions) -> Result<Self> {
        Self::new(&Checkpoint::gguf(files), target, options)
    }

    /// Compiles a safetensors model.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_safetensors(
        json: &Json,
        header: &safetensors::Header,
        target: &Target,
        options: &ModelOptions,
    ) -> Result<Self> {
        Self::new(&Checkpoint::transformers(json, header), target, options)
    }

    /// Compiles a language model.
    ///
    /// # Errors
    /// As [`models::open`], building and [`CompilePipeline::compile_program`]; `Usage` for a context the model was not
    /// trained for, and for blocks that do not fit; `Unsupported` for a model that generates no text.
    pub fn new(
        checkpoint: &Checkpoint<'_>,
        target: &Target,
        options: &ModelOptions,
    ) -> Result<Self> {
        let (model, context) = with_block(models::open(checkpoint)?, options)?;
        let facts = model.facts();
        if facts.task != Task::Generate {
            let what = format!("a model of family {} generates no text", facts.family);
            return Err(Error::new(Code::Unsupported, what)
                .hint(format!("it {}; use a model of family llama32 here", facts.task.does())));
        }
        if options.compile.cache_spare.is_some_and(|spare| spare < options.chunk) {
            let what = format!(
                "the option cache_spare is below the {} rows of a prompt's chunk",
                options.chunk
            );
            return Err(Error::internal(what));
        }
        let module = model.module(checkpoint, context)?;
        let presets = models::presets(facts.family);
        let locate = &mut |name: &str| checkpoint.locate(name);
        let Some(diffusion) = model.diffusion() else {
            return Self::compile(module, target, options, presets, locate);
        };
        let mut programs = ProgramSpec::of_blocks(&options.programs, diffusion.block);
        if diffusion.whole {
            // Nothing stands before the one block.
            programs.retain(|program| program.denoise);
        } else {
            fits(diffusion.block, options.chunk, module.context)?;
        }
        let own = ModelOptions { programs, ..options.clone() };
        let compiled = Self::compile(module, target, &own, presets, locate)?;
        if !compiled.recurrences().is_empty() {
            // A pass would change them each time.
            let what = "a model that fills blocks has states of all its tokens";
            return Err(Error::new(Code::Unsupported, what));
        }
        Ok(CompiledModel { diffusion: Some(diffusion), ..compiled })
    }

    /// Compiles a module without a family. `locate` finds its tensors.
    ///
    /// # Errors
    /// As [`CompilePipeline::compile_program`] and [`WeightPlan::new`].
    pub fn from_module<L: Into<Located>>(
        module: Module,
        target: &Target,
        options: &ModelOptions,
        mut locate: impl FnMut(&str) -> Option<L>,
    ) -> Result<Self> {
        let locate = &mut |name: &str| locate(name).map(Into::into);
        Self::compile(module, target, options, None, locate)
    }

    /// Compiles a module of a family with these presets.
    pub(super) fn compile(
        module: Module,
        target: &Target,
        options: &ModelOptions,
        presets: Option<Presets>,
        locate: &mut dyn FnMut(&str) -> Option<Located>,
    ) -> Result<Self> {
        if options.programs.is_empty() || options.chunk < 2 {
            return Err(Error::new(
                Code::Internal,
                "a model needs programs, and a chunk of 2 rows",
            ));
        }
        let (mut programs, mut asked, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        for spec in &options.programs {
            let own = options.of_program(spec, presets);
            let pipeline = CompilePipeline::new(target.clone()).with_options(own.clone());
            let compiled = pipeline.compile_program(&module, spec)?;
            programs.push(Arc::unwrap_or_clone(compiled.lir));
            asked.push(own);
            reports.push(Arc::unwrap_or_clone(compiled.fusion));
        }
        let all: Vec<&Program> = programs.iter().collect();
        #[cfg(feature = "parallel")]
        let plan = WeightPlan::of_ranks(&all, &target.limits, target.claims.ranks.count, locate)?;
        #[cfg(not(feature = "parallel"))]
        let plan = WeightPlan::new(&all, &target.limits, locate)?;
        for program in &mut programs {
            plan.bind(program)?;
        }
        let mut states = states(&module, options.compile.caches())?;
        #[cfg(feature = "parallel")]
        if target.claims.ranks.count > 1 {
            states = same_states(&programs)?;
        }
        if options.conversations > 0 {
            let bytes = options.conversations.next_multiple_of(4);
            let ty = Type::state(DType::U32, Shape::of(&[bytes / 4]));
            states.push(StateDecl { name: CONVERSATIONS.into(), ty, bytes });
        }
        Ok(CompiledModel {
            states,
            specs: options.programs.clone(),
            context: module.context,
            chunk: options.chunk,
            diffusion: None,
            module,
            programs,
            options: asked,
            reports,
            plan,
        })
    }

    /// Compiles a program that returns logits beside what the program of its name does, with that one's options. Its
    /// weights are not bound to the plan.
    ///
    /// # Errors
    /// `Internal` for a program that the model does not have; as [`CompilePipeline::compile_program`].
    pub fn also_with_logits(&self, name: &str, target: &Target) -> Result<(String, Arc<Program>)> {
        let i = self.program(name);
        let i = i.ok_or_else(|| Error::internal(format!("the model has no program {name}")))?;
        let spec = self.specs[i].clone().with_logits();
        let pipeline = CompilePipeline::new(target.clone()).with_options(self.options[i].clone());
        Ok((spec.name.clone(), pipeline.compile_program(&self.module, &spec)?.lir))
    }

    /// Bytes of the largest program's arena.
    pub fn arena_bytes(&self) -> u64 {
        self.programs.iter().map(|p| p.arena_bytes).max().unwrap_or(0)
    }

    /// Bytes of a session's states.
    pub fn state_bytes(&self) -> u64 {
        self.states.iter().map(|s| s.bytes).sum()
    }

    /// States that are neither a cache nor the sampler's, by number and bytes: every row changes them, and a text
    /// begins with zeros in them.
    pub fn recurrences(&self) -> Vec<(u32, u64)> {
        let caches = |b: &Block| matches!(b, Block::Attention(_) | Block::DecoderBlock(_));
        let blocks = self.module.nodes.iter().map(|node| &node.block).filter(|b| !caches(b));
        let states = blocks.flat_map(|b| b.states(self.context, DType::F32.into()));
        let names: BTreeSet<String> = states.map(|(name, _)| name).collect();
        let numbered = (0..).zip(&self.states).filter(|(_, s)| names.contains(&s.name));
        numbered.map(|(i, s)| (i, s.bytes)).collect()
    }

    /// Numbers of the states that have something of a text's rows: caches and recurrences.
    pub fn row_states(&self) -> Vec<u32> {
        let others = [CTL, PARAMS, COUNTS, CANVAS, CONVERSATIONS];
        let of_rows = (0..).zip(&self.states).filter(|(_, s)| !others.contains(&s.name.as_str()));
        of_rows.map(|(i, _)| i).collect()
    }

    /// How many positions may have been written since the caches were as a prompt wants them, so that all that its
    /// rows see is still there; `None` where every cache has the whole context.
    pub fn cache_spare(&self) -> Option<u64> {
        let caches = self.options.first()?.caches();
        caches.spare.filter(|_| self.module.has_rings(caches))
    }

    /// Index of the program of that name.
    pub fn program(&self, name: &str) -> Option<usize> {
        self.specs.iter().position(|s| s.name == name)
    }
}

/// The states of a rank, which all programs must have.
#[cfg(feature = "parallel")]
fn same_states(programs: &[Program]) -> Result<Vec<StateDecl>> {
    let states = programs.first().map(|p| p.states.clone()).unwrap_or_default();
    match programs.iter().find(|p| p.states != states) {
        None => Ok(states),
        Some(other) => {
            let what = format!("program {} has other caches than {}", other.name, programs[0].name);
            Err(Error::internal(what))
        }
    }
}

/// The model with blocks as long as these options say, and the positions of its caches.
fn with_block(model: Box<dyn Model>, options: &ModelOptions) -> Result<(Box<dyn Model>, u64)> {
    let context = model.positions(options.context)?;
    let whole = model.diffusion().is_some_and(|d| d.whole);
    let block = match options.block {
        Some(_) if whole => {
            let what = format!(
                "a model of family {} fills the whole context as one block",
                model.facts().family
            );
            return Err(Error::usage(what)
                .hint("leave the length of blocks out, and say how long the context is"));
        }
        Some(0) => return Err(Error::usage("blocks of 0 positions, expected 1 or more")),
        None if whole => context,
        None => return Ok((model, context)),
        Some(block) => block,
    };
    let with = model.with_block(block).ok_or_else(|| {
        let what = format!("a model of family {} fills no blocks", model.facts().family);
        Error::usage(what)
            .hint("leave the length of blocks out; it is for models of block diffusion")
    })?;
    Ok((with, context))
}

/// Checks that chunks of a prompt are whole blocks, and that the caches hold one.
fn fits(block: u64, chunk: u64, context: u64) -> Result<()> {
    if block < 2 || !chunk.is_multiple_of(block) {
        let what = format!(
            "blocks of {block} positions: a prompt's chunk of {chunk} rows is no whole number of them"
        );
        return Err(Error::usage(what).hint("take blocks of 2, 4, 8, 16 or 32 positions"));
    }
    if block > context {
        let what = format!("blocks of {block} positions: the context holds {context}");
        return Err(Error::usage(what).hint("load with a longer context"));
    }
    Ok(())
}
