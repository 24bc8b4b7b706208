//! `rlx verify`: prints comparisons; the exit code is 1 if one is above its tolerance.

use super::options::{DeviceArgs, Kv};
use super::{print_json, print_text};
use crate::tools::verify::{
    Report, Verified, Wanted, verify_answers, verify_formats, verify_model,
};
use clap::Args;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct VerifyArgs {
    /// A folder with config.json, model.safetensors and io.safetensors; a language model's GGUF file, with a record of
    /// llama.cpp's; or a .safetensors file with <TYPE>.bytes and <TYPE>.f32, which the reference decodes on any device
    #[arg(value_name = "DIR")]
    path: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// Element type of the caches; others than f32 have wider tolerances [default: f32, as recorded; for answers the
    /// device's usual]
    #[arg(long, value_name = "TYPE")]
    kv: Option<Kv>,
    /// Also compare what the model has between its layers with the record's layer.*, and name the first that
    /// differs
    #[arg(long)]
    layers: bool,
    /// For a GGUF file: the record of its logits or answers [default: NAME.json, else expected.json beside it]
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// For a GGUF file with a record of answers: only ask the first N questions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    questions: Option<u32>,
    /// For a file of block formats: only check these types, such as Q4_0,Q8_0
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

fn table(report: &Report) -> String {
    let adapter = match report.info.adapter.as_str() {
        "" => String::new(),
        name => format!(" ({name})"),
    };
    let mut out = format!(
        "{} on {}{adapter}\n{:<34} {:>9} {:>12} {:>12} {:>12}\n",
        report.family, report.info.kind, "", "elements", "difference", "relative", "cosine"
    );
    for c in &report.outputs {
        out += &match &c.skipped {
            Some(why) => format!("{:<34} skipped: {why}\n", c.name),
            None => format!(
                "{:<34} {:>9} {:>12.3e} {:>12.3e} {:>12.9}{}\n",
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
    args.device.check()?;
    let is_dir = args.path.is_dir();
    let is_gguf = args.path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf"));
    if !is_gguf && (args.record.is_some() || args.questions.is_some()) {
        return Err(Error::usage("--record and --questions are for a GGUF file"));
    }
    let report = if is_dir {
        if !args.types.is_empty() {
            return Err(Error::usage("--types is for a file of block formats, not for a folder"));
        }
        let (device_row, device) = args.device.open()?;
        let kv = args.kv.map_or(DType::F32, Kv::dtype);
        verify_model(&args.path, device_row, device, kv, args.layers)?
    } else if is_gguf {
        if !args.types.is_empty() || args.layers {
            return Err(Error::usage("--types and --layers are not for a GGUF file"));
        }
        let wanted = Wanted {
            record: args.record.clone(),
            questions: args.questions.map(|n| n as usize),
            kv: args.kv.map(Kv::dtype),
        };
        let (device_row, device) = args.device.open()?;
        verify_answers(&args.path, device_row, device, &wanted)?
    } else {
        if args.kv.is_some() {
            return Err(Error::usage(
                "--kv is for a folder, a file of block formats has no caches",
            ));
        }
        if args.layers && args.path.is_file() {
            return Err(Error::usage("--layers is for a folder, not for a file of block formats"));
        }
        verify_formats(&args.path, &args.types)?
    };
    let failed = report.outputs.iter().filter(|c| !c.passes()).count();
    let first = report.first_layer_that_differs();
    if args.json {
        print_json(&Verified::of(&report, args.layers))?;
    } else {
        print_text(&table(&report))?;
    }
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let skipped = report.outputs.iter().filter(|c| c.skipped.is_some()).count();
    let (differ, all) = (failed - skipped, report.outputs.len());
    let what = match (differ, skipped) {
        (0, _) => format!("{skipped} of {all} outputs were not compared; the others agree"),
        (_, 0) => format!("{differ} of {all} outputs fail the check"),
        _ => format!("{differ} of {all} outputs fail the check, {skipped} were not compared"),
    };
    let (what, hint) = match first {
        _ if differ == 0 => (what, "the table says why"),
        _ if is_gguf => {
            (what, "a folder with io.safetensors is compared layer by layer, with --layers")
        }
        _ if !is_dir => (what, "choose the types to check with --types"),
        _ if !args.layers => (what, "add --layers: it names the first layer that differs"),
        Some(layer) => {
            let differs = format!(
                "{what}; the first layer that differs is {}, by {:.1e} of its largest value",
                layer.name, layer.relative
            );
            (differs, "look at what the model computes between the layer before and this one")
        }
        None => (
            format!("{what}; no layer differs"),
            "look at what comes behind the layers, and at steps that are fused across their ends when no layer is asked for",
        ),
    };
    Err(Error::new(Code::CheckFailed, what).at(args.path.display().to_string()).hint(hint))
}
