//! Offsets in the arena: largest first, each at the lowest offset that no value of its time holds.

use super::liveness::Interval;
use alloc::vec;
use alloc::vec::Vec;

/// Slots start at multiples of this many bytes.
pub const ALIGNMENT: u64 = 64;

/// Offset of each interval, and the arena's bytes.
pub(super) fn place(intervals: &[Interval]) -> (Vec<u64>, u64) {
    let slot = |bytes: u64| bytes.div_ceil(ALIGNMENT) * ALIGNMENT;
    let mut order: Vec<usize> = (0..intervals.len()).collect();
    order.sort_by_key(|&i| (core::cmp::Reverse(intervals[i].bytes), intervals[i].from));
    let mut offsets = vec![0u64; intervals.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut total = 0;
    for &i in &order {
        let me = intervals[i];
        // Slots of the same time, by offset.
        let mut taken: Vec<(u64, u64)> = placed
            .iter()
            .filter(|&&j| intervals[j].from <= me.to && me.from <= intervals[j].to)
            .map(|&j| (offsets[j], offsets[j] + slot(intervals[j].bytes)))
            .collect();
        taken.sort_unstable();
        // Best fit: the smallest gap that holds it, else the end.
        let (mut best, mut end) = (None::<(u64, u64)>, 0u64);
        for (from, to) in taken {
            if from > end && from - end >= slot(me.bytes) {
                let gap = from - end;
                if best.is_none_or(|(b, _)| gap < b) {
                    best = Some((gap, end));
                }
            }
            end = end.max(to);
        }
        offsets[i] = best.map_or(end, |(_, at)| at);
        total = total.max(offsets[i] + slot(me.bytes));
        placed.push(i);
    }
    (offsets, total)
}
