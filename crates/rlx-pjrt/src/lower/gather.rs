//! Rows of tables, and indices of any axis.

use super::builder::{Builder, El, V};
use super::control::{LEN, word};
use super::takes::{Taken, decodes, fits, knows};
use super::{Node, formats};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["axis"])?;
    let &[table, _] = operands else { return Err("it has other operands".into()) };
    fits(0, table, |t| match t {
        DType::Block(format) => decodes(format),
        DType::Scalar(_) => true,
    })?;
    let Op::Gather(op) = op else { return Err("it is no gather".into()) };
    let axis = table.shape.0.get(op.axis).and_then(|d| d.as_static());
    if axis == Some(0) { Err("it reads no table without rows".into()) } else { Ok(()) }
}

pub(super) fn gather(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Gather(op) = node.op else { return Err(node.mismatch()) };
    let (table, ty) = (node.value(0)?.clone(), node.ty(0)?);
    let dims = node.dims(0)?;
    let n = *dims.get(op.axis).ok_or_else(|| node.mismatch())?;
    let ids = place(b, &node.value(1)?.clone(), n);
    let result = node.result(0)?;
    if let DType::Block(format) = ty.dtype {
        let row = ty.dtype.row_bytes(dims[1]).ok_or_else(|| node.mismatch())?;
        let flat = b.reshape(&ids, &[ids.elements()]);
        let rows = formats::rows(b, &table, &flat, row);
        let blocks = rows.elements() / format.bytes() as u64;
        let rows = b.reshape(&rows, &[blocks, format.bytes() as u64]);
        let y = formats::decode(b, format, &rows)?;
        return Ok(vec![b.reshape(&y, &result)]);
    }
    let y = b.take(&table, &ids, op.axis);
    Ok(vec![b.convert(&y, node.result_el(0)?)])
}

/// Ids on an axis of `n` elements: negative ones count from its end, and what is outside is moved to the nearest.
pub(super) fn place(b: &mut Builder, ids: &V, n: u64) -> V {
    let ids = if ids.el.is_signed() {
        let wide = b.convert(ids, El::I64);
        let from_end = b.with("add", &wide, n as f64);
        let below = b.compare_with("LT", &wide, 0.0);
        let wide = b.select(&below, &from_end, &wide);
        let zero = b.splat(El::I64, &ids.dims, 0.0);
        let up = b.max(&wide, &zero);
        let last = b.splat(El::I64, &ids.dims, (n - 1) as f64);
        b.min(&up, &last)
    } else {
        let last = b.splat(ids.el, &ids.dims, (n - 1) as f64);
        b.min(ids, &last)
    };
    b.convert(&ids, formats::index(n))
}

pub(super) fn takes_rows(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["rows"])?;
    operands.first().map_or(Ok(()), |x| fits(0, x, DType::is_float))
}

/// Rows `len - rows .. len`, row 0 for those before the first.
pub(super) fn take_rows(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let (x, control) = (node.value(0)?.clone(), node.value(1)?.clone());
    let result = node.result(0)?;
    let rows = result[0];
    let (have, len) = (x.dims[0], word(b, &control, LEN));
    let have = b.scalar(len.el, have as f64);
    let len = b.min(&len, &have);
    let len = b.convert(&len, El::I32);
    let ids = b.repeat(&len, &[rows], &[]);
    let i = b.iota(El::I32, &[rows], 0);
    let ids = b.add(&ids, &i);
    let ids = b.with("subtract", &ids, rows as f64);
    let zero = b.splat(El::I32, &[rows], 0.0);
    let ids = b.max(&ids, &zero);
    Ok(vec![b.take(&x, &ids, 0)])
}
