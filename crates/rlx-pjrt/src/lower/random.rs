//! Random numbers, the same on every device: Philox's words.

use super::Node;
use super::builder::{Builder, El, V};
use super::takes::{Taken, knows};
use rlx_core::Result;
use rlx_core::target::Target;
use rlx_core::ops::Op;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, _: &[&Type], _: &Target) -> Taken {
    knows(op, &["dims"])
}

/// Four words for each counter under a key; all of one shape.
pub(super) fn philox(b: &mut Builder, counter: [V; 4], key: [V; 2]) -> [V; 4] {
    let (mut c, mut key) = (counter, key);
    let dims = c[0].dims.clone();
    for _ in 0..10 {
        let [left, right] = [(0xD251_1F53, 0), (0xCD9E_8D57, 2)].map(|(by, i): (u64, usize)| {
            let wide = b.convert(&c[i], El::U64);
            let by = b.integer(El::U64, &dims, by);
            let product = b.mul(&wide, &by);
            let high = b.shift_right(&product, 32);
            [b.convert(&high, El::U32), b.convert(&product, El::U32)]
        });
        let first = b.binary("xor", &right[0], &c[1]);
        let first = b.binary("xor", &first, &key[0]);
        let third = b.binary("xor", &left[0], &c[3]);
        let third = b.binary("xor", &third, &key[1]);
        c = [first, right[1].clone(), third, left[1].clone()];
        key = [(0, 0x9E37_79B9), (1, 0xBB67_AE85)].map(|(i, by): (usize, u64)| {
            let by = b.integer(El::U32, &dims, by);
            b.add(&key[i], &by)
        });
    }
    c
}

/// The upper 24 bits of words for `n` elements, whole blocks of four: `[blocks, 4]`.
fn words(b: &mut Builder, key: &V, n: u64) -> V {
    let blocks = n.div_ceil(4);
    let part = |b: &mut Builder, i: u64| {
        let word = b.part(key, 0, i, 1);
        let word = b.reshape(&word, &[]);
        b.repeat(&word, &[blocks], &[])
    };
    let [seed_low, seed_high, low, high] = [0, 1, 2, 3].map(|i| part(b, i));
    let (low, high) = (b.convert(&low, El::U64), b.convert(&high, El::U64));
    let high = b.shift_left(&high, 32);
    let offset = b.or(&low, &high);
    let i = b.iota(El::U64, &[blocks], 0);
    let at = b.add(&offset, &i);
    let high = b.shift_right(&at, 32);
    let zero = b.integer(El::U32, &[blocks], 0);
    let counter = [b.convert(&at, El::U32), b.convert(&high, El::U32), zero.clone(), zero];
    let made = philox(b, counter, [seed_low, seed_high]).map(|w| b.reshape(&w, &[blocks, 1]));
    let all = b.concat(&made, 1);
    b.shift_right(&all, 8)
}

pub(super) fn uniform(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let dims = node.result(0)?;
    let n: u64 = dims.iter().product();
    if n == 0 {
        return Ok(vec![b.splat(El::F32, &dims, 0.0)]);
    }
    let w = words(b, &node.value(0)?.clone(), n);
    let y = b.convert(&w, El::F32);
    let y = b.with("multiply", &y, 2f64.powi(-24));
    Ok(vec![shaped(b, &y, &dims)])
}

pub(super) fn normal(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let dims = node.result(0)?;
    let n: u64 = dims.iter().product();
    if n == 0 {
        return Ok(vec![b.splat(El::F32, &dims, 0.0)]);
    }
    let w = words(b, &node.value(0)?.clone(), n);
    let pairs = w.elements() / 2;
    let w = b.reshape(&w, &[pairs, 2]);
    let [first, second] = [0, 1].map(|i| {
        let part = b.part(&w, 1, i, 1);
        b.reshape(&part, &[pairs])
    });
    let first = b.with("add", &first, 1.0);
    let first = b.convert(&first, El::F32);
    let first = b.with("multiply", &first, 2f64.powi(-24));
    let log = b.unary("log", &first);
    let square = b.with("multiply", &log, -2.0);
    let radius = b.unary("sqrt", &square);
    let second = b.convert(&second, El::F32);
    let turns = b.with("multiply", &second, 2f64.powi(-24));
    let angle = b.with("multiply", &turns, 2.0 * std::f64::consts::PI);
    let both = ["cosine", "sine"].map(|f| {
        let y = b.unary(f, &angle);
        let y = b.mul(&radius, &y);
        b.reshape(&y, &[pairs, 1])
    });
    let y = b.concat(&both, 1);
    Ok(vec![shaped(b, &y, &dims)])
}

/// The first elements, in these sizes.
fn shaped(b: &mut Builder, y: &V, dims: &[u64]) -> V {
    let flat = b.reshape(y, &[y.elements()]);
    let some = b.part(&flat, 0, 0, dims.iter().product());
    b.reshape(&some, dims)
}
