//! `rlx imagine`: the recorded picture of a tiny pipeline, and what it says of options and folders.

use super::{fails, folder, repository, rlx, run};
use rlx_core::image::Image;
use rlx_native::devices::{self, OpenOptions};
use rlx_native::files::open_safetensors;
use rlx_native::image;
use rlx_native::imagine::{ImagineOptions, Pipeline, Stage};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const KLEIN: &str = "tests/fixtures/flux2_klein";
const PROMPT: &str = "Ein Fuchs über dem Bach";

/// A copy of the pipeline's folder, which a test may change.
fn copy(name: &str) -> PathBuf {
    let to = folder(name);
    let from = repository(KLEIN);
    for part in ["", "scheduler", "text_encoder", "tokenizer", "transformer", "vae"] {
        fs::create_dir_all(to.join(part)).unwrap();
        for file in fs::read_dir(from.join(part)).unwrap().map(|f| f.unwrap().path()) {
            if file.is_file() {
                fs::copy(&file, to.join(part).join(file.file_name().unwrap())).unwrap();
            }
        }
    }
    to
}

/// Gives a key of a JSON file another value.
fn change(file: &Path, key: &str, value: Value) {
    let mut json: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    json[key] = value;
    fs::write(file, json.to_string()).unwrap();
}

fn recorded(name: &str) -> Vec<f32> {
    let (header, map) = open_safetensors(&repository(KLEIN).join("io.safetensors")).unwrap();
    let t = &header.tensors[name];
    let bytes = &(*map).as_ref()[t.offset as usize..(t.offset + t.bytes) as usize];
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// The picture that diffusers made of the recorded latents: colours from 0 to 1, rounded as it rounds them.
fn picture(name: &str) -> Vec<u8> {
    recorded(name).iter().map(|x| (x * 255.0).round_ties_even() as u8).collect()
}

/// How many bytes differ, none of them by more than one.
fn off(got: &Image, expected: &[u8]) -> usize {
    assert_eq!(got.pixels().len(), expected.len());
    let pairs = got.pixels().iter().zip(expected);
    pairs.filter(|(a, b)| a != b).inspect(|(a, b)| assert!(a.abs_diff(**b) <= 1)).count()
}

#[test]
fn a_prompt_makes_the_recorded_picture() {
    let base = copy("imagine-base");
    change(&base.join("model_index.json"), "is_distilled", false.into());
    let options = ImagineOptions {
        width: 28,
        height: 20,
        steps: Some(3),
        latents: Some(recorded("in.noise")),
        ..ImagineOptions::default()
    };
    let guided = ImagineOptions { guidance: Some(2.5), ..options.clone() };
    for (device, path, options, name) in [
        ("cpu", repository(KLEIN), &options, "out.image"),
        ("cpu", base, &guided, "out.image_guided"),
        ("webgpu", repository(KLEIN), &options, "out.image"),
    ] {
        let row = devices::find(device).unwrap();
        let device = (row.open)(&OpenOptions::default()).unwrap();
        let pipeline = Pipeline::open(&path).unwrap();
        assert_eq!((pipeline.scale(), pipeline.is_distilled()), (4, name == "out.image"));
        let mut steps = Vec::new();
        let mut progress = |stage| {
            if let Stage::Step(done, all) = stage {
                steps.push([done, all]);
            }
            true
        };
        let got = pipeline.imagine(PROMPT, options, row, &device, &mut progress).unwrap();
        assert_eq!((got.width(), got.height()), (28, 20));
        assert_eq!(steps, [[1, 3], [2, 3], [3, 3]]);
        let expected = picture(name);
        let different = off(&got, &expected);
        println!("{name}: {different} of {} bytes differ by one", expected.len());
        assert!(different <= expected.len() / 100, "{name}: {different}");
    }
}

#[test]
fn a_picture_can_be_cancelled() {
    let row = devices::find("cpu").unwrap();
    let device = (row.open)(&OpenOptions::default()).unwrap();
    let pipeline = Pipeline::open(&repository(KLEIN)).unwrap();
    let options = ImagineOptions { width: 8, height: 8, ..ImagineOptions::default() };
    let mut seen = 0;
    let mut progress = |stage| {
        seen += u64::from(matches!(stage, Stage::Step(..)));
        !matches!(stage, Stage::Step(2, _))
    };
    let e = pipeline.imagine("x", &options, row, &device, &mut progress).unwrap_err();
    assert_eq!((e.code, seen), (rlx_core::Code::Cancelled, 2));
}

#[test]
fn a_seed_makes_the_same_file_again() {
    let to = folder("imagine-seed");
    let out = |name: &str| to.join(name).display().to_string();
    let made = |name: &str, more: &[&str]| -> (Value, Vec<u8>) {
        let out = out(name);
        let mut command = rlx(&["imagine", "--model", KLEIN, "--device", "cpu", "--json"]);
        command.args(["--size", "16x12", "--steps", "1", "--out", &out]).args(more);
        let (code, stdout, stderr) = run(command.arg("a fox"));
        assert_eq!((code, stderr.as_str()), (0, ""));
        (serde_json::from_str(&stdout).unwrap(), fs::read(out).unwrap())
    };
    let (said, first) = made("a.png", &["--seed", "5"]);
    assert_eq!((&said["width"], &said["height"]), (&16.into(), &12.into()));
    assert_eq!((&said["steps"], &said["seed"]), (&1.into(), &5.into()));
    let picture = image::decode(&first).unwrap();
    assert_eq!((picture.width(), picture.height()), (16, 12));
    assert_eq!(made("b.png", &["--seed", "5"]).1, first);
    assert_eq!(made("b.png", &["--seed", "5", "--force"]).1, first);
    assert_ne!(made("c.png", &["--seed", "6"]).1, first);
    // The file is not replaced unasked, nor made a file of another kind.
    let (path, model) = (out("a.png"), KLEIN);
    let ask = |out: &str, more: &[&str]| {
        let mut command = rlx(&["imagine", "--model", model, "--device", "cpu", "--out", out]);
        command.args(more).arg("a fox");
        command
    };
    let error = format!("--out: the file exists ({path})");
    fails(&mut ask(&path, &[]), 2, &error, "give another name, or --force");
    let jpg = out("a.jpg");
    let error = format!("--out: a picture is written as PNG ({jpg})");
    fails(&mut ask(&jpg, &[]), 2, &error, "give a name that ends in .png");
    let other = out("d.png");
    let error = "a picture of 18 x 16 pixels is not possible";
    let hint = "give multiples of 4, at most 4096";
    fails(&mut ask(&other, &["--size", "18x16"]), 2, error, hint);
    let error = "a picture of 8192 x 8192 pixels is not possible";
    fails(&mut ask(&other, &["--size", "8192"]), 2, error, hint);
    let error = "the pipeline is distilled: it takes no guidance";
    let hint = "leave it out, or use the pipeline that is not distilled";
    fails(&mut ask(&other, &["--size", "8", "--guidance", "3"]), 2, error, hint);
    let (code, _, stderr) = run(&mut ask(&other, &["--size", "8", "--steps", "0"]));
    assert!(code == 2 && stderr.contains("0 steps"), "{stderr}");
    assert!(!Path::new(&other).exists());
}

#[test]
fn folders_that_do_not_belong_together_are_refused() {
    let to = copy("imagine-broken");
    let ask = || {
        let model = to.display().to_string();
        let out = to.join("x.png").display().to_string();
        let args = ["imagine", "--device", "cpu", "--size", "8", "--model", &model, "--out", &out];
        let (code, stdout, stderr) = run(rlx(&args).arg("a fox"));
        assert_eq!(stdout.is_empty(), code != 0);
        (code, stderr)
    };
    let spoil = |file: &str, key: &str, value: Value, code: i32, what: &str| {
        let path = to.join(file);
        let before = fs::read(&path).unwrap();
        change(&path, key, value);
        let (got, stderr) = ask();
        assert!(got == code && stderr.contains(what), "{file} {key}: {got} {stderr}");
        fs::write(&path, before).unwrap();
    };
    spoil("model_index.json", "_class_name", "FluxPipeline".into(), 3, "class `FluxPipeline`");
    spoil("transformer/config.json", "joint_attention_dim", 32.into(), 3, "reads rows of 32");
    spoil("transformer/config.json", "in_channels", 16.into(), 3, "the decoder reads 32");
    spoil("transformer/config.json", "guidance_embeds", true.into(), 3, "strength of guidance");
    spoil("vae/config.json", "out_channels", 4.into(), 3, "4 colours");
    spoil("text_encoder/config.json", "max_position_embeddings", 511.into(), 3, "511 positions");
    spoil("text_encoder/config.json", "vocab_size", 258.into(), 3, "embed_tokens");
    spoil("tokenizer/tokenizer_config.json", "pad_token", Value::Null, 3, "token for padding");
    spoil("tokenizer/tokenizer_config.json", "padding_side", "left".into(), 3, "side `left`");
    spoil("scheduler/scheduler_config.json", "use_karras_sigmas", true.into(), 3, "karras");
    for (gone, what) in [
        ("transformer/diffusion_pytorch_model.safetensors", "there is no such file"),
        ("tokenizer/chat_template.jinja", "no chat template"),
        ("tokenizer/tokenizer.json", "neither tokenizer.json"),
        ("scheduler/scheduler_config.json", "has no scheduler/scheduler_config.json"),
        ("model_index.json", "has no model_index.json"),
    ] {
        let path = to.join(gone);
        let before = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (code, stderr) = ask();
        assert!(code == 3 && stderr.contains(what), "{gone}: {code} {stderr}");
        fs::write(&path, before).unwrap();
    }
    assert_eq!(ask().0, 0);
}

#[test]
fn other_commands_say_that_a_folder_is_a_pipeline() {
    let (code, _, stderr) = run(&mut rlx(&["run", "--model", KLEIN, "--device", "cpu", "hello"]));
    assert_eq!(code, 3);
    assert!(stderr.contains("model_index.json") && stderr.contains("`rlx imagine` asks it"));
    // And one of its folders is a model by itself.
    let part = format!("{KLEIN}/transformer");
    let (code, stdout, stderr) = run(&mut rlx(&["inspect", &part]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("flux2"), "{stdout}");
}
