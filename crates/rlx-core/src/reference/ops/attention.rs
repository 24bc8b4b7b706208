//! Attention over a cache, one softmax a row and head.

use super::matmul::to_11_bits;
use super::sdpa::{capped, weighted};
use crate::error::{Error, Result};
use crate::math;
use crate::ops::Attention;
use crate::reference::view::{dot, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::convert::identity;
use core::ops::Range;

impl Run for Attention {
    /// Rows from `len` on are NaN, so that whoever reads one shows.
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [q, kcache, vcache, ctl, sinks @ ..] = operands else { return Err(arity("attention")) };
        let sinks = sinks.first().map(View::f64s).transpose()?;
        let (ctl, dtype) = (ctl.control()?, q.ty.dtype);
        let [rows, width] = q.dims()?;
        let [kv_heads, capacity, head_dim] = kcache.dims()?;
        let mut q = q.f64s()?;
        if self.half {
            q.iter_mut().for_each(|x| *x = f64::from(to_11_bits(*x as f32)));
        }
        let mut y = vec![f64::NAN; q.len()];
        if width == 0 {
            return Ok(vec![scalar_bytes(dtype, &y)?]);
        }
        let heads = width / head_dim;
        let group = heads / kv_heads;
        let rows = (ctl.len as usize).min(rows);
        // Every row of this submission is in the cache by now.
        let most = match rows {
            0 => 0,
            rows if self.ring => (ctl.past as usize).saturating_add(rows),
            rows => (ctl.past as usize).saturating_add(rows).min(capacity),
        };
        // A ring has the last ones.
        let least = most.saturating_sub(capacity);
        let (mut k, mut v) =
            (vec![0.0; (most - least) * head_dim], vec![0.0; (most - least) * head_dim]);
        for kv_head in 0..kv_heads {
            for p in least..most {
                let range = (p - least) * head_dim..(p - least + 1) * head_dim;
                kcache.row_f64(kv_head * capacity + p % capacity, &mut k[range.clone()])?;
                vcache.row_f64(kv_head * capacity + p % capacity, &mut v[range])?;
            }
            for head in kv_head * group..(kv_head + 1) * group {
                for i in 0..rows {
                    let at = i * width + head * head_dim;
                    let position = (ctl.past as usize).saturating_add(i);
                    let Range { start, end } = self.seen(position, most);
                    if start < least {
                        let what = format!("a ring of {capacity} positions has none of {start}");
                        return Err(Error::internal(what));
                    }
                    let seen = (start - least) * head_dim..(end - least) * head_dim;
                    one(
                        self,
                        &q[at..][..head_dim],
                        &k[seen.clone()],
                        &v[seen],
                        sinks.as_ref().map(|sinks| sinks[head]),
                        &mut y[at..][..head_dim],
                    );
                }
            }
        }
        Ok(vec![scalar_bytes(dtype, &y)?])
    }
}

/// The score of a query and a key.
pub(super) fn score(op: &Attention, q: &[f64], k: &[f64]) -> f64 {
    capped(f64::from(op.scale) * dot(q, k), op.softcap)
}

/// One row of one head over the rows it sees.
fn one(op: &Attention, q: &[f64], k: &[f64], v: &[f64], sink: Option<f64>, y: &mut [f64]) {
    let mut scores: Vec<f64> = k.chunks_exact(q.len()).map(|k| score(op, q, k)).collect();
    scores.extend(sink);
    let nothing = vec![0.0; q.len()];
    let values = |j: usize| v.get(j * q.len()..(j + 1) * q.len()).unwrap_or(&nothing);
    weighted(&scores, if op.half { rounded_to_half } else { identity }, values, y);
}

/// A weight as an f16 has it.
fn rounded_to_half(weight: f64) -> f64 {
    math::to_f16(weight).to_f64()
}

#[cfg(test)]
mod tests {
    use crate::ops::{Attention, HeadLayout, Mask, Sdpa};
    use crate::reference::testing::*;
    use crate::reference::view::scalar_bytes;
    use crate::types::{DType, Scalar, Type};
    use alloc::vec::Vec;

    /// The definition: `softmax(scale q k^T) v` without a maximum taken out.
    fn direct(q: &[f32], k: &[f32], v: &[f32], scale: f64, positions: usize) -> Vec<f64> {
        let e = q.len();
        let weight = |p: usize| {
            let score: f64 =
                (0..e).map(|j| f64::from(q[j]) * f64::from(k[p * e + j])).sum::<f64>() * scale;
            score.exp()
        };
        let total: f64 = (0..positions).map(weight).sum();
        (0..e)
            .map(|j| {
                (0..positions).map(|p| weight(p) * f64::from(v[p * e + j])).sum::<f64>() / total
            })
            .collect()
    }

    #[test]
    fn grouped_heads_see_their_past_and_nothing_after() {
        // 4 query heads on 2 key heads of 3, capacity 8; past 2, 3 rows of which 2 are real.
        let (s, h, k_heads, c, e) = (3, 4, 2, 8, 3);
        let q = noise(s * h * e, 1);
        for dtype in [DType::F32, DType::F16] {
            let mut k = noise(k_heads * c * e, 2);
            let mut v = noise(k_heads * c * e, 3);
            if dtype == DType::F16 {
                for x in k.iter_mut().chain(&mut v) {
                    *x = half::f16::from_f32(*x).to_f32();
                }
            }
            // Rows that nobody may see.
            for head in 0..k_heads {
                for p in 4..c {
                    v[(head * c + p) * e..][..e].fill(f32::NAN);
                }
            }
            let dims = [k_heads as u64, c as u64, e as u64];
            let y = run1(
                Attention::causal(e, 0.7),
                &[
                    &f32s(&[s as u64, (h * e) as u64], &q),
                    &cache(dtype, &dims, &k),
                    &cache(dtype, &dims, &v),
                    &control(2, 2, 0),
                ],
            );
            for i in 0..2 {
                for head in 0..h {
                    let at = (i * h + head) * e;
                    let first = head * k_heads / h * c * e;
                    let expected = direct(
                        &q[at..][..e],
                        &k[first..],
                        &v[first..],
                        f64::from(0.7f32),
                        2 + i + 1,
                    );
                    close(&y[at..][..e], &expected);
                }
            }
            assert!(y[2 * h * e..].iter().all(|v| v.is_nan()), "rows from len on are not computed");
        }
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let q = f32s(&[1, 1], &[1000.0]);
        let k = cache(DType::F32, &[1, 2, 1], &[1000.0, 999.0]);
        let v = cache(DType::F32, &[1, 2, 1], &[5.0, 6.0]);
        let y = run1(Attention::causal(1, 1.0), &[&q, &k, &v, &control(1, 1, 0)]);
        assert_eq!(y, [5.0]);
    }

    #[test]
    fn a_window_of_w_sees_its_row_and_w_before_it() {
        let q = f32s(&[2, 1], &[0.0; 2]);
        let k = cache(DType::F32, &[1, 8, 1], &noise(8, 1));
        let v = cache(DType::F32, &[1, 8, 1], &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);
        let y = |window, past| {
            let op = Attention { window, ..Attention::causal(1, 1.0) };
            run1(op, &[&q, &k, &v, &control(past, 2, 0)])
        };
        assert_eq!(y(Some(1), 3), [6.0, 12.0]);
        assert_eq!(y(Some(0), 3), [8.0, 16.0]);
        assert_eq!(y(Some(100), 3), y(None, 3));
    }

    #[test]
    fn a_ring_is_the_whole_cache_as_far_as_a_row_sees() {
        let (positions, ring, e) = (40, 12, 3);
        let all = [noise(2 * positions * e, 1), noise(2 * positions * e, 2)];
        let q = f32s(&[4, 12], &noise(48, 3));
        for (past, len) in [(0u32, 4u32), (7, 4), (11, 3), (30, 4), (36, 1)] {
            let held = (past + len) as usize;
            let part = |all: &[f32]| {
                let mut rows = alloc::vec![f32::NAN; 2 * ring * e];
                for (head, p) in (0..2).flat_map(|h| (0..held).map(move |p| (h, p))) {
                    let row = &all[(head * positions + p) * e..][..e];
                    rows[(head * ring + p % ring) * e..][..e].copy_from_slice(row);
                }
                cache(DType::F32, &[2, ring as u64, e as u64], &rows)
            };
            let whole = all.each_ref().map(|x| cache(DType::F32, &[2, positions as u64, 3], x));
            let rings = all.each_ref().map(|x| part(x));
            for window in [0, 5, 8] {
                let op = Attention { window: Some(window), ..Attention::causal(e, 0.7) };
                let ctl = control(past, len, 0);
                let want = run1(op.clone(), &[&q, &whole[0], &whole[1], &ctl]);
                let got = run1(Attention { ring: true, ..op }, &[&q, &rings[0], &rings[1], &ctl]);
                let real = len as usize * 12;
                assert_eq!(got[..real], want[..real], "{window} before {past}");
            }
        }
    }

    #[test]
    fn a_ring_that_is_too_short_and_one_without_a_window_are_errors() {
        let (q, k) = (f32s(&[2, 1], &[0.0; 2]), cache(DType::F32, &[1, 8, 1], &[0.0; 8]));
        let op = |window| Attention { window, ring: true, ..Attention::causal(1, 1.0) };
        let e = fails(op(Some(7)), &[&q, &k, &k, &control(20, 2, 0)]);
        assert_eq!(e.what, "a ring of 8 positions has none of 13");
        let e = fails(op(None), &[&q, &k, &k, &control(20, 2, 0)]);
        assert_eq!(e.what, "attention: a ring of positions needs a window, and no blocks");
    }

    #[test]
    fn a_block_sees_itself_and_all_before_it_as_far_as_there_are_rows() {
        // Weights are equal, so a row is the mean of what it sees; each position's value is a bit.
        let k = cache(DType::F32, &[1, 16, 1], &[0.0; 16]);
        let bits: Vec<f32> = (0..16).map(|p| (1u32 << p) as f32).collect();
        let v = cache(DType::F32, &[1, 16, 1], &bits);
        let seen = |block, window, past, rows: usize, len| -> Vec<u32> {
            let op = Attention { block, window, ..Attention::causal(1, 1.0) };
            let q = f32s(&[rows as u64, 1], &alloc::vec![0.0; rows]);
            let y = run1(op, &[&q, &k, &v, &control(past, len, 0)]);
            let sums = y.iter().take(len as usize).map(|mean| {
                // As many positions as make the mean of bits a whole sum: they stand one behind the other.
                (1..=16).find_map(|n| {
                    let sum = (mean * n as f32).round() as u32;
                    let exact = (mean * n as f32 - sum as f32).abs() < 0.01;
                    (sum.count_ones() == n && exact).then_some(sum)
                })
            });
            sums.map(|sum| sum.expect("a mean of bits")).collect()
        };
        // Blocks of 4: positions 2 and 3 end one, 4 to 6 are the next, of which no more is there.
        assert_eq!(seen(Some(4), None, 2, 5, 5), [0xf, 0xf, 0x7f, 0x7f, 0x7f]);
        // The same where a row is padding.
        assert_eq!(seen(Some(4), None, 2, 5, 4), [0xf, 0xf, 0x3f, 0x3f]);
        // A window reaches back from a row's own position.
        assert_eq!(seen(Some(4), Some(1), 4, 4, 4), [0xf8, 0xf0, 0xe0, 0xc0]);
        assert_eq!(seen(Some(u64::MAX), None, 0, 3, 3), [7; 3]);
        assert_eq!(seen(Some(1), None, 3, 2, 2), seen(None, None, 3, 2, 2));
    }

    #[test]
    fn a_softcap_bounds_scores_and_it_is_sdpa_over_the_rows_of_the_cache() {
        // 4 query heads on 2 key heads of 3; 3 rows behind 2 of the past.
        let (q, k, v) = (noise(3 * 12, 1), noise(2 * 5 * 3, 2), noise(2 * 5 * 3, 3));
        let big: Vec<f32> = q.iter().map(|x| x * 20.0).collect();
        let op = Attention { softcap: Some(2.0), window: Some(2), ..Attention::causal(3, 0.7) };
        let dims = [2, 5, 3];
        let q = f32s(&[3, 12], &big);
        let (kc, vc) = (cache(DType::F32, &dims, &k), cache(DType::F32, &dims, &v));
        let y = run1(op, &[&q, &kc, &vc, &control(2, 3, 0)]);
        // The same with heads outside positions and no cache.
        let turned: Vec<f32> = (0..4)
            .flat_map(|h| (0..3).flat_map(move |i| (0..3).map(move |e| i * 12 + h * 3 + e)))
            .map(|at| big[at])
            .collect();
        let op = Sdpa {
            kv_heads: 2,
            mask: Mask::Window(2),
            scale: Some(0.7),
            softcap: Some(2.0),
            layout: HeadLayout::Bhsd,
            ..Sdpa::new(4, 3)
        };
        let four = |dims: &[u64], x: &[f32]| f32s(&[&[1], dims].concat(), x);
        let z = run1(op, &[&four(&[4, 3, 3], &turned), &four(&dims, &k), &four(&dims, &v)]);
        for (i, h, e) in (0..36).map(|n| (n / 12, n / 3 % 4, n % 3)) {
            assert_eq!(y[i * 12 + h * 3 + e], z[(h * 3 + i) * 3 + e]);
        }
    }

    #[test]
    fn half_rounds_queries_and_weights_but_not_their_sum() {
        // Two positions of one head of 2, whose values show the weights; the second key is zero.
        let to_half = |x: f64| f64::from(half::f16::from_f64(x));
        let (a, b) = (1.2345678f32, 1e6 + 3.0f32);
        for (q, key) in [(a, [1.0, 0.0, 0.0, 0.0]), (b, [1e-6, 0.0, 0.0, 0.0])] {
            let key = key.map(|k| half::f16::from_f32(k).to_f32());
            let rounded = if q == a { to_half(q.into()) } else { 999_936.0 };
            let scores = [rounded * f64::from(key[0]), 0.0];
            let most = scores[0].max(scores[1]);
            let weights = scores.map(|s| (s - most).exp());
            let caches = [
                cache(DType::F16, &[1, 2, 2], &key),
                cache(DType::F16, &[1, 2, 2], &[1.0, 0.0, 0.0, 1.0]),
            ];
            let op = Attention { half: true, ..Attention::causal(2, 1.0) };
            let q = f32s(&[1, 2], &[q, 0.0]);
            let y = run1(op, &[&q, &caches[0], &caches[1], &control(1, 1, 0)]);
            let want = weights.map(|w| to_half(w) / (weights[0] + weights[1]));
            close(&y, &want);
        }
    }

    #[test]
    fn half_floats_and_caches_of_any_float_type_are_read_wide() {
        let (q, k, v) = (noise(2 * 4, 1), noise(3 * 4, 2), noise(3 * 4, 3));
        let state = |dtype, x: &[f32]| {
            let Value { ty, bytes } = floats(dtype, &[1, 3, 4], x);
            Value { ty: Type::state(ty.dtype, ty.shape), bytes }
        };
        let half = |x: &[f32]| -> Vec<f32> {
            x.iter().map(|v| half::bf16::from_f32(*v).to_f32()).collect()
        };
        let (k, v) = (half(&k), half(&v));
        let op = Attention::causal(4, 0.5);
        let ctl = control(1, 2, 0);
        let q = floats(DType::BF16, &[2, 4], &q);
        let wide = Value {
            ty: Type::tensor(DType::Scalar(Scalar::F64), q.ty.shape.clone()),
            bytes: q.f64s().iter().flat_map(|v| v.to_le_bytes()).collect(),
        };
        let exact = DType::Scalar(Scalar::F64);
        let z = run(op.clone(), &[&wide, &state(exact, &k), &state(exact, &v), &ctl])[0].f64s();
        let y = &run(op, &[&q, &state(DType::BF16, &k), &state(DType::BF16, &v), &ctl])[0];
        assert_eq!((&y.ty, &y.bytes), (&q.ty, &scalar_bytes(DType::BF16, &z).unwrap()));
    }
}
