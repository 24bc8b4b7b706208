//! `rlx inspect` of a language model: one of the programs that generate text.

use super::{InspectArgs, Numbers, Stage, draw, report};
use crate::cli::options::Kv;
use crate::cli::passes::{parsed, show};
use crate::cli::{print_json, print_text};
use crate::devices::DeviceRow;
use crate::load::LoadOptions;
use clap::ValueEnum;
use rlx_core::compile::CompilePipeline;
use rlx_core::lower::lower;
use rlx_core::models::Checkpoint;
use rlx_core::profile::CompileProfile;
use rlx_core::runtime::memory::Fit;
use rlx_core::runtime::model::CompiledModel;
use rlx_core::target::Target;
use rlx_core::{Error, Result};
use serde::Serialize;
use serde_json::json;

/// A program of a decoder.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum DecoderProgram {
    /// The last chunk of a prompt, with the output head
    Prefill,
    /// One token
    Decode,
}

impl DecoderProgram {
    /// Its name; of a model that fills blocks the pass over a block is in place of one token.
    fn program(self, blocks: bool) -> &'static str {
        match (self, blocks) {
            (Self::Prefill, false) => "prefill_last",
            (Self::Decode, false) => "decode",
            (Self::Prefill, true) => "prefill",
            (Self::Decode, true) => "denoise",
        }
    }
}

pub(super) fn inspect(
    args: &InspectArgs,
    checkpoint: &Checkpoint<'_>,
    row: &DeviceRow,
    target: &Target,
    profile: Option<CompileProfile>,
) -> Result<()> {
    if !args.sizes.is_empty() {
        return Err(Error::usage("--size is for an entry; a program of --phase has its sizes")
            .hint("name the entry: --entry logits"));
    }
    let load = LoadOptions {
        context: args.context,
        kv: args.kv.map(Kv::dtype),
        activations: args.activations,
        profile,
        ..LoadOptions::default()
    };
    let options = load.model_options(row, target);
    let compiled = CompiledModel::new(checkpoint, target, &options)?;
    let name = args.phase.unwrap_or(DecoderProgram::Decode);
    let name = name.program(compiled.diffusion.is_some());
    let at = compiled.program(name).ok_or_else(|| {
        let names = compiled.specs.iter().map(|spec| spec.name.as_str());
        Error::usage(format!("the model has no program {name}"))
            .hint(format!("it has {}", names.collect::<Vec<_>>().join(", ")))
    })?;
    let (spec, program) = (&compiled.specs[at], &compiled.programs[at]);
    let asked = &compiled.options[at];
    if let Some(path) = &args.plan {
        draw(program, path)?;
    }
    if let Some(report) = report(args) {
        let pipeline = CompilePipeline::new(target.clone()).with_options(asked.clone());
        return show(&args.passes, report, args.json, name, target, |watch| {
            pipeline.compile_program_watched(&compiled.module, spec, watch)
        });
    }
    let fit = Fit::of(&compiled, target);
    match args.stage {
        Stage::Hir if args.json => print_json(&json!({
            "stage": "hir",
            "name": compiled.module.name,
            "blocks": compiled.module.nodes.len(),
            "context": compiled.module.context,
            "vocab": compiled.module.vocab,
            "text": compiled.module.to_string(),
        })),
        Stage::Mir if args.json => {
            let policy = asked.fusion_policy.unwrap_or(compiled.module.fusion_policy);
            let lowered = lower(&compiled.module.clone().with_policy(policy), spec, asked.kv)?;
            print_json(&json!({
                "stage": "mir",
                "program": name,
                "nodes_lowered": lowered.nodes.len(),
                "nodes": program.graph.nodes.len(),
                "fusion": parsed(&compiled.reports[at].json()),
                "text": program.graph.to_string(),
            }))
        }
        Stage::Hir => print_text(&compiled.module.to_string()),
        Stage::Mir => print_text(&program.graph.to_string()),
        Stage::Lir if args.json => print_json(&Lir {
            stage: "lir",
            program: name,
            target: target.describe(),
            numbers: Numbers::of(program, &compiled.plan),
            state_bytes: compiled.state_bytes(),
            fit_bytes: fit.total(),
            context: compiled.context,
            chunk: compiled.chunk,
            kv: options.compile.kv.name(),
            activations: options.activations.to_string(),
            fusion: parsed(&compiled.reports[at].json()),
        }),
        Stage::Lir => {
            let mut text = format!(
                "// {}\n// needs {}\n// weights {} bytes in {} buffers, states {} bytes, fingerprint {:016x}\n",
                target.describe(),
                fit.describe(),
                compiled.plan.bytes(),
                compiled.plan.buffers.len(),
                compiled.state_bytes(),
                program.fingerprint
            );
            if let Err(e) = fit.bound() {
                text += &format!("// does not fit: {}\n", e.hint);
            }
            text += &format!("// options {}\n", asked.describe());
            text += &program.to_string();
            print_text(&text)
        }
        // Only the picture was asked for.
        Stage::File | Stage::Fusion | Stage::Dispatch => Ok(()),
    }
}

/// What `--stage lir --json` prints.
#[derive(Serialize)]
struct Lir {
    stage: &'static str,
    program: &'static str,
    target: String,
    #[serde(flatten)]
    numbers: Numbers,
    state_bytes: u64,
    /// Most memory that loading takes: weights, states, activations, inputs and staging.
    fit_bytes: u64,
    context: u64,
    chunk: u64,
    kv: &'static str,
    activations: String,
    fusion: serde_json::Value,
}
