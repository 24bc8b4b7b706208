//! Causal attention over a cache, one softmax a row and head.

use super::view::{dot, f32_bytes};
use super::{View, arity};
use crate::error::Result;
use crate::math;
use crate::ops::Attention;
use alloc::vec;
use alloc::vec::Vec;

/// Rows from `len` on are NaN, so that whoever reads one shows.
pub(super) fn run(op: &Attention, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [q, kcache, vcache, ctl] = operands else { return Err(arity("attention")) };
    let ctl = ctl.control()?;
    let [rows, width] = q.dims()?;
    let [kv_heads, capacity, head_dim] = kcache.dims()?;
    let q = q.f32s()?;
    let mut y = vec![f32::NAN; q.len()];
    if width == 0 {
        return Ok(vec![f32_bytes(&y)]);
    }
    let heads = width / head_dim;
    let group = heads / kv_heads;
    let rows = (ctl.len as usize).min(rows);
    let visible = |i: usize| (ctl.past as usize).saturating_add(i + 1).min(capacity);
    let most = rows.checked_sub(1).map_or(0, visible);
    let (mut k, mut v) = (vec![0.0; most * head_dim], vec![0.0; most * head_dim]);
    for kv_head in 0..kv_heads {
        for p in 0..most {
            let range = p * head_dim..(p + 1) * head_dim;
            kcache.row(kv_head * capacity + p, &mut k[range.clone()])?;
            vcache.row(kv_head * capacity + p, &mut v[range])?;
        }
        for head in kv_head * group..(kv_head + 1) * group {
            for i in 0..rows {
                let at = i * width + head * head_dim;
                let n = visible(i) * head_dim;
                let out = one(op, &q[at..][..head_dim], &k[..n], &v[..n]);
                y[at..][..head_dim].copy_from_slice(&out);
            }
        }
    }
    Ok(vec![f32_bytes(&y)])
}

/// One row of one head over the rows it sees.
fn one(op: &Attention, q: &[f32], k: &[f32], v: &[f32]) -> Vec<f32> {
    let scores: Vec<f64> =
        k.chunks_exact(q.len()).map(|k| f64::from(op.scale) * dot(q, k)).collect();
    let largest = scores.iter().fold(f64::NEG_INFINITY, |m, s| m.max(*s));
    let (mut total, mut sums) = (0.0, vec![0.0f64; q.len()]);
    for (score, v) in scores.iter().zip(v.chunks_exact(q.len())) {
        let weight = math::exp(score - largest);
        total += weight;
        for (sum, v) in sums.iter_mut().zip(v) {
            *sum += weight * f64::from(*v);
        }
    }
    sums.iter().map(|sum| (sum / total) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::ops::Attention;
    use crate::types::DType;
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
                Attention { head_dim: e, scale: 0.7 },
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
        let y = run1(Attention { head_dim: 1, scale: 1.0 }, &[&q, &k, &v, &control(1, 1, 0)]);
        assert_eq!(y, [5.0]);
    }
}
