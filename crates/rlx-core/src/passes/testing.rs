//! Text goldens of passes: `<pass>/*.mir` holds a graph, what the pass reports, the graph after.
//!
//! ```text
//! # A transpose reaches the matmul that reads it.        one fact a file
//! # with activations=int8                                optional: other than the gpu's of `targets`
//! func @f { … }
//! # => 1 changes
//! # miss residual blk.0.sum: MultiConsumer, the product has another reader
//! # func @f { … }                                        absent when nothing changed
//! ```
//!
//! Everything from `# =>` on is compared, and written anew under `BLESS=1`: then read the diff.

use super::Context;
use crate::error::Result;
use crate::ir::mir::Graph;
use crate::ir::parse::parse;
use crate::ir::verify::verify;
use crate::ops::Class;
use crate::target::{
    Activations, CompileOptions, DispatchPolicy, Precision, PrecisionPolicy, RegionLimits, Splits,
    Target,
};
use crate::targets;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::path::Path;

#[path = "../../../../tests/support/bless.rs"]
mod bless;

/// Runs `pass` over every file of its folder.
pub fn goldens(name: &str, pass: fn(&mut Graph, &mut Context<'_>) -> Result<usize>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/passes").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{name}: {e}"));
    let files = entries.map(|e| e.unwrap().path());
    // The pass's own modules may stand here too.
    let mut files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "mir")).collect();
    files.sort();
    assert!(files.len() >= 2, "{name}: a pass has goldens of changing and of leaving alone");
    let (bless, mut wrong) = (bless::bless(), String::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let before = text.find("# =>").map_or(&text[..], |at| &text[..at]);
        let new = before.to_string() + &after(before, pass);
        if new == text {
            continue;
        }
        if bless {
            std::fs::write(&file, new).unwrap();
        } else {
            let file = file.file_name().unwrap_or_default().to_string_lossy();
            wrong += &format!("{name}/{file}\n{}\n", diff(&text, &new));
        }
    }
    assert!(wrong.is_empty(), "- golden, + now; BLESS=1 rewrites\n{wrong}");
}

/// What the pass does to the graph in `text`, as comment lines.
fn after(text: &str, pass: fn(&mut Graph, &mut Context<'_>) -> Result<usize>) -> String {
    let mut target = targets::gpu();
    let mut options = CompileOptions::default();
    let words = text.lines().filter_map(|l| l.strip_prefix("# with "));
    for word in words.flat_map(str::split_whitespace) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let list = || value.split(',').filter(|w| !w.is_empty()).map(String::from).collect();
        match (key, value) {
            ("target", name) => target = Target::parse_among(name, &targets::all()).unwrap(),
            ("loops", "") => target = target.with_loops(),
            ("target-int8", "false") => target.int8 = false,
            ("attention_parts", n) => {
                target.attention_splits = targets::host()
                    .attention_splits
                    .map(|s| Splits { parts: n.parse().unwrap(), ..s });
            }
            ("activations", "f16") => options.activations = Activations::F16,
            ("activations", "int8") => options.activations = Activations::Int8,
            ("activations", "int16") => options.activations = Activations::Int16,
            ("activations", "mixed") => options.activations = Activations::Mixed,
            ("claims", _) => options.supported_ops = Some(list()),
            ("force_common", _) => options.dispatch.force_common = list(),
            ("force_native", _) => options.dispatch.force_native = list(),
            ("dispatch", name) => {
                use DispatchPolicy as D;
                let all = [D::PreferNative, D::ForceCommon, D::ForceNative];
                options.dispatch.policy = all.into_iter().find(|d| d.name() == name).unwrap();
            }
            ("unfuse-regions", "") => options.unfuse_regions = true,
            // regions=steps,inputs: of any operators
            ("regions", limits) => {
                let (steps, inputs) = limits.split_once(',').unwrap();
                let (steps, inputs) = (steps.parse().unwrap(), inputs.parse().unwrap());
                target.region_limits = Some(RegionLimits { steps, inputs });
                let kernels = target.claims.kernels.iter().copied();
                let kernels: Vec<_> = kernels.filter(|k| k.op != "elementwise_region").collect();
                target.claims.kernels = kernels.leak();
            }
            // bake=name:bytes in hexadecimal digits
            ("bake", value) => {
                let (name, hex) = value.split_once(':').unwrap();
                let digits = hex.as_bytes().chunks(2).map(|d| str::from_utf8(d).unwrap());
                let bytes = digits.map(|d| u8::from_str_radix(d, 16).unwrap()).collect();
                options.baked.insert(name.into(), bytes);
            }
            ("precision", name) => options.precision = precision(name),
            other => panic!("unknown option {other:?}"),
        }
    }
    let mut g = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let printed = g.to_string();
    let mut cx = Context::new(&target, &options);
    let changes = match pass(&mut g, &mut cx) {
        Ok(n) => n,
        Err(e) => return format!("# => error: {e}\n"),
    };
    verify(&g).unwrap_or_else(|e| panic!("{e}\n{text}\n{g}"));
    let mut out = format!("# => {changes} changes\n");
    for miss in &cx.report.missed {
        let reason = miss.reason.name();
        out += &format!("# miss {} {}: {reason}, {}\n", miss.pattern, miss.node, miss.context);
    }
    let now = g.to_string();
    assert_eq!(parse(&now).unwrap().to_string(), now, "what the pass made prints and parses");
    if now != printed {
        out.extend(now.lines().map(|line| format!("# {line}\n")));
    }
    out
}

fn precision(name: &str) -> PrecisionPolicy {
    match name {
        "always_f16" => PrecisionPolicy::AlwaysF16,
        "conservative" => PrecisionPolicy::AutoMixedConservative,
        "auto_mixed" => PrecisionPolicy::AutoMixed,
        "auto_mixed_bf16" => PrecisionPolicy::AutoMixedBf16,
        "elementwise_bf16" => {
            PrecisionPolicy::Custom([(Class::Elementwise, Precision::Bf16)].into())
        }
        other => panic!("unknown policy {other}"),
    }
}

/// Lines that differ, between the first and the last that do.
fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(&new).take_while(same).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(same).count();
    let lines = |sign: char, lines: &[&str]| -> String {
        lines[head..lines.len() - tail].iter().map(|l| format!("{sign} {l}\n")).collect()
    };
    lines('-', &old) + &lines('+', &new)
}
