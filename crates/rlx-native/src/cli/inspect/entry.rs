//! `rlx inspect` of an entry, as a session runs it: an encoder's `encode`, a language model's `logits`, or a graph.

use super::{InspectArgs, Numbers, Stage, draw, report};
use crate::cli::graph::chosen;
use crate::cli::options::Kv;
use crate::cli::passes::{parsed, show};
use crate::cli::{print_json, print_text};
use crate::devices::DeviceRow;
use crate::network::{Network, missing};
use rlx_core::compile::Compiled;
use rlx_core::ir::GraphModule;
use rlx_core::ir::lir::Program;
use rlx_core::models::{Facts, Task};
use rlx_core::passes::{FusionReport, Watch};
use rlx_core::profile::CompileProfile;
use rlx_core::runtime::session::{Entry, Preview};
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{BATCH, Binding, SEQ};
use rlx_core::{Error, Result};
use serde::Serialize;
use serde_json::json;

/// Rows of a text, unless --size says otherwise or the model takes fewer.
const ROWS: u64 = 128;

pub(super) fn inspect(
    args: &InspectArgs,
    network: &Network<'_>,
    facts: Option<&Facts>,
    row: &DeviceRow,
    target: &Target,
    profile: Option<CompileProfile>,
) -> Result<()> {
    check(args, facts)?;
    let mut entry = chosen(&network.entries, args.entry.as_deref())?.clone();
    if args.stage == Stage::Hir && args.plan.is_none() && !args.passes.any() {
        // Blocks have no sizes yet.
        return blocks(&entry, args.json);
    }
    let mut options = CompileOptions::default();
    options.kv = args.kv.map_or(options.kv, Kv::dtype);
    if let Some(asked) = args.activations {
        if asked.decode != asked.prompts {
            let what = format!("an entry has one program, and no activation types of {asked}");
            return Err(Error::usage(what).hint("give one type to --activations"));
        }
        options.activations = asked.prompts;
    }
    if profile.is_some() {
        options.fusion_target = row.backend;
        entry.profile = profile;
    }
    let preview = Preview::new(&entry, target, &options)?;
    let sizes = sizes(&args.sizes, &entry, &preview.graph().symbols(), facts)?;
    let compile = |watch: &mut Watch<'_>| preview.compile(&sizes, watch);
    if let Some(path) = &args.plan {
        draw(&program(compile(&mut Watch::default())?)?.0, path)?;
    }
    if let Some(report) = report(args) {
        return show(&args.passes, report, args.json, &entry.name, target, compile);
    }
    match args.stage {
        Stage::Hir => blocks(&entry, args.json),
        Stage::Mir => {
            let (program, fusion) = program(compile(&mut Watch::default())?)?;
            if !args.json {
                return print_text(&program.graph.to_string());
            }
            print_json(&json!({
                "stage": "mir",
                "entry": entry.name,
                "sizes": &sizes,
                "nodes_lowered": preview.graph().nodes.len(),
                "nodes": program.graph.nodes.len(),
                "fusion": parsed(&fusion.json()),
                "text": program.graph.to_string(),
            }))
        }
        Stage::Lir => {
            let (mut program, fusion) = program(compile(&mut Watch::default())?)?;
            let weights = network.weights.as_ref();
            let plan = preview.place(&mut program, weights).map_err(|e| missing(weights, e))?;
            let states = program.states.iter().map(|s| s.bytes).sum();
            let asked = preview.options();
            if args.json {
                return print_json(&Lir {
                    stage: "lir",
                    entry: &entry.name,
                    sizes: &sizes,
                    target: target.describe(),
                    numbers: Numbers::of(&program, &plan),
                    state_bytes: states,
                    kv: asked.kv.name(),
                    activations: asked.activations.name(),
                    fusion: parsed(&fusion.json()),
                });
            }
            print_text(&format!(
                "// {}\n// entry {}{}\n// weights {} bytes in {} buffers, states {states} bytes, \
                 fingerprint {:016x}\n// options {}\n{program}",
                target.describe(),
                entry.name,
                sizes.iter().map(|(name, n)| format!(" {name}={n}")).collect::<String>(),
                plan.bytes(),
                plan.buffers.len(),
                program.fingerprint,
                asked.describe(),
            ))
        }
        // Only the picture was asked for.
        Stage::File | Stage::Fusion | Stage::Dispatch => Ok(()),
    }
}

/// What `--stage lir --json` prints.
#[derive(Serialize)]
struct Lir<'a> {
    stage: &'static str,
    entry: &'a str,
    /// Sizes of the symbols.
    sizes: &'a Binding,
    target: String,
    #[serde(flatten)]
    numbers: Numbers,
    state_bytes: u64,
    kv: &'static str,
    activations: &'static str,
    fusion: serde_json::Value,
}

/// Fails for options that the network does not have.
fn check(args: &InspectArgs, facts: Option<&Facts>) -> Result<()> {
    let generates = facts.is_some_and(|f| f.task == Task::Generate);
    if args.phase.is_some() {
        let what = "--phase is for the programs in which a language model generates text";
        return Err(Error::usage(what).hint(if generates {
            "give either --entry or --phase"
        } else {
            "an entry has a program for every set of sizes: give them with --size, as in --size SEQ=64"
        }));
    }
    if !generates && facts.is_some() && (args.kv.is_some() || args.context.is_some()) {
        let what = "an encoder has no caches: --kv and --context are for language models";
        return Err(Error::usage(what).hint("the length of a text is a size, as in --size SEQ=64"));
    }
    Ok(())
}

/// The program and what fused.
fn program(compiled: Compiled) -> Result<(Program, FusionReport)> {
    match compiled.module {
        GraphModule::Lir(program) => Ok((*program, compiled.fusion)),
        _ => Err(Error::internal("compiling ended before there was a program")),
    }
}

/// Prints an entry's blocks.
fn blocks(entry: &Entry, as_json: bool) -> Result<()> {
    let GraphModule::Hir(module) = &entry.module else {
        return Err(Error::usage("this graph is written in operators: it has no blocks")
            .hint("take --stage mir"));
    };
    if !as_json {
        return print_text(&module.to_string());
    }
    print_json(&json!({
        "stage": "hir",
        "entry": entry.name,
        "name": module.name,
        "blocks": module.nodes.len(),
        "text": module.to_string(),
    }))
}

/// The sizes of all symbols: those that are given, one text of as many rows as usual, and no others.
fn sizes(
    given: &[String],
    entry: &Entry,
    symbols: &[String],
    facts: Option<&Facts>,
) -> Result<Binding> {
    let mut sizes = Binding::new();
    for text in given {
        let size = text.split_once('=').and_then(|(name, n)| Some((name, n.parse::<u64>().ok()?)));
        let Some((name, n)) = size.filter(|size| size.1 > 0) else {
            return Err(Error::usage(format!("--size {text} is no name and number"))
                .hint("write --size NAME=N, as in --size SEQ=64"));
        };
        if symbols.iter().all(|s| s != name) {
            let what = format!("the entry {} has no size {name}", entry.name);
            let hint = match symbols {
                [] => "all its sizes are fixed".into(),
                symbols => format!("its sizes: {}", symbols.join(", ")),
            };
            return Err(Error::usage(what).hint(hint));
        }
        sizes.insert(name.into(), n);
    }
    // Caches have so many positions, or the model was trained for so many.
    let most = match &entry.module {
        GraphModule::Hir(module) if module.context > 0 => module.context,
        _ => facts.map_or(ROWS, |f| f.context),
    };
    let mut missing = Vec::new();
    for name in symbols.iter().filter(|name| !given.iter().any(|g| is_of(g, name))) {
        match name.as_str() {
            BATCH => sizes.insert(name.clone(), 1),
            SEQ => sizes.insert(name.clone(), ROWS.min(most)),
            _ => {
                missing.push(format!("--size {name}=N"));
                None
            }
        };
    }
    if !missing.is_empty() {
        return Err(Error::usage(format!(
            "the entry {} has sizes without a usual value",
            entry.name
        ))
        .hint(format!("give them: {}", missing.join(" "))));
    }
    Ok(sizes)
}

/// Whether a `--size` is of that name.
fn is_of(size: &str, name: &str) -> bool {
    size.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
}
