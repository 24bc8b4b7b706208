//! Operators that go along a sequence and carry a state: loops over rows, of which those from `len` on do nothing.

use super::Node;
use super::builder::{Axes, Builder, El, V};
use super::control::{DONE, LEN, word};
use super::functions;
use super::takes::{Taken, fits, knows};
use rlx_core::Result;
use rlx_core::ops::{Binary, Op};
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Type};

/// Tensors of floats; states and control blocks are what the type rules say.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["state_size", "carry", "tiled", "act", "gated"])?;
    let tensors = operands.iter().enumerate().filter(|(_, ty)| ty.kind == Kind::Tensor);
    tensors.into_iter().try_for_each(|(i, ty)| fits(i, ty, DType::is_float))
}

/// What a loop over rows is given.
struct Rows {
    /// How many rows there are.
    count: u64,
    /// How many of them are real, i32 without axes.
    real: V,
    /// The state, and the control block, as far as there are any.
    state: Option<V>,
    control: Option<V>,
    /// The element type of what is computed.
    el: El,
}

impl Rows {
    fn new(b: &mut Builder, node: &Node<'_>, first: usize, count: u64, el: El) -> Rows {
        let (state, control) = (node.values.get(first).cloned(), node.values.get(first + 1).cloned());
        let all = b.scalar(El::I32, count as f64);
        let real = match &control {
            Some(control) => {
                let len = word(b, control, LEN);
                let most = b.scalar(len.el, count as f64);
                let len = b.min(&len, &most);
                b.convert(&len, El::I32)
            }
            None => all,
        };
        Rows { count, real, state, control, el }
    }

    /// Goes over the real rows with what is carried, whose sizes are given, and a result `[rows, ..]` that has zeros in
    /// all others. `step` makes the next carried value and the row's result of a row's number and the carried value.
    fn go(
        &self,
        b: &mut Builder,
        carried: &[u64],
        row: &[u64],
        step: impl FnOnce(&mut Builder, &V, &V) -> [V; 2],
    ) -> [V; 2] {
        let start = match &self.state {
            Some(state) => {
                let wide = b.convert(state, self.el);
                b.reshape(&wide, carried)
            }
            None => b.splat(self.el, carried, 0.0),
        };
        let dims: Vec<u64> = std::iter::once(self.count).chain(row.iter().copied()).collect();
        let zero = b.scalar(El::I32, 0.0);
        if self.count == 1 {
            let [next, y] = step(b, &zero, &start);
            let runs = b.compare_with("GT", &self.real, 0.0);
            let keep = b.repeat(&runs, &next.dims.clone(), &[]);
            let next = b.select(&keep, &next, &start);
            let keep = b.repeat(&runs, &y.dims.clone(), &[]);
            let none = b.splat(y.el, &y.dims, 0.0);
            let y = b.select(&keep, &y, &none);
            return [next, b.reshape(&y, &dims)];
        }
        let empty = b.splat(self.el, &dims, 0.0);
        let real = self.real.clone();
        let results = b.repeat_while(
            &[zero, start, empty],
            |b, now| b.compare("LT", &now[0], &real),
            |b, now| {
                let [next, y] = step(b, &now[0], &now[1]);
                let one: Vec<u64> = std::iter::once(1).chain(row.iter().copied()).collect();
                let y = b.reshape(&y, &one);
                let zero = b.scalar(El::I32, 0.0);
                let at: Vec<V> = (0..one.len()).map(|i| if i == 0 { now[0].clone() } else { zero.clone() }).collect();
                let all = b.dynamic_update(&now[2], &y, &at);
                vec![b.with("add", &now[0], 1.0), next, all]
            },
        );
        [results[1].clone(), results[2].clone()]
    }

    /// Row `i` of a tensor `[rows, ..]`.
    fn row(b: &mut Builder, x: &V, i: &V) -> V {
        let zero = b.scalar(El::I32, 0.0);
        let at: Vec<V> = (0..x.dims.len()).map(|k| if k == 0 { i.clone() } else { zero.clone() }).collect();
        let mut sizes = x.dims.clone();
        sizes[0] = 1;
        let y = b.dynamic_slice(x, &at, &sizes);
        b.reshape(&y, &x.dims[1..])
    }

    /// The results: `y`, and the next state if there is one, which a control block that is done keeps.
    fn finish(&self, b: &mut Builder, y: V, next: &V) -> Vec<V> {
        let Some(state) = &self.state else { return vec![y] };
        let next = b.convert(next, state.el);
        let next = b.reshape(&next, &state.dims);
        let next = match &self.control {
            Some(control) => {
                let done = word(b, control, DONE);
                let runs = b.compare_with("EQ", &done, 0.0);
                let runs = b.repeat(&runs, &next.dims.clone(), &[]);
                b.select(&runs, &next, state)
            }
            None => next,
        };
        vec![y, next]
    }
}

/// `[batch.., S, rest..]` as `[S, batch, rest..]` in the wide type.
fn rows_first(b: &mut Builder, x: &V, el: El, rest: usize) -> V {
    let at = x.dims.len() - rest - 1;
    let batch: u64 = x.dims[..at].iter().product();
    let mut dims = vec![batch];
    dims.extend(&x.dims[at..]);
    let x = b.convert(x, el);
    let x = b.reshape(&x, &dims);
    let order: Vec<usize> = [1, 0].into_iter().chain(2..dims.len()).collect();
    b.transpose(&x, &order)
}

/// `[S, batch, rest..]` as the sizes of the result, in its type.
fn rows_back(b: &mut Builder, y: &V, dims: &[u64], el: El) -> V {
    let order: Vec<usize> = [1, 0].into_iter().chain(2..y.dims.len()).collect();
    let y = b.transpose(y, &order);
    let y = b.reshape(&y, dims);
    b.convert(&y, el)
}

pub(super) fn gated_delta_net(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::GatedDeltaNet(op) = node.op else { return Err(node.mismatch()) };
    let result = node.result(0)?;
    let to = node.value(2)?.el;
    let el = to.wide();
    let wide_gate = node.value(3)?.dims.len() > node.value(4)?.dims.len();
    let values: Vec<V> = (0..5).map(|i| node.value(i).cloned()).collect::<Result<_>>()?;
    let rest = [2, 2, 2, if wide_gate { 2 } else { 1 }, 1];
    let x: Vec<V> = values.iter().zip(rest).map(|(x, n)| rows_first(b, x, el, n)).collect();
    let [count, batch, keys, n] = [x[0].dims[0], x[0].dims[1], x[0].dims[2], x[0].dims[3]];
    let (heads, width) = (x[2].dims[2], x[2].dims[3]);
    let rows = Rows::new(b, node, 5, count, el);
    let (matrix, row) = ([batch, heads, n, width], [batch, heads, width]);
    let root = (n as f64).sqrt();
    let [next, y] = rows.go(b, &matrix, &row, |b, i, m| {
        let [q, k, v, g, beta] = [0, 1, 2, 3, 4].map(|at| Rows::row(b, &x[at], i));
        let [q, k] = [q, k].map(|x| {
            // Value heads of one key head follow each other, or are apart.
            let group = heads / keys;
            let (dims, axes) = match op.tiled {
                true => ([batch, group, keys, n], [0, 2, 3]),
                false => ([batch, keys, group, n], [0, 1, 3]),
            };
            let x = b.repeat(&x, &dims, &axes);
            b.reshape(&x, &[batch, heads, n])
        });
        let decay = b.unary("exponential", &g);
        let axes: Vec<usize> = (0..decay.dims.len()).collect();
        let decay = b.repeat(&decay, &matrix, &axes);
        let m = b.mul(m, &decay);
        let axes = Axes { batch: [vec![0, 1], vec![0, 1]], contract: [vec![2], vec![2]] };
        let kept = b.dot(&k, &m, &axes);
        let d = b.sub(&v, &kept);
        let beta = b.repeat(&beta, &row, &[0, 1]);
        let d = b.mul(&beta, &d);
        let wide_k = b.repeat(&k, &matrix, &[0, 1, 2]);
        let wide_d = b.repeat(&d, &matrix, &[0, 1, 3]);
        let more = b.mul(&wide_k, &wide_d);
        let m = b.add(&m, &more);
        let y = b.dot(&q, &m, &axes);
        [m, b.with("divide", &y, root)]
    });
    let y = rows_back(b, &y, &result, to);
    Ok(rows.finish(b, y, &next))
}

pub(super) fn selective_scan(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let result = node.result(0)?;
    let to = node.value(0)?.el;
    let el = to.wide();
    let values: Vec<V> = (0..5).map(|i| node.value(i).cloned()).collect::<Result<_>>()?;
    let a = b.convert(&values[2], el);
    let [x, delta, p, q] = [0, 1, 3, 4].map(|i| rows_first(b, &values[i], el, 1));
    let [count, batch, channels] = [x.dims[0], x.dims[1], x.dims[2]];
    let n = a.dims[1];
    let rows = Rows::new(b, node, 5, count, el);
    let vectors = [batch, channels, n];
    let [next, y] = rows.go(b, &vectors, &[batch, channels], |b, i, h| {
        let [x, delta, p, q] = [&x, &delta, &p, &q].map(|v| Rows::row(b, v, i));
        let wide_delta = b.repeat(&delta, &vectors, &[0, 1]);
        let a = b.repeat(&a, &vectors, &[1, 2]);
        let decay = b.mul(&wide_delta, &a);
        let decay = b.unary("exponential", &decay);
        let kept = b.mul(&decay, h);
        let p = b.repeat(&p, &vectors, &[0, 2]);
        let more = b.mul(&wide_delta, &p);
        let x = b.repeat(&x, &vectors, &[0, 1]);
        let more = b.mul(&more, &x);
        let h = b.add(&kept, &more);
        let q = b.repeat(&q, &vectors, &[0, 2]);
        let y = b.mul(&q, &h);
        let y = b.sum(&y, &[2]);
        [h, y]
    });
    let y = rows_back(b, &y, &result, to);
    Ok(rows.finish(b, y, &next))
}

pub(super) fn causal_conv1d(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::CausalConv1d(op) = node.op else { return Err(node.mismatch()) };
    let (x, w, state) = (node.value(0)?.clone(), node.value(1)?.clone(), node.value(2)?.clone());
    let to = x.el;
    let el = to.wide();
    let (count, channels, taps) = (x.dims[0], w.dims[0], w.dims[1]);
    let rows = Rows::new(b, node, 2, count, el);
    let wide = b.convert(&x, el);
    let (row, behind) = match op.gated {
        true => {
            let [before, behind, row] = [0, 1, 2].map(|k| b.part(&wide, 1, k * channels, channels));
            (b.mul(&before, &row), Some(behind))
        }
        false => (wide, None),
    };
    let past = b.convert(&state, el);
    let all = b.concat(&[past, row], 0);
    let w = b.convert(&w, el);
    let dims = [count, channels];
    let mut y = b.splat(el, &dims, 0.0);
    for j in 0..taps {
        let tap = b.part(&w, 1, j, 1);
        let tap = b.reshape(&tap, &[channels]);
        let tap = b.repeat(&tap, &dims, &[1]);
        let part = b.part(&all, 0, j, count);
        let product = b.mul(&part, &tap);
        y = b.add(&y, &product);
    }
    if let Some(f) = op.act {
        y = functions::unary(b, f, &y);
    }
    if let Some(behind) = behind {
        y = functions::binary(b, Binary::Mul, &y, &behind);
    }
    let zero = b.scalar(El::I32, 0.0);
    let next = b.dynamic_slice(&all, &[rows.real.clone(), zero], &[taps - 1, channels]);
    let y = b.convert(&y, to);
    Ok(rows.finish(b, y, &next))
}
