//! Models that make images: recorded ones, step by step, by the oracle; and what is refused.

use super::checkpoints::{Folder, json, outputs, recorded};
use crate::common::execute::Data;
use rlx_core::compare::difference;
use rlx_core::ir::hir::Module;
use rlx_core::lower::lower_module;
use rlx_core::models::{
    self, Checkpoint, DECODE_IMAGE, DENOISE, DENOISE_STEP, ENCODE_IMAGE, FlowMatch, GUIDED_STEP,
    Model, NOISE, Task,
};
use rlx_core::safetensors::json::Json;
use rlx_core::types::{Binding, DType, Scalar};
use rlx_core::{Code, Error};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Some times what was measured, of the largest number: up to 2.3e-5 between layers, where the record has sines of
/// angles of a thousand and more in f32.
const TOLERANCE: f64 = 6e-5;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn words(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn floats(x: &[f32]) -> Vec<u8> {
    words(x.iter().map(|x| x.to_bits()))
}

fn near(got: &[f32], expected: &[f32], what: &str) {
    let off = difference(got, expected).relative();
    println!("{what}: {off:.2e}");
    assert!(off <= TOLERANCE, "{what}: {off:e}");
}

fn networks(folder: &Folder) -> (Box<dyn Model>, BTreeMap<String, Module>) {
    let checkpoint = folder.checkpoint();
    let model = models::open(&checkpoint).unwrap();
    let entries = model.entries(&checkpoint, None).unwrap().into_iter();
    let modules = entries.map(|mut e| (e.name.clone(), e.module.as_hir_mut().unwrap().clone()));
    let modules = modules.collect();
    (model, modules)
}

fn run(
    module: &Module,
    weights: &Data,
    sizes: &[(&str, u64)],
    given: &[(&str, Vec<u8>)],
) -> BTreeMap<String, Vec<f32>> {
    let sizes: Binding = sizes.iter().map(|&(s, n)| (s.to_string(), n)).collect();
    let g = lower_module(module, DType::F32).unwrap().specialize(&module.name, &sizes).unwrap();
    let given = given.iter().map(|(n, b)| (n.to_string(), b.clone())).collect();
    outputs(&g, weights, &given)
}

/// With its points between layers as outputs.
fn with_taps(module: &Module) -> Module {
    let mut module = module.clone();
    module.output_taps();
    module
}

const LATENTS: [(&str, u64); 3] = [("BATCH", 1), ("SEQ", 35), ("TEXT", 13)];

/// What every step of the record is given beside latents and time.
fn conditions(folder: &Folder) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("encoder_hidden_states", floats(&folder.floats("in.encoder_hidden_states"))),
        ("guidance", floats(&folder.floats("in.guidance"))),
        ("img_ids", words(folder.ids("in.img_ids"))),
        ("txt_ids", words(folder.ids("in.txt_ids"))),
    ]
}

#[test]
fn a_step_is_the_recorded_one() {
    let folder = Folder::open(&fixture("flux2"), "config.json");
    let (model, modules) = networks(&folder);
    let facts = model.facts();
    assert_eq!((facts.family, facts.task, facts.layers), ("flux2", Task::Imagine, 4));
    assert_eq!(modules.keys().collect::<Vec<_>>(), [DENOISE, DENOISE_STEP, GUIDED_STEP, NOISE]);
    let mut given = conditions(&folder);
    given.push(("hidden_states", floats(&folder.floats("in.hidden_states"))));
    given.push(("timestep", floats(&folder.floats("in.timestep"))));
    let got = run(&with_taps(&modules[DENOISE_STEP]), &folder.weights(), &LATENTS, &given);
    for name in ["sample", "rope_cos", "rope_sin"] {
        near(&got[name], &folder.floats(&format!("out.{name}")), name);
    }
}

#[test]
fn images_of_a_batch_do_not_see_each_other() {
    let folder = Folder::open(&fixture("flux2"), "config.json");
    let (_, modules) = networks(&folder);
    let twice = |x: Vec<f32>, other: fn(f32) -> f32| {
        let second: Vec<f32> = x.iter().map(|&x| other(x)).collect();
        floats(&[x, second].concat())
    };
    let latents = folder.floats("in.hidden_states");
    let given = [
        ("hidden_states", twice(latents.clone(), |x| 0.5 - x)),
        ("timestep", twice(folder.floats("in.timestep"), |t| t / 2.0)),
        ("encoder_hidden_states", twice(folder.floats("in.encoder_hidden_states"), |x| -x)),
        ("guidance", twice(folder.floats("in.guidance"), |g| g + 1.0)),
        ("img_ids", words(folder.ids("in.img_ids"))),
        ("txt_ids", words(folder.ids("in.txt_ids"))),
    ];
    let sizes = [("BATCH", 2), LATENTS[1], LATENTS[2]];
    let got = run(&modules[DENOISE_STEP], &folder.weights(), &sizes, &given);
    let (first, second) = got["sample"].split_at(latents.len());
    near(first, &folder.floats("out.sample"), "first of two");
    assert!(difference(second, first).relative() > 0.1);
}

#[test]
fn steps_from_noise_give_the_recorded_latents() {
    let folder = Folder::open(&fixture("flux2"), "config.json");
    let at = fixture("flux2").join("scheduler_config.json");
    let text = std::fs::read(&at).unwrap();
    let schedule = FlowMatch::open(&Json::parse(&text, "s.json", 0).unwrap(), "s.json").unwrap();
    let sigmas = schedule.sigmas(35, 4).unwrap();
    near(&sigmas, &folder.floats("out.sigmas"), "sigmas");
    near(&schedule.timesteps(35, 4).unwrap(), &folder.floats("out.timesteps"), "timesteps");
    let (_, modules) = networks(&folder);
    let (weights, conditions) = (folder.weights(), conditions(&folder));
    let mut latents = folder.floats("in.hidden_states");
    let expected = folder.floats("out.denoise_latents");
    for (i, expected) in expected.chunks(latents.len()).enumerate() {
        let mut given = conditions.clone();
        given.push(("latents", floats(&latents)));
        given.push(("sigma", floats(&sigmas[i..=i])));
        given.push(("sigma_next", floats(&sigmas[i + 1..=i + 1])));
        latents = run(&modules[DENOISE], &weights, &LATENTS, &given)["latents"].clone();
        near(&latents, expected, &format!("latents of step {i}"));
    }
}

#[test]
fn noise_is_that_of_its_seed() {
    let folder = Folder::open(&fixture("flux2"), "config.json");
    let (_, modules) = networks(&folder);
    let noisy = |key: [u32; 4], latents: &[f32], sigma: f32| {
        let sizes = [("BATCH", 1), ("SEQ", latents.len() as u64 / 32)];
        let given =
            [("key", words(key)), ("latents", floats(latents)), ("sigma", floats(&[sigma]))];
        run(&modules[NOISE], &Data::new(), &sizes, &given)["latents"].clone()
    };
    let noise = |key, n: usize| noisy(key, &vec![0.0; 32 * n], 1.0);
    let x = noise([7, 0, 0, 0], 400);
    assert_eq!(x.len(), 400 * 32);
    assert_eq!(x[..35 * 32], noise([7, 0, 0, 0], 35));
    assert_ne!(x[..35 * 32], noise([8, 0, 0, 0], 35));
    let mean = x.iter().sum::<f32>() / x.len() as f32;
    let square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    assert!(mean.abs() < 0.04 && (square - 1.0).abs() < 0.06, "{mean} {square}");
    // A quarter of the way from a picture to noise.
    let picture: Vec<f32> = (0..35 * 32).map(|i| i as f32 / 500.0).collect();
    let expected: Vec<f32> = picture.iter().zip(&x).map(|(p, x)| 0.75 * p + 0.25 * x).collect();
    near(&noisy([7, 0, 0, 0], &picture, 0.25), &expected, "a quarter");
}

/// `[C, places] -> [places, C]`.
fn places_first(x: &[f32], places: usize) -> Vec<f32> {
    (0..x.len()).map(|i| x[i % (x.len() / places) * places + i / (x.len() / places)]).collect()
}

const PLACES: [(&str, u64); 3] = [("BATCH", 1), ("HEIGHT", 5), ("WIDTH", 7)];

/// The record of the whole model where it is, else that of the decoder alone.
#[test]
fn latents_become_the_recorded_image() {
    let folder = Folder::open(&fixture("flux2_vae"), "config.json");
    let (model, modules) = networks(&folder);
    assert_eq!((model.facts().family, model.facts().width), ("flux2_vae", 32));
    assert_eq!(modules.keys().collect::<Vec<_>>(), [DECODE_IMAGE]);
    let given = [("latents", floats(&places_first(&folder.floats("in.latents"), 35)))];
    let got = run(&modules[DECODE_IMAGE], &folder.weights(), &PLACES, &given);
    near(&got["image"], &folder.floats("out.image"), "image");
}

#[test]
fn every_point_between_layers_is_the_recorded_one() {
    let (Some(step), Some(vae)) = (recorded("flux2"), recorded("flux2_vae")) else {
        let reason = "shared/reference/flux2 is not there";
        return crate::skip::skip("every_point_between_layers_is_the_recorded_one", reason);
    };
    let folder = Folder::open(&step, "config.json");
    let mut given = conditions(&folder);
    given.push(("hidden_states", floats(&folder.floats("in.hidden_states"))));
    given.push(("timestep", floats(&folder.floats("in.timestep"))));
    let module = with_taps(&networks(&folder).1[DENOISE_STEP]);
    let got = run(&module, &folder.weights(), &LATENTS, &given);
    assert_eq!(compared(&module, &got, &folder), 18);
    let folder = Folder::open(&vae, "config.json");
    let (_, modules) = networks(&folder);
    let weights = folder.weights();
    let latents = floats(&places_first(&folder.floats("in.latents"), 35));
    let image = floats(&folder.floats("in.image"));
    let module = with_taps(&modules[DECODE_IMAGE]);
    let got = run(&module, &weights, &PLACES, &[("latents", latents)]);
    assert_eq!(compared(&module, &got, &folder), 6);
    let module = with_taps(&modules[ENCODE_IMAGE]);
    let got = run(&module, &weights, &PLACES, &[("image", image)]);
    assert_eq!(compared(&module, &got, &folder), 3);
    near(&got["mean"], &folder.floats("out.encoded_mean"), "mean");
    near(&got["logvar"], &folder.floats("out.encoded_logvar"), "logvar");
    let latents = places_first(&folder.floats("out.encoded_latents"), 35);
    near(&got["latents"], &latents, "encoded latents");
}

/// Compares the points that are recorded and returns how many.
fn compared(module: &Module, got: &BTreeMap<String, Vec<f32>>, folder: &Folder) -> usize {
    let recorded =
        |(tap, _): &(String, _)| Some((tap.clone(), folder.maybe(&format!("sub.{tap}"))?));
    let points: Vec<(String, Vec<f32>)> = module.taps.iter().filter_map(recorded).collect();
    for (tap, expected) in &points {
        near(&got[tap], expected, tap);
    }
    points.len()
}

/// A configuration of the fixtures with another value at a key; `null` is as good as no key.
fn changed(family: &str, key: &str, value: &str) -> Error {
    let text = std::fs::read(fixture(family).join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&text).unwrap();
    config[key] = serde_json::from_str(value).unwrap();
    let config = json(config.to_string().as_bytes());
    let header = Folder::open(&fixture(family), "config.json").header;
    let checkpoint = Checkpoint::transformers(&config, &header);
    models::open(&checkpoint).map(|_| ()).expect_err(&format!("{key}: {value}"))
}

#[test]
fn configurations_that_say_something_else_are_refused() {
    use Code::{BadFile, Unsupported};
    for (family, key, value, code, what) in [
        ("flux2", "patch_size", "2", Unsupported, "patch_size is 2"),
        ("flux2", "sparkle", "true", Unsupported, "sparkle is true"),
        ("flux2", "num_layers", "0", BadFile, "num_layers is 0"),
        ("flux2", "num_layers", "4294967295", BadFile, "at most"),
        ("flux2", "num_attention_heads", "4294967295", BadFile, "more than are read"),
        ("flux2", "attention_head_dim", "4294967295", BadFile, "at most"),
        ("flux2", "attention_head_dim", "null", BadFile, "attention_head_dim is missing"),
        ("flux2", "mlp_ratio", "1e30", BadFile, "are not read"),
        ("flux2", "mlp_ratio", "1e-9", BadFile, "are not read"),
        ("flux2", "axes_dims_rope", "[8, 8, 8]", BadFile, "4 even numbers"),
        ("flux2", "axes_dims_rope", "[5, 11, 8, 8]", BadFile, "4 even numbers"),
        ("flux2", "axes_dims_rope", "[18446744073709551615, 3, 8, 8]", BadFile, "axes_dims_rope"),
        ("flux2", "timestep_guidance_channels", "31", BadFile, "even"),
        ("flux2", "eps", "0", BadFile, "above 0"),
        ("flux2", "guidance_embeds", "3.5", BadFile, "true or false"),
        ("flux2_vae", "act_fn", "\"gelu\"", Unsupported, "act_fn `gelu`"),
        ("flux2_vae", "patch_size", "[4, 4]", Unsupported, "[2, 2]"),
        ("flux2_vae", "block_out_channels", "[16, 24, 41]", BadFile, "has 41"),
        ("flux2_vae", "block_out_channels", "[]", BadFile, "0 levels"),
        ("flux2_vae", "block_out_channels", "null", BadFile, "missing"),
        ("flux2_vae", "block_out_channels", "[8,8,8,8,8,8,8,8,8]", BadFile, "9 levels"),
        ("flux2_vae", "decoder_block_out_channels", "[16, 24]", BadFile, "2 layers"),
        ("flux2_vae", "up_block_types", "[\"A\", \"B\", \"C\"]", Unsupported, "`A`"),
        ("flux2_vae", "down_block_types", "[\"DownEncoderBlock2D\"]", BadFile, "1 values"),
        ("flux2_vae", "norm_num_groups", "0", BadFile, "norm_num_groups is 0"),
        ("flux2_vae", "latent_channels", "4294967295", BadFile, "at most"),
        ("flux2_vae", "layers_per_block", "4294967295", BadFile, "at most"),
        ("flux2_vae", "scaling_factor", "0.3", Unsupported, "scaling_factor is 0.3"),
    ] {
        let e = changed(family, key, value);
        assert!(e.code == code && e.to_string().contains(what), "{family} {key} {value}: {e:?}");
    }
}

#[test]
fn tensors_that_are_missing_or_left_over_are_named() {
    for (family, gone, named) in [
        ("flux2", "norm_out.linear.weight", "norm_out.linear.weight"),
        ("flux2", "single_transformer_blocks.1.attn.norm_q.weight", "1.attn.norm_q.weight"),
        ("flux2_vae", "decoder.mid_block.attentions.0.to_q.bias", "0.to_q"),
        ("flux2_vae", "bn.running_var", "bn.running_var"),
    ] {
        let mut folder = Folder::open(&fixture(family), "config.json");
        let tensor = folder.header.tensors.remove(gone).unwrap();
        let said = |folder: &Folder| {
            let checkpoint = folder.checkpoint();
            let model = models::open(&checkpoint).unwrap();
            model.entries(&checkpoint, None).map(|_| ()).unwrap_err()
        };
        let e = said(&folder);
        assert!(e.code == Code::BadFile && e.what.contains(named), "{gone}: {e:?}");
        folder.header.tensors.insert(gone.into(), tensor.clone());
        folder.header.tensors.insert(format!("{gone}.more"), tensor);
        let e = said(&folder);
        assert!(e.code == Code::Unsupported && e.what.contains(".more"), "{gone}: {e:?}");
    }
}

#[test]
fn schedules_refuse_what_they_would_not_follow() {
    let open = |text: &str| FlowMatch::open(&json(text.as_bytes()), "s.json");
    for (text, what) in [
        (r#"{"_class_name": "DDIMScheduler"}"#, "DDIMScheduler"),
        (r#"{"time_shift_type": "linear"}"#, "linear"),
        (r#"{"shift_terminal": 0.02}"#, "shift_terminal"),
        (r#"{"use_karras_sigmas": true}"#, "use_karras_sigmas"),
        (r#"{"sparkle": 1}"#, "sparkle"),
        (r#"{"shift": 0}"#, "shift"),
        ("[]", "no JSON object"),
    ] {
        let e = open(text).unwrap_err();
        assert!(e.to_string().contains(what), "{text}: {e:?}");
    }
    let still = open(r#"{"shift": 3.0}"#).unwrap();
    assert_eq!(still.sigmas(1, 2).unwrap(), [1.0, 0.75, 0.0]);
    assert_eq!(open("{}").unwrap().sigmas(9, 4).unwrap(), [1.0, 0.75, 0.5, 0.25, 0.0]);
    for steps in [0, 1001, u64::MAX] {
        assert_eq!(still.sigmas(9, steps).unwrap_err().code, Code::Usage);
    }
    // Whatever the size of an image, times fall from 1 to 0.
    let dynamic = open(r#"{"use_dynamic_shifting": true}"#).unwrap();
    for latents in [0, 1, 4300, 4301, 1 << 20, u64::MAX] {
        let sigmas = dynamic.sigmas(latents, 28).unwrap();
        assert!(sigmas.iter().all(|s| (0.0..=1.0).contains(s)), "{latents}: {sigmas:?}");
        assert!(sigmas.is_sorted_by(|a, b| a >= b), "{latents}: {sigmas:?}");
    }
}

#[test]
fn weights_of_bf16_are_read() {
    for (family, entry) in [("flux2", DENOISE_STEP), ("flux2_vae", DECODE_IMAGE)] {
        let mut folder = Folder::open(&fixture(family), "config.json");
        folder.header.tensors.remove("bn.num_batches_tracked");
        folder.narrow(Scalar::Bf16);
        let (_, modules) = networks(&folder);
        let weights = folder.weights();
        folder.widen();
        let (_, wide) = networks(&folder);
        let given = match family {
            "flux2" => {
                let mut given = conditions(&folder);
                given.push(("hidden_states", floats(&folder.floats("in.hidden_states"))));
                given.push(("timestep", floats(&folder.floats("in.timestep"))));
                given
            }
            _ => vec![("latents", floats(&places_first(&folder.floats("in.latents"), 35)))],
        };
        let sizes = if family == "flux2" { LATENTS } else { PLACES };
        let got = run(&modules[entry], &weights, &sizes, &given);
        let expected = run(&wide[entry], &folder.weights(), &sizes, &given);
        for (name, expected) in expected {
            near(&got[&name], &expected, &format!("{family} {name} of bf16"));
        }
    }
}
