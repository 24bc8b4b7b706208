//! One input times its weights.

use super::builder::{Axes, Builder, V};
use super::takes::{Taken, fits, is_weight, knows};
use super::{Node, formats, functions, norms};
use rlx_core::Result;
use rlx_core::ops::{Binary, Epilogue, Op};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Rows of floats; XLA fuses what stands around a product itself, so that only biases and epilogues are here that a
/// graph has from its model.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let Op::MatMul(op_) = op else { return Err("it is no matmul".into()) };
    knows(op, &["segments", "bias", "norm_eps", "half", "epilogue", "map", "glu"])?;
    let parts = op_.parts();
    let weights = parts.weights..parts.weights + op_.segments;
    operands.iter().enumerate().try_for_each(|(i, ty)| match weights.contains(&i) {
        true => is_weight(i, ty),
        false => fits(i, ty, DType::is_float),
    })
}

pub(super) fn matmul(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::MatMul(op) = node.op else { return Err(node.mismatch()) };
    let parts = op.parts();
    let mut x = node.value(0)?.clone();
    let el = x.el;
    if let (Some(eps), Some(at)) = (op.norm, parts.norm) {
        let w = node.value(at)?.clone();
        x = norms::rms(b, &x, &w, eps);
    }
    let mut x = b.convert(&x, el.wide());
    if op.half {
        x = b.rounded(&x, 8, 10);
    }
    let mut results = Vec::with_capacity(op.segments);
    for i in 0..op.segments {
        let at = parts.weights + i;
        let y = product(b, &x, node.value(at)?, node.ty(at)?)?;
        let y = match parts.biases {
            Some(first) => {
                let bias = node.value(first + i)?.clone();
                let bias = b.convert(&bias, y.el);
                let bias = b.repeat_last(&bias, &y.dims);
                b.add(&y, &bias)
            }
            None => y,
        };
        results.push(b.convert(&y, el));
    }
    match op.epilogue {
        Epilogue::None => Ok(results),
        Epilogue::Map(f) => Ok(results.iter().map(|y| functions::unary(b, f, y)).collect()),
        Epilogue::Add => {
            let residual = node.value(parts.residual.ok_or_else(|| node.mismatch())?)?;
            Ok(results.iter().map(|y| functions::binary(b, Binary::Add, y, residual)).collect())
        }
        Epilogue::Glu(f) => {
            let [gate, up] = results.as_slice() else { return Err(node.mismatch()) };
            let gate = functions::unary(b, f, gate);
            Ok(vec![functions::binary(b, Binary::Mul, &gate, up)])
        }
    }
}

/// `x [.., K]` times the rows of a weight `[N, K]`, in the type of `x`.
pub(super) fn product(b: &mut Builder, x: &V, w: &V, ty: &Type) -> Result<V> {
    let w = formats::numbers(b, w, ty)?;
    let w = b.convert(&w, x.el);
    let last = x.dims.len() - 1;
    Ok(b.dot(x, &w, &Axes { contract: [vec![last], vec![1]], ..Axes::default() }))
}
