//! A picture of a prompt, polled: which models it needs and when, previews that change nothing, a picture that is
//! given up, and a pipeline whose files do not say enough.

use crate::load::{Hand, fill, wait};
use rlx_core::image::Image;
use rlx_core::models::Checkpoint;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::imagine::{
    ImagineOptions, Imagined, Imagining, Models, Part, Pipeline, PipelineFiles,
};
use rlx_core::runtime::session::network;
use rlx_core::target::CompileOptions;
use rlx_core::{Code, Error};
use std::path::PathBuf;
use std::sync::Arc;

fn path(name: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/flux2_klein");
    PathBuf::from(root).join(name)
}

/// The recorded pipeline, whose small files `change` may replace.
fn pipeline(change: impl Fn(&str, &mut Vec<u8>)) -> Result<Pipeline, Error> {
    let mut files = PipelineFiles::default();
    for name in PipelineFiles::names() {
        let Ok(mut text) = std::fs::read(path(&name)) else { continue };
        change(&name, &mut text);
        if !text.is_empty() {
            files.put(&name, &name, &text)?;
        }
    }
    Pipeline::open("klein", files)
}

fn load(pipeline: &Pipeline, models: &mut Models, part: Part) {
    let name = match part {
        Part::TextEncoder => "model.safetensors",
        _ => "diffusion_pytorch_model.safetensors",
    };
    let weights = std::fs::read(path(part.folder()).join(name)).unwrap();
    let headers = [super::checkpoints::header(&weights)];
    let checkpoint = Checkpoint::transformers_shards(pipeline.config(part), &headers);
    let entries = pipeline.entries(part, &checkpoint).unwrap();
    let (device, options) = (Arc::new(ReferenceDevice::new()), CompileOptions::default());
    let opening = network::open(device, entries, Some(&checkpoint), &options).unwrap();
    let session = fill(opening, &[Arc::new(weights)], Hand::Pieces(usize::MAX)).unwrap();
    models.put(part, session);
}

/// What becomes of a picture whose models are freed as soon as they are not needed: the folders of the models of each
/// answer, the previews, and the picture.
fn made(pipeline: &Pipeline, imagining: &mut Imagining) -> (Vec<String>, Vec<Image>, Image) {
    let (mut models, mut needed, mut previews) = (Models::default(), Vec::new(), Vec::new());
    loop {
        let needs = imagining.needs();
        models.keep(needs);
        for &part in needs.iter() {
            if !models.has(part) {
                load(pipeline, &mut models, part);
            }
        }
        assert_eq!(models.sessions().count(), needs.len());
        needed.push(needs.iter().map(|part| part.folder()).collect::<Vec<_>>().join(" "));
        match wait(|cx| imagining.poll(&mut models, cx)).unwrap() {
            Imagined::Prompt => {}
            Imagined::Step { preview, .. } => previews.extend(preview),
            Imagined::Picture(picture) => return (needed, previews, picture),
        }
    }
}

fn options(preview: bool) -> ImagineOptions {
    ImagineOptions { width: 16, height: 12, steps: Some(2), seed: 7, preview, ..Default::default() }
}

#[test]
fn models_are_needed_one_after_the_other_and_previews_change_nothing() {
    let pipeline = pipeline(|_, _| {}).unwrap();
    assert_eq!((pipeline.scale(), pipeline.usual_steps(), pipeline.is_distilled()), (4, 4, true));
    let mut imagining = pipeline.start("a fox", &options(false)).unwrap();
    assert_eq!(imagining.steps(), 2);
    let (needed, previews, picture) = made(&pipeline, &mut imagining);
    assert_eq!(needed, ["text_encoder", "transformer", "transformer", "vae"]);
    assert_eq!((previews.len(), picture.width(), picture.height()), (0, 16, 12));
    let mut imagining = pipeline.start("a fox", &options(true)).unwrap();
    let (needed, previews, same) = made(&pipeline, &mut imagining);
    assert_eq!(needed, ["text_encoder", "transformer vae", "transformer vae", "vae"]);
    assert_eq!(previews.len(), 1, "the last step's preview would be the picture");
    assert_eq!(same.pixels(), picture.pixels());
    assert_ne!(previews[0].pixels(), picture.pixels());
    let mut imagining =
        pipeline.start("a fox", &ImagineOptions { seed: 8, ..options(false) }).unwrap();
    assert_ne!(made(&pipeline, &mut imagining).2.pixels(), picture.pixels());
}

#[test]
fn a_picture_that_is_given_up_leaves_the_models_whole() {
    let pipeline = pipeline(|_, _| {}).unwrap();
    let mut models = Models::default();
    let mut given_up = pipeline.start("a fox", &options(false)).unwrap();
    let e = wait(|cx| given_up.poll(&mut models, cx)).map(|_| ()).unwrap_err();
    assert_eq!((e.code, e.what.as_str()), (Code::Usage, "the text_encoder is not loaded"));
    for part in Part::ALL {
        load(&pipeline, &mut models, part);
    }
    for _ in 0..2 {
        wait(|cx| given_up.poll(&mut models, cx)).unwrap();
    }
    drop(given_up);
    let mut again = pipeline.start("a fox", &options(false)).unwrap();
    let got = loop {
        if let Imagined::Picture(got) = wait(|cx| again.poll(&mut models, cx)).unwrap() {
            break got;
        }
    };
    let mut alone = pipeline.start("a fox", &options(false)).unwrap();
    assert_eq!(made(&pipeline, &mut alone).2.pixels(), got.pixels());
}

#[test]
fn files_that_do_not_say_enough_are_errors() {
    let refused = |change: &dyn Fn(&str, &mut Vec<u8>), code: Code, what: &str| {
        let e = pipeline(change).map(|_| ()).unwrap_err();
        assert!(e.code == code && e.to_string().contains(what), "{what}: {e}");
    };
    for name in ["model_index.json", "scheduler/scheduler_config.json", "vae/config.json"] {
        let gone = |file: &str, text: &mut Vec<u8>| {
            if file == name {
                text.clear();
            }
        };
        refused(&gone, Code::Io, &format!("the folder has no {name}"));
        let broken = |file: &str, text: &mut Vec<u8>| {
            if file == name {
                text.truncate(text.len() / 2);
            }
        };
        refused(&broken, Code::BadFile, name);
    }
    let no_tokenizer = |file: &str, text: &mut Vec<u8>| {
        if file == "tokenizer/tokenizer.json" {
            text.clear();
        }
    };
    refused(&no_tokenizer, Code::Io, "klein/tokenizer");
    let e = PipelineFiles::default().put("../model_index.json", "x", b"{}").unwrap_err();
    assert_eq!(e.code, Code::Usage);
    let pipeline = pipeline(|_, _| {}).unwrap();
    for (options, what) in [
        (ImagineOptions { width: 18, ..options(false) }, "18 x 12 pixels"),
        (ImagineOptions { height: 8192, ..options(false) }, "16 x 8192 pixels"),
        (ImagineOptions { steps: Some(0), ..options(false) }, "0 steps"),
        (ImagineOptions { guidance: Some(2.0), ..options(false) }, "takes no guidance"),
        (ImagineOptions { latents: Some(vec![0.0]), ..options(false) }, "1 numbers of latents"),
    ] {
        let e = pipeline.start("x", &options).map(|_| ()).unwrap_err();
        assert!(e.code == Code::Usage && e.what.contains(what), "{what}: {e}");
    }
}
