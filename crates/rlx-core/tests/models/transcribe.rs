//! A sound heard in pieces that overlap: as transformers' pipeline hears it, however the sound comes.

use super::checkpoints::Folder;
use crate::load::{Hand, fill, wait};
use crate::sound::{record, vocabulary};
use rlx_core::Code;
use rlx_core::models::Wav2Vec2Config;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::session::network;
use rlx_core::runtime::transcribe::{Heard, PIECE_SECONDS, Pieces, Transcriber};
use rlx_core::sound::{SoundProcessor, Word};
use rlx_core::target::CompileOptions;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

fn transcriber(record: &Value) -> Transcriber {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures"));
    let folder = Folder::open(&root.join("wav2vec2_stable"), "config.json");
    let weights = std::fs::read(root.join("wav2vec2_stable/model.safetensors")).unwrap();
    let checkpoint = folder.checkpoint();
    let (entries, facts) = network::entries(&checkpoint, None).unwrap();
    let device = Arc::new(ReferenceDevice::new());
    let opening = network::open(device, entries, Some(&checkpoint), &CompileOptions::default());
    let session = fill(opening.unwrap(), &[Arc::new(weights)], Hand::Pieces(usize::MAX)).unwrap();
    let processor = SoundProcessor::default();
    let frame = Wav2Vec2Config::open(&checkpoint).unwrap().frame();
    assert_eq!(frame, (20, 30));
    let seconds = record["seconds"].as_f64().unwrap();
    let pieces = Pieces::of_seconds(seconds, processor.rate, frame).unwrap();
    assert_eq!((pieces.samples(), pieces.step()), (4800, 3200));
    let vocabulary = vocabulary(&record["files"], facts.vocab).unwrap();
    Transcriber::new(session, processor, vocabulary, pieces).unwrap()
}

/// The sound of the record, which tools/transcripts.py computes in the same way.
fn sound(samples: usize) -> Vec<f32> {
    let mut state = 1u64;
    let next = |i: usize| {
        state = (state * 1_103_515_245 + 12_345) % (1 << 31);
        let loud = 1 + (i / 500) % 5;
        (((state >> 16) % 256) as f32 - 128.0) * loud as f32 / 1024.0
    };
    (0..samples).map(next).collect()
}

/// Text, words and how many pieces were heard of a sound that comes in pieces of so many samples.
fn heard(transcriber: &mut Transcriber, sound: &[f32], piece: usize) -> (String, Vec<Word>, usize) {
    let mut going = transcriber.start(16_000).unwrap();
    let (mut text, mut words, mut pieces) = (String::new(), Vec::new(), 0);
    let mut rest = sound.chunks(piece);
    loop {
        let step = wait(|cx| going.poll(transcriber, cx)).unwrap();
        text += &going.take_text();
        words.extend(going.take_words());
        match step {
            Heard::NeedsSound => match rest.next() {
                Some(samples) => going.push(samples),
                None => going.end(),
            },
            Heard::Piece => pieces += 1,
            Heard::End => break,
        }
    }
    assert_eq!(wait(|cx| going.poll(transcriber, cx)).unwrap(), Heard::End);
    assert!(going.take_text().is_empty() && going.take_words().is_empty());
    let frames = (sound.len() as u64).checked_sub(30).map_or(0, |n| n / 20 + 1);
    assert_eq!(going.frames(), frames, "every frame counts once");
    (text, words, pieces)
}

#[test]
fn pieces_are_heard_as_transformers_hears_them() {
    let record = record("pieces.json");
    let mut transcriber = transcriber(&record);
    for case in record["cases"].as_array().unwrap() {
        let samples = case["samples"].as_u64().unwrap() as usize;
        let (text, words, pieces) = heard(&mut transcriber, &sound(samples), 1000);
        assert_eq!(text, case["text"].as_str().unwrap(), "{samples}");
        let got: Vec<(&str, f64, f64)> = words
            .iter()
            .map(|w| (w.text.as_str(), transcriber.seconds(w.start), transcriber.seconds(w.end)))
            .collect();
        let list = case["words"].as_array().unwrap().iter();
        let want: Vec<(&str, f64, f64)> = list
            .map(|w| (w[0].as_str().unwrap(), w[1].as_f64().unwrap(), w[2].as_f64().unwrap()))
            .collect();
        assert_eq!(got, want, "{samples}");
        // All but the last piece are whole.
        assert_eq!(pieces, samples.saturating_sub(4801) / 3200 + usize::from(samples > 4800));
    }
    // In other pieces the sound says the same; of nothing, and of less than a frame, nothing is said.
    let last = record["cases"].as_array().unwrap().last().unwrap();
    let (text, ..) = heard(&mut transcriber, &sound(15_999), 20_000);
    assert_eq!(text, last["text"].as_str().unwrap());
    for samples in [0, 1, 29] {
        assert_eq!(heard(&mut transcriber, &sound(samples), 7), (String::new(), Vec::new(), 0));
    }
}

#[test]
fn what_cannot_be_heard_is_an_error() {
    let mut transcriber = transcriber(&record("pieces.json"));
    assert_eq!(transcriber.start(1).err().unwrap().code, Code::Unsupported);
    let mut going = transcriber.start(16_000).unwrap();
    going.push(&[0.0, f32::NAN]);
    going.push(&[0.0; 100]);
    going.end();
    let e = wait(|cx| going.poll(&mut transcriber, cx)).unwrap_err();
    assert_eq!(e.code, Code::BadFile, "{e}");
}

#[test]
fn pieces_overlap_by_what_a_frame_is_made_of() {
    let published = (320, 400);
    let usual = Pieces::of_seconds(PIECE_SECONDS, 16_000, published).unwrap();
    assert_eq!((usual.samples(), usual.step()), (480_000, 320_000));
    for seconds in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.05, 1e99] {
        let e = Pieces::of_seconds(seconds, 16_000, published).expect_err("no such pieces");
        assert_eq!(e.code, Code::Usage, "{seconds}: {e}");
    }
    // What the hint names as the least is enough.
    let e = Pieces::of_seconds(0.05, 16_000, published).unwrap_err();
    assert!(e.hint.contains("0.120 seconds"), "{e} {}", e.hint);
    assert!(Pieces::of_seconds(0.12, 16_000, published).is_ok());
    // A frame longer than its stride many times over: pieces keep all frames between them.
    let wide = Pieces::of_seconds(1.0, 16_000, (20, 3000)).unwrap_err();
    assert_eq!(wide.code, Code::Usage);
    assert!(Pieces::of_seconds(2.0, 16_000, (20, 3000)).is_ok());
}
