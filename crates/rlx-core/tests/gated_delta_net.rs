//! The linear-attention layer of a small random Qwen3.5, recorded from transformers.
#![cfg(feature = "reference")]

use rlx_core::ops::{GatedDeltaNet, Op};
use rlx_core::reference::{View, run};
use rlx_core::safetensors::HeaderReader;
use rlx_core::types::{DType, Shape, Type};
use std::collections::BTreeMap;

const ROWS: usize = 29;
const WIDTH: usize = 64;
const KEY_HEADS: usize = 2;
const HEADS: usize = 4;
const KEY: usize = 16;
const VALUE: usize = 32;
const EPS: f64 = 1e-6;

fn recorded() -> BTreeMap<String, Vec<f64>> {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/gated_delta_net.safetensors");
    let file = std::fs::read(path).unwrap();
    let mut reader = HeaderReader::new("gated_delta_net.safetensors", Some(file.len() as u64));
    reader.push(&file).unwrap();
    let header = reader.into_header().unwrap();
    let floats = |offset: u64, bytes: u64| {
        let bytes = &file[offset as usize..][..bytes as usize];
        let words = bytes.as_chunks::<4>().0.iter();
        words.map(|b| f64::from(f32::from_le_bytes(*b))).collect()
    };
    header.tensors.iter().map(|(n, t)| (n.clone(), floats(t.offset, t.bytes))).collect()
}

/// `x W^T` of rows of `k`.
fn product(x: &[f64], w: &[f64], k: usize) -> Vec<f64> {
    let dot = |x: &[f64], w: &[f64]| x.iter().zip(w).map(|(a, b)| a * b).sum::<f64>();
    x.chunks(k).flat_map(|x| w.chunks(k).map(move |w| dot(x, w))).collect()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// Columns of a matrix of `width` columns.
fn columns(x: &[f64], width: usize, range: std::ops::Range<usize>) -> Vec<f64> {
    x.chunks(width).flat_map(|row| row[range.clone()].to_vec()).collect()
}

/// Rows of `n` divided by their length.
fn unit(x: &[f64], n: usize) -> Vec<f64> {
    x.chunks(n)
        .flat_map(|row| {
            let length = (row.iter().map(|v| v * v).sum::<f64>() + 1e-6).sqrt();
            row.iter().map(move |v| v / length)
        })
        .collect()
}

#[test]
fn a_recorded_linear_attention_layer_is_reproduced() {
    let t = recorded();
    let x = &t["in"];
    let channels = 2 * KEY_HEADS * KEY + HEADS * VALUE;
    let qkv = product(x, &t["in_proj_qkv.weight"], WIDTH);
    // The causal convolution of each channel over 4 positions, and silu.
    let filter = &t["conv1d.weight"];
    let mut mixed = vec![0.0; qkv.len()];
    for (i, c) in (0..ROWS * channels).map(|n| (n / channels, n % channels)) {
        let taps = (0..4).filter(|j| i + j >= 3);
        let sum: f64 = taps.map(|j| filter[c * 4 + j] * qkv[(i + j - 3) * channels + c]).sum();
        mixed[i * channels + c] = silu(sum);
    }
    let keys = KEY_HEADS * KEY;
    let q = unit(&columns(&mixed, channels, 0..keys), KEY);
    let k = unit(&columns(&mixed, channels, keys..2 * keys), KEY);
    let v = columns(&mixed, channels, 2 * keys..channels);
    let a = product(x, &t["in_proj_a.weight"], WIDTH);
    let gate = |(n, a): (usize, &f64)| {
        let softplus = (a + t["dt_bias"][n % HEADS]).exp().ln_1p();
        -t["A_log"][n % HEADS].exp() * softplus
    };
    let g: Vec<f64> = a.iter().enumerate().map(gate).collect();
    let b = product(x, &t["in_proj_b.weight"], WIDTH);
    let beta: Vec<f64> = b.iter().map(|b| 1.0 / (1.0 + (-b).exp())).collect();

    let (rows, heads, wide) = (ROWS as u64, HEADS as u64, VALUE as u64);
    let shapes: [&[u64]; 5] = [
        &[rows, KEY_HEADS as u64, KEY as u64],
        &[rows, KEY_HEADS as u64, KEY as u64],
        &[rows, heads, wide],
        &[rows, heads],
        &[rows, heads],
    ];
    let operands: Vec<(Type, Vec<u8>)> = shapes
        .iter()
        .zip([&q, &k, &v, &g, &beta])
        .map(|(dims, x)| {
            let bytes = x.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
            (Type::tensor(DType::F32, Shape::of(dims)), bytes)
        })
        .collect();
    let views: Vec<View<'_>> = operands.iter().map(|(ty, b)| View::new(ty, b)).collect();
    let op = Op::from(GatedDeltaNet { state_size: KEY, ..GatedDeltaNet::default() });
    let y = run(&op, &views).unwrap().remove(0);
    let y: Vec<f64> =
        y.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect();

    // The norm of each head, its gate, and the projection back.
    let z = product(x, &t["in_proj_z.weight"], WIDTH);
    let mut gated = Vec::new();
    for (y, z) in y.chunks(VALUE).zip(z.chunks(VALUE)) {
        let mean = y.iter().map(|v| v * v).sum::<f64>() / VALUE as f64;
        let inverse = 1.0 / (mean + EPS).sqrt();
        let scale = t["norm.weight"].iter();
        gated.extend(y.iter().zip(z).zip(scale).map(|((y, z), w)| w * y * inverse * silu(*z)));
    }
    let got = product(&gated, &t["out_proj.weight"], HEADS * VALUE);
    let expected = &t["out"];
    assert_eq!(got.len(), expected.len());
    let largest = expected.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() < 1e-5 * largest, "{i}: {got}, recorded {expected}");
    }
}
