//! Offsets in the arena: each value at the lowest or the tightest gap that no value of its time
//! holds.
//!
//! Which value is placed first decides how well it goes; the best order is hard to find and easy to
//! recognise, since no arena is smaller than the largest live set. So a few orders are tried, then
//! each is changed: the value that ends highest is placed first, until nothing is gained. A small
//! graph's order is then changed at random.

use super::liveness::Interval;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Slots start at multiples of this many bytes.
pub const ALIGNMENT: u64 = 64;
/// Changes of the best order at most. A program of 100 layers has some 800 values, and placing them
/// takes about a millisecond.
const CHANGES: usize = 64;
/// Values of a graph that is small enough for a walk of [`SWAPS`] steps, some milliseconds.
const SMALL: usize = 96;
const SWAPS: usize = 2000;

fn slot(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGNMENT) * ALIGNMENT
}

/// Offset of each interval, and the arena's bytes.
pub(super) fn place(intervals: &[Interval]) -> (Vec<u64>, u64) {
    let least = largest_live_slots(intervals);
    let length = |i: usize| (intervals[i].to - intervals[i].from + 1) as u64;
    let area = |i: usize| slot(intervals[i].bytes).saturating_mul(length(i));
    let (bytes, from) = (|i: usize| intervals[i].bytes, |i: usize| intervals[i].from);
    let mut orders: [Vec<usize>; 4] = core::array::from_fn(|_| (0..intervals.len()).collect());
    orders[0].sort_by_key(|&i| (Reverse(bytes(i)), from(i)));
    orders[1].sort_by_key(|&i| (Reverse(bytes(i)), Reverse(length(i)), from(i)));
    orders[2].sort_by_key(|&i| (Reverse(area(i)), from(i)));
    orders[3].sort_by_key(|&i| (Reverse(length(i)), Reverse(bytes(i))));
    let mut best = (Vec::new(), u64::MAX);
    let mut attempt = |order: &[usize]| {
        for tightest in [true, false] {
            let placed = pack(intervals, order, tightest);
            if placed.1 < best.1 {
                best = placed;
            }
            if best.1 <= least {
                return Some(core::mem::take(&mut best));
            }
        }
        None
    };
    for order in &orders {
        if let Some(done) = attempt(order) {
            return done;
        }
    }
    for order in &mut orders {
        for _ in 0..CHANGES {
            let (offsets, total) = pack(intervals, order, true);
            let top = |&i: &usize| offsets[i] + slot(bytes(i)) == total;
            // The first of the order that ends highest goes to its front.
            match order.iter().position(top) {
                None | Some(0) => break,
                Some(at) => order[..=at].rotate_right(1),
            }
            if let Some(done) = attempt(order) {
                return done;
            }
        }
    }
    if intervals.len() <= SMALL {
        // A walk that never goes up, the same in every run.
        let [mut order, ..] = orders;
        let (mut now, mut seed) = (u64::MAX, 1u64);
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) as usize) % n
        };
        for _ in 0..SWAPS {
            let (a, b) = (below(order.len()), below(order.len()));
            order.swap(a, b);
            let (_, total) = pack(intervals, &order, true);
            if total > now {
                order.swap(a, b);
                continue;
            }
            if total < now
                && let Some(done) = attempt(&order)
            {
                return done;
            }
            now = total;
        }
    }
    best
}

/// Places the values in that order, in the smallest gap that holds each, or the lowest.
fn pack(intervals: &[Interval], order: &[usize], tightest: bool) -> (Vec<u64>, u64) {
    let mut offsets = vec![0u64; intervals.len()];
    let mut total = 0;
    for (n, &i) in order.iter().enumerate() {
        let me = intervals[i];
        // Slots of the same time, by offset.
        let mut taken: Vec<(u64, u64)> = order[..n]
            .iter()
            .filter(|&&j| intervals[j].from <= me.to && me.from <= intervals[j].to)
            .map(|&j| (offsets[j], offsets[j] + slot(intervals[j].bytes)))
            .collect();
        taken.sort_unstable();
        // Gaps that hold it, else the end.
        let (mut best, mut end) = (None::<(u64, u64)>, 0u64);
        for (from, to) in taken {
            if from > end && from - end >= slot(me.bytes) {
                let gap = if tightest { from - end } else { 0 };
                if best.is_none_or(|(b, _)| gap < b) {
                    best = Some((gap, end));
                }
            }
            end = end.max(to);
        }
        offsets[i] = best.map_or(end, |(_, at)| at);
        total = total.max(offsets[i] + slot(me.bytes));
    }
    (offsets, total)
}

/// The most bytes of slots that are live at one step: no arena is smaller.
fn largest_live_slots(intervals: &[Interval]) -> u64 {
    let live = |step: usize| -> u64 {
        let now = intervals.iter().filter(|i| i.from <= step && step <= i.to);
        now.map(|i| slot(i.bytes)).sum()
    };
    // The live set grows only where a value begins.
    intervals.iter().map(|i| live(i.from)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::mir::ValueId;

    fn interval(bytes: u64, from: usize, to: usize) -> Interval {
        Interval { root: ValueId(0), bytes, from, to }
    }

    #[test]
    fn values_of_one_time_never_overlap_and_others_share() {
        let all =
            [interval(100, 0, 2), interval(200, 1, 3), interval(100, 3, 5), interval(1, 4, 4)];
        let (offsets, total) = place(&all);
        assert_eq!(total, largest_live_slots(&all));
        for (i, a) in all.iter().enumerate() {
            assert_eq!(offsets[i] % ALIGNMENT, 0);
            for (j, b) in all[..i].iter().enumerate() {
                let apart =
                    offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                assert!(apart || a.from > b.to || b.from > a.to, "{i} and {j}");
            }
        }
    }

    #[test]
    fn an_order_is_found_where_largest_first_leaves_a_hole() {
        // Largest first puts the 3-slot value on the 2-slot one that it meets; the value between
        // them in time then fits neither below nor between.
        let s = ALIGNMENT;
        let all = [
            interval(2 * s, 0, 1),
            interval(2 * s, 1, 2),
            interval(s, 2, 4),
            interval(3 * s, 3, 4),
            interval(2 * s, 0, 0),
        ];
        assert_eq!(place(&all).1, largest_live_slots(&all));
    }

    #[test]
    fn nothing_takes_nothing() {
        assert_eq!(place(&[]), (Vec::new(), 0));
    }
}
