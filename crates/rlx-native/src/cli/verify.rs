//! `rlx verify`: prints comparisons; the exit code is 1 if one is above its tolerance.

use super::options::{DeviceArgs, Kv};
use super::{print_json, print_text};
use crate::tools::verify::{Comparison, Report, verify_formats, verify_model};
use clap::Args;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct VerifyArgs {
    /// A folder with config.json, model.safetensors and io.safetensors; or a .safetensors file
    /// with <TYPE>.bytes and <TYPE>.f32, which the reference decodes on any device. A language
    /// model's `layer.*` are compared on the reference only
    #[arg(value_name = "DIR")]
    path: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// Element type of the caches; f16 and q8_0 have wider tolerances [default: f32, as recorded]
    #[arg(long, value_name = "TYPE")]
    kv: Option<Kv>,
    /// For a file of block formats: only check these types, such as Q4_0,Q8_0
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    elements: usize,
    /// Null if it is infinite, or the output was skipped.
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
    let device_row = args.device.row()?;
    let is_dir = args.path.is_dir();
    let report = if is_dir {
        if !args.types.is_empty() {
            return Err(Error::usage("--types is for a file of block formats, not for a folder"));
        }
        let device = (device_row.open)(&args.device.open_options())?;
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
        "choose the types to check with --types"
    };
    Err(Error::new(Code::CheckFailed, what).at(args.path.display().to_string()).hint(hint))
}
