//! Attention over caches.

use super::Node;
use super::builder::{Axes, Builder, El, V};
use super::control::{LEN, PAST, word};
use super::takes::{Taken, fits, knows};
use rlx_core::Result;
use rlx_core::ops::{Attention, Op};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["head_dim", "scale", "window", "softcap", "sinks", "block", "ring"])?;
    operands.iter().take(3).enumerate().try_for_each(|(i, x)| fits(i, x, DType::is_float))
}

pub(super) fn attention(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Attention(op) = node.op else { return Err(node.mismatch()) };
    let (q, k, v, control) = (
        node.value(0)?.clone(),
        node.value(1)?.clone(),
        node.value(2)?.clone(),
        node.value(3)?.clone(),
    );
    let el = q.el.wide();
    let (rows, width, head) = (q.dims[0], q.dims[1], op.head_dim as u64);
    let [heads, capacity] = [k.dims[0], k.dims[1]];
    let group = width / head / heads;
    let x = b.convert(&q, el);
    let x = b.reshape(&x, &[rows, heads, group, head]);
    let (keys, values) = (b.convert(&k, el), b.convert(&v, el));
    let axes = Axes { batch: [vec![1], vec![0]], contract: [vec![3], vec![2]] };
    // [heads, rows, group, capacity]
    let scores = b.dot(&x, &keys, &axes);
    let scores = b.with("multiply", &scores, op.scale.into());
    let scores = match op.softcap {
        Some(cap) => {
            let inner = b.with("divide", &scores, cap.into());
            let inner = b.unary("tanh", &inner);
            b.with("multiply", &inner, cap.into())
        }
        None => scores,
    };
    let seen = seen(b, op, &control, rows, capacity);
    let seen = b.repeat(&seen, &scores.dims.clone(), &[1, 3]);
    let hidden = b.splat(el, &scores.dims, f64::NEG_INFINITY);
    let scores = b.select(&seen, &scores, &hidden);
    let mut most = b.reduce("maximum", &scores, f64::NEG_INFINITY, &[3]);
    let sink = match op.sinks {
        true => {
            let sinks = node.value(4)?.clone();
            let sinks = b.convert(&sinks, el);
            let sinks = b.reshape(&sinks, &[heads, group]);
            let sinks = b.repeat(&sinks, &most.dims.clone(), &[0, 2]);
            most = b.max(&most, &sinks);
            Some(sinks)
        }
        false => None,
    };
    let wide = b.repeat(&most, &scores.dims, &[0, 1, 2]);
    let scores = b.sub(&scores, &wide);
    let weights = b.unary("exponential", &scores);
    let mut sum = b.sum(&weights, &[3]);
    if let Some(sink) = sink {
        let sink = b.sub(&sink, &most);
        let sink = b.unary("exponential", &sink);
        sum = b.add(&sum, &sink);
    }
    let axes = Axes { batch: [vec![0], vec![0]], contract: [vec![3], vec![1]] };
    let y = b.dot(&weights, &values, &axes);
    let sum = b.repeat(&sum, &y.dims.clone(), &[0, 1, 2]);
    let y = b.div(&y, &sum);
    let y = b.transpose(&y, &[1, 0, 2, 3]);
    let y = b.reshape(&y, &[rows, width]);
    Ok(vec![b.convert(&y, q.el)])
}

/// Which rows of the cache `[rows, capacity]` each row sees.
fn seen(b: &mut Builder, op: &Attention, control: &V, rows: u64, capacity: u64) -> V {
    // Sums of two of them stay below 2^31.
    let mut small = |at| {
        let w = word(b, control, at);
        let most = b.scalar(w.el, f64::from(1 << 29));
        let w = b.min(&w, &most);
        b.convert(&w, El::I32)
    };
    let (past, len) = (small(PAST), small(LEN));
    let dims = [rows, capacity];
    let held = b.add(&past, &len);
    let (past, held) = (b.repeat(&past, &dims, &[]), b.repeat(&held, &dims, &[]));
    let i = b.iota(El::I32, &dims, 0);
    let position = b.add(&past, &i);
    let mut column = b.iota(El::I32, &dims, 1);
    let mut seen = b.compare("LT", &column, &held);
    if op.ring {
        // A row of the ring has the latest position that is held there.
        let newest = b.with("subtract", &held, 1.0);
        let back = b.sub(&newest, &column);
        // The difference may be negative by less than the capacity.
        let back = b.with("add", &back, capacity as f64);
        let back = b.with("remainder", &back, capacity as f64);
        column = b.sub(&newest, &back);
        seen = b.compare_with("GE", &column, 0.0);
    }
    let last = match op.block {
        Some(block) => {
            let block = block.clamp(1, 1 << 29) as f64;
            let within = b.with("remainder", &position, block);
            let first = b.sub(&position, &within);
            b.with("add", &first, block - 1.0)
        }
        None => position.clone(),
    };
    let before = b.compare("LE", &column, &last);
    seen = b.and(&seen, &before);
    if let Some(window) = op.window {
        let first = b.with("subtract", &position, window.min(1 << 29) as f64);
        let near = b.compare("GE", &column, &first);
        seen = b.and(&seen, &near);
    }
    seen
}
