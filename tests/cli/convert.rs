//! `rlx convert`: a folder becomes a file that answers by itself, and what cannot is said before a byte is written.

use super::{fails, fixture, folder, repository, rlx, run};
use rlx_core::gguf::{HeaderReader, Value};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::Command;

const GIVE: &str = "give the folder of a transformers checkpoint";

/// A copy of the recorded Llama, with a tokenizer of fewer tokens than its table has rows.
fn llama(name: &str) -> PathBuf {
    let dir = folder(name);
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(repository("tests/fixtures/llama32").join(file), dir.join(file)).unwrap();
    }
    std::fs::write(dir.join("tokenizer.json"), tokenizer()).unwrap();
    std::fs::write(
        dir.join("chat_template.jinja"),
        "{% for m in messages %}{{ m.content }}{% endfor %}",
    )
    .unwrap();
    let config = r#"{"eos_token": "</s>"}"#;
    std::fs::write(dir.join("tokenizer_config.json"), config).unwrap();
    dir
}

/// Byte-level BPE of the first printable characters, without merges.
fn tokenizer() -> String {
    let vocab: Vec<String> = ('!'..='~')
        .filter(|c| !matches!(c, '"' | '\\'))
        .enumerate()
        .map(|(id, c)| format!("\"{c}\": {id}"))
        .collect();
    format!(
        r#"{{"model": {{"type": "BPE", "vocab": {{{}}}, "merges": []}},
        "added_tokens": [{{"id": {}, "content": "</s>", "special": true}}],
        "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}}}}"#,
        vocab.join(", "),
        vocab.len()
    )
}

fn convert(dir: &Path, out: &str) -> Command {
    let mut command = rlx(&["convert", "."]);
    command.arg(out).current_dir(dir);
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_folder_becomes_a_file_with_tokenizer_and_template() {
    let dir = llama("convert");
    for (out, to) in [("plain.gguf", None), ("packed.gguf", Some("q8_0"))] {
        let mut command = convert(&dir, out);
        command.args(to.iter().flat_map(|to| ["--to", to]));
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(stdout.starts_with(&format!("{out}: llama, 21 tensors, ")), "{stdout}");
        let bytes = std::fs::read(dir.join(out)).unwrap();
        let mut reader = HeaderReader::new(out, Some(bytes.len() as u64));
        reader.push(&bytes).unwrap();
        let header = reader.into_header().unwrap();
        let key = |name: &str| header.metadata.get(name).map(|e| e.value.clone());
        let text = |text: &str| Some(Value::String(text.into()));
        assert_eq!(key("general.architecture"), text("llama"));
        assert_eq!(key("general.name"), text("convert"));
        assert_eq!(key("tokenizer.ggml.model"), text("gpt2"));
        assert_eq!(key("tokenizer.ggml.pre"), text("gpt-2"));
        let template = "{% for m in messages %}{{ m.content }}{% endfor %}";
        assert_eq!(key("tokenizer.chat_template"), text(template));
        // The same answer as the folder's.
        let answer = |model: &str| {
            let args = ["run", "--model", model, "--max-tokens", "8", "--temperature", "0"];
            let mut command = rlx(&args);
            command.args(["--activations", "f32", "--kv", "f32", "--raw", "--json", "Hello"]);
            command.current_dir(&dir);
            let (code, stdout, stderr) = run(&mut command);
            assert_eq!(code, 0, "{stderr}");
            let json: Json = serde_json::from_str(&stdout).unwrap();
            assert_eq!(json["tokens"].as_array().unwrap().len(), 8);
            json["tokens"].clone()
        };
        if to.is_none() {
            assert_eq!(answer(out), answer("."));
        }
    }
}

#[test]
fn what_is_no_folder_of_a_model_is_said() {
    let dir = folder("convert-none");
    fails(
        &mut rlx(&["convert", "no-such-folder", "x.gguf"]),
        3,
        "there is no such folder (no-such-folder)",
        GIVE,
    );
    let model = "tests/fixtures/gguf/llama.gguf";
    fails(
        &mut rlx(&["convert", model, "x.gguf"]),
        2,
        &format!("this is a file, and what is converted is a folder ({model})"),
        "give the folder that has config.json; for a GGUF file see `rlx quantize`",
    );
    let hint = "give a model file, or the folder of a transformers checkpoint";
    fails(&mut convert(&dir, "x.gguf"), 3, "the folder has no config.json (.)", hint);
    std::fs::write(dir.join("config.json"), "{\"model_type\": \"mamba\"}").unwrap();
    std::fs::write(dir.join("model.safetensors"), fixture("llama32/model.safetensors")).unwrap();
    let (code, _, stderr) = run(&mut convert(&dir, "x.gguf"));
    assert_eq!(code, 3);
    assert!(
        stderr.starts_with("error: unknown model_type mamba (config.json)\nhint: known: "),
        "{stderr}"
    );
    assert_eq!(names(&dir), ["config.json", "model.safetensors"]);
}

#[test]
fn a_family_without_an_architecture_is_refused() {
    let out = folder("convert-llada2").join("x.gguf");
    fails(
        &mut rlx(&["convert", "tests/fixtures/llada2", out.to_str().unwrap()]),
        3,
        "GGUF has no architecture for the family llada2",
        "RLX runs the folder itself without a conversion",
    );
    assert!(!out.exists());
}

#[test]
fn a_part_that_gguf_cannot_say_is_refused_before_a_byte_is_written() {
    let dir = llama("convert-gelu");
    let config = String::from_utf8(fixture("llama32/config.json")).unwrap();
    let other = config.replace("\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\"");
    assert_ne!(other, config);
    std::fs::write(dir.join("config.json"), other).unwrap();
    fails(
        &mut convert(&dir, "x.gguf"),
        3,
        "the feed-forward of layer 0 is not what a GGUF file of this architecture says or implies",
        "RLX runs the folder itself without a conversion",
    );
    assert!(!names(&dir).iter().any(|name| name.contains("x.gguf")));
}

#[test]
fn a_folder_without_a_tokenizer_is_refused() {
    let dir = llama("convert-wordless");
    std::fs::remove_file(dir.join("tokenizer.json")).unwrap();
    fails(
        &mut convert(&dir, "x.gguf"),
        3,
        "the folder has neither tokenizer.json nor tokenizer.model (.)",
        "put the tokenizer's files beside the weights, as the checkpoint has them",
    );
    assert!(!dir.join("x.gguf").exists());
}

#[test]
fn files_in_the_way_and_unknown_formats_are_usage_errors() {
    let dir = llama("convert-usage");
    std::fs::write(dir.join("x.gguf"), "mine").unwrap();
    fails(
        &mut convert(&dir, "x.gguf"),
        2,
        "there is a file of this name already (x.gguf)",
        "give another name, or --force to replace it",
    );
    assert_eq!(std::fs::read(dir.join("x.gguf")).unwrap(), b"mine");
    fails(
        &mut convert(&dir, "no/x.gguf"),
        3,
        "its folder is not there (no/x.gguf)",
        "make the folder first",
    );
    let (code, _, stderr) = run(convert(&dir, "y.gguf").args(["--to", "q9"]));
    assert_eq!(code, 2);
    assert!(stderr.starts_with("error: there is no quant q9\nhint: give one of f32, "), "{stderr}");
    let (code, _, stderr) = run(convert(&dir, "y.gguf").args(["--to", "iq2_xs"]));
    assert_eq!(code, 2);
    assert!(stderr.starts_with("error: iq2_xs can be read, not written\n"), "{stderr}");
    let (code, stdout, _) = run(convert(&dir, "x.gguf").arg("--force"));
    assert_eq!((code, stdout.starts_with("x.gguf: llama")), (0, true));
}

#[test]
fn numbers_that_are_not_finite_leave_no_packed_file() {
    let dir = llama("convert-nan");
    let path = dir.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    // The first tensor is the table of embeddings.
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + length..12 + length].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let before = names(&dir);
    let (code, _, stderr) = run(convert(&dir, "x.gguf").args(["--to", "q8_0"]));
    assert!(code == 3 && stderr.contains("token_embd.weight: "), "{code}: {stderr}");
    assert_eq!(names(&dir), before);
}
