//! A picture seen once and asked often: answers do not depend on what was asked between, a call that is dropped or
//! overtaken leaves the segmenter whole, and scores that are no numbers are an error.

use super::checkpoints::Folder;
use crate::load::{Hand, fill, wait};
use rlx_core::Code;
use rlx_core::image::Image;
use rlx_core::models::{IMAGE_EMBED, SamPrompt};
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::segment::{Mask, Seen, Segmenter};
use rlx_core::runtime::session::network;
use rlx_core::safetensors::HeaderReader;
use rlx_core::target::CompileOptions;
use std::path::PathBuf;
use std::sync::Arc;

/// The recorded SAM 2, whose weights `change` may change: the tensor's name and its numbers' bytes.
fn segmenter(change: impl Fn(&str, &mut [u8])) -> Segmenter {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/sam2");
    let folder = Folder::open(&PathBuf::from(path), "config.json");
    let mut weights = std::fs::read(PathBuf::from(path).join("model.safetensors")).unwrap();
    let checkpoint = folder.checkpoint();
    let (entries, facts) = network::entries(&checkpoint, None).unwrap();
    let device = Arc::new(ReferenceDevice::new());
    let opening = network::open(device, entries, Some(&checkpoint), &CompileOptions::default());
    let opening = opening.unwrap();
    let mut reader = HeaderReader::new("model.safetensors", Some(weights.len() as u64));
    reader.push(&weights).unwrap();
    for (name, t) in &reader.into_header().unwrap().tensors {
        change(name, &mut weights[t.offset as usize..(t.offset + t.bytes) as usize]);
    }
    let inputs = opening.inputs(IMAGE_EMBED).unwrap();
    let file =
        br#"{"image_processor_type": "Sam2ImageProcessor", "size": {"height": 9, "width": 9}}"#;
    let e = Segmenter::processor(inputs, facts.family, Some(("p.json", file))).unwrap_err();
    assert_eq!((e.code, e.at.starts_with("p.json")), (Code::BadFile, true), "{e}");
    let processor = Segmenter::processor(inputs, facts.family, None).unwrap();
    assert!(opening.inputs("none").is_none());
    let session = fill(opening, &[Arc::new(weights)], Hand::Pieces(usize::MAX)).unwrap();
    Segmenter::new(session, processor, facts.family).unwrap()
}

fn image(width: u32, height: u32) -> Image {
    let pixels = (0..width * height * 3).map(|i| (i * 37 % 251) as u8).collect();
    Image::new(width, height, pixels).unwrap()
}

fn look(segmenter: &mut Segmenter, image: &Image) -> Seen {
    let mut looking = segmenter.look(image).unwrap();
    wait(|cx| looking.poll(segmenter, cx)).unwrap()
}

fn ask(segmenter: &mut Segmenter, seen: &Seen, prompt: &SamPrompt, all: bool) -> Vec<Mask> {
    let mut masking = segmenter.masks(seen, prompt, all).unwrap();
    wait(|cx| masking.poll(segmenter, cx)).unwrap()
}

fn point(at: [f64; 2]) -> SamPrompt {
    SamPrompt { points: vec![(at, true)], frame: None }
}

/// Everything that is said of masks.
fn said(masks: &[Mask]) -> Vec<(u32, Vec<bool>)> {
    masks.iter().map(|m| (m.score.to_bits(), m.covered().unwrap())).collect()
}

#[test]
fn answers_depend_on_the_picture_and_the_prompt_alone() {
    let mut segmenter = segmenter(|_, _| ());
    let (wide, tall) = (image(31, 9), image(8, 20));
    let seen = look(&mut segmenter, &wide);
    assert_eq!(seen.size(), [31, 9]);
    let all = ask(&mut segmenter, &seen, &point([20.0, 3.0]), true);
    assert_eq!(all.len(), 3);
    assert!(all.is_sorted_by(|a, b| a.score >= b.score));
    let first = said(&all);
    assert!(first.iter().all(|(_, covered)| covered.len() == 31 * 9));
    let best = ask(&mut segmenter, &seen, &point([20.0, 3.0]), false);
    assert_eq!(said(&best), first[..1]);
    let framed = SamPrompt { frame: Some([2.0, 1.0, 30.0, 8.0]), ..point([20.0, 3.0]) };
    assert_eq!(ask(&mut segmenter, &seen, &framed, false).len(), 1);
    // Another picture between, a call that is overtaken by another, and one that is dropped.
    let other = look(&mut segmenter, &tall);
    assert_ne!(said(&ask(&mut segmenter, &other, &point([2.0, 3.0]), true)), first);
    let mut overtaken = segmenter.masks(&other, &point([2.0, 3.0]), true).unwrap();
    drop(segmenter.look(&tall).unwrap());
    assert_eq!(said(&ask(&mut segmenter, &seen, &point([20.0, 3.0]), true)), first);
    let e = wait(|cx| overtaken.poll(&mut segmenter, cx)).err().unwrap();
    assert_eq!(e.code, Code::Cancelled, "{e}");
    // A picture may be dropped while it is asked of.
    let mut masking = segmenter.masks(&seen, &point([20.0, 3.0]), true).unwrap();
    drop(seen);
    assert_eq!(said(&wait(|cx| masking.poll(&mut segmenter, cx)).unwrap()), first);
    let outside = segmenter.masks(&other, &point([20.0, 3.0]), true).err().unwrap();
    assert_eq!(outside.code, Code::Usage, "{outside}");
}

#[test]
fn scores_that_are_no_numbers_are_an_error() {
    let mut segmenter = segmenter(|name, bytes| {
        if name.contains("iou_prediction_head") {
            let (numbers, _) = bytes.as_chunks_mut::<4>();
            numbers.iter_mut().for_each(|number| *number = f32::NAN.to_le_bytes());
        }
    });
    let seen = look(&mut segmenter, &image(9, 9));
    let mut masking = segmenter.masks(&seen, &point([2.0, 3.0]), true).unwrap();
    let e = wait(|cx| masking.poll(&mut segmenter, cx)).err().unwrap();
    assert_eq!(e.code, Code::BadFile, "{e}");
}
