//! Type rules and text of operators, as tests write them.

use super::testing::Value;
use super::view::{int_bytes, scalar_bytes};
use crate::ir::mir::{Graph, ParamKind};
use crate::ops::Op;
use crate::types::{DType, Dim, Kind, Shape, Type};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The tensor type of `SEQx64xf32`, the state of `state 4xu32`.
pub(crate) fn ty(text: &str) -> Type {
    let (kind, text) = match text.strip_prefix("state ") {
        Some(rest) => (Kind::State, rest),
        None => (Kind::Tensor, text),
    };
    let mut words: Vec<&str> = text.split('x').collect();
    let dtype = DType::from_name(words.pop().unwrap()).unwrap();
    let dims = words.into_iter().map(|d| Dim::parse(d).unwrap()).collect();
    Type { kind, dtype, shape: Shape(dims) }
}

/// What the type rule gives, as text.
pub(crate) fn gives(op: impl Into<Op>, operands: &[&str]) -> Vec<String> {
    let types: Vec<Type> = operands.iter().map(|t| ty(t)).collect();
    let results = op.into().infer(&types.iter().collect::<Vec<_>>()).unwrap();
    results.iter().map(|t| t.to_string()).collect()
}

/// Why the type rule refuses.
pub(crate) fn refuses(op: impl Into<Op>, operands: &[&str]) -> String {
    let types: Vec<Type> = operands.iter().map(|t| ty(t)).collect();
    op.into().infer(&types.iter().collect::<Vec<_>>()).unwrap_err().what
}

/// The operator and its attributes in text IR, which must read back as the same operator.
pub(crate) fn text(op: impl Into<Op>, operands: &[&str]) -> String {
    let mut g = Graph::new("f");
    let params: Vec<_> = operands
        .iter()
        .enumerate()
        .map(|(i, t)| g.param(ParamKind::Input, &format!("x{i}"), ty(t)))
        .collect();
    let op = op.into();
    let results = g.push(op.clone(), &params, "").unwrap();
    g.output("y", results[0]);
    let again = crate::ir::parse::parse(&g.to_string()).unwrap_or_else(|e| panic!("{e}\n{g}"));
    assert_eq!(again, g);
    format!("{}{}", op.name(), op.attrs())
}

/// Elements of any scalar type but `c64`; integers must be exact in f64.
pub(crate) fn numbers(dtype: DType, dims: &[u64], x: &[f64]) -> Value {
    let bytes = scalar_bytes(dtype, x).unwrap();
    Value { ty: Type::tensor(dtype, Shape::of(dims)), bytes }
}

/// Elements of an integer type or bool.
pub(crate) fn integers(dtype: DType, dims: &[u64], x: &[i64]) -> Value {
    let bytes = int_bytes(dtype, x).unwrap();
    Value { ty: Type::tensor(dtype, Shape::of(dims)), bytes }
}

/// Elements of the first result, as integers.
pub(crate) fn run_ints(op: impl Into<Op>, operands: &[&Value]) -> Vec<i64> {
    super::testing::run(op, operands)[0].view().i64s().unwrap()
}

/// Elements of the first result, as f64.
pub(crate) fn run_f64s(op: impl Into<Op>, operands: &[&Value]) -> Vec<f64> {
    super::testing::run(op, operands)[0].view().f64s().unwrap()
}
