//! Rotary position embedding.

use super::Node;
use super::builder::{Builder, El, V};
use super::control::{PAST, word};
use super::takes::{Taken, fits, knows};
use rlx_core::Result;
use rlx_core::ops::{Op, RopeStyle};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["style", "head_dim"])?;
    operands.first().map_or(Ok(()), |x| fits(0, x, DType::is_float))
}

pub(super) fn rope(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Rope(op) = node.op else { return Err(node.mismatch()) };
    let (x, table, control) =
        (node.value(0)?.clone(), node.value(1)?.clone(), node.value(2)?.clone());
    let (rows, width, head) = (x.dims[0], x.dims[1], op.head_dim as u64);
    let [table_rows, half] = [table.dims[0], table.dims[1]];
    if half == 0 || table_rows < 2 || width == 0 || rows == 0 {
        return Ok(vec![x]);
    }
    let el = x.el.wide();
    let (cos, sin) = angles(b, &table, &control, rows, el);
    let wide = b.convert(&x, el);
    let heads = b.reshape(&wide, &[rows, width / head, head]);
    let turning = b.part(&heads, 2, 0, 2 * half);
    // The two of each pair, on an axis of their own.
    let (pairs, axis) = match op.style {
        RopeStyle::Half => ([2, half], 2),
        RopeStyle::Adjacent => ([half, 2], 3),
    };
    let dims = [rows, width / head, half];
    let turning = b.reshape(&turning, &[rows, width / head, pairs[0], pairs[1]]);
    let [first, second] = [0, 1].map(|i| {
        let one = b.part(&turning, axis, i, 1);
        b.reshape(&one, &dims)
    });
    let [cos, sin] = [cos, sin].map(|x| b.repeat(&x, &dims, &[0, 2]));
    let (p, q) = (b.mul(&first, &cos), b.mul(&second, &sin));
    let left = b.sub(&p, &q);
    let (p, q) = (b.mul(&first, &sin), b.mul(&second, &cos));
    let right = b.add(&p, &q);
    let one = if axis == 2 { [rows, width / head, 1, half] } else { [rows, width / head, half, 1] };
    let both = [left, right].map(|x| b.reshape(&x, &one));
    let turned = b.concat(&both, axis);
    let mut all = vec![b.reshape(&turned, &[rows, width / head, 2 * half])];
    if 2 * half < head {
        all.push(b.part(&heads, 2, 2 * half, head - 2 * half));
    }
    let y = b.concat(&all, 2);
    let y = b.reshape(&y, &[rows, width]);
    Ok(vec![b.convert(&y, x.el)])
}

/// cos and sin `[rows, half]` of every row's position: products of the table's two parts.
fn angles(b: &mut Builder, table: &V, control: &V, rows: u64, el: El) -> (V, V) {
    let half = table.dims[1];
    // With L low rows there are more than L / 4 and at most L high rows, so the sum tells L.
    let low = table.dims[0].div_ceil(2).next_power_of_two();
    let last = low.saturating_mul(table.dims[0] - low).saturating_sub(1);
    let past = word(b, control, PAST);
    let past = b.convert(&past, El::I64);
    let past = b.repeat(&past, &[rows], &[]);
    let i = b.iota(El::I64, &[rows], 0);
    let position = b.add(&past, &i);
    let last = b.splat(El::I64, &[rows], last as f64);
    let position = b.min(&position, &last);
    let position = b.convert(&position, El::I32);
    let bits = low.trailing_zeros();
    let high = b.shift_right(&position, bits);
    let high = b.with("add", &high, low as f64);
    let near = b.bits(&position, (low - 1) as u32);
    let [a, c] = [high, near].map(|ids| {
        let row = b.take(table, &ids, 0);
        let row = b.convert(&row, el);
        [0, 1].map(|k| {
            let part = b.part(&row, 2, k, 1);
            b.reshape(&part, &[rows, half])
        })
    });
    let (p, q) = (b.mul(&a[0], &c[0]), b.mul(&a[1], &c[1]));
    let cos = b.sub(&p, &q);
    let (p, q) = (b.mul(&a[1], &c[0]), b.mul(&a[0], &c[1]));
    (cos, b.add(&p, &q))
}
