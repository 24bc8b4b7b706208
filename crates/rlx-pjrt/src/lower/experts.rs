//! Products with the weights of each row's experts.

use super::builder::{Axes, Builder, El, V};
use super::takes::{Taken, fits, is_weight, knows};
use super::{Node, formats, functions};
use rlx_core::Result;
use rlx_core::ops::{Binary, GroupedEpilogue, Op};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let Op::GroupedMatMul(op_) = op else { return Err("it is no grouped_matmul".into()) };
    knows(op, &["segments", "bias", "epilogue", "glu", "limit"])?;
    let parts = op_.parts();
    let banks = parts.banks..parts.banks + op_.segments;
    let experts = operands.get(parts.banks).and_then(|t| t.shape.0.first()?.as_static());
    if experts == Some(0) {
        return Err("it has no expert".into());
    }
    operands.iter().enumerate().try_for_each(|(i, ty)| match i {
        i if banks.contains(&i) => is_weight(i, ty),
        i if i == parts.ids => Ok(()),
        i => fits(i, ty, DType::is_float),
    })
}

pub(super) fn grouped_matmul(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::GroupedMatMul(op) = node.op else { return Err(node.mismatch()) };
    let parts = op.parts();
    let (x, ids) = (node.value(0)?.clone(), node.value(parts.ids)?.clone());
    let to = x.el;
    let x = b.convert(&x, to.wide());
    let mut results = Vec::with_capacity(op.segments);
    for i in 0..op.segments {
        let at = parts.banks + i;
        let dims = node.dims(at)?;
        let last = b.splat(ids.el, &ids.dims, (dims[0] - 1) as f64);
        let ids = b.min(&ids, &last);
        let ids = b.convert(&ids, El::I32);
        let y = products(b, &x, node.value(at)?, node.ty(at)?, &ids)?;
        let y = match parts.biases {
            Some(first) => {
                let bias = node.value(first + i)?.clone();
                let bias = b.convert(&bias, y.el);
                let bias = b.take(&bias, &ids, 0);
                b.add(&y, &bias)
            }
            None => y,
        };
        results.push(b.convert(&y, to));
    }
    match (op.epilogue, results.as_slice()) {
        (GroupedEpilogue::None, _) => Ok(results),
        (GroupedEpilogue::Glu(f), [gate, up]) => {
            let gate = functions::unary(b, f, gate);
            Ok(vec![functions::binary(b, Binary::Mul, &gate, up)])
        }
        (GroupedEpilogue::LimitedGlu(f, limit), [gate, up]) => {
            let limit = f64::from(limit);
            let [gate, up] = [gate, up].map(|x| {
                let most = b.splat(to, &x.dims, limit);
                functions::extreme(b, "minimum", x, &most)
            });
            let gate = functions::unary(b, f, &gate);
            let least = b.splat(to, &up.dims, -limit);
            let up = functions::extreme(b, "maximum", &up, &least);
            let one = b.splat(to, &up.dims, 1.0);
            let up = functions::binary(b, Binary::Add, &up, &one);
            Ok(vec![functions::binary(b, Binary::Mul, &gate, &up)])
        }
        (GroupedEpilogue::Sum | GroupedEpilogue::SumAdd, [y]) => {
            let shares = node.value(parts.shares.ok_or_else(|| node.mismatch())?)?.clone();
            let sum = weighted(b, y, &shares);
            match parts.residual {
                Some(at) => Ok(vec![functions::binary(b, Binary::Add, &sum, node.value(at)?)]),
                None => Ok(vec![sum]),
            }
        }
        _ => Err(node.mismatch()),
    }
}

/// `[M, k, N]`: each row, or each row of a row's expert, times the weights of its experts.
fn products(b: &mut Builder, x: &V, bank: &V, ty: &Type, ids: &V) -> Result<V> {
    let dims = ty.shape.static_dims()?;
    let [experts, n, width] = [dims[0], dims[1], dims[2]];
    let [m, k] = [ids.dims[0], ids.dims[1]];
    let bytes = bank.elements() / experts;
    // A packed bank is bytes.
    let take = |b: &mut Builder, ids: &V| match ty.dtype {
        DType::Block(_) => formats::rows(b, bank, ids, bytes),
        DType::Scalar(_) => b.take(bank, ids, 0),
    };
    let decode = |b: &mut Builder, rows: &V, count: u64| -> Result<V> {
        let DType::Block(format) = ty.dtype else { return Ok(b.convert(rows, x.el)) };
        let size = format.bytes() as u64;
        let blocks = b.reshape(rows, &[count * bytes / size, size]);
        let y = formats::decode(b, format, &blocks)?;
        let y = b.reshape(&y, &[count, n, width]);
        Ok(b.convert(&y, x.el))
    };
    // Every row's experts are looked up where they are few; else each expert multiplies all rows in turn, so that
    // never more than one is decoded.
    if m * k <= experts {
        let flat = b.reshape(ids, &[m * k]);
        let taken = take(b, &flat);
        let w = decode(b, &taken, m * k)?;
        let x = match x.dims.len() {
            3 => b.reshape(x, &[m * k, width]),
            _ => {
                let wide = b.repeat(x, &[m, k, width], &[0, 2]);
                b.reshape(&wide, &[m * k, width])
            }
        };
        let y = b.dot(&x, &w, &Axes { batch: [vec![0], vec![0]], contract: [vec![1], vec![2]] });
        return Ok(b.reshape(&y, &[m, k, n]));
    }
    let result = [m, k, n];
    let start = [b.scalar(El::I32, 0.0), b.splat(x.el, &result, 0.0)];
    let mut failed = None;
    let made = b.repeat_while(
        &start,
        |b, now| b.compare_with("LT", &now[0], experts as f64),
        |b, now| {
            let one = b.reshape(&now[0], &[1]);
            let taken = take(b, &one);
            let w = decode(b, &taken, 1).unwrap_or_else(|e| {
                failed = Some(e);
                b.splat(x.el, &[1, n, width], 0.0)
            });
            let w = b.reshape(&w, &[n, width]);
            let last = x.dims.len() - 1;
            let y = b.dot(x, &w, &Axes { contract: [vec![last], vec![1]], ..Axes::default() });
            let axes: &[usize] = if x.dims.len() == 3 { &[0, 1, 2] } else { &[0, 2] };
            let y = b.repeat(&y, &result, axes);
            let each = b.repeat(&now[0], &[m, k], &[]);
            let mine = b.compare("EQ", ids, &each);
            let mine = b.repeat(&mine, &result, &[0, 1]);
            let sum = b.select(&mine, &y, &now[1]);
            vec![b.with("add", &now[0], 1.0), sum]
        },
    );
    match failed {
        Some(e) => Err(e),
        None => Ok(made[1].clone()),
    }
}

pub(super) fn takes_sum(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &[])?;
    super::takes::are_floats(operands)
}

pub(super) fn weighted_sum(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let (x, shares) = (node.value(0)?.clone(), node.value(1)?.clone());
    Ok(vec![weighted(b, &x, &shares)])
}

/// `sum_j shares[m, j] x[m, j, n]`, rounded once to the type of `x`.
fn weighted(b: &mut Builder, x: &V, shares: &V) -> V {
    let wide = b.convert(x, x.el.wide());
    let shares = b.convert(shares, wide.el);
    let y =
        b.dot(&shares, &wide, &Axes { batch: [vec![0], vec![0]], contract: [vec![1], vec![1]] });
    b.convert(&y, x.el)
}
