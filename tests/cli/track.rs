//! `rlx track`: a thing that is followed through a recorded film on every device, files and JSON, and what it says of
//! films that make no sense.

use super::{fails, fixture, folder, rlx, run};
use image::{ExtendedColorType, ImageEncoder};
use rlx_core::safetensors::HeaderReader;
use serde_json::Value;
use std::path::{Path, PathBuf};

const MODEL: &str = "tests/fixtures/sam2_video";
const EDGE: u32 = 128;
/// Pixels that transformers' own model covers on each of these pictures with the two points below, and on the first
/// two with a box each. There are more pictures than the model has memories.
const POINTED: [f64; 6] = [1800.0, 795.0, 1078.0, 976.0, 1167.0, 1136.0];
const BOXED: [[f64; 2]; 2] = [[1337.0, 763.0], [818.0, 734.0]];
/// Some hundred pixels have logits nearer to 0 than 0.02, which is what rounding memories to bfloat16, as
/// transformers does it, moves them by at most.
const NEAR: f64 = 40.0;

/// A picture as a file.
fn picture(path: &Path, pixels: &[u8], width: u32) {
    let mut file = Vec::new();
    let encoder = image::codecs::png::PngEncoder::new(&mut file);
    let height = (pixels.len() / 3) as u32 / width;
    encoder.write_image(pixels, width, height, ExtendedColorType::Rgb8).unwrap();
    std::fs::write(path, file).unwrap();
}

/// The recorded frames as files, as near as bytes come to them, forth and back.
fn film(folder: &Path) -> Vec<PathBuf> {
    let bytes = fixture("sam2_video/io.safetensors");
    let mut reader = HeaderReader::new("io.safetensors", Some(bytes.len() as u64));
    reader.push(&bytes).unwrap();
    let header = reader.into_header().unwrap();
    let frames = &header.tensors["in.track.frames_x16"];
    let frames = &bytes[frames.offset as usize..(frames.offset + frames.bytes) as usize];
    let plane = (EDGE * EDGE) as usize;
    let (mean, deviation) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let of = |(i, at): (usize, usize)| {
        let frame = &frames[at * 3 * plane..][..3 * plane];
        let pixel = |p: usize| {
            (0..3).map(move |c| {
                let x = f64::from(frame[c * plane + p] as i8) / 16.0;
                ((x * deviation[c] + mean[c]) * 255.0).round().clamp(0.0, 255.0) as u8
            })
        };
        let pixels: Vec<u8> = (0..plane).flat_map(pixel).collect();
        let path = folder.join(format!("frame{i}.png"));
        picture(&path, &pixels, EDGE);
        path
    };
    [0, 1, 2, 1, 0, 2].into_iter().enumerate().map(of).collect()
}

fn command(args: &[&str], frames: &[PathBuf]) -> std::process::Command {
    let mut command = rlx(&["track", "--model", MODEL]);
    command.args(args).args(frames);
    command
}

/// One object for each frame.
fn followed(args: &[&str], frames: &[PathBuf]) -> Vec<Value> {
    let (code, stdout, stderr) = run(command(args, frames).arg("--json"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const POINTS: [&str; 4] = ["--point", "40,52", "--point", "77,30,0"];

#[test]
fn the_recorded_film_is_followed_as_its_makers_follow_it_on_every_device() {
    for device in ["reference", "cpu", "webgpu"] {
        let (code, stdout, stderr) =
            run(&mut rlx(&["verify", MODEL, "--device", device, "--json"]));
        assert_eq!((code, stderr.as_str()), (0, ""), "{device}: {stdout}");
        let found: Value = serde_json::from_str(&stdout).unwrap();
        let of = |row: &Value| {
            let (name, limit) = (row["name"].as_str().unwrap(), row["tolerance"].as_f64().unwrap());
            (name.to_owned(), limit)
        };
        let all: Vec<_> = found["outputs"].as_array().unwrap().iter().map(of).collect();
        let want = [
            ("track.2.memory_attention.out", 2e-4),
            ("out.track.object_score_logits", 2e-2),
            ("out.track.pred_masks", 2e-2),
        ];
        assert_eq!(all, want.map(|(name, limit)| (name.to_owned(), limit)), "{device}");
    }
}

#[test]
fn a_film_longer_than_the_memory_becomes_masks_of_each_picture() {
    let folder = folder("track_finds");
    let frames = film(&folder);
    let all: Vec<Vec<Value>> = ["reference", "cpu", "webgpu"]
        .iter()
        .map(|device| followed(&[&POINTS[..], &["--device", device]].concat(), &frames))
        .collect();
    for frames in &all {
        let numbers: Vec<_> = frames.iter().map(|f| f["frame"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
        for (frame, want) in frames.iter().zip(POINTED) {
            let thing = &frame["things"][0];
            assert_eq!(thing["in_sight"], true);
            let off = thing["pixels"].as_f64().unwrap() - want;
            assert!(off.abs() <= NEAR, "{}: {off} pixels", frame["frame"]);
        }
    }
    // What is seen on the first picture is what `rlx segment` finds there.
    let mut one = rlx(&["segment", "--model", MODEL, "--json", "--device", "reference"]);
    let (code, stdout, _) = run(one.args(POINTS).arg(&frames[0]));
    assert_eq!(code, 0);
    let segmented: Value = serde_json::from_str(&stdout).unwrap();
    let first = &all[0][0]["things"][0];
    assert_eq!(first["runs"], segmented["masks"][0]["runs"]);
    for (device, frames) in ["cpu", "webgpu"].iter().zip(&all[1..]) {
        for (got, want) in frames.iter().zip(&all[0]) {
            assert_eq!(&got["device"], device);
            let (got, want) = (&got["things"][0], &want["things"][0]);
            let off = got["score"].as_f64().unwrap() - want["score"].as_f64().unwrap();
            assert!(off.abs() <= 1e-3, "{device}: {off:e}");
            let (a, b) = (got["pixels"].as_f64().unwrap(), want["pixels"].as_f64().unwrap());
            // A logit near 0 may fall on either side.
            assert!((a - b).abs() <= 4.0, "{device}: {a} {b}");
        }
    }
    // The film is not the same picture again and again to the model: what it remembers changes what it sees.
    let alone = followed(&[&POINTS[..], &["--device", "reference"]].concat(), &frames[4..5]);
    assert_ne!(alone[0]["things"][0]["runs"], all[0][4]["things"][0]["runs"]);
}

#[test]
fn masks_of_two_things_become_files_as_large_as_the_pictures() {
    let folder = folder("track_files");
    let frames = film(&folder);
    let out = folder.join("masks");
    let args = ["--box", "20,20,70,90", "--box", "60,10,120,60", "--device", "cpu", "--out"];
    let args = [&args[..], &[out.to_str().unwrap()]].concat();
    let (code, stdout, stderr) = run(&mut command(&args, &frames[..2]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let names = ["00001-1.png", "00001-2.png", "00002-1.png", "00002-2.png"];
    assert_eq!(stdout.lines().count(), names.len());
    for (line, name) in stdout.lines().zip(names) {
        assert!(line.contains(name), "{line}");
        let mask = image::load_from_memory(&std::fs::read(out.join(name)).unwrap()).unwrap();
        assert_eq!((mask.width(), mask.height()), (EDGE, EDGE));
        assert!(mask.as_bytes().iter().all(|p| [0, 255].contains(p)));
    }
    // Each thing has its own memory: alone it is followed as beside another.
    let both = followed(&[&args[..], &["--force"]].concat(), &frames[..2]);
    for (frame, want) in both.iter().zip(BOXED) {
        for (thing, want) in want.into_iter().enumerate() {
            let off = frame["things"][thing]["pixels"].as_f64().unwrap() - want;
            assert!(off.abs() <= NEAR, "{thing} on {}: {off} pixels", frame["frame"]);
        }
    }
    for (i, frame) in ["20,20,70,90", "60,10,120,60"].iter().enumerate() {
        let alone = followed(&["--box", frame, "--device", "cpu"], &frames[..2]);
        assert_eq!(both[1]["things"][i]["pixels"], alone[1]["things"][0]["pixels"]);
        assert!(both[1]["things"][i]["runs"].is_null());
    }
    // A file that is there stays, unless its owner says otherwise.
    let (code, _, stderr) = run(&mut command(&args, &frames[..2]));
    assert!(code == 2 && stderr.contains("--force"), "{stderr}");
}

#[test]
fn films_that_make_no_sense_are_refused() {
    let folder = folder("track_refuses");
    let mut frames = film(&folder);
    frames.truncate(2);
    let other = folder.join("other.png");
    picture(&other, &[7; 30 * 20 * 3], 30);
    for (args, what) in [
        (&[][..], "nothing is shown"),
        (&["--point", "129,2"], "the point 129,2 is not in the image"),
        (&["--point", "1,1", "--box", "1,1,9,9", "--box", "1,1,9,8"], "several boxes"),
    ] {
        let (code, stdout, stderr) = run(command(args, &frames).arg("--json"));
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(what), "{args:?}: {stderr}");
    }
    let (code, _, stderr) = run(&mut command(&["--point", "1,1"], &frames));
    assert!(code == 2 && stderr.contains("--out"), "{stderr}");
    let (code, _, stderr) = run(&mut command(&["--point", "1,1", "--json"], &[]));
    assert!(code == 2 && stderr.contains("FRAMES"), "{stderr}");
    let mixed = [frames[0].clone(), other];
    let (code, stdout, stderr) = run(&mut command(&["--point", "1,1", "--json"], &mixed));
    assert_eq!((code, stdout.lines().count()), (2, 1));
    assert!(stderr.contains("30 x 20") && stderr.contains("other.png"), "{stderr}");
    let mut images = rlx(&["track", "--json", "--point", "1,1", "--model", "tests/fixtures/sam2"]);
    fails(
        images.args(&frames),
        3,
        "this model of family sam2 remembers nothing from frame to frame",
        "things are followed by a model whose config.json says sam2_video",
    );
}
