//! `rlx features`: computes vectors of images.

use super::embed::write_file;
use super::options::DeviceArgs;
use super::progress::ProgressLine;
use super::{print_json, print_text};
use crate::features::{Features, extractor};
use crate::image;
use crate::network::CheckpointFiles;
use crate::npy::Array;
use clap::Args;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct FeaturesArgs {
    /// A model of images: a folder with config.json and model.safetensors
    #[arg(long, value_name = "PATH")]
    model: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// One vector of each whole image, instead of its rows
    #[arg(long)]
    pooled: bool,
    /// Write the numbers to this .npy file, instead of printing them: images, rows, width
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With `--output`: replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
    /// Print one line of JSON for all images: images, width, device, features
    #[arg(long)]
    json: bool,
    /// PNG, JPEG, WebP or GIF files
    #[arg(value_name = "IMG", required = true)]
    images: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Extracted<'a> {
    images: usize,
    width: usize,
    /// Rows of each image; one where images are pooled.
    rows: Vec<usize>,
    device: &'a str,
    adapter: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<Vec<Vec<&'a [f32]>>>,
}

pub fn features(args: &FeaturesArgs) -> Result<ExitCode> {
    args.device.check()?;
    let files = CheckpointFiles::open(&args.model)?;
    let mut extractor =
        args.device.load(|(row, device), progress| extractor(&files, row, device, progress))?;
    let mut line = ProgressLine::new("looking");
    let mut all: Vec<Features> = Vec::with_capacity(args.images.len());
    for (i, path) in args.images.iter().enumerate() {
        let picture = image::read(path)?;
        let found = extractor.features(&picture);
        let mut found = found.map_err(|e| match e.at.is_empty() {
            true => e.at(path.display().to_string()),
            false => e,
        })?;
        if args.pooled {
            // A vector is one row.
            found.rows = found.pooled.take().ok_or_else(|| {
                Error::new(Code::Unsupported, "--pooled: the model makes no vector of an image")
                    .hint("leave --pooled out: the first of the rows stands for the whole image")
            })?;
        }
        all.push(found);
        line.share((i + 1) as f64 / args.images.len() as f64);
    }
    line.clear();
    let width = all.first().map_or(1, |f| f.width.max(1));
    let rows: Vec<usize> = all.iter().map(|f| f.rows.len() / width).collect();
    if let Some(path) = &args.output {
        let first = rows.first().copied().unwrap_or(0);
        if rows.iter().any(|&n| n != first) {
            let what = "--output: the images have different numbers of rows";
            return Err(Error::usage(what).hint("give images of one size, or --pooled"));
        }
        let bytes: Vec<u8> =
            all.iter().flat_map(|f| f.rows.iter().flat_map(|x| x.to_le_bytes())).collect();
        let (images, wide) = (all.len() as u64, width as u64);
        let file = match args.pooled {
            true => Array::to_file(DType::F32, &[images, wide], &bytes)?,
            false => Array::to_file(DType::F32, &[images, first as u64, wide], &bytes)?,
        };
        write_file(path, &file, args.force)?;
    }
    let lists: Vec<Vec<&[f32]>> =
        all.iter().map(|f| f.rows.chunks_exact(width).collect()).collect();
    let info = extractor.session().info();
    if args.json {
        print_json(&Extracted {
            images: all.len(),
            width,
            rows,
            device: &info.kind,
            adapter: &info.adapter,
            features: args.output.is_none().then_some(lists),
        })?;
    } else if let Some(path) = &args.output {
        let (images, path) = (all.len(), path.display());
        let count: usize = rows.iter().sum();
        print_text(&format!("{count} vectors of {width} numbers of {images} images in {path}\n"))?;
    } else {
        for list in lists {
            match (args.pooled, list.first()) {
                (true, Some(vector)) => print_json(vector)?,
                _ => print_json(&list)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
