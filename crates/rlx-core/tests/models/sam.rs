//! Segment Anything: every recorded output and stage by the oracle, prompts in any batch, and what is refused.

use super::checkpoints::{Folder, json, outputs};
use crate::common::execute::Data;
use rlx_core::Code;
use rlx_core::compare::difference;
use rlx_core::compile::CompilePipeline;
use rlx_core::ir::hir::Module;
use rlx_core::lower::lower_module;
use rlx_core::models::{
    self, Checkpoint, IMAGE_EMBED, MASK, MASK_FROM_MASK, Task, Tensors, point_label,
};
use rlx_core::target::Target;
use rlx_core::types::{BATCH, Binding, DType};
use std::collections::BTreeMap;
use std::path::Path;

/// Some times what was measured, of the largest number of each tensor.
const TOLERANCE: f64 = 2e-5;

fn folder() -> Folder {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sam");
    Folder::open(&root, "config.json")
}

/// The model's networks by name, every tensor of the file accounted for.
fn networks(checkpoint: &Checkpoint<'_>) -> rlx_core::Result<BTreeMap<&'static str, Module>> {
    let tensors = Tensors::new(checkpoint);
    let networks = models::open(checkpoint)?.networks(&tensors, 1)?;
    tensors.finish()?;
    Ok(networks.into_iter().collect())
}

/// Runs a network over so many prompts of so many points; its points of comparison are outputs too.
fn run(
    module: &Module,
    folder: &Folder,
    [prompts, points]: [usize; 2],
    given: &Data,
) -> BTreeMap<String, Vec<f32>> {
    let mut module = module.clone();
    module.output_taps();
    let sizes = [(BATCH, 1), ("PROMPTS", prompts as u64), ("POINTS", points as u64)];
    let sizes = sizes.map(|(name, n)| (name.to_owned(), n));
    let g = lower_module(&module, DType::F32).unwrap();
    let g = g.specialize(&module.name, &Binding::from(sizes)).unwrap();
    outputs(&g, &folder.weights(), given)
}

fn bytes(list: &[f32]) -> Vec<u8> {
    list.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Prompts as the network takes them: points and labels, then the corners of a box of each, or a point that is
/// none where there are no boxes.
fn prompts(folder: &Folder, with_points: bool, with_boxes: bool) -> (Data, [usize; 2]) {
    let (points, labels) = (folder.floats("in.input_points"), folder.ints("in.input_labels"));
    let boxes = folder.floats("in.input_boxes");
    let (mut at, mut of) = (Vec::new(), Vec::new());
    for prompt in 0..2 {
        if with_points {
            at.extend(&points[prompt * 6..prompt * 6 + 6]);
            of.extend(labels[prompt * 3..prompt * 3 + 3].iter().map(|&n| n as i32));
        }
        if with_boxes {
            at.extend(&boxes[prompt * 4..prompt * 4 + 4]);
            of.extend([point_label::TOP_LEFT, point_label::BOTTOM_RIGHT]);
        } else {
            at.extend([0.0, 0.0]);
            of.push(point_label::NONE);
        }
    }
    let count = of.len() / 2;
    let labels = of.iter().flat_map(|n| n.to_le_bytes()).collect();
    let image = bytes(&folder.floats("out.image_embeddings"));
    let data =
        [("input_points", bytes(&at)), ("input_labels", labels), ("image_embeddings", image)];
    (data.map(|(name, bytes)| (name.to_owned(), bytes)).into(), [2, count])
}

/// Compares what was made with the record, and says which names it compared.
fn compare(folder: &Folder, made: &[(String, &Vec<f32>)]) {
    for (name, got) in made {
        let off = difference(got, &folder.floats(name)).relative();
        println!("{name}: {off:.2e}");
        assert!(off <= TOLERANCE, "{name}: {off:e}");
    }
}

#[test]
fn a_recorded_image_gives_its_embeddings() {
    let folder = folder();
    let checkpoint = folder.checkpoint();
    let facts = models::open(&checkpoint).unwrap().facts();
    assert_eq!((facts.task, facts.layers, facts.context, facts.width), (Task::Segment, 2, 64, 32));
    let module = &networks(&checkpoint).unwrap()[IMAGE_EMBED];
    let given = Data::from([("pixel_values".into(), bytes(&folder.floats("in.pixel_values")))]);
    let made = run(module, &folder, [1, 1], &given);
    // Stages in order, so that the first that differs is the first that is named.
    let stages = module.taps.iter().map(|(name, _)| (name.clone(), &made[name]));
    let mut all: Vec<_> = stages.collect();
    all.push(("out.image_embeddings".into(), &made["image_embeddings"]));
    assert_eq!(all.len(), 7);
    compare(&folder, &all);
}

#[test]
fn recorded_prompts_give_their_masks() {
    let folder = folder();
    let networks = networks(&folder.checkpoint()).unwrap();
    let mut compared = Vec::new();
    for (entry, points, boxes, mask, run_name) in [
        (MASK, true, false, false, "points"),
        (MASK, false, true, false, "boxes"),
        (MASK_FROM_MASK, true, true, true, "all"),
    ] {
        let (mut given, sizes) = prompts(&folder, points, boxes);
        if mask {
            given.insert("input_masks".into(), bytes(&folder.floats("in.input_masks")));
        }
        let module = &networks[entry];
        let made = run(module, &folder, sizes, &given);
        let mut all = Vec::new();
        // Stages are recorded of the first run, and what an earlier mask becomes of the last.
        for (name, _) in &module.taps {
            let of_this_run = run_name == "points" || name.contains("mask_embed");
            if of_this_run && folder.recorded().any(|r| r == name) {
                all.push((name.clone(), &made[name]));
            }
        }
        // Rows of places here, channels in the record.
        let channel = |c: usize| made["image_positions"].iter().skip(c).step_by(32).copied();
        let positions: Vec<f32> = (0..32).flat_map(channel).collect();
        all.push(("out.image_positional_embeddings".into(), &positions));
        let single = run_name == "boxes";
        let [masks, scores] =
            if single { ["single_mask", "single_score"] } else { ["pred_masks", "iou_scores"] };
        all.push((format!("out.{run_name}_pred_masks"), &made[masks]));
        all.push((format!("out.{run_name}_iou_scores"), &made[scores]));
        compare(&folder, &all);
        assert!(all.len() >= 3 + if run_name == "points" { 5 } else { 0 });
        compared.extend(all.into_iter().map(|(name, _)| name));
    }
    // The image's embedding is the other test's.
    let made_here = |n: &&str| n.starts_with("out.") && *n != "out.image_embeddings";
    for name in folder.recorded().filter(made_here) {
        assert!(compared.iter().any(|c| c == name), "{name} is not compared");
    }
}

#[test]
fn a_prompt_gives_the_same_alone_and_beside_others() {
    let folder = folder();
    let networks = networks(&folder.checkpoint()).unwrap();
    let (given, [count, points]) = prompts(&folder, true, false);
    let together = run(&networks[MASK], &folder, [count, points], &given);
    let mut alone = given.clone();
    for (name, each) in [("input_points", points * 8), ("input_labels", points * 4)] {
        alone.insert(name.into(), given[name][each..].to_vec());
    }
    let alone = run(&networks[MASK], &folder, [1, points], &alone);
    for name in ["pred_masks", "iou_scores", "single_mask", "single_score"] {
        let half = together[name].len() / 2;
        let off = difference(&alone[name], &together[name][half..]).relative();
        assert!(off <= TOLERANCE, "{name}: {off:e}");
    }
}

/// The fixture's configuration with one piece of text for another.
fn changed(from: &str, to: &str) -> rlx_core::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sam");
    let text = std::fs::read_to_string(root.join("config.json")).unwrap();
    assert!(text.contains(from), "{from}");
    let (folder, config) = (folder(), json(text.replacen(from, to, 1).as_bytes()));
    networks(&Checkpoint::transformers(&config, &folder.header)).map(|_| ())
}

#[test]
fn what_a_configuration_says_otherwise_is_refused_by_name() {
    for (from, to, code, what) in [
        (
            "\"window_size\": 3",
            "\"window_size\": 3, \"sparkle\": 1",
            Code::Unsupported,
            "vision_config.sparkle",
        ),
        ("\"num_pos_feats\": 16", "\"num_pos_feats\": 15", Code::BadFile, "output_channels is 32"),
        (
            "\"use_rel_pos\": true",
            "\"use_rel_pos\": false",
            Code::Unsupported,
            "relative positions",
        ),
        ("\"num_channels\": 3", "\"num_channels\": 1", Code::Unsupported, "red, green and blue"),
        ("\"num_point_embeddings\": 4", "\"num_point_embeddings\": 5", Code::Unsupported, "labels"),
        (
            "\"mask_input_channels\": 8",
            "\"mask_input_channels\": 6",
            Code::BadFile,
            "multiple of 4",
        ),
        (
            "\"image_embedding_size\": 8",
            "\"image_embedding_size\": 9",
            Code::BadFile,
            "vision_config is 8",
        ),
        (
            "\"attention_downsample_rate\": 2",
            "\"attention_downsample_rate\": 3",
            Code::BadFile,
            "does not divide",
        ),
        (
            "\"num_multimask_outputs\": 3",
            "\"num_multimask_outputs\": 4294967295",
            Code::BadFile,
            "at most",
        ),
        (
            "\"num_multimask_outputs\": 3",
            "\"num_multimask_outputs\": 4",
            Code::BadFile,
            "mask_tokens",
        ),
        (
            "\"iou_head_depth\": 3",
            "\"iou_head_depth\": 4096",
            Code::BadFile,
            "iou_prediction_head.layers.1",
        ),
        (
            "\"iou_head_depth\": 3",
            "\"iou_head_depth\": 2",
            Code::Unsupported,
            "iou_prediction_head.layers.0",
        ),
        ("\"window_size\": 3", "\"window_size\": 4294967295", Code::BadFile, "at most"),
        ("\"window_size\": 3", "\"window_size\": 4", Code::BadFile, "rel_pos_h"),
        (
            "\"global_attn_indexes\": [\n      1\n    ]",
            "\"global_attn_indexes\": [2]",
            Code::BadFile,
            "names layer 2",
        ),
        (
            "\"mlp_dim\": 96,\n    \"mlp_ratio\": 4.0",
            "\"mlp_ratio\": 1e30",
            Code::BadFile,
            "at most",
        ),
        ("\"hidden_act\": \"relu\"", "\"hidden_act\": \"sparkle\"", Code::Unsupported, "sparkle"),
    ] {
        let e = changed(from, to).unwrap_err();
        assert_eq!(e.code, code, "{to}: {e}");
        assert!(e.to_string().contains(what), "{to}: {e}");
    }
}

#[test]
fn an_image_of_endless_size_is_refused_before_memory_is_asked_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sam");
    let text = std::fs::read_to_string(root.join("config.json")).unwrap();
    let folder = folder();
    for (size, patch) in [(4294967288u64, 8), (64, 7), (8, 64), (4294967295, 1)] {
        let text = text
            .replace("\"image_size\": 64", &format!("\"image_size\": {size}"))
            .replace("\"patch_size\": 8", &format!("\"patch_size\": {patch}"));
        let config = json(text.as_bytes());
        let e = networks(&Checkpoint::transformers(&config, &folder.header)).unwrap_err();
        assert_eq!(e.code, Code::BadFile, "{e}");
    }
}

/// A layer with windows and one without, in the sizes of the published base model.
#[test]
fn an_image_of_the_published_size_needs_no_more_than_webgpu_binds_at_least() {
    const LEAST_BINDING: u64 = 128 << 20;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sam");
    let text = std::fs::read_to_string(root.join("config.json")).unwrap();
    let (masks, vision) = text.split_once("\"vision_config\"").unwrap();
    let with = |text: &str, changes: &[(&str, u64)]| {
        let mut text = text.to_owned();
        for (key, to) in changes {
            let key = format!("\"{key}\": ");
            let at = text.find(&key).unwrap_or_else(|| panic!("{key}")) + key.len();
            let end = at + text[at..].find([',', '\n']).unwrap();
            text.replace_range(at..end, &to.to_string());
        }
        text
    };
    let masks =
        with(masks, &[("image_size", 1024), ("image_embedding_size", 64), ("patch_size", 16)]);
    let sizes = [
        ("image_size", 1024),
        ("patch_size", 16),
        ("hidden_size", 768),
        ("mlp_dim", 3072),
        ("num_attention_heads", 12),
        ("window_size", 14),
    ];
    let config = json(format!("{masks}\"vision_config\"{}", with(vision, &sizes)).as_bytes());
    let mut header = folder().header;
    for (name, t) in &mut header.tensors {
        let Some(part) = name.strip_prefix("vision_encoder.") else { continue };
        let far = if part.starts_with("layers.1.") { 2 * 64 - 1 } else { 2 * 14 - 1 };
        let ends = |end: &str| part.ends_with(end);
        t.shape = match part {
            "pos_embed" => vec![1, 64, 64, 768],
            "patch_embed.projection.weight" => vec![768, 3, 16, 16],
            "neck.conv1.weight" => vec![32, 768, 1, 1],
            _ if part.starts_with("neck.") => continue,
            _ if ends("rel_pos_h") || ends("rel_pos_w") => vec![far, 64],
            _ if ends("qkv.weight") => vec![3 * 768, 768],
            _ if ends("qkv.bias") => vec![3 * 768],
            _ if ends("proj.weight") => vec![768, 768],
            _ if ends("lin1.weight") => vec![3072, 768],
            _ if ends("lin1.bias") => vec![3072],
            _ if ends("lin2.weight") => vec![768, 3072],
            _ => vec![768],
        };
        t.bytes = 4 * t.shape.iter().product::<u64>();
    }
    let all = networks(&Checkpoint::transformers(&config, &header)).unwrap();
    let g = lower_module(&all[IMAGE_EMBED], DType::F32).unwrap();
    let g = g.specialize(IMAGE_EMBED, &Binding::from([(BATCH.to_owned(), 1)])).unwrap();
    let made = CompilePipeline::new(Target::reference()).compile_graph(g).unwrap();
    let (arena, live) = (made.lir.arena_bytes, made.lir.largest_live_bytes);
    println!("{arena} bytes of arena, {live} in use at once");
    assert!(arena <= LEAST_BINDING && arena * 20 <= live * 21, "{arena} of {live}");
}
