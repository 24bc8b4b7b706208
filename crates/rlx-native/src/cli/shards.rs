//! `rlx split` and `rlx merge`.

use super::print_text;
use super::progress::ProgressLine;
use crate::files::ModelSource;
use crate::tools::shards::{SplitLimits, merge as write_whole, split as write_shards};
use clap::Args;
use rlx_core::{Error, Result};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct SplitArgs {
    /// The GGUF file
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Prefix of the shards' names: PREFIX-00001-of-0000N.gguf
    #[arg(value_name = "PREFIX")]
    prefix: PathBuf,
    /// Most tensor bytes of a shard: 256M, 2G, or a plain number; K, M and G are powers of 1000
    #[arg(long, value_name = "SIZE", required_unless_present = "max_tensors")]
    max_size: Option<String>,
    /// Most tensors of a shard
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tensors: Option<u32>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub struct MergeArgs {
    /// The first shard; the others must be in the same folder
    #[arg(value_name = "SHARD")]
    input: PathBuf,
    /// The file to write
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Bytes of `256M`.
fn size(text: &str) -> Result<u64> {
    let wrong = || {
        Error::usage(format!("{text} is no size")).hint("give bytes, or a number with K, M or G")
    };
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let n: u64 = digits.parse().map_err(|_| wrong())?;
    n.checked_mul(unit).filter(|&n| n > 0).ok_or_else(wrong)
}

pub fn split(args: &SplitArgs) -> Result<ExitCode> {
    let limits = SplitLimits {
        bytes: args.max_size.as_deref().map_or(Ok(u64::MAX), size)?,
        tensors: args.max_tensors.map_or(usize::MAX, |n| n as usize),
    };
    let source = ModelSource::open(&args.input)?;
    let mut line = ProgressLine::new("writing");
    let paths = write_shards(&source, &args.prefix, limits, args.force, &mut |done, total| {
        line.show(done, total);
    })?;
    line.clear();
    let names: Vec<String> = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    print_text(&names.concat())?;
    Ok(ExitCode::SUCCESS)
}

pub fn merge(args: &MergeArgs) -> Result<ExitCode> {
    let source = ModelSource::open(&args.input)?;
    let mut line = ProgressLine::new("writing");
    let bytes = write_whole(&source, &args.out, args.force, &mut |done, total| {
        line.show(done, total);
    })?;
    line.clear();
    print_text(&format!(
        "{}: {} tensors of {} files, {:.1} MB\n",
        args.out.display(),
        source.files.tensors.len(),
        source.maps.len(),
        bytes as f64 / 1e6
    ))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_units_of_thousands() {
        assert_eq!(size("256M"), Ok(256_000_000));
        assert_eq!((size("2g"), size("7")), (Ok(2_000_000_000), Ok(7)));
        for wrong in ["", "M", "0", "1.5G", "-1M", "99999999999G", "1T", "é"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
