//! `rlx verify`: prints comparisons; exit code 1 above tolerance.

use super::options::Kv;
use super::{print_json, print_text};
use crate::devices::{self, OpenOptions};
use crate::verify::{Comparison, Report, verify_formats, verify_model};
use clap::Args;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct VerifyArgs {
    /// A folder with config.json, model.safetensors and io.safetensors; or a .safetensors file
    /// with <TYPE>.bytes and <TYPE>.f32, which the reference decodes whatever the device
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// reference, cpu or webgpu; `layer.*` are compared on the reference only
    #[arg(long, value_name = "D", default_value = devices::DEFAULT)]
    device: String,
    /// Worker threads of the CPU device [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Part of the name of the WebGPU adapter to use [default: the fastest]
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    /// Element type of the caches; one that rounds has a wider tolerance [default: f32, as recorded]
    #[arg(long, value_name = "TYPE")]
    kv: Option<Kv>,
    /// Of a file of block formats, only these types: Q4_0,Q8_0
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    elements: usize,
    /// Null where it is infinite, and for what was skipped.
    largest_difference: f64,
    relative: f64,
    cosine: f64,
    tolerance: f64,
    ok: bool,
    skipped: Option<&'a str>,
}

#[derive(Serialize)]
struct Verified<'a> {
    family: &'a str,
    device: &'a str,
    adapter: &'a str,
    ok: bool,
    outputs: Vec<Row<'a>>,
}

fn row(c: &Comparison) -> Row<'_> {
    Row {
        name: &c.name,
        elements: c.elements,
        largest_difference: c.difference,
        relative: c.relative,
        cosine: c.cosine,
        tolerance: c.tolerance,
        ok: c.passes(),
        skipped: c.skipped.as_deref(),
    }
}

fn table(report: &Report) -> String {
    let adapter = match report.info.adapter.as_str() {
        "" => String::new(),
        name => format!(" ({name})"),
    };
    let mut out = format!(
        "{} on {}{adapter}\n{:<22} {:>9} {:>12} {:>12} {:>12}\n",
        report.family, report.info.kind, "", "elements", "difference", "relative", "cosine"
    );
    for c in &report.outputs {
        out += &match &c.skipped {
            Some(why) => format!("{:<22} skipped: {why}\n", c.name),
            None => format!(
                "{:<22} {:>9} {:>12.3e} {:>12.3e} {:>12.9}{}\n",
                c.name,
                c.elements,
                c.difference,
                c.relative,
                c.cosine,
                if c.passes() { "" } else { "  ABOVE TOLERANCE" }
            ),
        };
    }
    out
}

pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let device_row = devices::find(&args.device)?;
    let is_dir = args.path.is_dir();
    let report = if is_dir {
        if !args.types.is_empty() {
            return Err(Error::usage("--types is for a file of block formats, not for a folder"));
        }
        let threads = args.threads.map(usize::from);
        let open = OpenOptions { threads, adapter: args.adapter.clone() };
        let device = (device_row.open)(&open)?;
        verify_model(&args.path, device_row, device, args.kv.map_or(DType::F32, Kv::dtype))?
    } else {
        if args.kv.is_some() {
            return Err(Error::usage(
                "--kv is for a folder, a file of block formats has no caches",
            ));
        }
        verify_formats(&args.path, &args.types)?
    };
    let failed = report.outputs.iter().filter(|c| !c.passes()).count();
    if args.json {
        print_json(&Verified {
            family: &report.family,
            device: &report.info.kind,
            adapter: &report.info.adapter,
            ok: failed == 0,
            outputs: report.outputs.iter().map(row).collect(),
        })?;
    } else {
        print_text(&table(&report))?;
    }
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let what = format!("{failed} of {} outputs fail the check", report.outputs.len());
    let hint = if is_dir {
        "run it with --device reference: its layer.* rows say where the difference begins"
    } else {
        "name the types that are wanted with --types"
    };
    Err(Error::new(Code::CheckFailed, what).at(args.path.display().to_string()).hint(hint))
}
