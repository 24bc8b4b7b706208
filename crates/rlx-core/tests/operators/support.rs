//! Operands of tests, and operators taken apart.

use rlx_core::ir::mir::{Emitter, Graph, ParamKind};
use rlx_core::ops::{Body, Emit, Op};
use rlx_core::reference::{View, interpret, run};
use rlx_core::types::{DType, Scalar, Shape, Type, ValueId};
use std::path::PathBuf;

/// A file of the fixtures.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/operators")).join(name)
}

/// A tensor with bytes of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub ty: Type,
    pub bytes: Vec<u8>,
}

impl Value {
    /// Elements of a scalar type; c64 as real and imaginary parts in turn.
    pub fn new(dtype: DType, dims: &[u64], x: &[f64]) -> Value {
        let DType::Scalar(scalar) = dtype else { panic!("{dtype}") };
        let element = |v: &f64| match scalar {
            Scalar::F64 => v.to_le_bytes().to_vec(),
            Scalar::F32 | Scalar::C64 => (*v as f32).to_le_bytes().to_vec(),
            Scalar::F16 => half::f16::from_f64(*v).to_le_bytes().to_vec(),
            Scalar::Bf16 => half::bf16::from_f64(*v).to_le_bytes().to_vec(),
            Scalar::I32 => (*v as i32).to_le_bytes().to_vec(),
            Scalar::U32 => (*v as u32).to_le_bytes().to_vec(),
            Scalar::I8 => vec![*v as i8 as u8],
            Scalar::U8 => vec![*v as u8],
            other => panic!("{other:?}"),
        };
        Value {
            ty: Type::tensor(dtype, Shape::of(dims)),
            bytes: x.iter().flat_map(element).collect(),
        }
    }

    pub fn f32s(dims: &[u64], x: &[f32]) -> Value {
        Self::new(DType::F32, dims, &x.iter().map(|&v| v.into()).collect::<Vec<_>>())
    }

    /// Numbers between -1 and 1 that depend on `seed` alone.
    pub fn noise(dtype: DType, dims: &[u64], seed: u64) -> Value {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / (1 << 23) as f64 - 1.0
        };
        let n: u64 = dims.iter().product::<u64>() * (1 + u64::from(dtype.name() == "c64"));
        Self::new(dtype, dims, &(0..n).map(|_| next()).collect::<Vec<_>>())
    }

    pub fn f64s(&self) -> Vec<f64> {
        fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().map(|b| f(*b)).collect()
        }
        let DType::Scalar(scalar) = self.ty.dtype else { panic!("{}", self.ty) };
        match scalar {
            Scalar::F64 => each(&self.bytes, f64::from_le_bytes),
            Scalar::F32 | Scalar::C64 => each(&self.bytes, |b| f32::from_le_bytes(b).into()),
            Scalar::F16 => each(&self.bytes, |b| half::f16::from_le_bytes(b).to_f64()),
            Scalar::Bf16 => each(&self.bytes, |b| half::bf16::from_le_bytes(b).to_f64()),
            Scalar::I8 => each(&self.bytes, |[b]| (b as i8).into()),
            Scalar::U8 => each(&self.bytes, |[b]| b.into()),
            other => panic!("{other:?}"),
        }
    }
}

/// Results of the reference.
pub fn execute(op: &Op, operands: &[Value]) -> Vec<Value> {
    let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
    let types = op.infer(&types).unwrap_or_else(|e| panic!("{}{}: {e}", op.name(), op.attrs()));
    let views: Vec<View<'_>> = operands.iter().map(|v| View::new(&v.ty, &v.bytes)).collect();
    let results = run(op, &views).unwrap_or_else(|e| panic!("{}{}: {e}", op.name(), op.attrs()));
    types.into_iter().zip(results).map(|(ty, bytes)| Value { ty, bytes }).collect()
}

/// A graph that takes apart whatever comes apart, until only primitives are left.
struct Apart(Graph);

impl Emit for Apart {
    fn ty(&self, v: ValueId) -> &Type {
        self.0.ty(v)
    }

    fn emit(&mut self, op: Op, inputs: &[ValueId]) -> rlx_core::Result<Vec<ValueId>> {
        if PRIMITIVES.contains(&op.name()) {
            return self.0.push(op, inputs, "part");
        }
        match op.decompose(self, inputs)? {
            Some(results) => Ok(results),
            None => self.0.push(op, inputs, "part"),
        }
    }

    fn emit_regions(
        &mut self,
        op: Op,
        inputs: &[ValueId],
        bodies: &mut [Body<'_>],
    ) -> rlx_core::Result<Vec<ValueId>> {
        Emitter { graph: &mut self.0, label: "part" }.emit_regions(op, inputs, bodies)
    }
}

/// The primitives of an operator on these operands; `None` if it is one itself.
pub fn apart(op: &Op, operands: &[Type]) -> Option<Graph> {
    let mut e = Apart(Graph::new("apart"));
    let params: Vec<ValueId> = operands
        .iter()
        .enumerate()
        .map(|(i, ty)| e.0.param(ParamKind::Input, &format!("x{i}"), ty.clone()))
        .collect();
    let name = || format!("{}{}", op.name(), op.attrs());
    let results =
        op.decompose(&mut e, &params).unwrap_or_else(|err| panic!("{}: {err}", name()))?;
    let types = op.infer(&operands.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(results.len(), types.len(), "{}", name());
    for (i, (v, ty)) in results.iter().zip(&types).enumerate() {
        assert_eq!(e.0.ty(*v), ty, "{}: result {i}", name());
        e.0.output(&format!("y{i}"), *v);
    }
    rlx_core::ir::verify::verify(&e.0).unwrap_or_else(|err| panic!("{}: {err}\n{}", name(), e.0));
    for node in &e.0.nodes {
        assert!(PRIMITIVES.contains(&node.op.name()), "{}: {} is left", name(), node.op.name());
    }
    Some(e.0)
}

/// What every target has: the operators of data, and the product.
const PRIMITIVES: &[&str] = &[
    "batch_matmul",
    "cast",
    "clamp",
    "compare",
    "concat",
    "constant",
    "expand",
    "gather",
    "map",
    "pad",
    "reduce",
    "reshape",
    "reverse",
    "rms_norm",
    "select",
    "slice",
    "transpose",
    "zip",
];

/// Fails unless the primitives give the reference's results; false for a primitive.
pub fn agrees(op: &Op, operands: &[Value], tolerance: f64) -> bool {
    let types: Vec<Type> = operands.iter().map(|v| v.ty.clone()).collect();
    let Some(g) = apart(op, &types) else { return false };
    let bytes: Vec<&[u8]> = operands.iter().map(|v| v.bytes.as_slice()).collect();
    let got = interpret(&g, &bytes).unwrap_or_else(|e| panic!("{e}\n{g}")).outputs;
    for (expected, bytes) in execute(op, operands).into_iter().zip(got) {
        let got = Value { ty: expected.ty.clone(), bytes };
        near(&format!("{}{} apart", op.name(), op.attrs()), &got, &expected.f64s(), tolerance);
    }
    true
}

/// Fails unless every element is expected, to a tolerance relative to the largest.
pub fn near(what: &str, got: &Value, expected: &[f64], tolerance: f64) {
    let got = got.f64s();
    assert_eq!(got.len(), expected.len(), "{what}");
    let finite = expected.iter().filter(|v| v.is_finite());
    let largest = finite.fold(0.0f64, |m, v| m.max(v.abs()));
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        let same = a == b || a.is_nan() && b.is_nan();
        assert!(same || (a - b).abs() <= tolerance * largest, "{what} [{i}]: {a}, expected {b}");
    }
}
