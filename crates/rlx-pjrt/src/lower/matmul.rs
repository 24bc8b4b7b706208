//! One input times its weights.

use super::builder::{Axes, Builder, El, V};
use super::takes::{Taken, fits, is_weight, knows};
use super::{Node, formats, functions, norms};
use rlx_core::Result;
use rlx_core::ops::{Binary, Epilogue, Op};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Type};

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

/// `x [.., K]` times the rows of a weight `[N, K]`, in the type of `x`. A packed weight is decoded whole before a
/// product, so that a large one is taken in blocks of rows, one after the other: memory holds one decoded block.
pub(super) fn product(b: &mut Builder, x: &V, w: &V, ty: &Type) -> Result<V> {
    let dims = ty.shape.static_dims()?;
    let [n, k] = [dims[0], dims[1]];
    match ty.dtype {
        DType::Block(format) if n.saturating_mul(k) > b.decoded && n > 1 => {
            let need = n.saturating_mul(k).div_ceil(b.decoded).min(n);
            // Blocks of one size, where the number of rows has such a divisor, so that no rows are left.
            let count = (need..=need.saturating_mul(2).min(n)).find(|c| n.is_multiple_of(*c));
            by_blocks(b, x, (w, format), [n, k], n.div_ceil(count.unwrap_or(need)))
        }
        _ => {
            let w = formats::numbers(b, w, ty)?;
            Ok(times(b, x, &w))
        }
    }
}

/// `x [.., K]` times rows of numbers.
fn times(b: &mut Builder, x: &V, w: &V) -> V {
    let w = b.convert(w, x.el);
    let last = x.dims.len() - 1;
    b.dot(x, &w, &Axes { contract: [vec![last], vec![1]], ..Axes::default() })
}

/// The same of a packed weight, `rows` of it at a time.
fn by_blocks(
    b: &mut Builder,
    x: &V,
    (w, format): (&V, BlockFormat),
    [n, k]: [u64; 2],
    rows: u64,
) -> Result<V> {
    let (size, row) = (format.bytes() as u64, w.elements() / n);
    let decoded = |b: &mut Builder, bytes: &V, rows: u64| -> Result<V> {
        let blocks = b.reshape(bytes, &[rows * row / size, size]);
        let y = formats::decode(b, format, &blocks)?;
        Ok(b.reshape(&y, &[rows, k]))
    };
    let (outer, count) = (x.dims.len() - 1, n / rows);
    let mut dims = x.dims[..outer].to_vec();
    dims.push(count * rows);
    let index = formats::index(w.elements());
    let start = [b.scalar(index, 0.0), b.splat(x.el, &dims, 0.0)];
    let mut failed = None;
    let made = b.repeat_while(
        &start,
        |b, now| b.compare_with("LT", &now[0], count as f64),
        |b, now| {
            let at = b.with("multiply", &now[0], (rows * row) as f64);
            let bytes = b.dynamic_slice(w, &[at], &[rows * row]);
            let w = decoded(b, &bytes, rows).unwrap_or_else(|e| {
                failed = Some(e);
                b.splat(El::F32, &[rows, k], 0.0)
            });
            let y = times(b, x, &w);
            let mut at = vec![b.scalar(index, 0.0); outer];
            at.push(b.with("multiply", &now[0], rows as f64));
            let all = b.dynamic_update(&now[1], &y, &at);
            vec![b.with("add", &now[0], 1.0), all]
        },
    );
    if let Some(e) = failed {
        return Err(e);
    }
    let rest = n - count * rows;
    if rest == 0 {
        return Ok(made[1].clone());
    }
    let bytes = b.part(w, 0, count * rows * row, rest * row);
    let w = decoded(b, &bytes, rest)?;
    let y = times(b, x, &w);
    Ok(b.concat(&[made[1].clone(), y], outer))
}
