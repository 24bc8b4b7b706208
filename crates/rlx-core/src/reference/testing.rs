//! Operands of tests: a type and bytes that own themselves.

use super::View;
use super::view::{f32_bytes, word_bytes};
use crate::error::Error;
use crate::formats::activations::encode_q8_0;
use crate::ops::Op;
use crate::sample::Control;
use crate::types::{BlockFormat, DType, Kind, Shape, Type};
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub ty: Type,
    pub bytes: Vec<u8>,
}

impl Value {
    pub fn view(&self) -> View<'_> {
        View::new(&self.ty, &self.bytes)
    }

    pub fn f32s(&self) -> Vec<f32> {
        self.view().f32s().unwrap()
    }

    pub fn f64s(&self) -> Vec<f64> {
        self.view().f64s().unwrap()
    }

    pub fn u32s(&self) -> Vec<u32> {
        self.view().words()
    }
}

pub(crate) fn f32s(dims: &[u64], x: &[f32]) -> Value {
    Value { ty: Type::tensor(DType::F32, Shape::of(dims)), bytes: f32_bytes(x) }
}

pub(crate) fn floats(dtype: DType, dims: &[u64], x: &[f32]) -> Value {
    let x: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
    let bytes = super::view::scalar_bytes(dtype, &x).unwrap();
    Value { ty: Type::tensor(dtype, Shape::of(dims)), bytes }
}

pub(crate) fn halfs(dims: &[u64], x: &[f32]) -> Value {
    floats(DType::F16, dims, x)
}

pub(crate) fn u32s(dims: &[u64], x: &[u32]) -> Value {
    Value { ty: Type::tensor(DType::U32, Shape::of(dims)), bytes: word_bytes(x) }
}

pub(crate) fn state_words(x: &[u32]) -> Value {
    Value { ty: Type::state(DType::U32, Shape::of(&[x.len() as u64])), bytes: word_bytes(x) }
}

pub(crate) fn cache(dtype: DType, dims: &[u64], x: &[f32]) -> Value {
    let bytes = match dtype {
        DType::F16 => x.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect(),
        _ => f32_bytes(x),
    };
    Value { ty: Type::state(dtype, Shape::of(dims)), bytes }
}

pub(crate) fn q8_0(dims: &[u64], x: &[f32]) -> Value {
    let mut bytes = vec![0; x.len() / 32 * 34];
    encode_q8_0(x, &mut bytes).unwrap();
    Value { ty: Type::tensor(DType::Block(BlockFormat::Q8_0), Shape::of(dims)), bytes }
}

pub(crate) fn q8_0_cache(dims: &[u64], x: &[f32]) -> Value {
    let Value { ty, bytes } = q8_0(dims, x);
    Value { ty: Type::state(ty.dtype, ty.shape), bytes }
}

pub(crate) fn control(past: u32, len: u32, done: u32) -> Value {
    let ctl = Control { past, len, done, limit: 100, capacity: 1000, ..Control::default() };
    state_words(&ctl.to_words())
}

/// Numbers between -1 and 1 that depend on `seed` alone.
pub(crate) fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

pub(crate) fn try_run(op: impl Into<Op>, operands: &[&Value]) -> Result<Vec<Value>, Error> {
    let op = op.into();
    let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
    let types = op.infer(&types)?;
    let views: Vec<View<'_>> = operands.iter().map(|v| v.view()).collect();
    let results = super::run(&op, &views)?;
    Ok(types.into_iter().zip(results).map(|(ty, bytes)| Value { ty, bytes }).collect())
}

pub(crate) fn run(op: impl Into<Op>, operands: &[&Value]) -> Vec<Value> {
    try_run(op, operands).unwrap()
}

/// The elements of the first result.
pub(crate) fn run1(op: impl Into<Op>, operands: &[&Value]) -> Vec<f32> {
    run(op, operands)[0].f32s()
}

pub(crate) fn fails(op: impl Into<Op>, operands: &[&Value]) -> Error {
    try_run(op, operands).unwrap_err()
}

/// Equal up to the rounding of an f32 near 1.
pub(crate) fn close(got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(*g) - e).abs() <= 4e-7 * e.abs().max(1.0),
            "element {i}: {g}, expected {e}"
        );
    }
}

/// Asserts that an operator's decomposition gives the operator's results, to a tolerance relative
/// to the largest element. Every result's type must be the same too.
pub(crate) fn decomposes(op: impl Into<Op>, operands: &[&Value], tolerance: f64) {
    use crate::ir::mir::{Emitter, Graph, ParamKind};
    let op = op.into();
    let views: Vec<View<'_>> = operands.iter().map(|v| v.view()).collect();
    let expected = super::run(&op, &views).unwrap();
    let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
    let types = op.infer(&types).unwrap();
    let mut g = Graph::new("decomposed");
    let name = |i: usize| alloc::format!("x{i}");
    let params: Vec<_> = operands
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let kind = match v.ty.kind {
                Kind::Tensor => ParamKind::Input,
                Kind::State => ParamKind::State,
            };
            g.param(kind, &name(i), v.ty.clone())
        })
        .collect();
    let mut emitter = Emitter { graph: &mut g, label: "part" };
    let results = op.decompose(&mut emitter, &params).unwrap().expect("a decomposition");
    assert_eq!(results.len(), types.len(), "{}", op.name());
    for (i, v) in results.iter().enumerate() {
        assert_eq!(g.ty(*v), &types[i], "{} result {i}", op.name());
        g.output(&alloc::format!("y{i}"), *v);
    }
    crate::ir::verify::verify(&g).unwrap_or_else(|e| panic!("{e}\n{g}"));
    let bytes: Vec<&[u8]> = operands.iter().map(|v| v.bytes.as_slice()).collect();
    let got = super::interpret(&g, &bytes).unwrap_or_else(|e| panic!("{e}\n{g}")).outputs;
    for ((got, expected), ty) in got.iter().zip(&expected).zip(&types) {
        let (got, expected) =
            (View::new(ty, got).f64s().unwrap(), View::new(ty, expected).f64s().unwrap());
        let largest = expected.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for (i, (a, b)) in got.iter().zip(&expected).enumerate() {
            let near = (a - b).abs() <= tolerance * largest.max(f64::MIN_POSITIVE);
            assert!(near || a == b || (a.is_nan() && b.is_nan()), "{} [{i}]: {a}, {b}", op.name());
        }
    }
}
