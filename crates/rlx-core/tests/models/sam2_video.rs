//! SAM 2 over films: the recorded track of a thing by the oracle, attention to recorded memories, and what is refused.

use super::checkpoints::{Folder, json, outputs};
use crate::common::execute::Data;
use rlx_core::Code;
use rlx_core::compare::difference;
use rlx_core::ir::hir::Module;
use rlx_core::lower::lower_module;
use rlx_core::models::{
    self, CONDITION, Checkpoint, IMAGE_EMBED, REMEMBER, Sam2Config, TRACK, Task, Tensors,
    point_label,
};
use rlx_core::types::{BATCH, Binding, DType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Some times what was measured, of the largest number of each tensor.
const TOLERANCE: f64 = 2e-5;
/// The same of a frame that follows others: the record rounds memories to bfloat16.
const ROUNDED: f64 = 2e-2;

/// Places of the grid, width of the model, width of a memory, memories, pointers.
const PLACES: usize = 64;
const WIDTH: usize = 32;
const MEMORY: usize = 16;
const MEMORIES: usize = 3;
const POINTERS: usize = 3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sam2_video")
}

fn folder() -> Folder {
    Folder::open(&root(), "config.json")
}

/// The model's networks by name, every tensor of the file accounted for.
fn networks(checkpoint: &Checkpoint<'_>) -> rlx_core::Result<BTreeMap<&'static str, Module>> {
    let tensors = Tensors::new(checkpoint);
    let networks = models::open(checkpoint)?.networks(&tensors, 1)?;
    tensors.finish()?;
    Ok(networks.into_iter().collect())
}

/// Runs a network over a prompt of so many points; its points of comparison are outputs too.
fn run(module: &Module, weights: &Data, points: u64, given: &Data) -> BTreeMap<String, Vec<f32>> {
    let mut module = module.clone();
    module.output_taps();
    let sizes = [(BATCH, 1), ("POINTS", points)].map(|(name, n)| (name.to_owned(), n));
    let g = lower_module(&module, DType::F32).unwrap();
    let g = g.specialize(&module.name, &Binding::from(sizes)).unwrap();
    outputs(&g, weights, given)
}

fn bytes(list: &[f32]) -> Vec<u8> {
    list.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn whole(list: &[i32]) -> Vec<u8> {
    list.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn near(name: &str, got: &[f32], want: &[f32], tolerance: f64) {
    let off = difference(got, want).relative();
    println!("{name}: {off:.2e}");
    assert!(off <= tolerance, "{name}: {off:e}");
}

/// Rows `[n, c]` as channels `[c, n]`.
fn channels(rows: &[f32], c: usize) -> Vec<f32> {
    (0..c).flat_map(|i| rows.iter().skip(i).step_by(c).copied()).collect()
}

/// What is said of a thing's memories on the third frame of a film of three: that of the first frame is in the first
/// slot, that of the second in the second.
fn times() -> Data {
    Data::from([
        ("memory_times".into(), whole(&[2, 0, 0])),
        ("memories_seen".into(), bytes(&[1.0, 1.0, 0.0])),
        ("pointers_seen".into(), bytes(&[1.0, 1.0, 0.0])),
        ("pointer_times".into(), bytes(&[1.0, 0.5, 0.0])),
    ])
}

#[test]
fn recorded_memories_change_an_images_features() {
    let folder = folder();
    let checkpoint = folder.checkpoint();
    let facts = models::open(&checkpoint).unwrap().facts();
    assert_eq!((facts.family, facts.task), ("sam2", Task::Segment));
    let of = |name: &str| folder.floats(&format!("track.2.memory_attention.{name}"));
    // What no slot holds must not be seen, whatever is there.
    let mut memories = vec![1e3; MEMORIES * PLACES * MEMORY];
    let mut pointers = vec![-1e3; POINTERS * WIDTH];
    let recorded = of("memory");
    let spatial = 2 * PLACES * MEMORY;
    memories[..spatial].copy_from_slice(&recorded[..spatial]);
    pointers[..2 * WIDTH].copy_from_slice(&recorded[spatial..]);
    let mut given = times();
    let image = channels(&of("current_vision_features"), WIDTH);
    given.insert("image_features".into(), bytes(&image));
    given.insert("memories".into(), bytes(&memories));
    given.insert("pointers".into(), bytes(&pointers));
    let module = &networks(&checkpoint).unwrap()[CONDITION];
    let made = run(module, &folder.weights(), 1, &given);
    near("image", &made["image_positions"], &of("current_vision_position_embeddings"), TOLERANCE);
    let at = of("memory_posision_embeddings");
    let all = &made["remembered_positions"];
    near("memories", &all[..spatial], &at[..spatial], TOLERANCE);
    let tokens = MEMORIES * PLACES * MEMORY;
    near("pointers", &all[tokens..][..2 * WIDTH], &at[spatial..], TOLERANCE);
    near("features", &made["memory_attention"], &of("out"), TOLERANCE);
    near("output", &made["image_embeddings"], &channels(&of("out"), WIDTH), TOLERANCE);
}

#[test]
fn a_recorded_film_gives_its_masks() {
    let folder = folder();
    let (weights, networks) = (folder.weights(), networks(&folder.checkpoint()).unwrap());
    let frames = folder.bytes("in.track.frames_x16");
    let frames: Vec<f32> = frames.iter().map(|&b| f32::from(b as i8) / 16.0).collect();
    let (masks, scores) =
        (folder.floats("out.track.pred_masks"), folder.floats("out.track.object_score_logits"));
    let mut memories = bytes(&[0.0; MEMORIES * PLACES * MEMORY]);
    let mut pointers = bytes(&[0.0; POINTERS * WIDTH]);
    for (i, pixels) in frames.chunks_exact(3 * 128 * 128).enumerate() {
        let shown = i == 0;
        let given = Data::from([("pixel_values".into(), bytes(pixels))]);
        let seen = run(&networks[IMAGE_EMBED], &weights, 1, &given);
        let mut given = Data::new();
        let mut features = bytes(&seen["image_embeddings"]);
        if !shown {
            let mut given = times();
            if i == 1 {
                given.insert("memories_seen".into(), bytes(&[1.0, 0.0, 0.0]));
                given.insert("pointers_seen".into(), bytes(&[1.0, 0.0, 0.0]));
                given.insert("pointer_times".into(), bytes(&[0.5, 0.0, 0.0]));
            }
            given.insert("image_features".into(), bytes(&seen["image_features"]));
            given.insert("memories".into(), memories.clone());
            given.insert("pointers".into(), pointers.clone());
            let made = run(&networks[CONDITION], &weights, 1, &given);
            if i == 2 {
                let want = folder.floats("track.2.memory_attention.out");
                near("features", &made["memory_attention"], &want, ROUNDED);
            }
            features = bytes(&made["image_embeddings"]);
        }
        given.insert("image_embeddings".into(), features);
        for name in ["middle_embeddings", "fine_embeddings"] {
            given.insert(name.into(), bytes(&seen[name]));
        }
        let (mut at, mut labels) = (vec![0.0; 4], vec![point_label::NONE; 2]);
        if shown {
            at = folder.floats("in.track.points");
            at.extend([0.0; 2]);
            labels = folder.ints("in.track.labels").iter().map(|&n| n as i32).collect();
            labels.push(point_label::NONE);
        }
        given.insert("input_points".into(), bytes(&at));
        given.insert("input_labels".into(), whole(&labels));
        given.insert("several".into(), whole(&[i32::from(!shown)]));
        let made = run(&networks[TRACK], &weights, labels.len() as u64, &given);
        let tolerance = if shown { TOLERANCE } else { ROUNDED };
        near(&format!("mask {i}"), &made["mask"], &masks[i * 1024..][..1024], tolerance);
        near("object", &made["object_score_logits"], &scores[i..=i], tolerance);
        let mut given = Data::from([
            ("memories".to_owned(), memories),
            ("pointers".to_owned(), pointers),
            ("shown".to_owned(), whole(&[i32::from(shown)])),
            ("memory_slot".to_owned(), whole(&[i as i32])),
            ("pointer_slot".to_owned(), whole(&[i as i32])),
            ("image_features".to_owned(), bytes(&seen["image_features"])),
        ]);
        for name in ["mask", "object_score_logits", "pointer"] {
            given.insert(name.into(), bytes(&made[name]));
        }
        let made = run(&networks[REMEMBER], &weights, 1, &given);
        // Other slots keep what they have.
        let slot = PLACES * MEMORY;
        let all = &made["new_memories"];
        assert_eq!(all[i * slot..][..slot], made["memory"]);
        let rest = [&all[..i * slot], &all[(i + 1) * slot..]].concat();
        let before = [&given["memories"][..4 * i * slot], &given["memories"][4 * (i + 1) * slot..]];
        assert_eq!(bytes(&rest), before.concat());
        if i == 1 {
            let want = folder.floats("track.2.memory_attention.memory");
            near("memories", &all[..2 * slot], &want[..2 * slot], ROUNDED);
            near("pointers", &made["new_pointers"][..2 * WIDTH], &want[2 * slot..], ROUNDED);
        }
        (memories, pointers) = (bytes(all), bytes(&made["new_pointers"]));
    }
}

/// The fixture's configuration with one piece of text for another.
fn changed(from: &str, to: &str) -> rlx_core::Result<BTreeMap<&'static str, Module>> {
    let text = std::fs::read_to_string(root().join("config.json")).unwrap();
    assert!(text.contains(from), "{from}");
    let (folder, config) = (folder(), json(text.replacen(from, to, 1).as_bytes()));
    networks(&Checkpoint::transformers(&config, &folder.header))
}

#[test]
fn what_a_configuration_says_otherwise_is_refused_by_name() {
    for (from, to, code, what) in [
        ("\"num_maskmem\": 3", "\"num_maskmem\": 3, \"sparkle\": 1", Code::Unsupported, "sparkle"),
        ("\"num_maskmem\": 3", "\"num_maskmem\": 0", Code::BadFile, "num_maskmem"),
        ("\"num_maskmem\": 3", "\"num_maskmem\": 4", Code::BadFile, "temporal_positional_encoding"),
        ("\"num_maskmem\": 3", "\"num_maskmem\": 99", Code::BadFile, "at most"),
        (
            "\"max_object_pointers_in_encoder\": 3",
            "\"max_object_pointers_in_encoder\": 1",
            Code::BadFile,
            "one less",
        ),
        (
            "\"memory_encoder_output_channels\": 16",
            "\"memory_encoder_output_channels\": 12",
            Code::BadFile,
            "does not divide",
        ),
        (
            "\"memory_encoder_output_channels\": 16",
            "\"memory_encoder_output_channels\": 2",
            Code::BadFile,
            "multiple of 4",
        ),
        (
            "\"memory_attention_hidden_size\": 32",
            "\"memory_attention_hidden_size\": 64",
            Code::BadFile,
            "memory_attention_hidden_size is 64",
        ),
        (
            "\"memory_attention_num_attention_heads\": 1",
            "\"memory_attention_num_attention_heads\": 16",
            Code::BadFile,
            "heads of 2",
        ),
        (
            "\"mask_downsampler_stride\": 4",
            "\"mask_downsampler_stride\": 3",
            Code::BadFile,
            "no power",
        ),
        (
            "\"mask_downsampler_stride\": 4",
            "\"mask_downsampler_stride\": 1",
            Code::BadFile,
            "no power",
        ),
        (
            "\"mask_downsampler_padding\": 1",
            "\"mask_downsampler_padding\": 2",
            Code::Unsupported,
            "does not cover",
        ),
        (
            "\"mask_downsampler_total_stride\": 16",
            "\"mask_downsampler_total_stride\": 64",
            Code::BadFile,
            "mask_downsampler_total_stride is 64",
        ),
        (
            "\"memory_fuser_padding\": 3",
            "\"memory_fuser_padding\": 2",
            Code::Unsupported,
            "not half",
        ),
        ("\"rope_type\": \"axial\"", "\"rope_type\": \"yarn\"", Code::Unsupported, "yarn"),
        (
            "\"enable_occlusion_spatial_embedding\": true",
            "\"enable_occlusion_spatial_embedding\": false",
            Code::Unsupported,
            "occlusion_spatial_embedding_parameter",
        ),
        (
            "\"enable_temporal_pos_encoding_for_object_pointers\": true",
            "\"enable_temporal_pos_encoding_for_object_pointers\": false",
            Code::Unsupported,
            "temporal_positional_encoding_projection_layer",
        ),
        // A model that says it is for images alone has no memory.
        ("\"model_type\": \"sam2_video\",", "\"model_type\": \"sam2\",", Code::Unsupported, ""),
    ] {
        let e = changed(from, to).unwrap_err();
        assert_eq!(e.code, code, "{to}: {e}");
        assert!(e.to_string().contains(what), "{to}: {e}");
    }
}

#[test]
fn both_forms_of_configurations_are_read() {
    let folder = folder();
    let now = Sam2Config::open(&folder.checkpoint()).unwrap();
    let text = std::fs::read_to_string(root().join("config.json")).unwrap();
    let (start, end) =
        (text.find("\"rope_parameters\"").unwrap(), text.find("\"sigmoid_bias").unwrap());
    let older = "\"memory_attention_rope_theta\": 10000,\n  ";
    let older = json([&text[..start], older, &text[end..]].concat().as_bytes());
    let older = Sam2Config::open(&Checkpoint::transformers(&older, &folder.header)).unwrap();
    assert_eq!(older, now);
    let several = now.video.unwrap().several;
    let many = [(0, false), (0, true), (1, true), (2, true)].map(|(n, shown)| several.of(n, shown));
    assert_eq!(many, [true, true, true, false]);
}
