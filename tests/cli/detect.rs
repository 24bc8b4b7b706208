//! `rlx segment` with a model that knows words: what transformers finds for the same words and boxes on every device,
//! files and JSON, and what it says of questions that make no sense.

use super::segment::Records;
use super::{folder, rlx, run};
use image::ColorType;
use serde_json::Value;
use std::path::Path;

const MODEL: &str = "tests/fixtures/sam3";
const SIZE: [u32; 2] = [53, 37];
const WORDS: [&str; 4] = ["--text", "red  Cat", "--threshold", "0.3"];

fn command(args: &[&str], picture: &Path) -> std::process::Command {
    let mut command = rlx(&["segment", "--model", MODEL]);
    command.args(args).arg(picture);
    command
}

fn found(args: &[&str], picture: &Path) -> Value {
    let (code, stdout, stderr) = run(command(args, picture).arg("--json"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    serde_json::from_str(&stdout).unwrap()
}

/// The pixels that runs cover, each 0 or 1.
fn pixels(runs: &Value) -> Vec<u8> {
    let runs = runs.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize);
    runs.enumerate().flat_map(|(i, n)| std::iter::repeat_n((i % 2) as u8, n)).collect()
}

#[test]
fn words_and_boxes_find_what_the_published_library_finds_on_every_device() {
    let picture = Records::open("images/sam.safetensors").picture(&folder("detect_finds"));
    let records = Records::open("sam3/found.safetensors");
    let both = ["--text", "A dog's tree", "--threshold", "0.4", "--box", "10,5,45,30"];
    let both = [&both[..], &["--box", "2,20,12,36,0"]].concat();
    for device in ["reference", "cpu", "webgpu"] {
        for (name, args, count) in
            [("words", &WORDS[..], 3), ("both", &both, 1), ("boxes", &["--box", "10,5,45,30"], 2)]
        {
            let got = found(&[args, &["--device", device]].concat(), &picture);
            assert_eq!((&got["image"], &got["device"]), (&SIZE.to_vec().into(), &device.into()));
            let masks = got["masks"].as_array().unwrap();
            let want = records.get(&format!("{name}.masks"));
            let numbers = |part: &str| records.floats(&format!("{name}.{part}"));
            let (scores, boxes) = (numbers("scores"), numbers("boxes"));
            assert_eq!((masks.len(), scores.len()), (count, count), "{device} {name}");
            for (i, mask) in masks.iter().enumerate() {
                assert_eq!(mask["thing"], i + 1);
                let off = (mask["score"].as_f64().unwrap() - scores[i]).abs();
                assert!(off <= 1e-4, "{device} {name}: {off:e}");
                for (side, want) in
                    mask["predicted_box"].as_array().unwrap().iter().zip(&boxes[4 * i..])
                {
                    let off = (side.as_f64().unwrap() - want).abs();
                    assert!(off <= 1e-2, "{device} {name}: {off:e}");
                }
                let want = &want[i * 53 * 37..][..53 * 37];
                assert_eq!(pixels(&mask["runs"]), want, "{device} {name} {i}");
                assert_eq!(mask["pixels"], want.iter().filter(|&&p| p == 1).count());
            }
        }
    }
}

#[test]
fn things_become_one_file_or_one_each() {
    let folder = folder("detect_files");
    let picture = Records::open("images/sam.safetensors").picture(&folder);
    let records = Records::open("sam3/found.safetensors");
    let out = folder.join("mask.png");
    let args = [&WORDS[..], &["--device", "reference", "--out", out.to_str().unwrap()]].concat();
    let got = found(&args, &picture);
    assert_eq!(got["file"].as_str(), out.to_str());
    let masks: Vec<&[u8]> = records.get("words.masks").chunks(53 * 37).collect();
    let read = |path: &Path| {
        let mask = image::load_from_memory(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!((mask.width(), mask.height(), mask.color()), (SIZE[0], SIZE[1], ColorType::L8));
        mask.as_bytes().iter().map(|&b| u8::from(b == 255)).collect::<Vec<u8>>()
    };
    let any: Vec<u8> = (0..53 * 37).map(|i| masks.iter().map(|m| m[i]).max().unwrap()).collect();
    assert_eq!(read(&out), any);
    // A file that is there stays, unless its owner says otherwise.
    let (code, _, stderr) = run(&mut command(&args, &picture));
    assert!(code == 2 && stderr.contains("--force"), "{stderr}");
    let (code, stdout, _) = run(&mut command(&[&args[..], &["--all"]].concat(), &picture));
    assert_eq!((code, stdout.lines().count()), (0, 3), "{stdout}");
    for (i, want) in masks.iter().enumerate() {
        assert_eq!(read(&folder.join(format!("mask-{}.png", i + 1))), *want);
    }
    // Nothing is found: the file says so, and the program has done its work.
    let none = folder.join("none.png");
    let mut args = args.clone();
    args[3] = "0.9";
    *args.last_mut().unwrap() = none.to_str().unwrap();
    let (code, stdout, stderr) = run(&mut command(&args, &picture));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.ends_with("none.png: 0 things, 0 pixels\n"), "{stdout}");
    assert!(read(&none).iter().all(|&p| p == 0));
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let folder = folder("detect_refuses");
    let picture = Records::open("images/sam.safetensors").picture(&folder);
    for (args, what) in [
        (&[][..], "nothing is shown"),
        (&["--text", " "], "nothing is said"),
        (&["--text", "cat", "--threshold", "1.5"], "no number from 0 to 1"),
        (&["--text", "cat", "--point", "1,1"], "takes no points"),
        (&["--text", "cat", "--box", "1,2,3"], "expected left,top,right,bottom"),
        (&["--text", "cat", "--box", "1,2,3,4,5"], "the label is 1"),
        (&["--text", "cat", "--box", "5,5,5,9"], "has nothing in it"),
        (&["--text", "cat", "--box", "1,1,9,38"], "is not in the image"),
        (&["--text", "cat cat cat cat cat cat cat cat cat cat cat cat cat cat cat"], "17 tokens"),
    ] {
        let args = [args, &["--device", "reference"]].concat();
        let (code, stdout, stderr) = run(command(&args, &picture).arg("--json"));
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(what), "{args:?}: {stderr}");
    }
    // Models that know no words.
    for args in
        [&["--text", "cat"][..], &["--point", "1,1", "--threshold", "0.1"], &["--box", "1,1,9,9,0"]]
    {
        let mut other = rlx(&["segment", "--json", "--model", "tests/fixtures/sam"]);
        let (code, stdout, stderr) = run(other.args(args).arg(&picture));
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains("is for models that know words, and sam is none"), "{stderr}");
    }
}

#[test]
fn its_record_is_verified_stage_by_stage() {
    for device in ["reference", "cpu", "webgpu"] {
        let args = ["verify", MODEL, "--layers", "--json", "--device", device];
        let (code, stdout, stderr) = run(&mut rlx(&args));
        assert_eq!((code, stderr.as_str()), (0, ""), "{device}: {stdout}");
        let stages = stdout.matches("\"sub.").count();
        assert_eq!(stages, 11, "{device}: {stdout}");
    }
}
