//! Encoders of images: recorded models by the oracle, and what is refused of their files.

use super::checkpoints::{Folder, header, json, outputs, recorded};
use crate::skip::skip;
use rlx_core::Code;
use rlx_core::compare::difference;
use rlx_core::ir::GraphModule;
use rlx_core::ir::hir::Module;
use rlx_core::lower::lower_module;
use rlx_core::models::{self, Checkpoint, Task};
use rlx_core::safetensors::json::Json;
use rlx_core::types::{BATCH, Binding, DType, Scalar};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Some times what was measured, of the largest number: up to 1.5e-6.
const TOLERANCE: f64 = 1e-5;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn module(checkpoint: &Checkpoint<'_>) -> rlx_core::Result<Module> {
    models::open(checkpoint)?.module(checkpoint, 0)
}

/// Outputs and taps of a folder's model for recorded images of that tag.
fn run(folder: &Folder, tag: &str, [batch, height, width]: [u64; 3]) -> BTreeMap<String, Vec<f32>> {
    let mut module = module(&folder.checkpoint()).unwrap();
    module.output_taps();
    let sizes = [(BATCH, batch), ("HEIGHT", height), ("WIDTH", width)].map(|(s, n)| (s.into(), n));
    let g = lower_module(&module, DType::F32).unwrap();
    let g = g.specialize(&module.name, &Binding::from(sizes)).unwrap();
    let pixels = folder.floats(&format!("in.pixel_values{tag}"));
    let bytes = pixels.iter().flat_map(|x| x.to_le_bytes()).collect();
    outputs(&g, &folder.weights(), &[("pixel_values".to_owned(), bytes)].into())
}

fn near(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let off = difference(got, expected).relative();
    println!("{what}: {off:.2e}");
    assert!(off <= TOLERANCE, "{what}: {off:e}");
}

fn as_recorded(folder: &Folder, name: &str, sizes: &[(&str, [u64; 3])]) {
    for &(tag, size) in sizes {
        let got = run(folder, tag, size);
        for (output, record) in
            [("hidden", "last_hidden_state"), ("pooler_output", "pooler_output")]
        {
            let want = folder.floats(&format!("out.{record}{tag}"));
            near(&got[output], &want, &format!("{name} {output}{tag}"));
        }
        if tag.is_empty() {
            for layer in ["layer.embed", "layer.0", "layer.1"] {
                near(&got[layer], &folder.floats(layer), &format!("{name} {layer}"));
            }
        }
    }
}

#[test]
fn images_have_the_recorded_rows_and_vectors() {
    let vit = Folder::open(&fixture("vit"), "config.json");
    as_recorded(&vit, "vit", &[("", [2, 48, 48])]);
    let sizes = [("", [2, 56, 56]), ("_42x70", [1, 42, 70])];
    let registers = Folder::open(&fixture("dinov2_registers"), "config.json");
    as_recorded(&registers, "dinov2_registers", &sizes);
    let Some(path) = recorded("dinov2") else {
        return skip("models::vision: dinov2", "no folder `shared` beside the checkout");
    };
    as_recorded(&Folder::open(&path, "config.json"), "dinov2", &sizes);
}

#[test]
fn what_is_known_of_a_model_is_its_own() {
    for (name, context) in [("vit", 37), ("dinov2_registers", 20)] {
        let folder = Folder::open(&fixture(name), "config.json");
        let facts = models::open(&folder.checkpoint()).unwrap().facts();
        assert_eq!((facts.task, facts.layers, facts.width), (Task::Features, 3, 64));
        assert_eq!((facts.context, facts.vocab), (context, 0));
    }
}

#[test]
fn an_image_that_is_smaller_than_a_patch_is_an_error() {
    let folder = Folder::open(&fixture("dinov2_registers"), "config.json");
    let module = module(&folder.checkpoint()).unwrap();
    let g = lower_module(&module, DType::F32).unwrap();
    let of = |height: u64, width: u64| {
        let sizes = [(BATCH, 1), ("HEIGHT", height), ("WIDTH", width)];
        g.specialize(&module.name, &Binding::from(sizes.map(|(s, n)| (s.into(), n))))
    };
    assert!(of(14, 14).is_ok() && of(27, 15).is_ok());
    for (height, width) in [(13, 14), (14, 13), (1, 500), (0, 14)] {
        let e = of(height, width).unwrap_err();
        assert_eq!(e.code, Code::BadGraph, "{height} x {width}: {e}");
    }
}

/// A folder's configuration with other values: `null` takes a key away.
fn with(folder: &Folder, changes: &[(&str, &str)]) -> Json {
    let Json::Object(mut members) = folder.config.clone() else { panic!("no object") };
    for (key, value) in changes {
        members.retain(|m| m.0 != *key);
        members.push(((*key).into(), json(value.as_bytes())));
    }
    Json::Object(members)
}

/// What is said of a folder whose configuration has other values.
fn refusal(folder: &Folder, changes: &[(&str, &str)]) -> rlx_core::Error {
    let config = with(folder, changes);
    module(&Checkpoint::transformers(&config, &folder.header)).unwrap_err()
}

#[test]
fn configurations_that_make_no_sense_are_refused_by_name() {
    let bad = (Code::BadFile, "config.json");
    let unsupported = (Code::Unsupported, "config.json");
    let weights = (Code::BadFile, "");
    for (name, key, value, (code, at)) in [
        ("vit", "hidden_size", "0", bad),
        ("vit", "hidden_size", "null", bad),
        ("vit", "hidden_size", "4294967295", bad),
        ("vit", "num_attention_heads", "7", bad),
        ("vit", "num_hidden_layers", "100000", bad),
        ("vit", "image_size", "[48, 48]", bad),
        ("vit", "image_size", "4294967295", weights),
        ("vit", "patch_size", "49", bad),
        ("vit", "patch_size", "0", bad),
        ("vit", "layer_norm_eps", "\"small\"", bad),
        ("vit", "num_channels", "1", unsupported),
        ("vit", "qkv_bias", "false", unsupported),
        ("vit", "hidden_act", "\"sparkle\"", unsupported),
        ("vit", "pooler_act", "\"relu\"", unsupported),
        ("vit", "pooler_output_size", "32", unsupported),
        ("vit", "sparkle", "1", unsupported),
        ("dinov2_registers", "mlp_ratio", "4294967295", bad),
        ("dinov2_registers", "mlp_ratio", "2.5", bad),
        ("dinov2_registers", "mlp_ratio", "3", weights),
        ("dinov2_registers", "use_swiglu_ffn", "false", weights),
        ("dinov2_registers", "num_register_tokens", "4", weights),
        ("dinov2_registers", "num_register_tokens", "4294967295", weights),
        ("dinov2_registers", "sparkle", "true", unsupported),
    ] {
        let e = refusal(&Folder::open(&fixture(name), "config.json"), &[(key, value)]);
        let what = format!("{name} {key} {value}: {e}");
        assert_eq!((e.code, e.at.as_str()), (code, at), "{what}");
        assert!(code != Code::Unsupported || e.what.contains(key), "{what}");
    }
}

/// The header with other names of tensors, and one more tensor.
fn renamed(
    folder: &Folder,
    prefix: &str,
    more: &[(&str, &[u64])],
) -> rlx_core::safetensors::Header {
    let mut members: Vec<String> = Vec::new();
    let mut offset = 0;
    let own = folder.header.tensors.iter();
    let own = own.map(|(name, t)| (format!("{prefix}{name}"), t.shape.clone()));
    let more = more.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec()));
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

#[test]
fn published_names_and_heads_are_read_and_others_are_refused() {
    for (name, prefix, width) in
        [("vit", "vit.", 64), ("dinov2_registers", "dinov2_with_registers.", 128)]
    {
        let folder = Folder::open(&fixture(name), "config.json");
        let outputs = |prefix: &str, more: &[(&str, &[u64])]| -> rlx_core::Result<Vec<String>> {
            let header = renamed(&folder, prefix, more);
            let module = module(&Checkpoint::transformers(&folder.config, &header))?;
            Ok(module.outputs.iter().map(|o| o.0.clone()).collect())
        };
        let head: [(&str, &[u64]); 2] =
            [("classifier.weight", &[10, width]), ("classifier.bias", &[10])];
        let plain = ["hidden", "pooler_output"];
        assert_eq!(outputs(prefix, &[]).unwrap(), plain);
        assert_eq!(outputs(prefix, &head).unwrap(), ["hidden", "pooler_output", "logits"]);
        // One that has it already has it inert.
        if name == "vit" {
            let mask: [(&str, &[u64]); 1] = [("embeddings.mask_token", &[1, 64])];
            assert_eq!(outputs("", &mask).unwrap(), plain);
        }
        let e = outputs(prefix, &head[..1]).unwrap_err();
        assert!(e.what.contains("classifier.bias is missing"), "{e}");
        let e = outputs(prefix, &[("decoder.0.weight", &[4, 64])]).unwrap_err();
        assert_eq!(e.code, Code::Unsupported, "{e}");
        assert!(e.what.starts_with("tensor decoder.0.weight"), "{e}");
    }
}

#[test]
fn a_head_of_classes_is_a_layer_on_the_first_row_and_the_mean_of_the_others() {
    for (name, size) in [("vit", 48), ("dinov2_registers", 56)] {
        let folder = Folder::open(&fixture(name), "config.json");
        let is_vit = name == "vit";
        let width = if is_vit { 64 } else { 128 };
        let head: [(&str, &[u64]); 2] =
            [("classifier.weight", &[3, width]), ("classifier.bias", &[3])];
        let header = renamed(&folder, "", &head);
        let module = module(&Checkpoint::transformers(&folder.config, &header)).unwrap();
        let sizes = [(BATCH, 2), ("HEIGHT", size), ("WIDTH", size)].map(|(s, n)| (s.into(), n));
        let g = lower_module(&module, DType::F32).unwrap();
        let g = g.specialize("g", &Binding::from(sizes)).unwrap();
        let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let matrix: Vec<f32> =
            (0..3 * width).map(|i| ((i * 37 % 101) as f32 - 50.0) / 99.0).collect();
        let bias = [0.5, -1.5, 2.5];
        let mut weights = folder.weights();
        weights.insert("classifier.weight".into(), bytes(&matrix));
        weights.insert("classifier.bias".into(), bytes(&bias));
        let pixels = bytes(&folder.floats("in.pixel_values"));
        let got = outputs(&g, &weights, &[("pixel_values".to_owned(), pixels)].into());
        let hidden = folder.floats("out.last_hidden_state");
        let want: Vec<f32> = hidden
            .chunks(hidden.len() / 2)
            .flat_map(|rows| {
                let mut x = rows[..64].to_vec();
                if !is_vit {
                    let others = (rows.len() / 64 - 1) as f32;
                    x.extend(
                        (0..64)
                            .map(|d| rows[64..].iter().skip(d).step_by(64).sum::<f32>() / others),
                    );
                }
                let row = |i: usize| -> f32 {
                    let w = &matrix[i * x.len()..][..x.len()];
                    w.iter().zip(&x).map(|(w, x)| w * x).sum::<f32>() + bias[i]
                };
                [row(0), row(1), row(2)]
            })
            .collect();
        near(&got["logits"], &want, name);
    }
}

/// Published folders are in f16 or bf16 as a whole: norms and biases too.
#[test]
fn folders_in_half_precision_are_their_numbers() {
    for half in [Scalar::F16, Scalar::Bf16] {
        for name in
            ["vit", "dinov2_registers", "wav2vec2", "wav2vec2_stable", "sam", "sam2", "modernbert"]
        {
            let mut folder = Folder::open(&fixture(name), "config.json");
            folder.narrow(half);
            let checkpoint = folder.checkpoint();
            let model = models::open(&checkpoint).unwrap();
            for entry in model.entries(&checkpoint, None).unwrap() {
                let GraphModule::Hir(module) = &entry.module else { panic!("{name}") };
                let lowered = lower_module(module, DType::F32);
                lowered.unwrap_or_else(|e| panic!("{name} {} in {half:?}: {e}", entry.name));
            }
        }
        let mut vit = Folder::open(&fixture("vit"), "config.json");
        vit.narrow(half);
        let narrow = run(&vit, "", [2, 48, 48]);
        vit.widen();
        assert!(narrow == run(&vit, "", [2, 48, 48]), "{half:?}");
    }
}
