//! The rows of attention that their splits make.

use crate::error::Result;
use crate::math;
use crate::ops::{AttentionJoin, AttentionSplit};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

impl Run for AttentionJoin {
    /// Zeros where no score was above minus infinity, as of attention, and NaN in rows from `len` on.
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [acc, stats, ..] = operands else { return Err(arity("attention_join")) };
        let [slots, columns] = acc.dims()?;
        let [_, pairs] = stats.dims()?;
        let (acc, stats) = (acc.f64s()?, stats.f64s()?);
        let group = pairs / 2;
        let (rows, len) = match AttentionJoin::several(operands) {
            Some((q, ctl)) => {
                let [rows, _] = q.dims()?;
                (rows, (ctl.control()?.len as usize).min(rows))
            }
            None => (1, 1),
        };
        let sinks = operands.last().filter(|_| self.sinks).map(View::f64s).transpose()?;
        let tile = AttentionSplit::tile(rows as u64, group as u64) as usize;
        let width = slots / (self.splits * tile).max(1) * columns;
        let splits = self.splits / len.div_ceil(tile).max(1);
        let e = columns / group.max(1);
        let mut y = vec![f64::NAN; rows * width];
        for (i, y) in y.chunks_exact_mut(e.max(1)).take(len * width / e.max(1)).enumerate() {
            y.fill(0.0);
            let (row, h) = (i / (width / e.max(1)), i % (width / e.max(1)));
            // Where the head stands in the rows of its splits.
            let first = h / group * self.splits + row / tile * splits;
            let own =
                (first..first + splits).map(|slot| (slot * tile + row % tile) * group + h % group);
            let sink = sinks.as_ref().map_or(f64::NEG_INFINITY, |sinks| sinks[h]);
            let most = own.clone().fold(sink, |m, at| m.max(stats[2 * at]));
            if most == f64::NEG_INFINITY {
                continue;
            }
            let mut total = math::exp(sink - most);
            for at in own.filter(|at| stats[2 * at] != f64::NEG_INFINITY) {
                let weight = math::exp(stats[2 * at] - most);
                total += weight * stats[2 * at + 1];
                y.iter_mut().zip(&acc[at * e..][..e]).for_each(|(y, acc)| *y += weight * acc);
            }
            y.iter_mut().for_each(|y| *y /= total);
        }
        Ok(vec![scalar_bytes(DType::F32, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::AttentionJoin;
    use crate::reference::testing::*;
    use alloc::string::ToString;

    const NONE: f32 = f32::NEG_INFINITY;

    #[test]
    fn splits_weigh_by_their_maxima() {
        // Two heads of width 2 on one key head, two splits: rows are splits, a row has both heads.
        let acc = f32s(&[2, 4], &[2.0, 4.0, 1.0, 3.0, 8.0, 0.0, 7.0, 7.0]);
        let ln2 = core::f32::consts::LN_2;
        let stats = f32s(&[2, 4], &[0.0, 2.0, 5.0, 2.0, ln2, 1.0, NONE, 0.0]);
        let y = run1(AttentionJoin { splits: 2, sinks: false }, &[&acc, &stats]);
        // exp(-ln 2) of the first split: (1 + 8) / (1 + 1), (2 + 0) / 2; the other head has one split.
        close(&y, &[4.5, 1.0, 0.5, 1.5]);
    }

    #[test]
    fn key_heads_follow_each_other() {
        let acc = f32s(&[4, 1], &[1.0, 1.0, 6.0, 0.0]);
        let stats = f32s(&[4, 2], &[0.0, 1.0, 0.0, 1.0, -3.0, 2.0, NONE, 0.0]);
        let y = run1(AttentionJoin { splits: 2, sinks: false }, &[&acc, &stats]);
        close(&y, &[1.0, 3.0]);
    }

    #[test]
    fn large_maxima_do_not_overflow_and_none_is_zero() {
        let acc = f32s(&[2, 2], &[3.0, 1.0, 1.0, 1.0]);
        let stats = f32s(&[2, 4], &[1e30, 1.0, NONE, 0.0, -1e30, 1.0, NONE, 0.0]);
        let y = run1(AttentionJoin { splits: 2, sinks: false }, &[&acc, &stats]);
        assert_eq!(y, [3.0, 0.0]);
    }

    #[test]
    fn what_are_no_splits_is_refused() {
        let e = fails(
            AttentionJoin { splits: 2, sinks: false },
            &[&f32s(&[3, 4], &[0.0; 12]), &f32s(&[3, 4], &[0.0; 12])],
        );
        assert_eq!(
            e.what,
            "attention_join: acc is tensor<3x4xf32> and stats tensor<3x4xf32>, expected f32 rows of 2 \
             splits with two numbers for each head"
        );
        let rows = fails(
            AttentionJoin { splits: 1, sinks: false },
            &[&f32s(&[2, 4], &[0.0; 8]), &f32s(&[1, 4], &[0.0; 4])],
        );
        assert!(rows.to_string().contains("stats is tensor<1x4xf32>"), "{rows}");
        // Two rows are one tile of 16, of two heads; 32 of acc are one key and value head.
        let (acc, stats) = (f32s(&[32, 4], &[0.0; 128]), f32s(&[32, 4], &[0.0; 128]));
        let (q, ctl) = (f32s(&[2, 2], &[0.0; 4]), control(0, 2, 0));
        let e = fails(AttentionJoin { splits: 2, sinks: false }, &[&acc, &stats, &q, &ctl]);
        assert!(e.what.starts_with("attention_join: q is tensor<2x2xf32>"), "{e}");
        for stats in [&f32s(&[2, 3], &[0.0; 6]), &f32s(&[2, 0], &[])] {
            fails(AttentionJoin { splits: 1, sinks: false }, &[&f32s(&[2, 4], &[0.0; 8]), stats]);
        }
    }
}
