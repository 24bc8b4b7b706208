//! Folders of gpt-oss whose experts are in MXFP4, as transformers has them: they give the logits of the same weights
//! unpacked, and parts that do not fit are refused by name.

use rlx_core::compare::difference;
use rlx_core::runtime::session::TensorRef;
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_native::devices::{self, OpenOptions};
use rlx_native::network::{CheckpointFiles, Folder, Network, run};
use rlx_native::tools::convert::{ConvertOptions, Plan};
use rlx_native::tools::mix::Quant;
use rlx_native::tools::verify::verify_model;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

const DIM: usize = 64;
const WIDTH: usize = 96;
const EXPERTS: usize = 5;
const VOCAB: usize = 71;
const IDS: [u32; 9] = [7, 63, 12, 40, 11, 5, 58, 19, 33];

/// Numbers of E2M1 by code, without their sign.
const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

struct Tensor {
    name: String,
    dtype: &'static str,
    dims: Vec<usize>,
    bytes: Vec<u8>,
}

fn floats(name: impl Into<String>, dims: &[usize], numbers: &[f32]) -> Tensor {
    let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor { name: name.into(), dtype: "F32", dims: dims.to_vec(), bytes }
}

struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn tensor(&mut self, name: impl Into<String>, dims: &[usize], mean: f32) -> Tensor {
        let scale = 1.0 / (*dims.last().unwrap() as f32).sqrt();
        let mut next = || mean + scale * (self.bits() as f32 / (1u64 << 30) as f32 - 1.0);
        let numbers: Vec<f32> = (0..dims.iter().product()).map(|_| next()).collect();
        floats(name, dims, &numbers)
    }

    /// A bank of matrices `[E, out, in]`: its parts, and the same unpacked and turned to `[E, in, out]`.
    fn bank(&mut self, name: &str, out: usize, input: usize) -> [Vec<Tensor>; 2] {
        let count = EXPERTS * out * input;
        let values: Vec<u8> = (0..count / 2).map(|_| self.bits() as u8).collect();
        let scales: Vec<u8> = (0..count / 32).map(|_| 121 + (self.bits() % 4) as u8).collect();
        let number = |i: usize| {
            // Two neighbours a byte, the first one low; a scale is a power of two with bias 127.
            let code = (values[i / 2] >> (4 * (i % 2))) & 15;
            let sign = if code < 8 { 1.0 } else { -1.0 };
            sign * E2M1[usize::from(code % 8)] * 2f32.powi(i32::from(scales[i / 32]) - 127)
        };
        let mut turned = vec![0.0; count];
        for i in 0..count {
            let (e, row, column) = (i / (out * input), i / input % out, i % input);
            turned[(e * input + column) * out + row] = number(i);
        }
        let unpacked = vec![floats(name, &[EXPERTS, input, out], &turned)];
        let dims = [EXPERTS, out, input / 32, 16];
        let part = |part, dims: &[usize], bytes| Tensor {
            name: format!("{name}_{part}"),
            dtype: "U8",
            dims: dims.to_vec(),
            bytes,
        };
        [vec![part("blocks", &dims, values), part("scales", &dims[..3], scales)], unpacked]
    }
}

/// The tensors of a model, packed and unpacked.
fn model() -> [Vec<Tensor>; 2] {
    let mut random = Random(5);
    let mut both = [Vec::new(), Vec::new()];
    let mut one = |name: &str, dims: &[usize], mean| {
        let tensor = random.tensor(name, dims, mean);
        let same = Tensor {
            bytes: tensor.bytes.clone(),
            dims: dims.to_vec(),
            name: name.into(),
            ..tensor
        };
        both[0].push(tensor);
        both[1].push(same);
    };
    one("model.embed_tokens.weight", &[VOCAB, DIM], 0.0);
    one("model.norm.weight", &[DIM], 1.0);
    one("lm_head.weight", &[VOCAB, DIM], 0.0);
    for i in 0..2 {
        let at = |part: &str| format!("model.layers.{i}.{part}");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            one(&at(&format!("{norm}.weight")), &[DIM], 1.0);
        }
        for (part, out, input) in [("q", 64, DIM), ("k", 32, DIM), ("v", 32, DIM), ("o", DIM, 64)] {
            one(&at(&format!("self_attn.{part}_proj.weight")), &[out, input], 0.0);
            one(&at(&format!("self_attn.{part}_proj.bias")), &[out], 0.0);
        }
        one(&at("self_attn.sinks"), &[2], 0.0);
        one(&at("mlp.router.weight"), &[EXPERTS, DIM], 0.0);
        one(&at("mlp.router.bias"), &[EXPERTS], 0.0);
        one(&at("mlp.experts.gate_up_proj_bias"), &[EXPERTS, 2 * WIDTH], 0.0);
        one(&at("mlp.experts.down_proj_bias"), &[EXPERTS, DIM], 0.0);
    }
    for i in 0..2 {
        for (part, out, input) in [("gate_up_proj", 2 * WIDTH, DIM), ("down_proj", DIM, WIDTH)] {
            let name = format!("model.layers.{i}.mlp.experts.{part}");
            let [packed, unpacked] = random.bank(&name, out, input);
            both[0].extend(packed);
            both[1].extend(unpacked);
        }
    }
    both
}

fn config() -> Value {
    json!({
        "model_type": "gpt_oss", "hidden_size": DIM, "intermediate_size": WIDTH,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 32, "vocab_size": VOCAB, "max_position_embeddings": 64,
        "num_local_experts": EXPERTS, "num_experts_per_tok": 2, "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"], "attention_bias": true,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": false, "swiglu_limit": 7.0,
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
        },
    })
}

/// Writes tensors and metadata as a safetensors file.
fn write(path: &Path, tensors: &[Tensor], about: Option<&str>) {
    let (mut header, mut data): (_, Vec<u8>) = (Map::new(), Vec::new());
    if let Some(about) = about {
        header.insert("__metadata__".into(), json!({ "rlx": about }));
    }
    for t in tensors {
        let offsets = [data.len(), data.len() + t.bytes.len()];
        data.extend(&t.bytes);
        let entry = json!({"dtype": t.dtype, "shape": t.dims, "data_offsets": offsets});
        header.insert(t.name.clone(), entry);
    }
    let mut text = serde_json::to_vec(&header).unwrap();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend(text);
    file.extend(data);
    std::fs::write(path, file).unwrap();
}

fn folder(name: &str, config: &Value, tensors: &[Tensor]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mxfp4-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    write(&dir.join("model.safetensors"), tensors, None);
    dir
}

/// Logits of a session.
fn logits(path: &Path, device: &str) -> Vec<f32> {
    let row = devices::find(device).unwrap();
    let opened = (row.open)(&OpenOptions { threads: Some(2), ..OpenOptions::default() }).unwrap();
    let files = CheckpointFiles::open(path).unwrap();
    let (network, _) = Network::of(files.checkpoint(), files.maps(), Some(64)).unwrap();
    let mut session =
        network.open(row, opened, &CompileOptions::default(), &mut |_, _| {}).unwrap();
    let bytes: Vec<u8> = IDS.iter().flat_map(|id| id.to_le_bytes()).collect();
    let ids = TensorRef { dtype: DType::U32, dims: &[IDS.len() as u64], bytes: &bytes };
    let out = run(&mut session, "logits", &[("ids", ids)]).unwrap();
    out.iter().find(|t| t.name == "logits").unwrap().f32s().unwrap()
}

#[test]
fn packed_experts_give_the_logits_of_the_same_weights_unpacked() {
    let [packed, unpacked] = model();
    let packed = folder("packed", &config(), &packed);
    let mut plain = config();
    plain.as_object_mut().unwrap().remove("quantization_config");
    let unpacked = folder("unpacked", &plain, &unpacked);
    let want = logits(&unpacked, "reference");
    assert!(want.iter().any(|x| x.abs() > 0.1), "logits of all weights: {:?}", &want[..8]);

    // The programs of a chat too: by a record of these logits.
    let ids: Vec<u8> = IDS.iter().flat_map(|id| i64::from(*id).to_le_bytes()).collect();
    let ids =
        Tensor { name: "in.input_ids".into(), dtype: "I64", dims: vec![1, IDS.len()], bytes: ids };
    let record = [ids, floats("out.logits", &[1, IDS.len(), VOCAB], &want)];
    let about = r#"{"family": "gpt_oss", "tolerance": {"relative_to_largest": 2e-6}}"#;
    for dir in [&packed, &unpacked] {
        write(&dir.join("io.safetensors"), &record, Some(about));
    }
    for device in ["reference", "cpu", "webgpu"] {
        let apart = difference(&logits(&packed, device), &want).relative();
        println!("{device}: {apart:.1e} of the largest");
        assert!(apart <= if device == "reference" { 0.0 } else { 2e-6 }, "{device}: {apart}");
        let row = devices::find(device).unwrap();
        for dir in [&packed, &unpacked] {
            let opened =
                (row.open)(&OpenOptions { threads: Some(2), ..OpenOptions::default() }).unwrap();
            let report = verify_model(dir, row, opened, DType::F32, false).unwrap();
            assert!(report.outputs.iter().all(|c| c.passes()), "{device}: {:?}", report.outputs);
        }
    }
}

#[test]
fn converted_files_have_the_blocks_of_the_folder() {
    let [packed, _] = model();
    let dir = folder("converted", &config(), &packed);
    let source = Folder::open(&dir).unwrap();
    for (quant, type_of_experts) in [(None, "mxfp4"), (Some("f32"), "f32")] {
        let quant = quant.map(|name| Quant::parse(name, true).unwrap());
        let file = dir.join(format!("{type_of_experts}.gguf"));
        let options = ConvertOptions { quant, threads: 2, force: true };
        let plan = Plan::new(&source.checkpoint(), quant).unwrap();
        let (keys, maps) = (Vec::new(), source.maps());
        plan.write(&source.checkpoint(), maps, keys, &file, options, &mut |_, _| {}).unwrap();
        let written = CheckpointFiles::open(&file).unwrap();
        for part in ["gate", "up", "down"] {
            let name = format!("blk.1.ffn_{part}_exps.weight");
            assert_eq!(written.checkpoint().tensor(&name).unwrap().0.name(), type_of_experts);
        }
        let apart = difference(&logits(&file, "reference"), &logits(&dir, "reference")).relative();
        assert_eq!(apart, 0.0, "{type_of_experts}");
    }
}

/// What building the model says of a folder of these tensors.
fn refused(name: &str, config: &Value, tensors: &[Tensor]) -> String {
    let folder = Folder::open(&folder(name, config, tensors)).unwrap();
    let built = Network::of(folder.checkpoint(), folder.maps(), Some(64)).map(|_| ());
    built.unwrap_err().to_string()
}

#[test]
fn parts_that_do_not_fit_are_refused_by_name() {
    const BLOCKS: &str = "model.layers.1.mlp.experts.down_proj_blocks";
    const SCALES: &str = "model.layers.1.mlp.experts.down_proj_scales";
    let change = |name: &str, of: &str, change: &dyn Fn(&mut Tensor)| {
        let [mut tensors, _] = model();
        change(tensors.iter_mut().find(|t| t.name == of).unwrap());
        refused(name, &config(), &tensors)
    };
    let said = change("other-shape", SCALES, &|t| t.dims = vec![EXPERTS, 32, 6]);
    assert!(said.contains(&format!("{SCALES} is 5 x 32 x 6, expected 5 x 64 x 3")), "{said}");
    let said = change("half-a-block", BLOCKS, &|t| t.dims = vec![EXPERTS, DIM, 6, 8]);
    assert!(said.contains(&format!("{BLOCKS} is 5 x 64 x 6 x 8, expected")), "{said}");
    let said = change("no-bytes", SCALES, &|t| t.dtype = "I8");
    assert!(said.contains(&format!("{SCALES} is of type i8, expected u8")), "{said}");
    let said = change("no-scales", SCALES, &|t| t.name = "other".into());
    assert!(said.contains(&format!("{SCALES} is missing")), "{said}");
    let said = change("no-blocks", BLOCKS, &|t| t.name = "other".into());
    assert!(said.contains(&format!("{BLOCKS} is missing")), "{said}");

    let mut odd = config();
    odd["hidden_size"] = 48.into();
    odd["quantization_config"]["quant_method"] = "gptq".into();
    let said = refused("another-method", &odd, &model()[0]);
    assert!(said.contains("packed otherwise than in MXFP4"), "{said}");
}
