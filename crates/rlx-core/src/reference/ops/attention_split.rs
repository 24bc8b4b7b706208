//! Attention over parts of its positions.

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
    /// NaN where there is no row, and in `acc` of several rows where none of a split's scores weighs.
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [q, kcache, vcache, ctl] = operands else { return Err(arity("attention_split")) };
        let ctl = ctl.control()?;
        let [rows, width] = q.dims()?;
        let [kv_heads, capacity, e] = kcache.dims()?;
        let q = q.f64s()?;
        let group = width / e.max(1) / kv_heads.max(1);
        let tile = Self::tile(rows as u64, group as u64) as usize;
        let mut acc = vec![f64::NAN; self.splits * tile * width];
        let mut stats = vec![f32::NAN; 2 * self.splits * tile * kv_heads * group];
        let len = (ctl.len as usize).min(rows);
        let splits = self.splits / len.div_ceil(tile).max(1);
        let past = ctl.past as usize;
        let held = past.saturating_add(len);
        let held = if self.whole.ring { held } else { held.min(capacity) };
        let seen = |row: usize| self.whole.seen(past.saturating_add(row), held);
        for (kv_head, row) in
            (0..kv_heads).flat_map(|kv_head| (0..len).map(move |row| (kv_head, row)))
        {
            let first = row / tile * tile;
            let all = seen(first).start..seen((first + tile).min(len) - 1).end;
            for j in 0..splits {
                let part = self.positions(all.clone(), splits, j);
                let own = seen(row).start.max(part.start)..seen(row).end.min(part.end);
                let (mut k, mut v) = (vec![0.0; own.len() * e], vec![0.0; own.len() * e]);
                for (i, p) in own.enumerate() {
                    let at = kv_head * capacity + p % capacity.max(1);
                    kcache.row_f64(at, &mut k[i * e..][..e])?;
                    vcache.row_f64(at, &mut v[i * e..][..e])?;
                }
                let slot = (kv_head * self.splits + row / tile * splits + j) * tile + row % tile;
                for g in 0..group {
                    let q = &q[row * width + (kv_head * group + g) * e..][..e];
                    let scores: Vec<f64> =
                        k.chunks_exact(e).map(|k| score(&self.whole, q, k)).collect();
                    // Sums are relative to the maximum that is stored.
                    let most = scores.iter().fold(f64::NEG_INFINITY, |m, s| m.max(*s)) as f32;
                    let base = if most == f32::NEG_INFINITY { 0.0 } else { f64::from(most) };
                    let mut sum = 0.0;
                    let acc = &mut acc[(slot * group + g) * e..][..e];
                    let weighed = scores.iter().zip(v.chunks_exact(e));
                    let mut weighed = weighed.filter(|(s, _)| **s != f64::NEG_INFINITY).peekable();
                    if rows == 1 || weighed.peek().is_some() {
                        acc.fill(0.0);
                    }
                    for (score, v) in weighed {
                        let weight = math::exp(score - base);
                        sum += weight;
                        acc.iter_mut().zip(v).for_each(|(acc, v)| *acc += weight * v);
                    }
                    stats[2 * (slot * group + g)..][..2].copy_from_slice(&[most, sum as f32]);
                }
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
    use alloc::vec;
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

    /// Rows that are there weigh what attention weighs, however many of the room for them are there.
    #[test]
    fn the_splits_of_several_rows_joined_are_attention() {
        let (kv, e, c, room) = (2u64, 2u64, 400u64, 40u64);
        let rows = |seed| cache(DType::F16, &[kv, c, e], &noise((kv * c * e) as usize, seed));
        let (k, v) = (rows(2), rows(3));
        let causal = Attention::causal(e as usize, 0.7);
        let near = Attention { window: Some(45), ..causal.clone() };
        let ring = Attention { window: Some(300), ring: true, ..causal.clone() };
        let block = Attention { block: Some(16), softcap: Some(0.5), ..causal.clone() };
        let sinks = Attention { sinks: true, ..causal.clone() };
        for whole in [causal, near, ring, block, sinks] {
            // Tiles of 32, 10, and one row; the fewest splits, and more.
            for (group, splits) in [(1, 2), (1, 9), (3, 4), (3, 21), (40, 40), (40, 100)] {
                let heads = kv * group;
                let q = f32s(&[room, heads * e], &noise((room * heads * e) as usize, 1));
                let sink = f32s(&[heads], &noise(heads as usize, 4));
                for (past, len) in [(0, 1), (0, 40), (200, 3), (310, 11), (355, 40)] {
                    let ctl = control(past, len, 0);
                    let part = Attention { sinks: false, ..whole.clone() };
                    let op = AttentionSplit { whole: part, splits, least: 32 };
                    let parts = run(op, &[&q, &k, &v, &ctl]);
                    let mut operands = vec![&q, &k, &v, &ctl];
                    let mut halves = vec![&parts[0], &parts[1], &q, &ctl];
                    if whole.sinks {
                        operands.push(&sink);
                        halves.push(&sink);
                    }
                    let expected = run(whole.clone(), &operands)[0].f64s();
                    let y = run(AttentionJoin { splits, sinks: whole.sinks }, &halves);
                    assert_eq!(y[0].ty, q.ty);
                    let live = (u64::from(len) * heads * e) as usize;
                    close(&y[0].f32s()[..live], &expected[..live]);
                    assert!(y[0].f32s()[live..].iter().all(|y| y.is_nan()), "rows from len on");
                }
            }
        }
    }

    /// Three rows of a tile of 32 see 70 positions between them, which two splits of two tiles' four share.
    #[test]
    fn a_tile_s_rows_share_splits() {
        let dims = [1, 100, 1];
        let (k, v) = (cache(DType::F32, &dims, &[0.0; 100]), cache(DType::F32, &dims, &[1.0; 100]));
        let q = f32s(&[33, 1], &[1.0; 33]);
        let sums = |len: u32| -> Vec<f32> {
            let op = AttentionSplit { whole: Attention::causal(1, 1.0), splits: 4, least: 32 };
            run(op, &[&q, &k, &v, &control(67, len, 0)])[1]
                .f32s()
                .into_iter()
                .skip(1)
                .step_by(2)
                .collect()
        };
        let of = |sums: &[f32], split: usize| sums[32 * split..][..3].to_vec();
        // One tile has all four splits: 70 positions of which each has 32 at least, and rows see 68, 69 and 70.
        let three = sums(3);
        assert_eq!(of(&three, 0), [32.0; 3]);
        assert_eq!(of(&three, 1), [32.0; 3]);
        assert_eq!(of(&three, 2), [4.0, 5.0, 6.0]);
        assert_eq!(of(&three, 3), [0.0; 3]);
        assert!(three[3].is_nan(), "a row that is not there");
        // Two tiles have two each: halves of 99 and of 100 positions, in whole 32.
        let all = sums(33);
        assert_eq!(of(&all, 0), [64.0; 3]);
        assert_eq!(of(&all, 1), [4.0, 5.0, 6.0]);
        assert_eq!([all[64], all[96]], [64.0, 36.0]);
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
    fn it_takes_rows_of_f32_and_a_split_for_each_tile() {
        let dims = [1, 4, 2];
        let (k, v) = (cache(DType::F32, &dims, &[1.0; 8]), cache(DType::F32, &dims, &[1.0; 8]));
        let ctl = control(1, 1, 0);
        let fails = |splits, q: &Value| {
            let e = fails(split(Attention::causal(2, 1.0), splits), &[q, &k, &v, &ctl]);
            e.what.clone()
        };
        let end = "expected rows of f32 and a split or more for each tile of them";
        assert_eq!(
            fails(2, &f32s(&[65, 2], &[1.0; 130])),
            alloc::format!("attention_split: q is tensor<65x2xf32> in 2 splits, {end}")
        );
        assert_eq!(
            fails(0, &f32s(&[1, 2], &[1.0; 2])),
            alloc::format!("attention_split: q is tensor<1x2xf32> in 0 splits, {end}")
        );
        assert!(fails(2, &halfs(&[1, 2], &[1.0; 2])).ends_with(end));
        assert!(fails(2, &f32s(&[1, 3], &[1.0; 3])).starts_with("attention_split: q is"));
    }
}
