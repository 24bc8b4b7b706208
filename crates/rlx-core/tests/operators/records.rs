//! Layers of recorded model runs, operator by operator.

use crate::operators::support::{Value, execute, fixture, near};
use rlx_core::ops::{
    AxialRope2d, BatchMatMul, Binary, Conv, GroupNorm, LayerNorm, Map, Op, Reshape, Softmax,
    Transpose, Unary, Window, Zip,
};
use rlx_core::types::{DType, Shape};

/// Tensors of the record by name.
struct Record(Vec<u8>, serde_json::Value);

impl Record {
    fn open() -> Record {
        let data = std::fs::read(fixture("records.safetensors")).unwrap();
        let end = 8 + u64::from_le_bytes(data[..8].try_into().unwrap()) as usize;
        let header = serde_json::from_slice(&data[8..end]).unwrap();
        Record(data[end..].to_vec(), header)
    }

    fn get(&self, name: &str) -> Value {
        let entry = &self.1[name];
        assert_eq!(entry["dtype"], "F32", "{name}");
        let ints = |key: &str| -> Vec<u64> {
            entry[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
        };
        let (dims, at) = (ints("shape"), ints("data_offsets"));
        let bytes = self.0[at[0] as usize..at[1] as usize].to_vec();
        Value { bytes, ..Value::new(DType::F32, &dims, &[]) }
    }
}

/// The one result of an operator.
fn one(op: impl Into<Op>, operands: &[&Value]) -> Value {
    let operands: Vec<Value> = operands.iter().map(|v| (*v).clone()).collect();
    execute(&op.into(), &operands).remove(0)
}

fn reshape(x: &Value, dims: &[u64]) -> Value {
    one(Reshape { dims: Shape::of(dims) }, &[x])
}

const TOLERANCE: f64 = 2e-5;

#[test]
fn the_first_layer_of_wav2vec2_is_conv_group_norm_and_gelu() {
    let record = Record::open();
    let layer = |name: &str| record.get(&format!("wav2vec2/{name}"));
    let name = "wav2vec2.feature_extractor.conv_layers.0";
    let weight = |part: &str| layer(&format!("{name}.{part}"));
    let conv = Conv { window: Window::new(1).stride(&[5]), groups: 1, bias: false };
    let x = one(conv, &[&layer(&format!("sub.{name}.in")), &weight("conv.weight")]);
    // As many groups as channels: each is normed over time.
    let norm = GroupNorm { groups: 32, eps: 1e-5 };
    let x = one(norm, &[&x, &weight("layer_norm.weight"), &weight("layer_norm.bias")]);
    let y = one(Map { f: Unary::GeluErf }, &[&x]);
    let expected = layer(&format!("sub.{name}.out"));
    assert_eq!(y.ty, expected.ty);
    near("wav2vec2", &y, &expected.f64s(), TOLERANCE);
}

#[test]
fn the_first_convolution_of_the_flux2_decoder_is_conv() {
    let record = Record::open();
    let get = |name: &str| record.get(&format!("flux2_vae/{name}"));
    let window = Window::new(2).pad(&[1, 1], &[1, 1]);
    let x = get("sub.post_quant_conv.out");
    let conv = Conv { window, groups: 1, bias: true };
    let y = one(conv, &[&x, &get("decoder.conv_in.weight"), &get("decoder.conv_in.bias")]);
    let expected = get("sub.decoder.conv_in.out");
    assert_eq!(y.ty, expected.ty);
    near("flux2_vae", &y, &expected.f64s(), TOLERANCE);
}

#[test]
fn memory_attention_of_sam2_turns_its_queries_and_keys_by_axial_rope() {
    let record = Record::open();
    let get = |name: &str| record.get(&format!("sam2_video/{name}"));
    let layer = |name: &str| get(&format!("memory_attention.layers.0.{name}"));
    // The input is features + 0.1 positions, then layer norm.
    let tenth = Value::f32s(&[], &[0.1]);
    let positions = get("in.memory_attention.current_vision_position_embeddings");
    let positions = one(Zip { f: Binary::Mul }, &[&positions, &tenth]);
    let x = get("in.memory_attention.current_vision_features");
    let x = reshape(&one(Zip { f: Binary::Add }, &[&x, &positions]), &[64, 32]);
    let norm = LayerNorm { eps: 1e-5, bias: true };
    let x = one(norm, &[&x, &layer("layer_norm1.weight"), &layer("layer_norm1.bias")]);
    let turned = |name: &str| {
        let weight = layer(&format!("self_attn.{name}.weight"));
        let y = one(BatchMatMul { transpose_b: true }, &[&x, &weight]);
        let y = one(Zip { f: Binary::Add }, &[&y, &layer(&format!("self_attn.{name}.bias"))]);
        let rope = AxialRope2d {
            end_x: 8,
            end_y: 8,
            head_dim: 32,
            heads: 1,
            theta: 10000.0,
            repeat: 1,
            scale: 1.0,
        };
        one(rope, &[&y])
    };
    let keys = one(Transpose { perm: vec![1, 0] }, &[&turned("k_proj")]);
    let scores = one(BatchMatMul { transpose_b: false }, &[&turned("q_proj"), &keys]);
    let scale = Value::f32s(&[], &[1.0 / 32f32.sqrt()]);
    let scores = one(Zip { f: Binary::Mul }, &[&scores, &scale]);
    let y = one(Softmax { axis: 1 }, &[&scores]);
    let expected = get("sub.memory_attention.layers.0.self_attn.out.1");
    near("sam2_video", &y, &expected.f64s(), TOLERANCE);
}
