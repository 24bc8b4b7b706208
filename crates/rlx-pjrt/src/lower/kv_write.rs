//! New rows of a cache.

use super::Node;
use super::builder::{Builder, El, V};
use super::control::{PAST, live, word};
use super::takes::{Taken, fits, knows};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["ring"])?;
    operands.iter().take(2).enumerate().try_for_each(|(i, x)| fits(i, x, DType::is_float))
}

pub(super) fn kv_write(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::KvWrite(op) = node.op else { return Err(node.mismatch()) };
    let (cache, x, control) =
        (node.value(0)?.clone(), node.value(1)?.clone(), node.value(2)?.clone());
    let (rows, dims) = (x.dims[0], cache.dims.clone());
    if cache.elements() == 0 || rows == 0 {
        return Ok(vec![cache]);
    }
    let [heads, capacity, width] = [dims[0], dims[1], dims[2]];
    let x = b.convert(&x, cache.el);
    let x = b.reshape(&x, &[rows, heads, width]);
    let count = live(b, &control, rows);
    if rows == 1 {
        // One row replaces another, or itself where nothing is to be written.
        let at = position(b, &control, capacity, op.ring);
        let zero = b.scalar(El::I32, 0.0);
        let starts = [zero.clone(), at, zero];
        let old = b.dynamic_slice(&cache, &starts, &[heads, 1, width]);
        let new = b.transpose(&x, &[1, 0, 2]);
        let any = b.compare_with("GT", &count, 0.0);
        let past = word(b, &control, PAST);
        let fits = b.compare_with("LT", &past, capacity as f64);
        let any = if op.ring { any } else { b.and(&any, &fits) };
        let any = b.repeat(&any, &[heads, 1, width], &[]);
        let row = b.select(&any, &new, &old);
        return Ok(vec![b.dynamic_update(&cache, &row, &starts)]);
    }
    // Row p of the cache is row `p - past` of x, modulo the capacity in a ring, if that is one of the live ones.
    let past = word(b, &control, PAST);
    let past = b.convert(&past, El::I64);
    let past = b.repeat(&past, &[capacity], &[]);
    let p = b.iota(El::I64, &[capacity], 0);
    let mut from = b.sub(&p, &past);
    if op.ring {
        from = b.with("remainder", &from, capacity as f64);
        let below = b.compare_with("LT", &from, 0.0);
        let up = b.with("add", &from, capacity as f64);
        from = b.select(&below, &up, &from);
    }
    let count = b.convert(&count, El::I64);
    let count = b.repeat(&count, &[capacity], &[]);
    let before = b.compare("LT", &from, &count);
    let after = b.compare_with("GE", &from, 0.0);
    let written = b.and(&before, &after);
    let (zero, last) =
        (b.splat(El::I64, &[capacity], 0.0), b.splat(El::I64, &[capacity], (rows - 1) as f64));
    let from = b.max(&from, &zero);
    let from = b.min(&from, &last);
    let from = b.convert(&from, El::I32);
    let new = b.take(&x, &from, 0);
    let new = b.transpose(&new, &[1, 0, 2]);
    let written = b.repeat(&written, &dims, &[1]);
    Ok(vec![b.select(&written, &new, &cache)])
}

/// The row of the first position of this submission.
fn position(b: &mut Builder, control: &V, capacity: u64, ring: bool) -> V {
    let past = word(b, control, PAST);
    let past = match ring {
        true => b.with("remainder", &past, capacity as f64),
        false => {
            let last = b.scalar(past.el, (capacity - 1) as f64);
            b.min(&past, &last)
        }
    };
    b.convert(&past, El::I32)
}
