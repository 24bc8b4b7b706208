//! `rlx track`: follows things through the pictures of a film.

use super::options::DeviceArgs;
use super::progress::ProgressLine;
use super::segment::{Found, found, frame, png, point, prompts, runs};
use super::{print_json, print_text};
use crate::image;
use crate::network::CheckpointFiles;
use crate::new_file::NewFile;
use crate::track::follower;
use clap::Args;
use rlx_core::gguf::Sink;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub struct TrackArgs {
    /// A model that follows things: a folder whose config.json says sam2_video
    #[arg(long, value_name = "PATH")]
    model: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// A point of the thing on the first picture, in pixels from the top left corner; with 0 for a label, a point
    /// beside it
    #[arg(long = "point", value_name = "X,Y[,LABEL]", value_parser = point)]
    points: Vec<([f64; 2], bool)>,
    /// A box around the thing on the first picture: left, top, right, bottom. Several boxes are several things
    #[arg(long = "box", value_name = "X0,Y0,X1,Y1", value_parser = frame)]
    boxes: Vec<[f64; 4]>,
    /// Write masks to PNG files in this folder, as large as the pictures, white where the thing is: 00001.png and
    /// further; of several things 00001-1.png and further
    #[arg(long, value_name = "FOLDER", required_unless_present = "json")]
    out: Option<PathBuf>,
    /// With `--out`: replace existing files
    #[arg(long, requires = "out")]
    force: bool,
    /// Print a line of JSON for each picture, as soon as it is done: frame, image, device, things; without `--out` each
    /// thing's pixels too, as runs of pixels row by row, not covered and covered in turn
    #[arg(long)]
    json: bool,
    /// The pictures in order, all of one size: PNG, JPEG, WebP or GIF files
    #[arg(value_name = "FRAMES", required = true)]
    frames: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Frame<'a> {
    /// Its number, from 1.
    frame: usize,
    /// Width and height.
    image: [u32; 2],
    device: &'a str,
    adapter: &'a str,
    things: Vec<Thing>,
}

#[derive(Serialize)]
struct Thing {
    /// Whether the model sees it on this picture.
    in_sight: bool,
    #[serde(flatten)]
    found: Found,
}

/// The file of a thing's mask: with the number of the picture, and of the thing where there are several.
fn file(folder: &Path, frame: usize, [thing, things]: [usize; 2]) -> PathBuf {
    let of = if things > 1 { format!("-{}", thing + 1) } else { String::new() };
    folder.join(format!("{:05}{of}.png", frame + 1))
}

/// Makes the folder, and fails for a file that would be replaced, before a model is read for nothing.
fn prepare(folder: &Path, frames: usize, things: usize, force: bool) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| {
        Error::new(Code::Io, format!("the folder cannot be made: {e}"))
            .at(folder.display().to_string())
    })?;
    let files = (0..frames).flat_map(|i| (0..things).map(move |j| file(folder, i, [j, things])));
    match files.filter(|_| !force).find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(Error::usage("there is a file of this name already")
            .at(path.display().to_string())
            .hint("give another folder, or --force to replace files")),
        None => Ok(()),
    }
}

pub fn track(args: &TrackArgs) -> Result<ExitCode> {
    let prompts = prompts(&args.points, &args.boxes)?;
    args.device.check()?;
    let first = image::read(&args.frames[0])?;
    let size = [first.width(), first.height()];
    for prompt in &prompts {
        prompt.check(size)?;
    }
    let (count, things) = (args.frames.len(), prompts.len());
    if let Some(folder) = &args.out {
        prepare(folder, count, things, args.force)?;
    }
    let files = CheckpointFiles::open(&args.model)?;
    let mut follower =
        args.device.load(|(row, device), progress| follower(&files, row, device, progress))?;
    let mut film = follower.film(&first, &prompts, count as u64)?;
    let mut line = ProgressLine::new("following");
    let mut first = Some(first);
    for (i, path) in args.frames.iter().enumerate() {
        line.count(i as u64, count as u64, "pictures");
        let picture = match first.take() {
            Some(picture) => picture,
            None => image::read(path)?,
        };
        let seen = follower.next(&mut film, &picture).map_err(|e| match e.at.is_empty() {
            true => e.at(path.display().to_string()),
            false => e,
        })?;
        let mut all = Vec::new();
        for (j, thing) in seen.into_iter().enumerate() {
            let covered = thing.mask.covered()?;
            let mut found = found(&covered, size[0] as usize);
            (found.thing, found.score) = (j + 1, thing.mask.score);
            match &args.out {
                Some(folder) => {
                    let path = file(folder, i, [j, things]);
                    let png = png(&covered, size)?;
                    let mut file = NewFile::create(&path, png.len() as u64, args.force)?;
                    file.put(&png)?;
                    file.commit()?;
                    found.file = Some(path.display().to_string());
                }
                None => found.runs = Some(runs(&covered)),
            }
            all.push(Thing { in_sight: thing.in_sight, found });
        }
        line.hide();
        if args.json {
            let info = follower.session().info();
            let (device, adapter) = (info.kind.as_str(), info.adapter.as_str());
            print_json(&Frame { frame: i + 1, image: size, device, adapter, things: all })?;
            continue;
        }
        for Thing { in_sight, found } in all {
            let file = found.file.unwrap_or_default();
            let text = match in_sight {
                true => format!("{file}: score {:.3}, {} pixels\n", found.score, found.pixels),
                false => format!("{file}: not in sight\n"),
            };
            print_text(&text)?;
        }
    }
    line.clear();
    Ok(ExitCode::SUCCESS)
}
