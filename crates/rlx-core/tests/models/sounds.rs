//! Models that hear: recorded logits and layers of both layouts of Wav2Vec2, and what is refused.

use super::checkpoints::{Folder, json, outputs};
use crate::common::execute::Data;
use rlx_core::compare::difference;
use rlx_core::ir::mir::Graph;
use rlx_core::lower::lower_module;
use rlx_core::models::{self, Checkpoint, SAMPLES, Task};
use rlx_core::types::{BATCH, Binding, DType};
use std::collections::BTreeMap;
use std::path::PathBuf;

const LAYOUTS: [&str; 2] = ["wav2vec2", "wav2vec2_stable"];
const TOLERANCE: f64 = 1e-5;

fn open(name: &str) -> Folder {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures"));
    Folder::open(&root.join(name), "config.json")
}

/// The graph of so many sounds of so many samples, with taps among its outputs.
fn graph(checkpoint: &Checkpoint<'_>, batch: u64, samples: u64) -> rlx_core::Result<Graph> {
    let model = models::open(checkpoint)?;
    let mut module = model.module(checkpoint, 64)?;
    module.output_taps();
    let sizes = [(BATCH.into(), batch), (SAMPLES.into(), samples)];
    lower_module(&module, DType::F32)?.specialize(&module.name, &Binding::from(sizes))
}

fn run(folder: &Folder, sounds: &[f32], mask: &[u32], batch: u64) -> BTreeMap<String, Vec<f32>> {
    let g = graph(&folder.checkpoint(), batch, mask.len() as u64 / batch).unwrap();
    let given = Data::from([
        ("input_values".into(), sounds.iter().flat_map(|x| x.to_le_bytes()).collect()),
        ("attention_mask".into(), mask.iter().flat_map(|x| x.to_le_bytes()).collect()),
    ]);
    outputs(&g, &folder.weights(), &given)
}

fn near(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let off = difference(got, expected).relative();
    println!("{what}: {off:.2e}");
    assert!(off <= TOLERANCE, "{what}: {off:e}");
}

#[test]
fn both_layouts_give_the_recorded_logits_and_layers() {
    for name in LAYOUTS {
        let folder = open(name);
        let facts = models::open(&folder.checkpoint()).unwrap().facts();
        assert_eq!((facts.task, facts.layers, facts.vocab), (Task::Transcribe, 2, 32));
        let sound = folder.floats("in.input_values");
        let got = run(&folder, &sound, &vec![1; sound.len()], 1);
        for (ours, theirs) in [
            ("layer.embed", "layer.embed"),
            ("layer.0", "layer.0"),
            ("layer.1", "layer.1"),
            ("logits", "out.logits"),
        ] {
            near(&got[ours], &folder.floats(theirs), &format!("{name} {theirs}"));
        }
    }
}

#[test]
fn frames_of_padding_are_hidden_from_a_batch() {
    for name in LAYOUTS {
        let folder = open(name);
        let (sounds, mask) =
            (folder.floats("in.batch_input_values"), folder.ids("in.batch_attention_mask"));
        let logits = run(&folder, &sounds, &mask, 2).remove("logits").unwrap();
        let (expected, real) = (folder.floats("out.batch_logits"), folder.ids("out.batch_frames"));
        assert_eq!(real, [50, 34]);
        for (i, &frames) in real.iter().enumerate() {
            // What stands in frames of padding is zero in the record.
            let range = i * 50 * 32..(i * 50 + frames as usize) * 32;
            near(&logits[range.clone()], &expected[range], &format!("{name} batch {i}"));
        }
        // With a norm over time padding changes a sound; with norms of frames it does not.
        let alone = run(&folder, &sounds[1013..1013 + 701], &[1; 701], 1).remove("logits").unwrap();
        let off = difference(&logits[50 * 32..][..34 * 32], &alone).relative();
        assert_eq!(off <= TOLERANCE, name == "wav2vec2_stable", "{name}: {off:e}");
    }
}

/// Older files have the lengths and directions of the kernel for places under other names.
#[test]
fn the_older_names_of_weight_norm_are_read() {
    let mut folder = open("wav2vec2");
    let (sound, expected) = (folder.floats("in.input_values"), folder.floats("out.logits"));
    let conv = "wav2vec2.encoder.pos_conv_embed.conv";
    for (new, old) in [("original0", "weight_g"), ("original1", "weight_v")] {
        let t = folder.header.tensors.remove(&format!("{conv}.parametrizations.weight.{new}"));
        folder.header.tensors.insert(format!("{conv}.{old}"), t.unwrap());
    }
    let got = run(&folder, &sound, &vec![1; sound.len()], 1);
    near(&got["logits"], &expected, "older names");
}

#[test]
fn a_sound_shorter_than_a_frame_is_an_error() {
    let folder = open("wav2vec2");
    // One frame is made of 10 + 5 * 2 + 10 * 1 samples.
    assert!(graph(&folder.checkpoint(), 1, 30).is_ok());
    assert!(graph(&folder.checkpoint(), 1, 29).is_err());
    assert!(graph(&folder.checkpoint(), 1, 0).is_err());
}

#[test]
fn what_is_not_known_of_a_configuration_is_refused_by_name() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/wav2vec2/config.json");
    let config = std::fs::read_to_string(root).unwrap();
    let folder = open("wav2vec2");
    for (from, to, said) in [
        (r#""add_adapter": false"#, r#""add_adapter": true"#, "add_adapter is true"),
        (r#""adapter_attn_dim": null"#, r#""adapter_attn_dim": 16"#, "adapter_attn_dim"),
        (r#""hidden_act": "gelu""#, r#""hidden_act": "mish""#, "hidden_act `mish`"),
        (r#"norm": "group""#, r#"norm": "batch""#, "feat_extract_norm `batch`"),
        (r#""layerdrop": 0.0"#, r#""layer_loop": 2"#, "layer_loop"),
        (r#"extract_layers": 3"#, r#"extract_layers": 4"#, "num_feat_extract_layers is 4"),
        (r#""num_attention_heads": 2"#, r#""num_attention_heads": 3"#, "3 heads"),
        (r#"embedding_groups": 4"#, r#"embedding_groups": 5"#, "5 groups"),
        (r#""conv_stride": ["#, r#""conv_stride": [4000000000, 4000000000,"#, "conv_stride"),
        ("    10,\n    3,\n    2", "4294967295, 4294967295, 4294967295", "2^31 samples"),
        ("    10,\n    3,\n    2", "10, 0, 2", "conv_kernel"),
        (r#""conv_bias": false"#, r#""conv_bias": true"#, "conv.bias is missing"),
    ] {
        assert!(config.contains(from), "{from}");
        let config = json(config.replacen(from, to, 1).as_bytes());
        let checkpoint = Checkpoint::transformers(&config, &folder.header);
        let e = graph(&checkpoint, 1, 1013).unwrap_err().to_string();
        assert!(e.contains(said), "{to}: {e}");
    }
    let config = json(config.as_bytes());
    let mut header = folder.header.clone();
    let tensor = header.tensors.get("lm_head.bias").unwrap().clone();
    header.tensors.insert("lm_head.extra".into(), tensor);
    let checkpoint = Checkpoint::transformers(&config, &header);
    let e = graph(&checkpoint, 1, 1013).unwrap_err().to_string();
    assert!(e.contains("lm_head.extra"), "{e}");
}
