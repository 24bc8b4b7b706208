//! `rlx convert` of every family: the GGUF file gives the folder's logits, it has the keys and tensors of llama.cpp's
//! files, and packed it gives the logits of its weights unpacked. Folders of the recorded models stand beside the
//! checkout; those of `tests/fixtures` are always there.

use crate::skip::skip;
use crate::wide::is_wide;
use rlx_core::compare::difference;
use rlx_core::gguf::Value as Key;
use rlx_core::ir::mir::ParamKind;
use rlx_core::models::{self, Tensors};
use rlx_core::runtime::session::TensorRef;
use rlx_core::runtime::session::network::entries;
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_native::devices::{self, OpenOptions};
use rlx_native::files::ModelSource;
use rlx_native::network::{CheckpointFiles, Folder, Network, run};
use rlx_native::tools::convert::{ConvertOptions, Plan};
use rlx_native::tools::mix::Quant;
use rlx_native::tools::quantize::{QuantizeOptions, quantize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders of the record that a GGUF architecture has, and what is changed of their configurations: files of Gemma 2
/// and 3 say no factor of scores.
const FAMILIES: &[&str] = &[
    "llama32",
    "llama_untied_bias",
    "llama_yarn",
    "mistral",
    "mixtral",
    "granite",
    "gpt_oss",
    "minicpm3",
    "deepseek_v2",
    "deepseek_v3",
    "smollm3",
    "olmo2",
    "phi3",
    "phi3_longrope",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "qwen35",
    "lfm2",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma4",
    "gemma4_moe",
];

/// A family of each kind of layer: what is packed in every run of the tests. `RLX_WIDE` takes all of them.
const KINDS: &[&str] =
    &["llama32", "deepseek_v3", "qwen3_next", "qwen35", "lfm2", "gpt_oss", "gemma4", "gemma4_moe"];

/// A text of tokens that every recorded model has.
const IDS: [u32; 29] = [
    7, 93, 12, 40, 111, 5, 88, 19, 33, 2, 71, 54, 100, 33, 9, 118, 64, 27, 80, 3, 45, 99, 50, 16,
    78, 121, 61, 8, 90,
];

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The recorded folder of that name.
fn recorded(name: &str) -> Option<PathBuf> {
    let folders = ["tests/fixtures", "../shared/reference"];
    let paths = folders.map(|folder| repository(&format!("{folder}/{name}")));
    paths.into_iter().find(|path| path.join("model.safetensors").exists())
}

/// Calls `of` with each recorded folder of those names that is there, and notes if some are not.
fn each(test: &str, names: &[&str], of: impl Fn(&str, &Path)) {
    let there = names.iter().filter_map(|&name| Some((name, recorded(name)?)));
    let mut n = 0;
    for (name, folder) in there {
        of(name, &folder);
        n += 1;
    }
    assert!(n > 0);
    if n < names.len() {
        let what = format!("{n} of {} recorded folders are there", names.len());
        skip(&format!("convert::{test}"), &what);
    }
}

/// An empty folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("convert-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn config(folder: &Path) -> Value {
    let mut config: Value =
        serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
    if config.get("query_pre_attn_scalar").is_some() {
        config["query_pre_attn_scalar"] = config["head_dim"].clone();
    }
    config
}

/// The recorded folder with another configuration.
fn with_config(folder: &Path, config: &Value, to: &Path) {
    std::fs::write(to.join("config.json"), config.to_string()).unwrap();
    std::fs::copy(folder.join("model.safetensors"), to.join("model.safetensors")).unwrap();
}

/// Writes a folder's GGUF file, without a tokenizer, for which the record has none.
fn written(folder: &Folder, out: &Path) {
    let checkpoint = folder.checkpoint();
    let options = ConvertOptions { quant: None, threads: 2, force: false };
    let plan = Plan::new(&checkpoint, None).unwrap_or_else(|e| panic!("{}: {e}", out.display()));
    let nothing = Vec::new();
    plan.write(&checkpoint, folder.maps(), nothing, out, options, &mut |_, _| {}).unwrap();
}

/// The logits of [`IDS`], row by row.
fn logits(source: &CheckpointFiles, device: &str, fused: bool) -> Vec<f32> {
    let row = devices::find(device).unwrap();
    let opened = (row.open)(&OpenOptions { threads: Some(2), ..OpenOptions::default() }).unwrap();
    let checkpoint = source.checkpoint();
    let (mut all, _) = entries(&checkpoint, Some(64)).unwrap();
    let mut options = CompileOptions::default();
    if !fused {
        options.skip_fusion = true;
        all.iter_mut().for_each(|entry| entry.profile = None);
    }
    let network = Network { entries: all, weights: Some(checkpoint), maps: source.maps() };
    let mut session = network.open(row, opened, &options, &mut |_, _| {}).unwrap();
    let bytes: Vec<u8> = IDS.iter().flat_map(|id| id.to_le_bytes()).collect();
    let ids = TensorRef { dtype: DType::U32, dims: &[IDS.len() as u64], bytes: &bytes };
    let out = run(&mut session, "logits", &[("ids", ids)]).unwrap();
    out.iter().find(|t| t.name == "logits").unwrap().f32s().unwrap()
}

fn gguf(path: &Path) -> CheckpointFiles {
    CheckpointFiles::open(path).unwrap()
}

#[test]
fn converted_files_give_the_folders_logits() {
    each("converted_files_give_the_folders_logits", FAMILIES, |name, folder| {
        let dir = scratch(name);
        with_config(folder, &config(folder), &dir);
        let source = Folder::open(&dir).unwrap();
        let file = dir.join("model.gguf");
        written(&source, &file);
        let want = logits(&CheckpointFiles::Folder(source), "reference", true);
        let apart = difference(&logits(&gguf(&file), "reference", true), &want).relative();
        // Llama 3's divisors of frequencies and the logarithm of YaRN are rounded to f32 in a file.
        let exact = !matches!(name, "llama32" | "deepseek_v2");
        let most = if exact { 0.0 } else { 5e-6 };
        assert!(apart <= most, "{name}: {apart}");
        std::fs::remove_dir_all(dir).unwrap();
    });
}

/// Sizes of a folder whose rows are all whole blocks of 256, as k-quants have them.
fn widen(config: &mut Value) {
    let wider = [
        ("hidden_size", 256),
        ("intermediate_size", 256),
        ("moe_intermediate_size", 256),
        ("shared_expert_intermediate_size", 256),
        ("num_attention_heads", 8),
        ("num_key_value_heads", 2),
        ("head_dim", 32),
        ("kv_lora_rank", 256),
        ("q_lora_rank", 256),
        ("linear_value_head_dim", 64),
    ];
    for (key, size) in wider {
        if config.get(key).is_some_and(|value| !value.is_null()) {
            config[key] = json!(size);
        }
    }
    if config.get("block_auto_adjust_ff_dim").is_some() {
        config["block_auto_adjust_ff_dim"] = json!(false);
    }
    if let Some(scalar) = config.get_mut("query_pre_attn_scalar") {
        *scalar = json!(32);
    }
}

/// Writes a folder of a configuration, with the tensors that its family asks for, of random numbers: small ones in
/// matrices, some about 1 in what multiplies. Layers without experts have those of the next layer, if `experts`.
fn made(folder: &Path, config: &Value, to: &Path, experts: bool) {
    with_config(folder, config, to);
    let source = Folder::open(to).unwrap();
    let checkpoint = source.checkpoint();
    let model = models::open(&checkpoint).unwrap();
    let like = |layer: u64| if experts { layer.max(1) } else { layer };
    let layers: Vec<u64> = (0..model.facts().layers).map(like).collect();
    // The tensors in the shapes that are asked for, whatever the folder has.
    let module = model.build(&Tensors::like(&checkpoint, &layers), 64).unwrap();
    let mut header = serde_json::Map::new();
    let (mut bytes, mut x) = (Vec::new(), 0x2545_f491_u32);
    for param in module.params.iter().filter(|p| p.kind == ParamKind::Weight) {
        let dims = param.ty.shape.static_dims().unwrap();
        let start = bytes.len();
        let spread = (3.0 / *dims.last().unwrap() as f32).sqrt();
        let factor = ["norm", "scale", "scalar"].iter().any(|part| param.name.contains(part));
        for _ in 0..dims.iter().product::<u64>() {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            let number = x as f32 / (1u32 << 31) as f32 - 1.0;
            let number = match (dims.len(), factor) {
                (1, true) => 1.0 + 0.1 * number,
                (1, false) => 0.1 * number,
                _ => spread * number,
            };
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let entry = json!({"dtype": "F32", "shape": dims, "data_offsets": [start, bytes.len()]});
        header.insert(param.name.clone(), entry);
    }
    drop(source);
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(bytes);
    std::fs::write(to.join("model.safetensors"), file).unwrap();
}

/// Types of a file's matrices.
fn types(path: &Path) -> BTreeSet<&'static str> {
    let source = ModelSource::open(path).unwrap();
    let matrices = source.files.tensors.values().filter(|(_, t)| t.dims.len() > 1);
    matrices.map(|(_, t)| t.dtype.name()).collect()
}

#[test]
fn packed_weights_give_the_logits_of_the_same_weights_unpacked() {
    const TEST: &str = "packed_weights_give_the_logits_of_the_same_weights_unpacked";
    let names = if is_wide() { FAMILIES } else { KINDS };
    each(TEST, names, |name, folder| {
        let dir = scratch(&format!("packed-{name}"));
        let mut wide = config(folder);
        widen(&mut wide);
        made(folder, &wide, &dir, false);
        let file = dir.join("f32.gguf");
        written(&Folder::open(&dir).unwrap(), &file);
        for quant in ["q8_0", "q4_k_m"] {
            let (packed, unpacked) = (dir.join(quant), dir.join(format!("{quant}-f32")));
            let options = QuantizeOptions { threads: 2, requantize: true, force: false };
            for (from, to, quant) in [(&file, &packed, quant), (&packed, &unpacked, "f32")] {
                let source = ModelSource::open(from).unwrap();
                let quant = Quant::parse(quant, false).unwrap();
                quantize(&source, quant, to, options, &mut |_, _| {}).unwrap();
            }
            let wanted = if quant == "q8_0" { "q8_0" } else { "q4_k" };
            assert!(types(&packed).contains(wanted), "{name}: {:?}", types(&packed));
            assert_eq!(types(&unpacked), BTreeSet::from(["f32"]), "{name}");
            let (packed, unpacked) = (gguf(&packed), gguf(&unpacked));
            let want = logits(&unpacked, "cpu", false);
            // The reference fuses nothing.
            let runs = [
                ("cpu", true),
                ("cpu", false),
                ("reference", true),
                ("webgpu", true),
                ("webgpu", false),
            ];
            for (device, fused) in runs.into_iter().take(if is_wide() { 5 } else { 2 }) {
                let apart = difference(&logits(&packed, device, fused), &want).relative();
                assert!(apart <= 1e-2, "{name}, {quant}, {device}, fused {fused}: {apart}");
            }
        }
        std::fs::remove_dir_all(dir).unwrap();
    });
}

/// Keys of an architecture, and tensors without the numbers of their layers and with how many sizes they have.
fn parts(path: &Path) -> (BTreeSet<String>, BTreeSet<(String, usize)>) {
    let files = ModelSource::open(path).unwrap().files;
    let architecture = files.metadata.str("general.architecture").unwrap();
    let keys = files.metadata.iter().filter_map(|(key, _)| key.strip_prefix(architecture));
    let part = |name: &str| match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        Some((_, part)) => format!("blk.{part}"),
        None => name.to_owned(),
    };
    let tensors = files.tensors.values().map(|(_, t)| (part(&t.name), t.dims.len()));
    (keys.map(str::to_owned).collect(), tensors.collect())
}

#[test]
fn files_have_the_keys_and_tensors_of_llama_cpps() {
    // Keys that one side alone has. Ours say what readers would take for granted anyway.
    const OURS: &[&str] = &[
        ".vocab_size",
        ".rope.dimension_count",
        ".rope.freq_base",
        ".attention.sliding_window_pattern",
        ".attention.key_length",
        ".attention.value_length",
    ];
    // Tensors that a model may have or not: of the recorded models of a family some have them.
    const OPTIONAL: &[&str] = &["output.weight", "rope_freqs.weight"];
    let mut compared = 0;
    for (name, theirs) in [
        ("llama32", "llama"),
        ("qwen2", "qwen2"),
        ("qwen3", "qwen3"),
        ("qwen3_moe", "qwen3moe"),
        ("qwen3_next", "qwen3next"),
        ("qwen35", "qwen35"),
        ("gemma", "gemma"),
        ("gemma2", "gemma2"),
        ("gemma3", "gemma3"),
        ("phi3_longrope", "phi3"),
    ] {
        let file = ["tests/fixtures", "../shared/reference"]
            .map(|folder| repository(&format!("{folder}/gguf/{theirs}.gguf")));
        let file = file.into_iter().find(|path| path.exists());
        let (Some(folder), Some(file)) = (recorded(name), file) else { continue };
        let dir = scratch(&format!("keys-{name}"));
        let mut config = config(&folder);
        // The recorded files have no layer without experts.
        let experts = matches!(name, "qwen3_next" | "qwen3_moe");
        if experts {
            config["mlp_only_layers"] = json!([]);
        }
        made(&folder, &config, &dir, experts);
        let own = dir.join("own.gguf");
        written(&Folder::open(&dir).unwrap(), &own);
        let ((our_keys, ours), (their_keys, theirs)) = (parts(&own), parts(&file));
        let mut apart = our_keys.symmetric_difference(&their_keys);
        assert_eq!(apart.find(|key| !OURS.contains(&key.as_str())), None, "{name}");
        let mut apart = ours.symmetric_difference(&theirs);
        assert_eq!(apart.find(|t| !OPTIONAL.contains(&t.0.as_str())), None, "{name}");
        std::fs::remove_dir_all(dir).unwrap();
        compared += 1;
    }
    assert!(compared > 0);
}

#[test]
fn weights_keep_their_type_and_the_rest_is_f32() {
    let folder = recorded("llama32").unwrap();
    let dir = scratch("types");
    with_config(&folder, &config(&folder), &dir);
    let source = Folder::open(&dir).unwrap();
    let checkpoint = source.checkpoint();
    for (quant, wanted, number) in
        [(None, "f32", 0), (Some("f16"), "f16", 1), (Some("q8_0"), "q8_0", 7)]
    {
        let quant = quant.map(|name| Quant::parse(name, false).unwrap());
        let options = ConvertOptions { quant, threads: 2, force: false };
        let out = dir.join(wanted);
        let plan = Plan::new(&checkpoint, quant).unwrap();
        plan.write(&checkpoint, source.maps(), Vec::new(), &out, options, &mut |_, _| {}).unwrap();
        let file = ModelSource::open(&out).unwrap();
        for (_, tensor) in file.files.tensors.values() {
            let want = if tensor.dims.len() > 1 { wanted } else { "f32" };
            assert_eq!(tensor.dtype.name(), want, "{}", tensor.name);
        }
        let key = file.files.metadata.get("general.file_type").map(|e| e.value.clone());
        assert_eq!(key, Some(Key::U32(number)));
    }
}
