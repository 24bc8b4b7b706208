//! `rlx devices`: the devices of this machine, and why some are not available.

use super::progress::ProgressLine;
use super::{print_json, print_text};
use crate::auto::{self, Auto, Opened, Timed, Why};
use crate::devices::{DEVICES, DeviceRow, OpenOptions};
use crate::new_file::NewFile;
use crate::report::MOST_BYTES;
use clap::Args;
use core::cell::RefCell;
use rlx_core::gguf::Sink;
use rlx_core::{Error, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct DevicesArgs {
    /// Measure which kernel variants are fastest on each device, and remember them
    #[arg(long)]
    tune: bool,
    /// Write what was measured to a file, for others with such a device: see docs/guides/devices.md
    #[arg(long, value_name = "FILE", requires = "tune")]
    report: Option<PathBuf>,
    /// Replace an existing report
    #[arg(long, requires = "report")]
    force: bool,
    /// Part of the name of the WebGPU adapter to use [default: the fastest]
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    device: &'static str,
    about: &'static str,
    available: bool,
    adapter: Option<String>,
    features: Vec<String>,
    /// Features that the device offers and RLX does not use, because they compute wrong values.
    demoted: Vec<String>,
    /// Lanes of a subgroup that its kernels count on, and how they are known.
    subgroups: Option<String>,
    /// The tuning of its kernels, if it has one.
    tuning: Option<String>,
    /// Why it has that one.
    tuning_from: Option<String>,
    /// The compilation target, as `rlx inspect --target` takes it.
    target: Option<String>,
    /// Why it is not available.
    reason: Option<String>,
    /// Whether it is the one that `--device auto` takes.
    auto: bool,
    /// Milliseconds of two products of packed weights, of one row and of a prompt's, where devices were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<Timed>,
}

pub fn devices(args: &DevicesArgs) -> Result<ExitCode> {
    let mut rows = Vec::new();
    let mut there: Vec<Opened> = Vec::new();
    let options = OpenOptions { adapter: args.adapter.clone(), ..OpenOptions::default() };
    for row in DEVICES {
        let mut opened = (row.open)(&options);
        if args.tune && measure(row, &options, args, opened.as_ref().err())? {
            // Opened again, with the tuning that was just stored.
            opened = (row.open)(&options);
        }
        let from = row.tuning_from.filter(|_| opened.is_ok()).map(|from| from(&options));
        let info = opened.as_ref().ok().map(|device| device.info());
        rows.push(Row {
            device: row.name,
            about: row.about,
            available: info.is_some(),
            adapter: info.as_ref().map(|i| i.adapter.clone()),
            features: info.as_ref().map(|i| i.features.clone()).unwrap_or_default(),
            demoted: info.as_ref().map(|i| i.demoted.clone()).unwrap_or_default(),
            subgroups: info.as_ref().and_then(|i| i.subgroups.clone()),
            tuning: info.and_then(|i| i.tuning),
            tuning_from: from.transpose()?.map(|from| from.to_string()),
            target: opened.as_ref().ok().map(|device| device.target().describe()),
            reason: opened.as_ref().err().map(|e| e.to_string()),
            auto: false,
            times: None,
        });
        there.extend(opened.map(|device| (row, device)));
    }
    let Auto { row: fastest, why, .. } = auto::among(&there, &options, args.tune)?;
    for row in &mut rows {
        row.auto = row.device == fastest.name;
        row.times = match &why {
            Why::Measured(comparison) | Why::Remembered(comparison) => {
                comparison.devices.iter().find(|t| t.device == row.device).cloned()
            }
            Why::Named | Why::Only => None,
        };
    }
    if args.json {
        print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    for row in &rows {
        let adapter = match (&row.adapter, &row.reason) {
            (Some(adapter), _) if row.features.is_empty() => adapter.clone(),
            (Some(adapter), _) => format!("{adapter}, {}", row.features.join(", ")),
            (None, reason) => format!("not available: {}", reason.as_deref().unwrap_or("unknown")),
        };
        print_text(&format!("{:<10} {adapter}\n{:<10} {}\n", row.device, "", row.about))?;
        for why in &row.demoted {
            print_text(&format!("{:<10} not used: {why}\n", ""))?;
        }
        if let Some(lanes) = &row.subgroups {
            print_text(&format!("{:<10} subgroups of {lanes}\n", ""))?;
        }
        if let Some(tuning) = &row.tuning {
            let from = row.tuning_from.as_deref().unwrap_or("as usual");
            print_text(&format!("{:<10} kernels {tuning} ({from})\n", ""))?;
        }
        if let Some(target) = &row.target {
            print_text(&format!("{:<10} {target}\n", ""))?;
        }
    }
    print_text(&format!("{:<10} {}, {why}\n", auto::AUTO, fastest.name))?;
    Ok(ExitCode::SUCCESS)
}

/// Measures the device of a row, and writes its report if that is asked for; whether there was something to measure.
/// `absent` says why it did not open.
fn measure(
    row: &DeviceRow,
    options: &OpenOptions,
    args: &DevicesArgs,
    absent: Option<&Error>,
) -> Result<bool> {
    let line = RefCell::new(ProgressLine::new("measuring"));
    let progress = |done| line.borrow_mut().share(done);
    match (&args.report, row.report, row.tune, absent) {
        // Without a device there is no report, and who asked for one is told.
        (Some(_), Some(_), _, Some(why)) => Err(why.clone()),
        (Some(path), Some(report), _, None) => {
            // Before minutes are spent on what may not be written.
            let mut file = NewFile::create(path, MOST_BYTES as u64, args.force)?;
            let report = report(options, &progress)?;
            file.put(report.to_text()?.as_bytes())?;
            file.commit()?;
            Ok(true)
        }
        (None, _, Some(tune), None) => tune(options, &progress).map(|_| true),
        _ => Ok(false),
    }
}
