//! ModernBERT: the recorded model by the oracle and by a compiled program, how far local layers see, and what
//! is read of configurations.

use super::checkpoints::{Folder, header, json, outputs};
use super::encoders::bound;
use crate::common::execute::{Data, planned, replayed};
use rlx_core::Code;
use rlx_core::compare::difference;
use rlx_core::ir::hir::Module;
use rlx_core::models::{self, Checkpoint, Pooling, PoolingKind, Task};
use rlx_core::passes::optimise;
use rlx_core::safetensors::json::Json;
use rlx_core::target::{CompileOptions, Target};
use std::collections::BTreeMap;
use std::path::Path;

/// Some times what was measured, of the largest number.
const TOLERANCE: f64 = 1e-5;
/// Width of a row.
const D: usize = 64;

fn folder() -> Folder {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/modernbert");
    Folder::open(&path, "config.json")
}

fn module(checkpoint: &Checkpoint<'_>) -> rlx_core::Result<Module> {
    models::open(checkpoint)?.module(checkpoint, 64)
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// The inputs of texts that are padded at their end with token 7.
fn batch(texts: &[Vec<u32>], seq: usize) -> Data {
    let (mut ids, mut mask) = (Vec::new(), Vec::new());
    for text in texts {
        let real = |at: usize| at < text.len();
        ids.extend((0..seq).map(|at| if real(at) { text[at] } else { 7 }));
        mask.extend((0..seq).map(|at| u32::from(real(at))));
    }
    [("input_ids", ids), ("attention_mask", mask)].map(|(n, w)| (n.into(), bytes(&w))).into()
}

fn run(module: &Module, weights: &Data, texts: &[Vec<u32>]) -> BTreeMap<String, Vec<f32>> {
    let seq = texts.iter().map(Vec::len).max().unwrap();
    outputs(&bound(module, texts.len(), seq).unwrap(), weights, &batch(texts, seq))
}

fn near(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let off = difference(got, expected).relative();
    println!("{what}: {off:.2e}");
    assert!(off <= TOLERANCE, "{what}: {off:e}");
}

#[test]
fn a_folder_gives_what_was_recorded() {
    let folder = folder();
    let mask = folder.ids("in.attention_mask");
    let given: Data = ["input_ids", "attention_mask"]
        .map(|n| (n.to_string(), bytes(&folder.ids(&format!("in.{n}")))))
        .into();
    for (kind, embedding) in
        [(PoolingKind::Mean, "out.mean_embedding"), (PoolingKind::Cls, "out.cls_embedding")]
    {
        let checkpoint = folder.checkpoint().with_pooling(Pooling { kind, normalise: true });
        let facts = models::open(&checkpoint).unwrap().facts();
        assert_eq!((facts.task, facts.layers, facts.width), (Task::Embed, 4, 64));
        assert_eq!((facts.context, facts.vocab), (64, 331));
        let mut module = module(&checkpoint).unwrap();
        module.output_taps();
        let mut got = outputs(&bound(&module, 3, 29).unwrap(), &folder.weights(), &given);
        for (tap, rows) in got.iter_mut().filter(|(_, rows)| rows.len() == 3 * 29 * D) {
            // Rows of padding are zero in the record, and finite here.
            assert!(rows.iter().all(|x| x.is_finite()), "{tap}");
            let padding = rows.chunks_mut(D).zip(&mask).filter(|(_, m)| **m == 0);
            padding.for_each(|(row, _)| row.fill(0.0));
        }
        for (ours, theirs) in [
            ("embedding", embedding),
            ("hidden", "out.last_hidden_state"),
            ("layer.embed", "layer.embed"),
            ("layer.0", "layer.0"),
            ("layer.1", "layer.1"),
            ("layer.2", "layer.2"),
            ("layer.3", "layer.3"),
        ] {
            let mut want = folder.floats(theirs);
            if want.len() == 3 * 29 * D {
                let padding = want.chunks_mut(D).zip(&mask).filter(|(_, m)| **m == 0);
                padding.for_each(|(row, _)| row.fill(0.0));
            }
            near(&got[ours], &want, theirs);
        }
    }
}

#[test]
fn a_mask_never_changes_a_text() {
    let folder = folder();
    let weights = folder.weights();
    let checkpoint = folder.checkpoint();
    let module = module(&checkpoint).unwrap();
    let texts: Vec<Vec<u32>> =
        [17usize, 3, 29, 1].map(|n| (0..n as u32).map(|i| (i * 37 + 5) % 331).collect()).into();
    let together = run(&module, &weights, &texts);
    for (i, text) in texts.iter().enumerate() {
        let alone = run(&module, &weights, std::slice::from_ref(text));
        assert_eq!(alone["embedding"], &together["embedding"][i * D..][..D], "text {i}");
        let rows = &together["hidden"][i * 29 * D..][..text.len() * D];
        assert_eq!(alone["hidden"], rows, "text {i}");
    }
    // A text without a token has the vector 0, and no row is infinite.
    let got = run(&module, &weights, &[vec![], vec![2, 3]]);
    assert_eq!(got["embedding"][..D], [0.0; D]);
    assert!(got.values().flatten().all(|x| x.is_finite()));
}

#[test]
fn local_layers_see_half_of_the_window_on_either_side() {
    let folder = folder();
    let weights = folder.weights();
    let changes: [(&str, &str); 2] =
        [("layer_types", r#"["sliding_attention", "full_attention"]"#), ("num_hidden_layers", "2")];
    let config = with(&folder.config, &changes);
    let layers =
        header_of(&folder, |name| !["layers.2.", "layers.3."].iter().any(|l| name.starts_with(l)));
    let mut module = module(&Checkpoint::transformers(&config, &layers)).unwrap();
    module.output_taps();
    let text: Vec<u32> = (0..20).map(|i| (i * 37 + 5) % 331).collect();
    let mut other = text.clone();
    other[10] = 300;
    let [a, b] = [text, other].map(|text| run(&module, &weights, &[text]));
    let changed = |tap: &str| -> Vec<usize> {
        let rows = a[tap].chunks(D).zip(b[tap].chunks(D)).enumerate();
        rows.filter(|(_, (a, b))| a != b).map(|(i, _)| i).collect()
    };
    // A window of 8: four tokens before the one that changed, itself, and four behind it.
    assert_eq!(changed("layer.0"), (6..=14).collect::<Vec<_>>());
    assert_eq!(changed("layer.1"), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_compiled_program_gives_what_the_graph_gives() {
    let folder = folder();
    let module = module(&folder.checkpoint()).unwrap();
    let texts: Vec<Vec<u32>> = [19usize, 4].map(|n| (2..2 + n as u32).collect()).into();
    let expected = run(&module, &folder.weights(), &texts);
    let mut data = folder.weights();
    data.extend(batch(&texts, 19));
    let (target, options) = (Target::reference(), CompileOptions::default());
    let (g, _) = optimise(bound(&module, 2, 19).unwrap(), &target, &options).unwrap();
    let names: Vec<String> = g.outputs.iter().map(|o| o.name.clone()).collect();
    let program = planned(g, &target, &options, &data).unwrap();
    for (name, bytes) in names.iter().zip(replayed(&program, &data).unwrap().0) {
        let got: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        near(&got, &expected[name], name);
    }
}

/// A configuration with other values: `null` takes a key away.
fn with(config: &Json, changes: &[(&str, &str)]) -> Json {
    let Json::Object(mut members) = config.clone() else { panic!("no object") };
    for (key, value) in changes {
        members.retain(|m| m.0 != *key);
        members.push(((*key).into(), json(value.as_bytes())));
    }
    Json::Object(members)
}

/// The header of a file with some of the tensors, by other names, and more of them.
fn renamed(
    folder: &Folder,
    name_of: impl Fn(&str) -> Option<String>,
    more: &[(&str, &[u64])],
) -> rlx_core::safetensors::Header {
    let own = folder.header.tensors.iter();
    let own = own.filter_map(|(name, t)| Some((name_of(name)?, t.shape.clone())));
    let more = more.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec()));
    let (mut members, mut offset) = (Vec::new(), 0);
    for (name, shape) in own.chain(more) {
        let end = offset + shape.iter().product::<u64>() * 4;
        members.push(format!(
            r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{offset},{end}]}}"#
        ));
        offset = end;
    }
    let text = format!("{{{}}}", members.join(","));
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend(text.bytes());
    file.resize(file.len() + offset as usize, 0);
    header(&file)
}

fn header_of(folder: &Folder, keeps: impl Fn(&str) -> bool) -> rlx_core::safetensors::Header {
    renamed(folder, |name| keeps(name).then(|| name.to_owned()), &[])
}

#[test]
fn published_folders_are_read_and_heads_that_are_not_are_refused() {
    let folder = folder();
    let plain = module(&folder.checkpoint()).unwrap();
    // What the first published configurations say, in the words of transformers 4.
    let old = with(
        &folder.config,
        &[
            ("rope_parameters", "null"),
            ("layer_types", "null"),
            ("global_attn_every_n_layers", "3"),
            ("global_rope_theta", "160000.0"),
            ("local_rope_theta", "10000.0"),
            ("layer_norm_eps", "1e-05"),
            ("position_embedding_type", "\"absolute\""),
            ("reference_compile", "null"),
            ("repad_logits_with_grad", "false"),
        ],
    );
    assert_eq!(module(&Checkpoint::transformers(&old, &folder.header)).unwrap(), plain);
    let unsaid = with(&old, &[("global_rope_theta", "null"), ("local_rope_theta", "null")]);
    assert_eq!(module(&Checkpoint::transformers(&unsaid, &folder.header)).unwrap(), plain);
    let other = with(&old, &[("local_rope_theta", "20000.0")]);
    assert_ne!(module(&Checkpoint::transformers(&other, &folder.header)).unwrap(), plain);
    let every = with(&old, &[("global_attn_every_n_layers", "2")]);
    assert_ne!(module(&Checkpoint::transformers(&every, &folder.header)).unwrap(), plain);
    // A model of masked words has a prefix, and a head that gives none of the outputs.
    let head: [(&str, &[u64]); 3] =
        [("head.dense.weight", &[64, 64]), ("head.norm.weight", &[64]), ("decoder.bias", &[331])];
    let outputs = |more: &[(&str, &[u64])]| -> rlx_core::Result<Vec<String>> {
        let header = renamed(&folder, |name| Some(format!("model.{name}")), more);
        let module = module(&Checkpoint::transformers(&old, &header))?;
        Ok(module.outputs.iter().map(|o| o.0.clone()).collect())
    };
    assert_eq!(outputs(&head).unwrap(), ["hidden", "embedding"]);
    for name in ["classifier.weight", "model.layers.0.attn_norm.weight", "model.layers.4.x"] {
        let e = outputs(&[(name, &[64])]).unwrap_err();
        assert_eq!(e.code, Code::Unsupported, "{e}");
        assert!(e.what.starts_with(&format!("tensor {name}")), "{e}");
    }
}

#[test]
fn configurations_that_make_no_sense_are_refused_by_name() {
    let folder = folder();
    let bad = (Code::BadFile, "config.json");
    let unsupported = (Code::Unsupported, "config.json");
    let weights = (Code::BadFile, "");
    for (key, value, (code, at)) in [
        ("hidden_size", "0", bad),
        ("hidden_size", "null", bad),
        ("hidden_size", "4294967295", bad),
        ("num_attention_heads", "7", bad),
        ("num_hidden_layers", "100000", bad),
        ("num_hidden_layers", "5", bad),
        ("layer_types", r#"["full_attention"]"#, bad),
        ("layer_types", r#""full_attention""#, bad),
        (
            "layer_types",
            r#"["full_attention", "chunked_attention", "full_attention", "full_attention"]"#,
            unsupported,
        ),
        ("local_attention", "0", bad),
        ("local_attention", "-1", bad),
        ("global_attn_every_n_layers", "0", bad),
        ("max_position_embeddings", "0", bad),
        ("norm_eps", "\"small\"", bad),
        ("norm_bias", "1", bad),
        ("norm_bias", "true", weights),
        ("mlp_bias", "true", weights),
        ("attention_bias", "true", weights),
        ("intermediate_size", "4294967295", weights),
        ("vocab_size", "332", weights),
        ("hidden_activation", "\"sparkle\"", unsupported),
        ("rope_parameters", "3", bad),
        ("rope_parameters", r#"{"full_attention": {"rope_type": "sparkle"}}"#, unsupported),
        ("rope_parameters", r#"{"sparkle": {"rope_type": "default"}}"#, unsupported),
        ("rope_scaling", r#"{"type": "linear", "factor": 2.0}"#, unsupported),
        ("sparkle", "1", unsupported),
    ] {
        let config = with(&folder.config, &[(key, value)]);
        let e = module(&Checkpoint::transformers(&config, &folder.header)).unwrap_err();
        let what = format!("{key} {value}: {e}");
        assert_eq!((e.code, e.at.as_str()), (code, at), "{what}");
    }
}

#[test]
fn twins_have_a_layer_of_each_kind() {
    let folder = folder();
    let model = models::open(&folder.checkpoint()).unwrap();
    // The first has no norm; the second and the third see half of the window; the last sees everything.
    assert_eq!([0, 1, 2, 3].map(|i| model.kind(i)), [0, 1, 1, 3]);
    let facts = model.small(&[0, 1, 3]).facts();
    assert_eq!((facts.layers, facts.width), (3, 64));
}
