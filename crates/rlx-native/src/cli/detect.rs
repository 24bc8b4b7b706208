//! `rlx segment` with a model that knows words: every thing of a kind.

use super::progress::ProgressLine;
use super::segment::{Found, SegmentArgs, found, numbered, png, runs};
use super::{print_json, print_text};
use crate::network::CheckpointFiles;
use crate::new_file::NewFile;
use crate::segment::{Question, find, look, segmenter};
use rlx_core::gguf::Sink;
use rlx_core::image::Image;
use rlx_core::{Error, Result};
use serde::Serialize;
use std::process::ExitCode;

/// How sure a model must be of a thing where nothing is said.
const THRESHOLD: f32 = 0.5;

#[derive(Serialize)]
struct Detected<'a> {
    /// Width and height of the image.
    image: [u32; 2],
    device: &'a str,
    adapter: &'a str,
    /// The mask of all things.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    masks: Vec<Found>,
}

/// Finds things, and writes or prints what was found.
pub(super) fn detect(
    args: &SegmentArgs,
    files: &CheckpointFiles,
    picture: &Image,
) -> Result<ExitCode> {
    if !args.points.is_empty() {
        let what = "a model that knows words takes no points";
        return Err(Error::usage(what).hint("give --text, or --box around one such thing"));
    }
    let size = [picture.width(), picture.height()];
    let question = Question {
        words: args.text.clone(),
        boxes: args.boxes.clone(),
        threshold: args.threshold.unwrap_or(THRESHOLD),
    };
    question.check(size)?;
    let mut segmenter =
        args.device.load(|(row, device), progress| segmenter(files, row, device, progress))?;
    let mut line = ProgressLine::new("looking");
    line.share(0.0);
    let seen = look(&mut segmenter, picture).map_err(|e| match e.at.is_empty() {
        true => e.at(args.image.display().to_string()),
        false => e,
    })?;
    line.share(0.5);
    let things = find(&mut segmenter, &seen, &question)?;
    line.clear();
    let count = things.len();
    let mut all = vec![false; size[0] as usize * size[1] as usize];
    let (mut masks, mut files) = (Vec::new(), Vec::new());
    for (i, thing) in things.into_iter().enumerate() {
        let covered = thing.mask.covered()?;
        all.iter_mut().zip(&covered).for_each(|(all, covered)| *all |= covered);
        let mut found = found(&covered, size[0] as usize);
        (found.thing, found.score) = (i + 1, thing.mask.score);
        found.predicted_box = Some(thing.frame);
        match &args.out {
            Some(path) if args.all => {
                let path = numbered(path, [(i, count), (0, 1)]);
                found.file = Some(path.display().to_string());
                files.push((path, png(&covered, size)?));
            }
            Some(_) => {}
            None => found.runs = Some(runs(&covered)),
        }
        masks.push(found);
    }
    let whole = args.out.as_ref().filter(|_| !args.all);
    if let Some(path) = whole {
        files.push((path.clone(), png(&all, size)?));
    }
    // All files are begun before the first is there.
    let mut new = Vec::new();
    for (path, png) in &files {
        let mut file = NewFile::create(path, png.len() as u64, args.force)?;
        file.put(png)?;
        new.push(file);
    }
    new.into_iter().try_for_each(NewFile::commit)?;
    let info = segmenter.session().info();
    let file = whole.map(|path| path.display().to_string());
    if args.json {
        let (device, adapter) = (info.kind.as_str(), info.adapter.as_str());
        print_json(&Detected { image: size, device, adapter, file, masks })?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = file {
        let pixels = all.iter().filter(|covered| **covered).count();
        let things = if count == 1 { "thing" } else { "things" };
        print_text(&format!("{file}: {count} {things}, {pixels} pixels\n"))?;
    }
    if masks.is_empty() && whole.is_none() {
        print_text("no thing was found\n")?;
    }
    for found in masks {
        let name = found.file.unwrap_or_else(|| format!("thing {}", found.thing));
        print_text(&format!("{name}: score {:.3}, {} pixels\n", found.score, found.pixels))?;
    }
    Ok(ExitCode::SUCCESS)
}
