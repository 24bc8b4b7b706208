//! One row's attention over parts of its positions.

use super::attention::score;
use crate::error::Result;
use crate::math;
use crate::ops::AttentionSplit;
use crate::reference::view::{f32_bytes, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

impl Run for AttentionSplit {
    /// NaN where there is no row.
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [q, kcache, vcache, ctl] = operands else { return Err(arity("attention_split")) };
        let ctl = ctl.control()?;
        let [_, width] = q.dims()?;
        let [kv_heads, capacity, e] = kcache.dims()?;
        let q = q.f64s()?;
        let (group, splits) = (width / e.max(1) / kv_heads.max(1), self.splits);
        let mut acc = vec![f64::NAN; splits * width];
        let mut stats = vec![f32::NAN; 2 * splits * kv_heads * group];
        let past = ctl.past as usize;
        let end = past.saturating_add(1);
        let end = if self.whole.ring { end } else { end.min(capacity) };
        let seen = self.whole.seen(past, end);
        let rows = if ctl.len == 0 { 0 } else { kv_heads * splits };
        for row in 0..rows {
            let (kv_head, own) = (row / splits, self.positions(seen.clone(), row % splits));
            let (mut k, mut v) = (vec![0.0; own.len() * e], vec![0.0; own.len() * e]);
            for (i, p) in own.enumerate() {
                let at = kv_head * capacity + p % capacity.max(1);
                kcache.row_f64(at, &mut k[i * e..][..e])?;
                vcache.row_f64(at, &mut v[i * e..][..e])?;
            }
            for g in 0..group {
                let q = &q[(kv_head * group + g) * e..][..e];
                let scores: Vec<f64> =
                    k.chunks_exact(e).map(|k| score(&self.whole, q, k)).collect();
                // Sums are relative to the maximum that is stored.
                let most = scores.iter().fold(f64::NEG_INFINITY, |m, s| m.max(*s)) as f32;
                let base = if most == f32::NEG_INFINITY { 0.0 } else { f64::from(most) };
                let mut sum = 0.0;
                let acc = &mut acc[(row * group + g) * e..][..e];
                acc.fill(0.0);
                let weighed = scores.iter().zip(v.chunks_exact(e));
                for (score, v) in weighed.filter(|(s, _)| **s != f64::NEG_INFINITY) {
                    let weight = math::exp(score - base);
                    sum += weight;
                    acc.iter_mut().zip(v).for_each(|(acc, v)| *acc += weight * v);
                }
                stats[2 * (row * group + g)..][..2].copy_from_slice(&[most, sum as f32]);
            }
        }
        Ok(vec![scalar_bytes(DType::F32, &acc)?, f32_bytes(&stats)])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Attention, AttentionJoin, AttentionSplit};
    use crate::reference::testing::*;
    use crate::types::DType;
    use alloc::vec::Vec;

    const MIN: u32 = 256;

    fn split(whole: Attention, splits: usize) -> AttentionSplit {
        AttentionSplit { whole, splits, least: MIN as usize }
    }

    #[test]
    fn a_split_has_its_own_maximum_and_sums() {
        // One head of width 1: scores are the keys, 0 but for one of 2 in each split that is not empty.
        let n = 2 * MIN as usize;
        let mut k = alloc::vec![0.0f32; n];
        (k[3], k[n - 1]) = (2.0, 1.0);
        let v: Vec<f32> = (0..n).map(|p| if p < n / 2 { 1.0 } else { 3.0 }).collect();
        let dims = [1, n as u64, 1];
        let operands = [
            &f32s(&[1, 1], &[1.0]),
            &cache(DType::F32, &dims, &k),
            &cache(DType::F32, &dims, &v),
            &control(2 * MIN - 1, 1, 0),
        ];
        let out = run(split(Attention::causal(1, 1.0), 3), &operands);
        let sum = |most: f64| 1.0 + f64::from(MIN - 1) * (-most).exp();
        close(&out[1].f32s()[..4], &[2.0, sum(2.0), 1.0, sum(1.0)]);
        assert_eq!(out[1].f32s()[4..], [f32::NEG_INFINITY, 0.0]);
        close(&out[0].f32s(), &[sum(2.0), 3.0 * sum(1.0), 0.0]);
    }

    #[test]
    fn the_splits_joined_are_attention() {
        let (heads, kv, e, c) = (6, 2, 4, 3 * MIN as u64);
        let q = f32s(&[1, heads * e], &noise((heads * e) as usize, 1));
        let rows = |seed| cache(DType::F16, &[kv, c, e], &noise((kv * c * e) as usize, seed));
        let (k, v) = (rows(2), rows(3));
        for (window, softcap) in [(None, None), (Some(5), None), (Some(400), Some(0.5))] {
            let whole = Attention { window, softcap, ..Attention::causal(e as usize, 0.7) };
            for past in [0, 1, MIN - 1, MIN, 2 * MIN - 1, 2 * MIN, 3 * MIN - 1] {
                let operands = [&q, &k, &v, &control(past, 1, 0)];
                let expected = run(whole.clone(), &operands)[0].f64s();
                for splits in [1, 2, 3, 7] {
                    let parts = run(split(whole.clone(), splits), &operands);
                    let y = run(AttentionJoin { splits, sinks: false }, &[&parts[0], &parts[1]]);
                    assert_eq!(y[0].ty, q.ty);
                    close(&y[0].f32s(), &expected);
                }
            }
        }
    }

    #[test]
    fn numbers_that_are_not_finite_go_where_attentions_do() {
        let c = 2 * MIN as usize;
        let dims = [1, c as u64, 1];
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [3, c - 1] {
                let mut k = alloc::vec![1.0; c];
                k[at] = bad;
                let operands = [
                    &f32s(&[1, 1], &[1.0]),
                    &cache(DType::F32, &dims, &k),
                    &cache(DType::F32, &dims, &noise(c, 1)),
                    &control(c as u32 - 1, 1, 0),
                ];
                let whole = Attention::causal(1, 1.0);
                let parts = run(split(whole.clone(), 2), &operands);
                let y = run1(AttentionJoin { splits: 2, sinks: false }, &[&parts[0], &parts[1]]);
                let expected = run(whole, &operands)[0].f64s();
                assert_eq!(y[0].is_nan(), expected[0].is_nan(), "{bad} at {at}");
                if !y[0].is_nan() {
                    close(&y, &expected);
                }
            }
        }
    }

    #[test]
    fn without_a_row_nothing_is_computed() {
        let dims = [1, 4, 2];
        let (k, v) = (cache(DType::F32, &dims, &[1.0; 8]), cache(DType::F32, &dims, &[1.0; 8]));
        let q = f32s(&[1, 2], &[1.0; 2]);
        let out = run(split(Attention::causal(2, 1.0), 2), &[&q, &k, &v, &control(1, 0, 0)]);
        assert!(out.iter().flat_map(|r| r.f32s()).all(f32::is_nan));
    }

    #[test]
    fn it_takes_one_row_of_f32() {
        let dims = [1, 4, 2];
        let (k, v) = (cache(DType::F32, &dims, &[1.0; 8]), cache(DType::F32, &dims, &[1.0; 8]));
        let ctl = control(1, 1, 0);
        let fails = |splits, q: &Value| {
            let e = fails(split(Attention::causal(2, 1.0), splits), &[q, &k, &v, &ctl]);
            e.what.clone()
        };
        let end = "expected one row of f32 in 1 or more";
        assert_eq!(
            fails(2, &f32s(&[2, 2], &[1.0; 4])),
            alloc::format!("attention_split: q is tensor<2x2xf32> in 2 splits, {end}")
        );
        assert_eq!(
            fails(0, &f32s(&[1, 2], &[1.0; 2])),
            alloc::format!("attention_split: q is tensor<1x2xf32> in 0 splits, {end}")
        );
        assert!(fails(2, &halfs(&[1, 2], &[1.0; 2])).ends_with(end));
        assert!(fails(2, &f32s(&[1, 3], &[1.0; 3])).starts_with("attention_split: q is"));
    }
}
