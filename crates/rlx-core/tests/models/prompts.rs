//! Rows of prompts for FLUX.2: the recorded ones by the oracle; and pipelines and text encoders that are refused.

use super::checkpoints::{Folder, json, outputs};
use rlx_core::compare::difference;
use rlx_core::ir::hir::Module;
use rlx_core::lower::lower_module;
use rlx_core::models::{self, ENCODE_TEXT, Flux2Pipeline, PromptRows, prompt_rows};
use rlx_core::types::{Binding, DType};
use rlx_core::{Code, Error};
use std::path::{Path, PathBuf};

fn klein(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/flux2_klein").join(name)
}

/// The text encoder, and the pipeline's record.
fn reader() -> Folder {
    let of = |name: &str| klein("text_encoder").join(name);
    Folder::of([of("config.json"), of("model.safetensors"), klein("io.safetensors")])
}

fn words(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Real tokens of the recorded prompt; the record has three rows of padding behind them.
const TOKENS: usize = 62;
const ROWS: usize = TOKENS + 3;
const WIDTH: usize = 48;

/// Rows of a batch, of texts of so many real tokens.
fn rows(module: &Module, folder: &Folder, texts: &[(Vec<u32>, usize)]) -> Vec<f32> {
    let sizes = [("BATCH", texts.len() as u64), ("SEQ", texts[0].0.len() as u64)];
    let sizes: Binding = sizes.iter().map(|&(s, n)| (s.to_string(), n)).collect();
    let g = lower_module(module, DType::F32).unwrap().specialize(&module.name, &sizes).unwrap();
    let ids = texts.iter().flat_map(|t| t.0.clone());
    let mask = texts.iter().flat_map(|t| (0..t.0.len()).map(|i| u32::from(i < t.1)));
    let given = [("input_ids", words(ids)), ("attention_mask", words(mask))];
    let given = given.into_iter().map(|(n, b)| (n.to_string(), b)).collect();
    outputs(&g, &folder.weights(), &given)["rows"].clone()
}

fn entry(folder: &Folder, layers: &[u64]) -> (Module, PromptRows) {
    let (mut entry, about) = prompt_rows(&folder.checkpoint(), layers).unwrap();
    assert_eq!(entry.name, ENCODE_TEXT);
    (entry.module.as_hir_mut().unwrap().clone(), about)
}

#[test]
fn rows_of_a_prompt_and_of_its_padding_are_the_recorded_ones() {
    let folder = reader();
    let (module, about) = entry(&folder, &Flux2Pipeline::TEXT_LAYERS);
    assert_eq!(about, PromptRows { width: WIDTH as u64, vocab: 264, context: 1024 });
    let ids = folder.ids("in.input_ids");
    assert_eq!(ids.len(), ROWS);
    // A text of half its tokens beside it, which is padded more.
    let got = rows(&module, &folder, &[(ids.clone(), TOKENS), (ids, TOKENS / 2)]);
    let expected = folder.floats("out.rows");
    let off = difference(&got[..expected.len()], &expected).relative();
    println!("rows: {off:.2e}");
    assert!(off <= TOLERANCE, "{off:e}");
    // Real rows do not see what is behind them, rows of padding see less in the shorter text.
    let second = &got[expected.len()..];
    let half = TOKENS / 2 * WIDTH;
    assert!(difference(&second[..half], &expected[..half]).relative() <= TOLERANCE);
    assert!(difference(&second[half..], &expected[half..]).relative() > 0.01);
}

/// Some times what was measured.
const TOLERANCE: f64 = 2e-5;

#[test]
fn layers_are_chosen_in_any_order() {
    let folder = reader();
    let text = || vec![(vec![5, 17, 80], 3)];
    let all = rows(&entry(&folder, &[0, 1, 2]).0, &folder, &text());
    let some = rows(&entry(&folder, &[2, 0]).0, &folder, &text());
    let part = |row: usize, k: usize| &all[48 * row + 16 * k..][..16];
    let expected: Vec<f32> = (0..3).flat_map(|row| [part(row, 2), part(row, 0)].concat()).collect();
    assert_eq!(some, expected);
}

fn refused(folder: &Folder, layers: &[u64]) -> Error {
    prompt_rows(&folder.checkpoint(), layers).map(|_| ()).unwrap_err()
}

#[test]
fn text_encoders_that_are_others_are_refused() {
    let e = refused(&reader(), &[9, 28]);
    assert!(e.code == Code::BadFile && e.what.contains("has 28 layers"), "{e:?}");
    assert_eq!(refused(&reader(), &[]).code, Code::BadFile);
    assert_eq!(refused(&reader(), &[u64::MAX]).code, Code::BadFile);
    let mut folder = reader();
    let gone = "model.layers.26.self_attn.q_norm.weight";
    folder.header.tensors.remove(gone).unwrap();
    let e = refused(&folder, &Flux2Pipeline::TEXT_LAYERS);
    assert!(e.code == Code::BadFile && e.what.contains(gone), "{e:?}");
    // What is behind the last layer is not read, and what is no part of a language model is one too many.
    prompt_rows(&folder.checkpoint(), &[26]).unwrap();
    let tensor = folder.header.tensors["model.norm.weight"].clone();
    folder.header.tensors.insert("model.norm.weight.more".into(), tensor);
    let e = refused(&folder, &[26]);
    assert!(e.code == Code::Unsupported && e.what.contains("norm.weight.more"), "{e:?}");
    // A model that makes images, and language models whose layers are other ones.
    let at = klein("../flux2");
    let folder = Folder::open(&at, "config.json");
    let e = refused(&folder, &[1]);
    assert!(e.code == Code::Unsupported && e.what.contains("flux2 makes images"), "{e:?}");
    let mut windows = reader();
    let text = std::fs::read_to_string(klein("text_encoder/config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["layer_types"][3] = "sliding_attention".into();
    (config["use_sliding_window"], config["sliding_window"]) = (true.into(), 64.into());
    windows.config = json(config.to_string().as_bytes());
    assert!(models::open(&windows.checkpoint()).is_ok());
    let e = refused(&windows, &[9]);
    assert!(e.code == Code::Unsupported && e.what.contains("other attention"), "{e:?}");
    prompt_rows(&windows.checkpoint(), &[2]).unwrap();
}

#[test]
fn an_index_says_what_the_folders_have() {
    let text = std::fs::read_to_string(klein("model_index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&text).unwrap();
    let open = |index: &serde_json::Value| {
        Flux2Pipeline::open(&json(index.to_string().as_bytes()), "model_index.json")
    };
    let pipeline = open(&index).unwrap();
    assert!(pipeline.distilled && pipeline.usual_steps() == 4);
    let mut base = index.clone();
    base.as_object_mut().unwrap().remove("is_distilled");
    assert_eq!(open(&base).unwrap().usual_steps(), 50);
    for (key, value, code, what) in [
        ("_class_name", r#""Flux2Pipeline""#, Code::Unsupported, "class `Flux2Pipeline`"),
        ("_class_name", "null", Code::BadFile, "_class_name"),
        ("vae", r#"["diffusers", "AutoencoderKL"]"#, Code::Unsupported, "vae `AutoencoderKL`"),
        ("vae", "[null, null]", Code::BadFile, "vae"),
        ("vae", "null", Code::BadFile, "vae"),
        ("transformer", r#"["diffusers"]"#, Code::BadFile, "not a pair"),
        (
            "text_encoder",
            r#"["transformers", "Mistral3ForConditionalGeneration"]"#,
            Code::Unsupported,
            "Mistral3",
        ),
        ("is_distilled", "1.5", Code::BadFile, "is_distilled"),
        ("sparkle", "true", Code::Unsupported, "sparkle"),
    ] {
        let mut other = index.clone();
        other[key] = serde_json::from_str(value).unwrap();
        let e = open(&other).unwrap_err();
        assert!(e.code == code && e.to_string().contains(what), "{key} {value}: {e:?}");
    }
}
