//! SAM 2 for images: every recorded output and stage by the oracle, and what is refused.

use super::checkpoints::{Folder, json, outputs};
use crate::common::execute::Data;
use rlx_core::Code;
use rlx_core::compare::difference;
use rlx_core::ir::hir::Module;
use rlx_core::lower::lower_module;
use rlx_core::models::{
    self, Checkpoint, IMAGE_EMBED, MASK, MASK_FROM_MASK, Task, Tensors, point_label,
};
use rlx_core::types::{BATCH, Binding, DType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Some times what was measured, of the largest number of each tensor.
const TOLERANCE: f64 = 2e-5;

/// What the decoder reads of an image, by the record's names.
const SEEN: [(&str, &str); 3] = [
    ("fine_embeddings", "out.image_embeddings.0"),
    ("middle_embeddings", "out.image_embeddings.1"),
    ("image_embeddings", "out.image_embeddings.2"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sam2")
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

/// Runs a network over two prompts of so many points; its points of comparison are outputs too.
fn run(
    module: &Module,
    folder: &Folder,
    points: usize,
    given: &Data,
) -> BTreeMap<String, Vec<f32>> {
    let mut module = module.clone();
    module.output_taps();
    let sizes = [(BATCH, 1), ("PROMPTS", 2), ("POINTS", points as u64)];
    let sizes = sizes.map(|(name, n)| (name.to_owned(), n));
    let g = lower_module(&module, DType::F32).unwrap();
    let g = g.specialize(&module.name, &Binding::from(sizes)).unwrap();
    outputs(&g, &folder.weights(), given)
}

fn bytes(list: &[f32]) -> Vec<u8> {
    list.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Two prompts as the network takes them: points and labels, then the corners of a box of each, then a point that is
/// none.
fn prompts(folder: &Folder, with_points: bool, with_boxes: bool) -> (Data, usize) {
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
        }
        at.extend([0.0, 0.0]);
        of.push(point_label::NONE);
    }
    let labels = of.iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut data = Data::from([("input_points".to_owned(), bytes(&at))]);
    data.insert("input_labels".into(), labels);
    for (name, record) in SEEN {
        data.insert(name.into(), bytes(&folder.floats(record)));
    }
    (data, of.len() / 2)
}

/// Compares what was made with the record.
fn compare(folder: &Folder, made: &[(String, &Vec<f32>)]) {
    for (name, got) in made {
        let off = difference(got, &folder.floats(name)).relative();
        println!("{name}: {off:.2e}");
        assert!(off <= TOLERANCE, "{name}: {off:e}");
    }
}

#[test]
fn a_recorded_image_gives_its_features() {
    let folder = folder();
    let checkpoint = folder.checkpoint();
    let facts = models::open(&checkpoint).unwrap().facts();
    assert_eq!((facts.task, facts.layers, facts.context, facts.width), (Task::Segment, 7, 64, 32));
    let module = &networks(&checkpoint).unwrap()[IMAGE_EMBED];
    let given = Data::from([("pixel_values".into(), bytes(&folder.floats("in.pixel_values")))]);
    let made = run(module, &folder, 1, &given);
    // Stages in order, so that the first that differs is the first that is named.
    let recorded = |name: &&String| folder.recorded().any(|r| r == *name);
    let stages = module.taps.iter().map(|(name, _)| name).filter(recorded);
    let mut all: Vec<_> = stages.map(|name| (name.clone(), &made[name])).collect();
    assert_eq!(all.len(), 10);
    all.extend(SEEN.map(|(name, record)| (record.to_owned(), &made[name])));
    compare(&folder, &all);
}

#[test]
fn recorded_prompts_give_their_masks() {
    let folder = folder();
    let networks = networks(&folder.checkpoint()).unwrap();
    let mut compared = Vec::new();
    for (entry, points, boxes, run_name) in [
        (MASK, true, false, "points"),
        (MASK, false, true, "boxes"),
        (MASK_FROM_MASK, true, true, "all"),
    ] {
        let (mut given, count) = prompts(&folder, points, boxes);
        if entry == MASK_FROM_MASK {
            given.insert("input_masks".into(), bytes(&folder.floats("in.input_masks")));
        }
        let module = &networks[entry];
        let made = run(module, &folder, count, &given);
        let mut all = Vec::new();
        // Stages are recorded of the first run.
        for (name, _) in module.taps.iter().filter(|_| run_name == "points") {
            if folder.recorded().any(|r| r == name) {
                all.push((name.clone(), &made[name]));
            }
        }
        let single = run_name == "boxes";
        let [masks, scores] =
            if single { ["single_mask", "single_score"] } else { ["pred_masks", "iou_scores"] };
        all.push((format!("out.{run_name}_pred_masks"), &made[masks]));
        all.push((format!("out.{run_name}_iou_scores"), &made[scores]));
        if run_name != "all" {
            let name = format!("out.{run_name}_object_score_logits");
            all.push((name, &made["object_score_logits"]));
        }
        compare(&folder, &all);
        assert!(run_name != "points" || all.len() >= 6);
        compared.extend(all.into_iter().map(|(name, _)| name));
    }
    let of_prompts = |n: &&str| {
        n.starts_with("out.") && n.contains("_") && !n.contains("first") && !n.contains("s.")
    };
    for name in folder.recorded().filter(of_prompts) {
        assert!(compared.iter().any(|c| c == name), "{name} is not compared");
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
fn without_stability_the_first_mask_answers() {
    let folder = folder();
    let on = "\"dynamic_multimask_via_stability\": true";
    let networks = changed(on, &on.replace("true", "false")).unwrap();
    let (given, count) = prompts(&folder, false, true);
    let made = run(&networks[MASK], &folder, count, &given);
    let all = [("pred_masks", "single_mask"), ("iou_scores", "single_score")];
    compare(&folder, &all.map(|(part, name)| (format!("out.boxes_first_{part}"), &made[name])));
    // The record's point is that the two answers differ.
    let (a, b) =
        (folder.floats("out.boxes_iou_scores"), folder.floats("out.boxes_first_iou_scores"));
    assert!(a.iter().zip(&b).any(|(a, b)| (a - b).abs() > 1e-3));
}

#[test]
fn what_a_configuration_says_otherwise_is_refused_by_name() {
    let stages = |name: &str, list: [u64; 4]| {
        let list = list.map(|n| format!("\n        {n}")).join(",");
        format!("\"{name}\": [{list}\n      ]")
    };
    let windows = |list| stages("window_size_per_stage", list);
    let dims = |list| stages("embed_dim_per_stage", list);
    let counts = |list| stages("blocks_per_stage", list);
    let heads = |list| stages("num_attention_heads_per_stage", list);
    let cases: Vec<(String, String, Code, &str)> = [
        ("\"fpn_padding\": 0", "\"fpn_padding\": 0, \"sparkle\": 1", Code::Unsupported, "sparkle"),
        ("\"fpn_kernel_size\": 1", "\"fpn_kernel_size\": 3", Code::Unsupported, "mixes neighbours"),
        ("\"num_channels\": 3", "\"num_channels\": 1", Code::Unsupported, "red, green and blue"),
        (
            "\"num_query_pool_stages\": 3",
            "\"num_query_pool_stages\": 2",
            Code::Unsupported,
            "grids",
        ),
        ("\"fpn_hidden_size\": 32", "\"fpn_hidden_size\": 33", Code::BadFile, "hidden_size is 32"),
        ("\"mlp_ratio\": 2.0", "\"mlp_ratio\": 1e30", Code::BadFile, "at most"),
        ("\"mlp_ratio\": 2.0", "\"mlp_ratio\": 0.01", Code::BadFile, "leaves nothing"),
        ("\"iou_head_depth\": 3", "\"iou_head_depth\": 2", Code::Unsupported, "layers.0"),
        (
            "\"num_multimask_outputs\": 3",
            "\"num_multimask_outputs\": 4",
            Code::BadFile,
            "mask_tokens",
        ),
        ("\"patch_size\": 16", "\"patch_size\": 8", Code::BadFile, "patch_size is 8"),
        (
            "\"dynamic_multimask_stability_thresh\": 0.98",
            "\"dynamic_multimask_stability_thresh\": 1.5",
            Code::BadFile,
            "expected 0 to 1",
        ),
    ]
    .map(|(from, to, code, what)| (from.to_owned(), to.to_owned(), code, what))
    .into_iter()
    .chain([
        (windows([8, 4, 7, 3]), windows([7, 4, 7, 3]), Code::BadFile, "does not divide"),
        (windows([8, 4, 7, 3]), windows([8, 4, 1, 3]), Code::BadFile, "do not halve"),
        (windows([8, 4, 7, 3]), windows([8, 4, 0, 3]), Code::BadFile, "has 0"),
        (windows([8, 4, 7, 3]), windows([8, 4, 1 << 31, 3]), Code::BadFile, "expected 1 to"),
        (dims([16, 32, 48, 64]), dims([16, 16, 48, 64]), Code::Unsupported, "one width"),
        (dims([16, 32, 48, 64]), dims([16, 32, 48, 66]), Code::BadFile, "backbone_channel_list"),
        (dims([16, 32, 48, 64]), dims([18, 32, 48, 64]), Code::BadFile, "hidden_size"),
        (counts([1, 2, 3, 1]), counts([1, 2, 3, 2]), Code::BadFile, "blocks.7"),
        (counts([1, 2, 3, 1]), counts([1, 2, 1, 1]), Code::BadFile, "blocks.4"),
        (counts([1, 2, 3, 1]), counts([1, 1, 1, 1]), Code::BadFile, "names block 4"),
        (counts([1, 2, 3, 1]), counts([1, 1 << 31, 1, 1]), Code::BadFile, "expected 1 to"),
        (heads([1, 2, 3, 2]), heads([1, 2, 5, 2]), Code::BadFile, "does not divide"),
    ])
    .collect();
    for (from, to, code, what) in cases {
        let e = changed(&from, &to).unwrap_err();
        assert_eq!(e.code, code, "{to}: {e}");
        assert!(e.to_string().contains(what), "{to}: {e}");
    }
}
