//! Encoders of texts: recorded models, masks and pooling, by the oracle and by compiled programs.

use super::checkpoints::{Folder, outputs, recorded};
use crate::common::execute::{Data, planned, replayed};
use crate::skip::skip;
use rlx_core::compare::difference;
use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::ir::hir::Module;
use rlx_core::ir::mir::Graph;
use rlx_core::lower::lower_module;
use rlx_core::models::{self, Checkpoint, Pooling, PoolingKind, Task};
use rlx_core::passes::optimise;
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{BATCH, Binding, DType, SEQ};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Some times what was measured, of the largest number: up to 1.2e-6.
const TOLERANCE: f64 = 1e-5;

fn fixture(path: &str) -> Vec<u8> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures"));
    std::fs::read(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A GGUF file: its header, and bytes of every tensor.
fn open(path: &str) -> (ModelFiles, Data) {
    let bytes = fixture(path);
    let mut reader = HeaderReader::new(path, Some(bytes.len() as u64));
    reader.push(&bytes).unwrap();
    let files = ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap();
    let tensors = files.tensors.iter();
    let weights = tensors
        .map(|(name, (_, t))| {
            (name.clone(), bytes[t.offset as usize..(t.offset + t.bytes) as usize].to_vec())
        })
        .collect();
    (files, weights)
}

/// The graph of so many texts of so many tokens.
pub fn bound(module: &Module, batch: usize, seq: usize) -> rlx_core::Result<Graph> {
    let sizes = [(BATCH.into(), batch as u64), (SEQ.into(), seq as u64)];
    lower_module(module, DType::F32)?.specialize(&module.name, &Binding::from(sizes))
}

/// The inputs of a batch, padded at its end with token 7 of type 1, which are as good as any.
pub fn batch(texts: &[Vec<u32>], seq: usize) -> Data {
    let mut words = [Vec::new(), Vec::new(), Vec::new()];
    for text in texts {
        for at in 0..seq {
            let real = at < text.len();
            words[0].push(if real { text[at] } else { 7 });
            words[1].push(u32::from(!real));
            words[2].push(u32::from(real));
        }
    }
    let names = ["input_ids", "token_type_ids", "attention_mask"].map(String::from);
    names.into_iter().zip(words.map(bytes)).collect()
}

fn bytes(words: Vec<u32>) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn run(module: &Module, weights: &Data, texts: &[Vec<u32>]) -> BTreeMap<String, Vec<f32>> {
    let seq = texts.iter().map(Vec::len).max().unwrap();
    outputs(&bound(module, texts.len(), seq).unwrap(), weights, &batch(texts, seq))
}

fn numbers(list: &Value) -> Vec<f32> {
    list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

fn pooled(kind: PoolingKind) -> Pooling {
    Pooling { kind, normalise: false }
}

fn near(got: &[f32], expected: &[f32], what: &str) {
    let off = difference(got, expected).relative();
    println!("{what}: {off:.2e}");
    assert!(off <= TOLERANCE, "{what}: {off:e}");
}

const FILES: [[&str; 2]; 2] = [
    ["bert/bert.gguf", "bert/bert.json"],
    ["nomic_bert/nomic-bert.gguf", "nomic_bert/nomic-bert.json"],
];

#[test]
fn gguf_files_give_the_recorded_embeddings() {
    for [file, record] in FILES {
        let (files, weights) = open(file);
        let record: Value = serde_json::from_slice(&fixture(record)).unwrap();
        let texts = record["texts"].as_array().unwrap();
        let ids = |t: &Value| -> Vec<u32> {
            t["ids"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
        };
        for (kind, key) in [(PoolingKind::Mean, "mean_hf"), (PoolingKind::Cls, "cls_hf")] {
            let checkpoint = Checkpoint::gguf(&files).with_pooling(pooled(kind));
            let model = models::open(&checkpoint).unwrap();
            let facts = model.facts();
            assert_eq!((facts.task, facts.layers, facts.width), (Task::Embed, 2, 64));
            let module = model.module(&checkpoint, 64).unwrap();
            // All texts in one batch, of which one is 50 tokens long and one is empty but for its ends.
            let all: Vec<Vec<u32>> = texts.iter().map(ids).collect();
            let got = run(&module, &weights, &all);
            for (text, row) in texts.iter().zip(got["embedding"].chunks(64)) {
                near(row, &numbers(&text[key]), &format!("{file} {key} {}", text["text"]));
            }
        }
    }
}

#[test]
fn a_file_says_what_is_pooled() {
    for ([file, _], kind) in FILES.into_iter().zip([PoolingKind::Cls, PoolingKind::Mean]) {
        let (files, weights) = open(file);
        let module = |checkpoint: &Checkpoint<'_>| {
            models::open(checkpoint).unwrap().module(checkpoint, 64).unwrap()
        };
        let own = module(&Checkpoint::gguf(&files));
        assert_eq!(own, module(&Checkpoint::gguf(&files).with_pooling(pooled(kind))));
        let none = module(&Checkpoint::gguf(&files).with_pooling(pooled(PoolingKind::None)));
        assert_eq!(run(&none, &weights, &[vec![2, 9, 3]]).keys().collect::<Vec<_>>(), ["hidden"]);
    }
}

#[test]
fn a_mask_never_changes_a_text() {
    let texts: Vec<Vec<u32>> =
        [17usize, 3, 29, 1].map(|n| (0..n as u32).map(|i| (i * 37 + 5) % 331).collect()).into();
    for [file, _] in FILES {
        let (files, weights) = open(file);
        let kinds = [PoolingKind::Mean, PoolingKind::Cls, PoolingKind::Last, PoolingKind::Max];
        for (kind, normalise) in kinds.into_iter().zip([true, false, true, false]) {
            let checkpoint = Checkpoint::gguf(&files).with_pooling(Pooling { kind, normalise });
            let module = models::open(&checkpoint).unwrap().module(&checkpoint, 64).unwrap();
            let together = run(&module, &weights, &texts);
            for (i, text) in texts.iter().enumerate() {
                let alone = run(&module, &weights, std::slice::from_ref(text));
                let row = &together["embedding"][i * 64..][..64];
                assert_eq!(alone["embedding"], row, "{file} {kind:?}, text {i}");
                let hidden = &together["hidden"][i * 29 * 64..][..text.len() * 64];
                assert_eq!(alone["hidden"], hidden, "{file} {kind:?}, text {i}");
                let length: f32 = row.iter().map(|x| x * x).sum();
                assert_eq!((length - 1.0).abs() < 1e-5, normalise, "{file} {kind:?}: {length}");
                // What pooling makes of the rows, by hand.
                let column = |d: usize| hidden.iter().copied().skip(d).step_by(64);
                let expected: Vec<f32> = (0..64)
                    .map(|d| match kind {
                        PoolingKind::Mean => column(d).sum::<f32>() / text.len() as f32,
                        PoolingKind::Cls => hidden[d],
                        PoolingKind::Last => hidden[hidden.len() - 64 + d],
                        _ => column(d).fold(f32::MIN, f32::max),
                    })
                    .collect();
                let by = if normalise {
                    expected.iter().map(|x| x * x).sum::<f32>().sqrt()
                } else {
                    1.0
                };
                let expected: Vec<f32> = expected.iter().map(|x| x / by).collect();
                near(row, &expected, &format!("{file} {kind:?}, text {i}"));
            }
        }
    }
}

#[test]
fn a_text_without_a_token_gives_no_nan() {
    for [file, _] in FILES {
        let (files, weights) = open(file);
        for kind in [PoolingKind::Mean, PoolingKind::Last] {
            let checkpoint =
                Checkpoint::gguf(&files).with_pooling(Pooling { kind, normalise: true });
            let module = models::open(&checkpoint).unwrap().module(&checkpoint, 64).unwrap();
            let got = run(&module, &weights, &[vec![], vec![2, 3]]);
            assert_eq!(got["embedding"][..64], [0.0; 64], "{file} {kind:?}");
            assert!(got["embedding"].iter().all(|x| x.is_finite()));
        }
    }
}

#[test]
fn a_text_longer_than_the_positions_is_an_error() {
    let (files, _) = open("bert/bert.gguf");
    let checkpoint = Checkpoint::gguf(&files);
    let model = models::open(&checkpoint).unwrap();
    let module = model.module(&checkpoint, 64).unwrap();
    assert!(bound(&module, 1, 128).is_ok());
    let said = bound(&module, 1, 129).unwrap_err().to_string();
    assert!(said.contains("129 elements"), "{said}");
}

#[test]
fn compiled_programs_give_what_the_graph_gives() {
    let texts: Vec<Vec<u32>> = [9usize, 4].map(|n| (2..2 + n as u32).collect()).into();
    for [file, _] in FILES {
        let (files, mut data) = open(file);
        let checkpoint = Checkpoint::gguf(&files);
        let module = models::open(&checkpoint).unwrap().module(&checkpoint, 64).unwrap();
        let expected = run(&module, &data, &texts);
        data.extend(batch(&texts, 9));
        let (target, options) = (Target::reference(), CompileOptions::default());
        let g = bound(&module, 2, 9).unwrap();
        let (g, _) = optimise(g, &target, &options).unwrap();
        let names: Vec<String> = g.outputs.iter().map(|o| o.name.clone()).collect();
        let program = planned(g, &target, &options, &data).unwrap();
        let values = replayed(&program, &data).unwrap().0;
        for (name, bytes) in names.iter().zip(values) {
            let got: Vec<f32> =
                bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            near(&got, &expected[name], &format!("{file} {name}, compiled"));
        }
    }
}

/// `model.safetensors` with `config.json`: rows, taps, vectors, in a batch that is padded.
#[test]
fn transformers_folders_give_what_was_recorded() {
    for (name, configs) in
        [("bert", &["config.json"][..]), ("nomic_bert", &["config.json", "config.legacy.json"])]
    {
        let Some(path) = recorded(name) else {
            skip(&format!("models::encoders: {name}"), "no folder `shared` beside the checkout");
            continue;
        };
        for config in configs {
            let folder = Folder::open(&path, config);
            let weights = folder.weights();
            let (ids, mask) = (folder.ids("in.input_ids"), folder.ids("in.attention_mask"));
            let given: Data = ["input_ids", "token_type_ids", "attention_mask"]
                .map(|n| (n.to_string(), bytes(folder.ids(&format!("in.{n}")))))
                .into();
            assert_eq!((ids.len(), mask.len()), (3 * 29, 3 * 29));
            for (kind, embedding) in
                [(PoolingKind::Mean, "out.mean_embedding"), (PoolingKind::Cls, "out.cls_embedding")]
            {
                let checkpoint =
                    folder.checkpoint().with_pooling(Pooling { kind, normalise: true });
                let model = models::open(&checkpoint).unwrap_or_else(|e| panic!("{name}: {e}"));
                let mut module = model.module(&checkpoint, 64).unwrap();
                module.output_taps();
                let mut got = outputs(&bound(&module, 3, 29).unwrap(), &weights, &given);
                // Rows of padding are zero in the record.
                for (tap, rows) in got.iter_mut().filter(|(_, rows)| rows.len() == 3 * 29 * 64) {
                    if !tap.starts_with("layer.embed") {
                        let padding = rows.chunks_mut(64).zip(&mask).filter(|(_, m)| **m == 0);
                        padding.for_each(|(row, _)| row.fill(0.0));
                    }
                }
                for (ours, theirs) in [
                    ("embedding", embedding),
                    ("hidden", "out.last_hidden_state"),
                    ("layer.0", "layer.0"),
                    ("layer.2", "layer.2"),
                ] {
                    let what = format!("{name} {config} {theirs}");
                    near(&got[ours], &folder.floats(theirs), &what);
                }
                if let Some(pooler) = got.get("pooler_output") {
                    near(pooler, &folder.floats("out.pooler_output"), "bert pooler");
                }
                assert_eq!(got.contains_key("pooler_output"), name == "bert");
            }
        }
    }
}
