//! Linear attention with a gated delta rule, position by position.

use crate::error::Result;
use crate::math;
use crate::ops::GatedDeltaNet;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::sample::control;
use alloc::vec;
use alloc::vec::Vec;

impl Run for GatedDeltaNet {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [q, k, v, g, beta, rest @ ..] = operands else { return Err(arity("gated_delta_net")) };
        let (key, value) = (q.sizes()?, v.sizes()?);
        let ([.., k_heads, n], [batch @ .., s, heads, width]) = (key.as_slice(), value.as_slice())
        else {
            return Err(arity("gated_delta_net"));
        };
        let (k_heads, n, s, heads, width) = (*k_heads, *n, *s, *heads, *width);
        let batch: usize = batch.iter().product();
        let wide_gate = g.ty.shape.rank() > beta.ty.shape.rank();
        let (mut state, real) = carried(rest, batch * heads * n * width, s)?;
        let values = Values {
            q: q.f64s()?,
            k: k.f64s()?,
            v: v.f64s()?,
            g: g.f64s()?,
            beta: beta.f64s()?,
            wide_gate,
        };
        let sizes = Sizes { batch, rows: s, real, k_heads, heads, n, width };
        let y = values.go(self, &sizes, &mut state);
        finish(scalar_bytes(v.ty.dtype, &y)?, rest, &state)
    }
}

/// What a recurrence goes over.
pub(super) struct Values {
    pub q: Vec<f64>,
    pub k: Vec<f64>,
    pub v: Vec<f64>,
    pub g: Vec<f64>,
    pub beta: Vec<f64>,
    /// A gate for each row of a head's matrix.
    pub wide_gate: bool,
}

/// How much of everything there is.
pub(super) struct Sizes {
    pub batch: usize,
    pub rows: usize,
    /// Rows before `len`.
    pub real: usize,
    pub k_heads: usize,
    pub heads: usize,
    /// Numbers of a key.
    pub n: usize,
    /// Numbers of a value.
    pub width: usize,
}

impl Values {
    /// The result, of which rows from `real` on are zeros; changes the state.
    pub fn go(&self, op: &GatedDeltaNet, of: &Sizes, state: &mut [f64]) -> Vec<f64> {
        let &Sizes { batch, rows, real, k_heads, heads, n, width } = of;
        let root = math::sqrt(n as f64);
        let mut y = vec![0.0; self.v.len()];
        for (b, h) in (0..batch * heads).map(|i| (i / heads, i % heads)) {
            let m = &mut state[(b * heads + h) * n * width..][..n * width];
            for i in 0..real {
                let position = b * rows + i;
                let from = (position * k_heads + op.key_head(h, k_heads, heads)) * n;
                let (q, k) = (&self.q[from..][..n], &self.k[from..][..n]);
                let at = position * heads + h;
                let v = &self.v[at * width..][..width];
                for (r, row) in m.chunks_exact_mut(width.max(1)).enumerate() {
                    let g = if self.wide_gate { self.g[at * n + r] } else { self.g[at] };
                    let decay = math::exp(g);
                    row.iter_mut().for_each(|x| *x *= decay);
                }
                for c in 0..width {
                    let kept: f64 = (0..n).map(|r| m[r * width + c] * k[r]).sum();
                    let d = self.beta[at] * (v[c] - kept);
                    for r in 0..n {
                        m[r * width + c] += k[r] * d;
                    }
                    let read: f64 = (0..n).map(|r| m[r * width + c] * q[r]).sum();
                    y[at * width + c] = read / root;
                }
            }
        }
        y
    }
}

/// What a recurrence of `n` numbers starts from, and how many of `s` positions are real.
pub(crate) fn carried(rest: &[View<'_>], n: usize, s: usize) -> Result<(Vec<f64>, usize)> {
    let state = match rest.first() {
        Some(state) => state.f64s()?,
        None => vec![0.0; n],
    };
    let real = match rest.get(1) {
        Some(ctl) => (ctl.control()?.len as usize).min(s),
        None => s,
    };
    Ok((state, real))
}

/// Results of a recurrence: what it gave, and its state if it has one. A control block that is
/// done leaves that as it was.
pub(crate) fn finish(y: Vec<u8>, rest: &[View<'_>], state: &[f64]) -> Result<Vec<Vec<u8>>> {
    let done = match rest.get(1) {
        Some(ctl) => ctl.control()?.done != control::RUNNING,
        None => false,
    };
    Ok(match rest.first() {
        None => vec![y],
        Some(before) if done => vec![y, before.bytes.to_vec()],
        Some(before) => vec![y, scalar_bytes(before.ty.dtype, state)?],
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::GatedDeltaNet;
    use crate::reference::testing::*;
    use crate::types::DType;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn one_head_of_one_number_follows_the_recurrence_by_hand() {
        // m = 0: d = 0.5 * 4 = 2, m = 2 * 1, y = 2 * 3.
        // Then m = 2 / 2 = 1: d = 1 * (5 - 1 * 2) = 3, m = 1 + 2 * 3 = 7, y = 7 * 1.
        let op = GatedDeltaNet { state_size: 1, ..GatedDeltaNet::default() };
        let column = |x: &[f32]| f32s(&[2, 1, 1], x);
        let (q, k, v) = (column(&[3.0, 1.0]), column(&[1.0, 2.0]), column(&[4.0, 5.0]));
        let g = f32s(&[2, 1], &[0.0, -core::f32::consts::LN_2]);
        let beta = f32s(&[2, 1], &[0.5, 1.0]);
        close(&run1(op, &[&q, &k, &v, &g, &beta]), &[6.0, 7.0]);
    }

    struct Case {
        q: Vec<f32>,
        k: Vec<f32>,
        v: Vec<f32>,
        g: Vec<f32>,
        beta: Vec<f32>,
    }

    /// 5 positions, 2 key heads of 3, 4 value heads of 2.
    fn case() -> Case {
        let positive = |n, seed| noise(n, seed).iter().map(|x| x.abs()).collect::<Vec<f32>>();
        Case {
            q: noise(5 * 2 * 3, 1),
            k: noise(5 * 2 * 3, 2),
            v: noise(5 * 4 * 2, 3),
            g: positive(5 * 4, 4).iter().map(|x| -x).collect(),
            beta: positive(5 * 4, 5),
        }
    }

    /// Positions `from..to` of the case.
    fn part(c: &Case, from: usize, to: usize) -> Vec<Value> {
        let s = (to - from) as u64;
        let cut = |x: &[f32], n: usize| x[from * n..to * n].to_vec();
        vec![
            f32s(&[s, 2, 3], &cut(&c.q, 6)),
            f32s(&[s, 2, 3], &cut(&c.k, 6)),
            f32s(&[s, 4, 2], &cut(&c.v, 8)),
            f32s(&[s, 4], &cut(&c.g, 4)),
            f32s(&[s, 4], &cut(&c.beta, 4)),
        ]
    }

    #[test]
    fn grouped_heads_follow_the_definition() {
        let c = case();
        let mut expected = vec![0.0f64; 40];
        for h in 0..4 {
            let mut m = [[0.0f64; 2]; 3];
            for i in 0..5 {
                let at = (i * 2 + h / 2) * 3;
                let k: Vec<f64> = c.k[at..at + 3].iter().map(|x| f64::from(*x)).collect();
                let q: Vec<f64> = c.q[at..at + 3].iter().map(|x| f64::from(*x)).collect();
                for x in m.iter_mut().flatten() {
                    *x *= f64::from(c.g[i * 4 + h]).exp();
                }
                for col in 0..2 {
                    let kept: f64 = (0..3).map(|r| m[r][col] * k[r]).sum();
                    let at = (i * 4 + h) * 2 + col;
                    let d = (f64::from(c.v[at]) - kept) * f64::from(c.beta[i * 4 + h]);
                    (0..3).for_each(|r| m[r][col] += k[r] * d);
                    expected[at] = (0..3).map(|r| m[r][col] * q[r]).sum::<f64>() / 3f64.sqrt();
                }
            }
        }
        let op = GatedDeltaNet { state_size: 3, ..GatedDeltaNet::default() };
        close(&run1(op, &part(&c, 0, 5).iter().collect::<Vec<_>>()), &expected);
    }

    #[test]
    fn a_state_carries_from_one_call_to_the_next_and_rows_from_len_on_leave_it_alone() {
        let c = case();
        let op = GatedDeltaNet { state_size: 3, carry: true, tiled: false };
        let call = |values: Vec<Value>, state: &Value, ctl: Value| {
            let mut operands: Vec<&Value> = values.iter().collect();
            operands.extend([state, &ctl]);
            run(op.clone(), &operands)
        };
        let zero = cache(DType::F32, &[4, 3, 2], &[0.0; 24]);
        let whole = call(part(&c, 0, 5), &zero, control(0, 5, 0));
        // The first call has 4 rows, of which 2 are real.
        let first = call(part(&c, 0, 4), &zero, control(0, 2, 0));
        let second = call(part(&c, 2, 5), &first[1], control(2, 3, 0));
        let wide = |x: Vec<f32>| x.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
        close(&second[0].f32s(), &wide(whole[0].f32s())[16..]);
        close(&second[1].f32s(), &wide(whole[1].f32s()));
        assert_eq!(first[0].f32s()[16..], [0.0; 16], "rows from len on");
        let done = call(part(&c, 0, 5), &first[1], control(2, 5, 1));
        assert_eq!(done[1].bytes, first[1].bytes, "a block that is done");
    }

    #[test]
    fn a_gate_for_each_row_with_equal_numbers_is_the_gate_of_the_head() {
        let c = case();
        let op = GatedDeltaNet { state_size: 3, ..GatedDeltaNet::default() };
        let mut values = part(&c, 0, 5);
        let y = run(op.clone(), &values.iter().collect::<Vec<_>>());
        let wide: Vec<f32> = c.g.iter().flat_map(|g| [*g; 3]).collect();
        values[3] = f32s(&[5, 4, 3], &wide);
        assert_eq!(run(op, &values.iter().collect::<Vec<_>>()), y);
    }

    #[test]
    fn operands_that_do_not_fit_are_named_with_their_shapes() {
        let c = case();
        let mut values = part(&c, 0, 5);
        values[4] = f32s(&[5, 2], &[0.0; 10]);
        let op = GatedDeltaNet { state_size: 3, ..GatedDeltaNet::default() };
        let e = fails(op.clone(), &values.iter().collect::<Vec<_>>());
        assert!(e.what.contains("v is tensor<5x4x2xf32>"), "{e}");
        assert!(e.what.contains("beta is tensor<5x2xf32>; expected"), "{e}");
        let carry = GatedDeltaNet { carry: true, ..op };
        let e = fails(carry, &part(&c, 0, 5).iter().collect::<Vec<_>>());
        assert!(e.what.starts_with("gated_delta_net takes 7 operands"), "{e}");
    }
}
