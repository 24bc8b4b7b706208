//! `rlx segment`: the masks that the recorded model finds in a recorded image on every device, files and JSON, and
//! what it says of prompts that make no sense.

use super::{fails, fixture, folder, rlx, run};
use image::{ColorType, ExtendedColorType, ImageEncoder};
use rlx_core::safetensors::{Header, HeaderReader};
use serde_json::Value;
use std::path::{Path, PathBuf};

const MODEL: &str = "tests/fixtures/sam";
const SIZE: [u32; 2] = [53, 37];

pub struct Records(Header, Vec<u8>);

impl Records {
    pub fn open(name: &str) -> Self {
        let bytes = fixture(name);
        let mut reader = HeaderReader::new(name, Some(bytes.len() as u64));
        reader.push(&bytes).unwrap();
        Records(reader.into_header().unwrap(), bytes)
    }

    pub fn get(&self, name: &str) -> &[u8] {
        let t = &self.0.tensors[name];
        &self.1[t.offset as usize..(t.offset + t.bytes) as usize]
    }

    pub fn floats(&self, name: &str) -> Vec<f64> {
        let (all, _) = self.get(name).as_chunks::<4>();
        all.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
    }

    /// The recorded image as a file.
    pub fn picture(&self, folder: &Path) -> PathBuf {
        let path = folder.join("wide.png");
        let mut file = Vec::new();
        let encoder = image::codecs::png::PngEncoder::new(&mut file);
        let pixels = self.get("image.wide");
        encoder.write_image(pixels, SIZE[0], SIZE[1], ExtendedColorType::Rgb8).unwrap();
        std::fs::write(&path, file).unwrap();
        path
    }
}

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
fn prompts_find_what_the_makers_found_on_every_device() {
    let records = Records::open("images/sam.safetensors");
    let picture = records.picture(&folder("segment_finds"));
    for device in ["reference", "cpu", "webgpu"] {
        for (name, args) in [
            ("point", &["--point", "20.5,15"][..]),
            ("point", &["--point", "20.5,15", "--all"]),
            ("points", &["--point", "20.5,15,1", "--point", "50,30,0"]),
            ("box", &["--box", "10,5,45,30"]),
        ] {
            let got = found(&[args, &["--device", device]].concat(), &picture);
            assert_eq!((&got["image"], &got["device"]), (&SIZE.to_vec().into(), &device.into()));
            let masks = got["masks"].as_array().unwrap();
            let (scores, want) = (
                records.floats(&format!("found.{name}.scores")),
                records.get(&format!("found.{name}.masks")),
            );
            assert_eq!(masks.len(), if args.contains(&"--all") { 3 } else { 1 });
            for ((mask, score), want) in masks.iter().zip(scores).zip(want.chunks(53 * 37)) {
                // Logits lie as near to 0 as 1e-4, ten times what is measured.
                assert_eq!(pixels(&mask["runs"]), want, "{device} {args:?}");
                let off = (mask["score"].as_f64().unwrap() - score).abs();
                assert!(off <= 1e-4, "{device} {args:?}: {off:e}");
                assert_eq!(mask["pixels"], want.iter().filter(|&&p| p == 1).count());
                assert_eq!(mask["thing"], 1);
            }
        }
    }
}

#[test]
fn masks_become_files_as_large_as_the_image() {
    let records = Records::open("images/sam.safetensors");
    let folder = folder("segment_files");
    let picture = records.picture(&folder);
    let out = folder.join("mask.png");
    let args = ["--box", "10,5,45,30", "--device", "reference", "--out", out.to_str().unwrap()];
    let (code, stdout, stderr) = run(&mut command(&args, &picture));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.ends_with("mask.png: score 1.242, 767 pixels\n"), "{stdout}");
    let mask = image::load_from_memory(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!((mask.width(), mask.height(), mask.color()), (SIZE[0], SIZE[1], ColorType::L8));
    let want = records.get("found.box.masks");
    assert!(mask.as_bytes().iter().zip(want).all(|(a, b)| *a == b * 255));
    // A file that is there stays, unless its owner says otherwise.
    let (code, _, stderr) = run(&mut command(&args, &picture));
    assert!(code == 2 && stderr.contains("--force"), "{stderr}");
    let two = [&args[..], &["--box", "0,0,9,9.5", "--force"]].concat();
    let got = found(&two, &picture);
    let files: Vec<_> = got["masks"].as_array().unwrap().iter().map(|m| &m["file"]).collect();
    assert_eq!(files.len(), 2);
    for (i, file) in files.iter().enumerate() {
        let path = folder.join(format!("mask-{}.png", i + 1));
        assert_eq!(file.as_str(), path.to_str());
        assert!(path.exists());
        assert!(got["masks"][i]["runs"].is_null());
    }
}

#[test]
fn prompts_that_make_no_sense_are_refused() {
    let folder = folder("segment_refuses");
    let picture = Records::open("images/sam.safetensors").picture(&folder);
    for (args, what) in [
        (&[][..], "nothing is shown"),
        (&["--point", "1"], "expected x,y"),
        (&["--point", "1,x"], "`x` is no number"),
        (&["--point", "1,inf"], "`inf` is no number"),
        (&["--point", "1,2,3"], "the label is 1"),
        (&["--point", "53.5,2"], "the point 53.5,2 is not in the image"),
        (&["--point=-1,2"], "the point -1,2 is not in the image"),
        (&["--box", "1,2,3"], "expected left,top,right,bottom"),
        (&["--box", "5,5,5,9"], "has nothing in it"),
        (&["--box", "1,1,9,38"], "is not in the image"),
        (&["--point", "1,1", "--box", "1,1,9,9", "--box", "1,1,9,8"], "several boxes"),
    ] {
        let (code, stdout, stderr) = run(command(args, &picture).arg("--json"));
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(what), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 2, "{stderr}");
    }
    let absent = folder.join("absent.png");
    fails(
        &mut command(&["--json", "--point", "1,1"], &absent),
        3,
        &format!("there is no such file ({})", absent.display()),
        "give a PNG, JPEG, WebP or GIF file",
    );
    let (code, _, stderr) = run(&mut command(&["--point", "1,1"], &picture));
    assert!(code == 2 && stderr.contains("--out"), "{stderr}");
    let mut other = rlx(&["segment", "--json", "--point", "1,1", "--model", "tests/fixtures/vit"]);
    fails(
        other.arg(&picture),
        3,
        "a model of family vit makes vectors of images",
        "`rlx features` asks it; masks come from a model such as sam",
    );
}
