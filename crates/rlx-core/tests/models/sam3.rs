//! SAM 3 for images: every recorded output and stage by the oracle, and what is refused.

use super::checkpoints::{Folder, json, outputs, recorded};
use crate::common::execute::Data;
use rlx_core::Code;
use rlx_core::compare::difference;
use rlx_core::ir::hir::Module;
use rlx_core::lower::lower_module;
use rlx_core::models::{
    self, Checkpoint, DETECT, DETECT_FROM_BOXES, IMAGE_EMBED, TEXT_EMBED, Task, Tensors,
};
use rlx_core::types::{BATCH, Binding, DType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Some times what was measured, of the largest number of each tensor.
const TOLERANCE: f64 = 2e-5;

/// Features of an image by the record's names.
const SEEN: [(&str, &str); 3] = [
    ("fine_embeddings", "out.fpn_hidden_states.0"),
    ("middle_embeddings", "out.fpn_hidden_states.1"),
    ("image_embeddings", "out.fpn_hidden_states.2"),
];

const FOUND: [&str; 5] =
    ["pred_masks", "pred_boxes", "pred_logits", "presence_logits", "semantic_seg"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sam3")
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

/// Runs a network; its points of comparison are outputs too.
fn run(
    module: &Module,
    weights: &Data,
    [batch, tokens, boxes]: [usize; 3],
    given: &Data,
) -> BTreeMap<String, Vec<f32>> {
    let mut module = module.clone();
    module.output_taps();
    let sizes = [(BATCH, batch), ("TOKENS", tokens), ("BOXES", boxes)];
    let sizes = sizes.map(|(name, n)| (name.to_owned(), n as u64));
    let g = lower_module(&module, DType::F32).unwrap();
    let g = g.specialize(&module.name, &Binding::from(sizes)).unwrap();
    outputs(&g, weights, given)
}

fn bytes(list: &[f32]) -> Vec<u8> {
    list.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn words(list: &[i64]) -> Vec<u8> {
    list.iter().flat_map(|&n| i32::try_from(n).unwrap().to_le_bytes()).collect()
}

/// Compares what was made with the record: the numbers that both have.
fn compare(folder: &Folder, name: &str, got: &[f32], skipped: impl Fn(usize) -> bool) {
    let want = folder.floats(name);
    assert!(!got.is_empty() && got.len() <= want.len(), "{name}");
    let kept = |list: &[f32]| -> Vec<f32> {
        (0..got.len()).filter(|&i| !skipped(i)).map(|i| list[i]).collect()
    };
    let off = difference(&kept(got), &kept(&want)).relative();
    println!("{name}: {off:.2e}");
    assert!(off <= TOLERANCE, "{name}: {off:e}");
}

/// Everything of a record: `batch` images with as many tokens and boxes each.
fn follows(folder: &Folder, checkpoint: &Checkpoint<'_>, weights: &Data, sizes: [usize; 3]) {
    let ([batch, tokens, boxes], networks) = (sizes, networks(checkpoint).unwrap());
    let mut compared = Vec::new();
    let stages = |module: &Module, made: &BTreeMap<String, Vec<f32>>| {
        let names = module.taps.iter().map(|(name, _)| name.clone());
        let names: Vec<String> = names.filter(|n| folder.recorded().any(|r| r == n)).collect();
        for name in &names {
            // Rows of padding are nobody's, and the library moves those behind a padded image's boxes.
            let numbers = made[name].len() / batch;
            if name.starts_with("sub.geometry_encoder") {
                compare(folder, name, &made[name][..numbers], |_| false);
            } else if name == "sub.text_projection.out" {
                let real = folder.ints("in.attention_mask");
                let width = numbers / tokens;
                compare(folder, name, &made[name], |i| real[i / width] == 0);
            } else {
                compare(folder, name, &made[name], |_| false);
            }
        }
        names
    };
    let given = Data::from([("pixel_values".into(), bytes(&folder.floats("in.pixel_values")))]);
    let image = run(&networks[IMAGE_EMBED], weights, sizes, &given);
    compared.extend(stages(&networks[IMAGE_EMBED], &image));
    let given = Data::from([("input_ids".into(), words(&folder.ints("in.input_ids")))]);
    let text = run(&networks[TEXT_EMBED], weights, sizes, &given);
    compared.extend(stages(&networks[TEXT_EMBED], &text));
    let mut given = Data::from([
        ("text_embeddings".to_owned(), bytes(&text["text_embeddings"])),
        ("attention_mask".into(), words(&folder.ints("in.attention_mask"))),
        ("input_boxes".into(), bytes(&folder.floats("in.input_boxes"))),
        ("input_boxes_labels".into(), words(&folder.ints("in.input_boxes_labels"))),
    ]);
    assert_eq!(folder.ints("in.input_boxes_labels").len(), batch * boxes);
    given.extend(SEEN.map(|(name, _)| (name.to_owned(), bytes(&image[name]))));
    for (entry, kind) in [(DETECT, "text"), (DETECT_FROM_BOXES, "boxes")] {
        let made = run(&networks[entry], weights, sizes, &given);
        let of_run = |n: &String| kind == "text" || n.contains("geometry_encoder");
        let mut module = networks[entry].clone();
        module.taps.retain(|(name, _)| of_run(name));
        compared.extend(stages(&module, &made));
        for part in FOUND {
            let name = format!("out.{kind}_{part}");
            compare(folder, &name, &made[part], |_| false);
            compared.push(name);
        }
    }
    // The library makes features half as fine, which nothing asks for, and says more of attention and texts.
    let left = ["in.", "out.fpn_hidden_states.3", "attention.out.1", "sub.text_encoder.out"];
    for name in folder.recorded().filter(|name| !left.iter().any(|part| name.contains(part))) {
        assert!(compared.iter().any(|c| c == name), "{name} is not compared");
    }
}

#[test]
fn recorded_images_and_prompts_give_what_is_found() {
    let folder = folder();
    let checkpoint = folder.checkpoint();
    let facts = models::open(&checkpoint).unwrap().facts();
    assert_eq!((facts.task, facts.layers, facts.context, facts.width), (Task::Segment, 2, 49, 24));
    assert_eq!(facts.vocab, 61);
    follows(&folder, &checkpoint, &folder.weights(), [2, 11, 3]);
}

#[test]
fn a_larger_record_is_followed_where_it_is() {
    let Some(path) = recorded("sam3") else { return };
    let folder = Folder::open(&path, "config.json");
    follows(&folder, &folder.checkpoint(), &folder.weights(), [1, 13, 2]);
}

/// The configuration's text.
fn text() -> String {
    std::fs::read_to_string(root().join("config.json")).unwrap()
}

/// What published folders say of themselves: the model is within one that follows things through films.
fn published(config: &str) -> String {
    format!(
        r#"{{"model_type": "sam3_video", "detector_config": {config}, "det_nms_thresh": 0.1,
        "tracker_config": {{"model_type": "sam3_tracker_video", "num_maskmem": 7}}}}"#
    )
}

#[test]
fn a_published_folder_has_the_model_within_another() {
    let (plain, mut folder) = (folder(), folder());
    folder.config = json(published(&text()).as_bytes());
    let own = std::mem::take(&mut folder.header.tensors);
    let some = own.values().next().unwrap().clone();
    folder.header.tensors =
        own.into_iter().map(|(n, t)| (format!("detector_model.{n}"), t)).collect();
    for name in ["tracker_model.memory", "tracker_neck.layer"] {
        folder.header.tensors.insert(name.into(), some.clone());
    }
    let given = Data::from([("input_ids".into(), words(&plain.ints("in.input_ids")))]);
    let [a, b] = [&plain, &folder].map(|folder| {
        let networks = networks(&folder.checkpoint()).unwrap();
        assert_eq!(networks.len(), 4);
        run(&networks[TEXT_EMBED], &folder.weights(), [2, 11, 1], &given)
    });
    assert_eq!(a, b);
    // What is in no part of it is refused still.
    folder.header.tensors.insert("sparkle".into(), some.clone());
    let e = networks(&folder.checkpoint()).unwrap_err();
    assert!(e.code == Code::Unsupported && e.to_string().contains("sparkle"), "{e}");
    folder.header.tensors.remove("sparkle");
    let more = published(&text()).replacen("0.1,", "0.1, \"sparkle\": 1,", 1);
    let config = json(more.as_bytes());
    let e = networks(&Checkpoint::transformers(&config, &folder.header)).unwrap_err();
    assert!(e.code == Code::Unsupported && e.to_string().contains("sparkle"), "{e}");
    // A detector alone has no such parts.
    let mut plain = plain;
    plain.header.tensors.insert("tracker_model.memory".into(), some);
    let e = networks(&plain.checkpoint()).unwrap_err();
    assert!(e.code == Code::Unsupported && e.to_string().contains("tracker_model"), "{e}");
}

/// The fixture's configuration with one piece of text for another.
fn changed(from: &str, to: &str) -> rlx_core::Result<BTreeMap<&'static str, Module>> {
    let text = text();
    assert!(text.contains(from), "{from}");
    let (folder, config) = (folder(), json(text.replacen(from, to, 1).as_bytes()));
    networks(&Checkpoint::transformers(&config, &folder.header))
}

#[test]
fn what_the_first_published_files_say_more_is_read() {
    for (from, to) in [
        ("\"num_queries\": 5", "\"num_queries\": 5, \"box_rpb_mode\": \"log\""),
        ("\"num_queries\": 5", "\"num_queries\": 5, \"use_presence_token\": true"),
        ("\"patch_size\": 8", "\"patch_size\": [8, 8], \"qkv_bias\": true"),
        ("\"fpn_hidden_size\": 24", "\"fpn_hidden_size\": 24, \"fpn_stride\": 2"),
        ("\"rope_parameters\": {", "\"rope_theta\": 10000.0, \"rope_parameters\": {"),
        // Stages of which a file has weights and no features.
        ("\"num_upsampling_stages\": 3", "\"num_upsampling_stages\": 4"),
    ] {
        changed(from, to).unwrap_or_else(|e| panic!("{to}: {e}"));
    }
}

#[test]
fn what_a_configuration_says_otherwise_is_refused_by_name() {
    let many = (1u64 << 31).to_string();
    let many = many.as_str();
    for (name, from, to, code, what) in [
        ("fpn_hidden_size", "24", "24, \"sparkle\": 1", Code::Unsupported, "sparkle"),
        ("fpn_hidden_size", "24", "28", Code::BadFile, "multiple of 8"),
        ("fpn_hidden_size", "24", "32", Code::BadFile, "hidden_size is 24"),
        ("fpn_hidden_size", "24", "24, \"fpn_kernel_size\": 3", Code::Unsupported, "another way"),
        ("num_channels", "3", "1", Code::Unsupported, "red, green and blue"),
        ("rope_type", "\"axial\"", "\"linear\"", Code::Unsupported, "rope_type linear"),
        ("rope_theta", "10000.0", "-1.0", Code::BadFile, "rope_theta"),
        ("window_size", "3", "0", Code::BadFile, "window_size"),
        ("window_size", "3", many, Code::BadFile, "window_size"),
        ("image_size", "56", "57", Code::BadFile, "does not divide"),
        ("image_size", "56", "0", Code::BadFile, "is 0"),
        ("image_size", "56", "[56, 64]", Code::BadFile, "two equal numbers"),
        ("image_size", "56", many, Code::BadFile, "at most 256"),
        ("patch_size", "8", "0", Code::BadFile, "is 0"),
        ("pretrain_image_size", "24", "7", Code::BadFile, "less than a patch"),
        ("pretrain_image_size", "24", "32", Code::BadFile, "position_embeddings"),
        ("num_queries", "5", "6", Code::BadFile, "query_embed"),
        ("num_queries", "5", many, Code::BadFile, "at most 4096"),
        ("num_queries", "5", "5, \"box_rpb_mode\": \"both\"", Code::Unsupported, "supported: log"),
        ("num_queries", "5", "5, \"use_presence_token\": false", Code::Unsupported, "any"),
        ("roi_size", "3", "4", Code::BadFile, "boxes_pool_project"),
        ("roi_size", "3", "0", Code::BadFile, "roi_size"),
        ("roi_size", "3", many, Code::BadFile, "at most 64"),
        ("num_upsampling_stages", "3", "1", Code::BadFile, "less than 2"),
        ("num_upsampling_stages", "3", "2", Code::Unsupported, "conv_layers.2"),
        ("num_attention_heads", "3", "5", Code::BadFile, "does not divide"),
        ("num_attention_heads", "3", "0", Code::BadFile, "num_attention_heads"),
        ("num_attention_heads", "2", "16", Code::BadFile, "in fours"),
        ("num_layers", "2", "3", Code::BadFile, "layers.2"),
        ("num_layers", "2", "1", Code::Unsupported, "layers.1"),
        ("num_layers", "2", many, Code::BadFile, "num_layers"),
        ("intermediate_size", "40", many, Code::BadFile, "at most"),
        ("hidden_act", "\"relu\"", "\"sparkle\"", Code::Unsupported, "sparkle"),
        ("hidden_act", "\"gelu\"", "null", Code::BadFile, "hidden_act"),
        ("vocab_size", "61", "62", Code::BadFile, "token_embedding"),
        ("max_position_embeddings", "16", many, Code::BadFile, "at most"),
    ] {
        let [from, to] = [from, to].map(|value| format!("\"{name}\": {value}"));
        let e = changed(&from, &to).unwrap_err();
        assert!(e.code == code && e.to_string().contains(what), "{to}: {e}");
    }
    for (from, to, code, what) in [
        ("4.0,", "8.0,", Code::Unsupported, "scale_factors"),
        (
            "\"global_attn_indexes\": [\n        1",
            "\"global_attn_indexes\": [2",
            Code::BadFile,
            "layer 2",
        ),
        ("\"text_config\"", "\"text\"", Code::BadFile, "text_config is missing"),
        ("\"vision_config\"", "\"vision\"", Code::BadFile, "vision_config is missing"),
    ] {
        let e = changed(from, to).unwrap_err();
        assert!(e.code == code && e.to_string().contains(what), "{to}: {e}");
    }
}
