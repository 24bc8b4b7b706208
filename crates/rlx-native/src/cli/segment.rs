//! `rlx segment`: finds the pixels of things in an image.

use super::options::DeviceArgs;
use super::progress::ProgressLine;
use super::{detect, print_json, print_text};
use crate::image;
use crate::network::CheckpointFiles;
use crate::new_file::NewFile;
use crate::segment::{Segmenter, look, masks as masks_of, segmenter};
use ::image::codecs::png::PngEncoder;
use ::image::{ExtendedColorType, ImageEncoder};
use clap::Args;
use rlx_core::gguf::Sink;
use rlx_core::models::{self, SamPrompt, Task};
use rlx_core::{Error, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub struct SegmentArgs {
    /// A segmenting model: a folder with config.json and model.safetensors
    #[arg(long, value_name = "PATH")]
    pub(super) model: PathBuf,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// A point of the thing, in pixels from the top left corner; with 0 for a label, a point beside it
    #[arg(long = "point", value_name = "X,Y[,LABEL]", value_parser = point)]
    pub(super) points: Vec<([f64; 2], bool)>,
    /// A box around the thing: left, top, right, bottom. Several boxes are several things; with a model that knows
    /// words they are examples of one kind of thing, and with 0 for a label, of what is no such thing
    #[arg(long = "box", value_name = "X0,Y0,X1,Y1[,LABEL]", value_parser = labelled_frame)]
    pub(super) boxes: Vec<([f64; 4], bool)>,
    /// Words for a kind of thing, for a model that knows words, such as SAM 3: every such thing is found
    #[arg(long, value_name = "WORDS")]
    pub(super) text: Option<String>,
    /// How sure a model that knows words must be of a thing, from 0 to 1; 0.5 unless it is said
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) threshold: Option<f32>,
    /// Every mask that the model offers for a thing, the best first, instead of one; with a model that knows words, one
    /// mask of each thing instead of one of all
    #[arg(long)]
    pub(super) all: bool,
    /// Write the mask to this PNG file, as large as the image, white where the thing is; several masks are numbered
    #[arg(long, value_name = "FILE", required_unless_present = "json")]
    pub(super) out: Option<PathBuf>,
    /// With `--out`: replace existing files
    #[arg(long, requires = "out")]
    pub(super) force: bool,
    /// Print one line of JSON: image, device, masks; without `--out` each mask's pixels too, as runs of pixels row by
    /// row, not covered and covered in turn
    #[arg(long)]
    pub(super) json: bool,
    /// A PNG, JPEG, WebP or GIF file
    #[arg(value_name = "IMG")]
    pub(super) image: PathBuf,
}

#[derive(Serialize)]
struct Segmented<'a> {
    /// Width and height of the image.
    image: [u32; 2],
    device: &'a str,
    adapter: &'a str,
    masks: Vec<Found>,
}

/// A mask that was found.
#[derive(Serialize)]
pub(super) struct Found {
    /// Which box it is of, from 1; 1 where there are points alone. Of a model that knows words, which thing.
    pub thing: usize,
    pub score: f32,
    /// How many pixels are covered.
    pub pixels: usize,
    /// Left, top, right and bottom of what is covered, if anything is.
    #[serde(rename = "box")]
    pub frame: Option<[usize; 4]>,
    /// The same as the model says it itself, of a model that does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_box: Option<[f32; 4]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<usize>>,
}

/// Reads numbers between commas.
fn numbers(text: &str) -> std::result::Result<Vec<f64>, String> {
    let number = |part: &str| match part.trim().parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(x),
        _ => Err(format!("`{part}` is no number")),
    };
    text.split(',').map(number).collect()
}

/// Reads `--point`.
pub(super) fn point(text: &str) -> std::result::Result<([f64; 2], bool), String> {
    match numbers(text)?.as_slice() {
        &[x, y] => Ok(([x, y], true)),
        &[x, y, label] if label == 0.0 || label == 1.0 => Ok(([x, y], label == 1.0)),
        [_, _, _] => Err("the label is 1 for a point of the thing, 0 for one beside it".into()),
        _ => Err("expected x,y or x,y,label".into()),
    }
}

/// Reads `--box`.
pub(super) fn frame(text: &str) -> std::result::Result<[f64; 4], String> {
    let four = <[f64; 4]>::try_from(numbers(text)?);
    four.map_err(|_| "expected left,top,right,bottom".into())
}

/// Reads `--box` with a label.
fn labelled_frame(text: &str) -> std::result::Result<([f64; 4], bool), String> {
    match numbers(text)?.as_slice() {
        &[left, top, right, bottom] => Ok(([left, top, right, bottom], true)),
        &[left, top, right, bottom, label] if label == 0.0 || label == 1.0 => {
            Ok(([left, top, right, bottom], label == 1.0))
        }
        [_, _, _, _, _] => {
            Err("the label is 1 for a box around such a thing, 0 for another".into())
        }
        _ => Err("expected left,top,right,bottom".into()),
    }
}

/// Reads `--threshold`.
fn share(text: &str) -> std::result::Result<f32, String> {
    match text.trim().parse::<f32>() {
        Ok(x) if (0.0..=1.0).contains(&x) => Ok(x),
        _ => Err(format!("`{text}` is no number from 0 to 1")),
    }
}

/// What is asked for: each box is a thing, and points are of the thing that a single box is around.
pub(super) fn prompts(points: &[([f64; 2], bool)], boxes: &[[f64; 4]]) -> Result<Vec<SamPrompt>> {
    if points.is_empty() && boxes.is_empty() {
        let what = "nothing is shown of what to find";
        return Err(Error::usage(what).hint(
            "give --point x,y of the thing, --box left,top,right,bottom around it, or --text",
        ));
    }
    if !points.is_empty() && boxes.len() > 1 {
        let what = "points with several boxes: it is not said which box they belong to";
        return Err(Error::usage(what).hint("give one box with the points, or boxes alone"));
    }
    if boxes.is_empty() {
        return Ok(vec![SamPrompt { points: points.to_vec(), frame: None }]);
    }
    let of = |&frame| SamPrompt { points: points.to_vec(), frame: Some(frame) };
    Ok(boxes.iter().map(of).collect())
}

/// Refuses what a model that knows no words is not asked.
fn without_words(args: &SegmentArgs, family: &str) -> Result<()> {
    let what = match (&args.text, args.threshold) {
        (Some(_), _) => "--text",
        (None, Some(_)) => "--threshold",
        (None, None) if args.boxes.iter().any(|(_, of_it)| !of_it) => "a box of label 0",
        (None, None) => return Ok(()),
    };
    let what = format!("{what} is for models that know words, and {family} is none");
    Err(Error::usage(what).hint("give --point or --box, or a model such as sam3"))
}

pub fn segment(args: &SegmentArgs) -> Result<ExitCode> {
    // Before a model is read for nothing.
    let prompts = match args.text {
        Some(_) => Vec::new(),
        None => prompts(&args.points, &args.boxes.iter().map(|b| b.0).collect::<Vec<_>>())?,
    };
    args.device.check()?;
    let picture = image::read(&args.image)?;
    let size = [picture.width(), picture.height()];
    for prompt in &prompts {
        prompt.check(size)?;
    }
    let files = CheckpointFiles::open(&args.model)?;
    let facts = models::open(&files.checkpoint())?.facts();
    if Segmenter::takes_words(&facts) {
        return detect::detect(args, &files, &picture);
    }
    if facts.task == Task::Segment {
        without_words(args, facts.family)?;
    }
    let mut segmenter =
        args.device.load(|(row, device), progress| segmenter(&files, row, device, progress))?;
    let mut line = ProgressLine::new("looking");
    line.share(0.0);
    let seen = look(&mut segmenter, &picture).map_err(|e| match e.at.is_empty() {
        true => e.at(args.image.display().to_string()),
        false => e,
    })?;
    let mut masks = Vec::new();
    for (i, prompt) in prompts.iter().enumerate() {
        line.share((i + 1) as f64 / (prompts.len() + 1) as f64);
        let of_it = masks_of(&mut segmenter, &seen, prompt, args.all)?;
        let count = of_it.len();
        for (j, mask) in of_it.into_iter().enumerate() {
            let covered = mask.covered()?;
            let mut found = found(&covered, size[0] as usize);
            (found.thing, found.score) = (i + 1, mask.score);
            let png = match &args.out {
                Some(path) => {
                    let path = numbered(path, [(i, prompts.len()), (j, count)]);
                    found.file = Some(path.display().to_string());
                    Some((path, png(&covered, size)?))
                }
                None => {
                    found.runs = Some(runs(&covered));
                    None
                }
            };
            masks.push((found, png));
        }
    }
    line.clear();
    // All files are begun before the first is there.
    let mut files = Vec::new();
    for (path, png) in masks.iter().filter_map(|(_, png)| png.as_ref()) {
        let mut file = NewFile::create(path, png.len() as u64, args.force)?;
        file.put(png)?;
        files.push(file);
    }
    files.into_iter().try_for_each(NewFile::commit)?;
    let info = segmenter.session().info();
    let masks: Vec<Found> = masks.into_iter().map(|(found, _)| found).collect();
    if args.json {
        let (device, adapter) = (info.kind.as_str(), info.adapter.as_str());
        print_json(&Segmented { image: size, device, adapter, masks })?;
    } else {
        for found in masks {
            let file = found.file.unwrap_or_default();
            print_text(&format!("{file}: score {:.3}, {} pixels\n", found.score, found.pixels))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How many pixels are covered, and where.
pub(super) fn found(covered: &[bool], width: usize) -> Found {
    let (mut pixels, mut frame) = (0, None);
    for (i, _) in covered.iter().enumerate().filter(|c| *c.1) {
        pixels += 1;
        let (x, y) = (i % width, i / width);
        let [left, top, right, bottom] = frame.unwrap_or([x, y, x + 1, y + 1]);
        frame = Some([left.min(x), top.min(y), right.max(x + 1), bottom.max(y + 1)]);
    }
    Found { thing: 0, score: 0.0, pixels, frame, predicted_box: None, file: None, runs: None }
}

/// Lengths of the runs of pixels that are not covered and covered in turn.
pub(super) fn runs(covered: &[bool]) -> Vec<usize> {
    let mut out = Vec::from([0]);
    let mut on = false;
    for &pixel in covered {
        if pixel != on {
            out.push(0);
            on = pixel;
        }
        if let Some(last) = out.last_mut() {
            *last += 1;
        }
    }
    out
}

/// The file of a mask: with the number of the thing and of the mask, each where there are several.
pub(super) fn numbered(path: &Path, numbers: [(usize, usize); 2]) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    for (i, _) in numbers.iter().filter(|n| n.1 > 1) {
        name.push(format!("-{}", i + 1));
    }
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// The mask as a PNG file: white where it covers, black elsewhere.
pub(super) fn png(covered: &[bool], [width, height]: [u32; 2]) -> Result<Vec<u8>> {
    let grey: Vec<u8> = covered.iter().map(|&c| if c { 255 } else { 0 }).collect();
    let mut out = Vec::new();
    let written =
        PngEncoder::new(&mut out).write_image(&grey, width, height, ExtendedColorType::L8);
    written.map_err(|e| Error::internal(format!("the mask is no PNG file: {e}")))?;
    Ok(out)
}
