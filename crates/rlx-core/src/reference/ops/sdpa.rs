//! Attention without a cache.

use crate::error::{Error, Result};
use crate::math;
use crate::ops::{HeadLayout, Mask, Sdpa};
use crate::reference::view::{dot, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;
use core::convert::identity;

impl Run for Sdpa {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [q, k, v, mask @ ..] = operands else { return Err(arity("sdpa")) };
        let sizes = |view: &View<'_>, heads: usize, width: usize| -> Result<[usize; 2]> {
            let dims = self.batch_and_sequence(view.ty, heads, width);
            let [b, s] = dims.ok_or_else(|| Error::internal("sdpa: an operand without heads"))?;
            let known = b.as_static().zip(s.as_static());
            let (b, s) = known.ok_or_else(|| Error::bad_graph("sdpa: an unbound size"))?;
            Ok([b as usize, s as usize])
        };
        let [batch, s_q] = sizes(q, self.heads, self.head_dim)?;
        let [_, s_k] = sizes(k, self.kv_heads, self.head_dim)?;
        let (e, width, group) = (self.head_dim, self.v_head_dim, self.heads / self.kv_heads.max(1));
        let row = |b: usize, s: usize, h: usize, of_s: usize, of_h: usize| match self.layout {
            HeadLayout::Bshd => (b * of_s + s) * of_h + h,
            HeadLayout::Bhsd => (b * of_h + h) * of_s + s,
        };
        let masks = mask.iter().map(|mask| Ok((mask.sizes()?, mask.f64s()?)));
        let masks: Vec<(Vec<usize>, Vec<f64>)> = masks.collect::<Result<_>>()?;
        let (q_all, k_all, v_all) = (q.f64s()?, k.f64s()?, v.f64s()?);
        let mut y = vec![0.0; batch * s_q * self.heads * width];
        for b in 0..batch {
            for h in 0..self.heads {
                for i in 0..s_q {
                    let at = row(b, i, h, s_q, self.heads);
                    let query = &q_all[at * e..][..e];
                    let score = |j: usize| {
                        let key = &k_all[row(b, j, h / group, s_k, self.kv_heads) * e..][..e];
                        capped(self.score_scale() * dot(query, key), self.softcap)
                    };
                    let scores = (0..s_k).map(|j| match (&self.mask, masks.as_slice()) {
                        (Mask::Custom, [(_, valid)]) if valid[b * s_k + j] < 0.5 => {
                            f64::NEG_INFINITY
                        }
                        (Mask::Bias, [(sizes, bias)]) => {
                            score(j) + bias[repeated(sizes, [b, h, i, j])]
                        }
                        (Mask::Grid, [(of_rows, rows), (of_columns, columns)]) => {
                            let (r, c) = (j / of_columns[3], j % of_columns[3]);
                            score(j)
                                + rows[repeated(of_rows, [b, h, i, r])]
                                + columns[repeated(of_columns, [b, h, i, c])]
                        }
                        _ if sees(self.mask, (s_k + i).saturating_sub(s_q), j) => score(j),
                        _ => f64::NEG_INFINITY,
                    });
                    let scores: Vec<f64> = scores.collect();
                    let value = |j: usize| row(b, j, h / group, s_k, self.kv_heads) * width;
                    let out = &mut y[at * width..][..width];
                    weighted(&scores, identity, |j| &v_all[value(j)..][..width], out);
                }
            }
        }
        Ok(vec![scalar_bytes(q.ty.dtype, &y)?])
    }
}

/// Whether a query at position `p` sees key `j`, as far as positions say.
fn sees(mask: Mask, p: usize, j: usize) -> bool {
    match mask {
        Mask::Causal => j <= p,
        Mask::Window(w) => j <= p && (p - j) as u64 <= w,
        _ => true,
    }
}

/// Where an index of an operand stands whose axes of size 1 repeat.
fn repeated(sizes: &[usize], index: [usize; 4]) -> usize {
    let pairs = sizes.iter().zip(index);
    pairs.fold(0, |at, (&n, i)| at * n + if n == 1 { 0 } else { i })
}

/// A score within the bound, if there is one.
pub(crate) fn capped(score: f64, softcap: Option<f32>) -> f64 {
    match softcap.map(f64::from) {
        Some(cap) => cap * math::tanh(score / cap),
        None => score,
    }
}

/// `softmax(scores) v`, whose weights are `rounded` before they are multiplied; zeros when no score is above minus
/// infinity.
pub(crate) fn weighted<'a>(
    scores: &[f64],
    rounded: fn(f64) -> f64,
    v: impl Fn(usize) -> &'a [f64],
    out: &mut [f64],
) {
    let largest = scores.iter().fold(f64::NEG_INFINITY, |m, s| m.max(*s));
    out.fill(0.0);
    if largest == f64::NEG_INFINITY {
        return;
    }
    let mut total = 0.0;
    for (j, score) in
        scores.iter().enumerate().filter(|(_, s)| **s > f64::NEG_INFINITY || s.is_nan())
    {
        let weight = math::exp(score - largest);
        total += weight;
        let weight = rounded(weight);
        for (sum, v) in out.iter_mut().zip(v(j)) {
            *sum += weight * v;
        }
    }
    out.iter_mut().for_each(|sum| *sum /= total);
}

#[cfg(test)]
mod tests {
    use crate::ops::{HeadLayout, Mask, Sdpa};
    use crate::reference::testing::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    /// One head of width 1 whose scores are all equal, so that the result is the mean of the
    /// values that are seen: values are 1, 2, 4, 8.
    fn mean(mask: Mask, s_q: usize, with: &[&Value]) -> Vec<f32> {
        let op = Sdpa { mask, ..Sdpa::new(1, 1) };
        let q = f32s(&[1, s_q as u64, 1, 1], &alloc::vec![0.0; s_q]);
        let k = f32s(&[1, 4, 1, 1], &noise(4, 1));
        let v = f32s(&[1, 4, 1, 1], &[1.0, 2.0, 4.0, 8.0]);
        run1(op, &[&[&q, &k, &v], with].concat())
    }

    #[test]
    fn causal_queries_are_the_last_positions() {
        assert_eq!(mean(Mask::Causal, 4, &[]), [1.0, 1.5, 7.0 / 3.0, 3.75]);
        assert_eq!(mean(Mask::Causal, 2, &[]), [7.0 / 3.0, 3.75]);
        assert_eq!(mean(Mask::None, 2, &[]), [3.75, 3.75]);
    }

    #[test]
    fn a_window_of_w_sees_the_position_and_w_before_it() {
        assert_eq!(mean(Mask::Window(1), 4, &[]), [1.0, 1.5, 3.0, 6.0]);
        assert_eq!(mean(Mask::Window(0), 2, &[]), [4.0, 8.0]);
        assert_eq!(mean(Mask::Window(99), 4, &[]), mean(Mask::Causal, 4, &[]));
    }

    #[test]
    fn custom_masks_ignore_keys_below_a_half_and_a_query_that_sees_none_gives_zero() {
        assert_eq!(mean(Mask::Custom, 1, &[&f32s(&[1, 4], &[1.0, 0.4, 0.5, 0.0])]), [2.5]);
        assert_eq!(mean(Mask::Custom, 2, &[&f32s(&[1, 4], &[0.0; 4])]), [0.0, 0.0]);
    }

    #[test]
    fn a_bias_is_added_to_the_scores_and_its_axes_of_one_repeat() {
        let inf = f32::NEG_INFINITY;
        let bias = f32s(&[1, 1, 1, 4], &[inf, 0.0, 0.0, inf]);
        assert_eq!(mean(Mask::Bias, 2, &[&bias]), [3.0, 3.0]);
        let bias = f32s(&[1, 1, 2, 4], &[inf, inf, inf, inf, 2f32.ln(), inf, 0.0, inf]);
        let y = mean(Mask::Bias, 2, &[&bias]);
        close(&y, &[0.0, 2.0]);
    }

    #[test]
    fn a_grid_adds_what_rows_and_columns_have() {
        // Keys are two rows of two: values 1, 2 and 4, 8.
        let (rows, columns) = (f32s(&[1, 1, 1, 2], &[0.0, 2f32.ln()]), [f32::NEG_INFINITY, 0.0]);
        let y = mean(Mask::Grid, 1, &[&rows, &f32s(&[1, 1, 1, 2], &columns)]);
        close(&y, &[(2.0 + 2.0 * 8.0) / 3.0]);
        let zeros = |d: &[u64]| f32s(d, &alloc::vec![0.0; d.iter().product::<u64>() as usize]);
        let (one, four, odd) = (zeros(&[1, 1, 1, 1]), zeros(&[1, 4, 1, 1]), zeros(&[1, 1, 1, 3]));
        let op = Sdpa { mask: Mask::Grid, ..Sdpa::new(1, 1) };
        let e = fails(op, &[&one, &four, &four, &rows, &odd]);
        assert!(e.what.ends_with("[1x1x1xR] and [1x1x1xC], and R C = 4 keys"), "{e}");
    }

    #[test]
    fn grouped_heads_layouts_and_folded_heads_agree_with_the_definition() {
        let (b, s_q, s_k, h, kv, e, w) = (2, 3, 5, 4, 2, 3, 2);
        let (q, k, v) =
            (noise(b * s_q * h * e, 1), noise(b * s_k * kv * e, 2), noise(b * s_k * kv * w, 3));
        let op = Sdpa {
            kv_heads: kv,
            v_head_dim: w,
            mask: Mask::Causal,
            scale: Some(0.7),
            softcap: Some(0.5),
            ..Sdpa::new(h, e)
        };
        let mut expected = Vec::new();
        for (n, i, head) in (0..b * s_q * h).map(|n| (n / (s_q * h), n / h % s_q, n % h)) {
            let score = |j: usize| {
                let key = ((n * s_k + j) * kv + head / 2) * e;
                let query = ((n * s_q + i) * h + head) * e;
                let s: f64 = (0..e).map(|c| f64::from(q[query + c]) * f64::from(k[key + c])).sum();
                (0.5 * (f64::from(0.7f32) * s / 0.5).tanh()).exp()
            };
            let seen = 0..=s_k - s_q + i;
            let total: f64 = seen.clone().map(score).sum();
            for c in 0..w {
                let value = |j: usize| f64::from(v[((n * s_k + j) * kv + head / 2) * w + c]);
                expected.push(seen.clone().map(|j| score(j) * value(j)).sum::<f64>() / total);
            }
        }
        let d = |dims: &[usize]| dims.iter().map(|&n| n as u64).collect::<Vec<u64>>();
        let four = [
            f32s(&d(&[b, s_q, h, e]), &q),
            f32s(&d(&[b, s_k, kv, e]), &k),
            f32s(&d(&[b, s_k, kv, w]), &v),
        ];
        let y = &run(op.clone(), &[&four[0], &four[1], &four[2]])[0];
        assert_eq!(y.ty.to_string(), "tensor<2x3x4x2xf32>");
        close(&y.f32s(), &expected);
        let three = [
            f32s(&d(&[b, s_q, h * e]), &q),
            f32s(&d(&[b, s_k, kv * e]), &k),
            f32s(&d(&[b, s_k, kv * w]), &v),
        ];
        let folded = &run(op.clone(), &[&three[0], &three[1], &three[2]])[0];
        assert_eq!(
            (folded.ty.to_string().as_str(), &folded.bytes),
            ("tensor<2x3x8xf32>", &y.bytes)
        );
        // The same with heads outside positions.
        let turn = |x: &[f32], s: usize, h: usize, e: usize| {
            let mut out = Vec::new();
            for (n, head, i) in (0..b * h * s).map(|n| (n / (h * s), n / s % h, n % s)) {
                out.extend_from_slice(&x[((n * s + i) * h + head) * e..][..e]);
            }
            f32s(&d(&[b, h, s, e]), &out)
        };
        let op = Sdpa { layout: HeadLayout::Bhsd, ..op };
        let turned =
            run1(op, &[&turn(&q, s_q, h, e), &turn(&k, s_k, kv, e), &turn(&v, s_k, kv, w)]);
        assert_eq!(turned, turn(&y.f32s(), s_q, h, w).f32s());
    }

    #[test]
    fn shapes_that_do_not_fit_are_named() {
        let zeros = |d: &[u64]| f32s(d, &alloc::vec![0.0; d.iter().product::<u64>() as usize]);
        let fail =
            |op: Sdpa, q: &[u64], k: &[u64]| fails(op, &[&zeros(q), &zeros(k), &zeros(k)]).what;
        assert_eq!(
            fail(Sdpa::new(2, 3), &[1, 4, 2, 3], &[1, 5, 2, 4]),
            "sdpa: q is tensor<1x4x2x3xf32>, k is tensor<1x5x2x4xf32>, v is tensor<1x5x2x4xf32>; \
             expected [B, S, H, E] or [B, S, H * E] with 2 and 2 heads of 3 (values 3), one batch, \
             and as many values as keys"
        );
        let causal = Sdpa { mask: Mask::Causal, ..Sdpa::new(2, 3) };
        assert!(fail(causal, &[1, 4, 2, 3], &[1, 3, 2, 3]).contains("at least as many keys"));
        let odd = Sdpa { kv_heads: 3, ..Sdpa::new(4, 1) };
        assert!(fail(odd, &[1, 1, 4, 1], &[1, 1, 3, 1]).contains("4 query heads on 3 key heads"));
        let custom = Sdpa { mask: Mask::Custom, ..Sdpa::new(1, 1) };
        let one = zeros(&[1, 2, 1, 1]);
        let e = fails(custom, &[&one, &one, &one, &zeros(&[1, 3])]);
        assert!(e.what.starts_with("sdpa: mask is tensor<1x3xf32>, expected [1x2]"), "{e}");
    }
}
