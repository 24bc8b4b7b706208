//! `rlx inspect` of a compilation: what each pass did and how long it took, the fusions, and how
//! operators run.

use super::{print_json, print_text};
use clap::Args;
use rlx_core::Result;
use rlx_core::compile::Compiled;
use rlx_core::ir::GraphModule;
use rlx_core::passes::{PassTrace, Watch};
use rlx_core::target::Target;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::time::Instant;

/// Options that show what passes do.
#[derive(Args)]
pub struct PassArgs {
    /// Print the program's operators after every run of this pass
    #[arg(long, value_name = "PASS")]
    print_after: Option<String>,
    /// Stop after the first run of this pass, and print the operators
    #[arg(long, value_name = "PASS")]
    stop_after: Option<String>,
    /// Print how long each pass takes
    #[arg(long)]
    timing: bool,
}

impl PassArgs {
    /// True if any of these options is given.
    pub fn any(&self) -> bool {
        self.timing || self.print_after.is_some() || self.stop_after.is_some()
    }
}

/// Which report to print at the end of the compilation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Report {
    None,
    Fusion,
    Dispatch,
}

/// Compiles the program of that name under a [`Watch`], and prints what the options ask for.
pub fn show(
    args: &PassArgs,
    report: Report,
    as_json: bool,
    name: &str,
    target: &Target,
    compile: impl FnOnce(&mut Watch<'_>) -> Result<Compiled>,
) -> Result<()> {
    let start = Instant::now();
    let clock = || start.elapsed().as_secs_f64() * 1e3;
    let mut traces: Vec<PassTrace> = Vec::new();
    let mut each = |trace| traces.push(trace);
    let mut watch = Watch {
        each: Some(&mut each),
        clock: Some(&clock),
        stop_after: args.stop_after.as_deref(),
        print_after: args.print_after.as_deref(),
    };
    let done = compile(&mut watch)?;
    let stopped = match &done.module {
        GraphModule::Mir(g) => Some(g.to_string()),
        _ => None,
    };
    if as_json {
        return print_json(&json!({
            "program": name,
            "target": target.describe(),
            "passes": traces.iter().map(trace_json).collect::<Vec<_>>(),
            "text": stopped,
            "fusion": parsed(&done.fusion.json()),
            "dispatch": parsed(&done.dispatch.json()),
        }));
    }
    print_text(&text(args, report, &traces, &done, stopped.as_deref()))
}

/// Parses a report's JSON, to put it into a larger value.
pub fn parsed(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or(Json::Null)
}

fn trace_json(t: &PassTrace) -> Json {
    json!({
        "pass": t.pass, "changes": t.changes, "nodes": t.nodes, "ms": t.ms, "text": t.text,
    })
}

fn text(
    args: &PassArgs,
    report: Report,
    traces: &[PassTrace],
    done: &Compiled,
    stopped: Option<&str>,
) -> String {
    let mut out = String::new();
    for t in traces {
        if let Some(text) = &t.text {
            // Writing to a String never fails.
            let _ = writeln!(out, "// after {}: {} changes", t.pass, t.changes);
            out += text;
        }
    }
    out += stopped.unwrap_or_default();
    if args.timing {
        let _ = writeln!(out, "{:<22} {:>8} {:>8} {:>10}", "pass", "changes", "nodes", "ms");
        let row = |out: &mut String, name: &str, changes: usize, nodes: usize, ms: f64| {
            let _ = writeln!(out, "{name:<22} {changes:>8} {nodes:>8} {ms:>10.3}");
        };
        for t in traces {
            row(&mut out, t.pass, t.changes, t.nodes, t.ms.unwrap_or_default());
        }
        let (changes, nodes) = (traces.iter().map(|t| t.changes).sum(), traces.last());
        let ms = traces.iter().filter_map(|t| t.ms).sum();
        row(&mut out, "all", changes, nodes.map_or(0, |t| t.nodes), ms);
    }
    match report {
        Report::Fusion => out += &done.fusion.to_string(),
        Report::Dispatch => out += &done.dispatch.to_string(),
        Report::None => {}
    }
    out
}
