//! What devices are timed with: which layers of a model, how much of it they are, and that their steps run.

use crate::load::wait;
use rlx_core::gguf::{self, ModelFiles, TensorSpec, Value, Writer};
use rlx_core::models::Checkpoint;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::runtime::trial::{CONTEXT, Excerpt, Timed};
use rlx_core::safetensors::{self, json::Json};
use rlx_core::target::Activations;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Result};
use std::path::PathBuf;
use std::sync::Arc;

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);
/// Bytes of so many weights in it.
const fn q8_0(weights: u64) -> u64 {
    weights / 32 * 34
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures")).join(name)
}

fn read(header: &[u8]) -> ModelFiles {
    let mut reader = gguf::HeaderReader::new("a.gguf", None);
    reader.push(header).unwrap();
    ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap()
}

fn options() -> ModelOptions {
    ModelOptions::chat(16)
}

const VOCAB: u64 = 32_000;

/// The header of a model of equal layers, with a head of its own or without.
fn llama(layers: u32, dim: u64, ffn: u64, head: bool) -> ModelFiles {
    let key = |key: &str| format!("llama.{key}");
    let meta: Vec<(String, Value)> = vec![
        ("general.architecture".into(), Value::String("llama".into())),
        (key("block_count"), Value::U32(layers)),
        (key("embedding_length"), Value::U32(dim as u32)),
        (key("feed_forward_length"), Value::U32(ffn as u32)),
        (key("attention.head_count"), Value::U32(dim as u32 / 64)),
        (key("attention.head_count_kv"), Value::U32(dim as u32 / 64)),
        (key("attention.layer_norm_rms_epsilon"), Value::F32(1e-5)),
        (key("context_length"), Value::U32(2048)),
    ];
    let tensor = |name: &str, dtype, dims: &[u64]| TensorSpec {
        name: name.into(),
        dtype,
        dims: dims.into(),
    };
    let mut tensors = vec![
        tensor("token_embd.weight", Q8_0, &[VOCAB, dim]),
        tensor("output_norm.weight", DType::F32, &[dim]),
    ];
    if head {
        tensors.push(tensor("output.weight", Q8_0, &[VOCAB, dim]));
    }
    for i in 0..layers {
        let at = |part: &str| format!("blk.{i}.{part}.weight");
        tensors.extend(["attn_norm", "ffn_norm"].map(|p| tensor(&at(p), DType::F32, &[dim])));
        for part in ["attn_q", "attn_k", "attn_v", "attn_output"] {
            tensors.push(tensor(&at(part), Q8_0, &[dim, dim]));
        }
        for part in ["ffn_gate", "ffn_up"] {
            tensors.push(tensor(&at(part), Q8_0, &[ffn, dim]));
        }
        tensors.push(tensor(&at("ffn_down"), Q8_0, &[dim, ffn]));
    }
    read(Writer::new(&meta, &tensors).unwrap().header())
}

#[test]
fn a_layer_stands_for_all_that_are_built_alike_by_the_bytes_of_a_step() {
    let (dim, ffn) = (256, 512);
    let layer = q8_0(4 * dim * dim + 3 * ffn * dim) + 2 * 4 * dim;
    let norm = 4 * dim;
    for (layers, head) in [(1, false), (7, false), (7, true)] {
        let files = llama(layers, dim, ffn, head);
        let excerpt = Excerpt::new(&Checkpoint::gguf(&files), &options()).unwrap();
        // A table that is the head too is read once; one that is not is not read.
        let whole = u64::from(layers) * layer + norm + q8_0(VOCAB * dim);
        // The excerpt's own head has 256 rows, where the model's has 32,000.
        let own = layer + norm + if head { q8_0(256 * dim) } else { 0 };
        assert_eq!(excerpt.scale(), whole as f64 / own as f64, "{layers} {head}");
        let size = whole.ilog2();
        assert_eq!(excerpt.class(), format!("llama32 {layers} layers 2^{size} bytes f32"));
    }
}

#[test]
fn steps_of_every_family_run_and_begin_anew_each_time() {
    let device: Arc<dyn Device> = Arc::new(ReferenceDevice::new());
    let folder = std::fs::read_dir(fixture("gguf")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "gguf")).collect();
    assert!(paths.len() > 5, "{paths:?}");
    for path in paths {
        let files = read(&std::fs::read(&path).unwrap());
        let excerpt = Excerpt::new(&Checkpoint::gguf(&files), &options()).unwrap();
        assert!(excerpt.scale() > 0.5, "{}: {}", path.display(), excerpt.scale());
        let of = |rows, activations| Timed { rows, activations };
        let timed = [of(1, Activations::F32), of(16, Activations::Int8), of(1, Activations::Int8)];
        let mut trial = excerpt.start(&device, &options(), &timed).unwrap();
        // More steps in all than there are positions, of each program.
        for steps in [0, 1, CONTEXT as u32 / 2, CONTEXT as u32 / 2] {
            for program in [0, 2] {
                trial.run(program, steps);
                wait(|cx| trial.poll(cx)).unwrap();
            }
            trial.run(1, steps / 7);
            wait(|cx| trial.poll(cx)).unwrap();
        }
    }
}

#[test]
fn what_has_no_steps_or_too_large_layers_is_not_timed() {
    let fault = |excerpt: Result<Excerpt>| {
        let e = excerpt.err().unwrap();
        assert_eq!(e.code, Code::Unsupported);
        e.what
    };
    let large = llama(80, 8192, 28_672, true);
    let what = fault(Excerpt::new(&Checkpoint::gguf(&large), &options()));
    assert_eq!(what, "the model's layers are too large to be timed");

    let steps = "the model has no steps of a token";
    let bert = read(&std::fs::read(fixture("bert/bert.gguf")).unwrap());
    assert_eq!(fault(Excerpt::new(&Checkpoint::gguf(&bert), &options())), steps);

    let config = std::fs::read(fixture("llada2/config.json")).unwrap();
    let config = Json::parse(&config, "config.json", 0).unwrap();
    let mut reader = safetensors::HeaderReader::new("llada2", None);
    reader.push(&std::fs::read(fixture("llada2/model.safetensors")).unwrap()).unwrap();
    let header = reader.into_header().unwrap();
    let blocks = Checkpoint::transformers(&config, &header);
    assert_eq!(fault(Excerpt::new(&blocks, &options())), steps);
}
