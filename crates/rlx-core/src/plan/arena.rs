//! Offsets in the arena: each value is in a gap between the values that live at the same time.
//!
//! The arena's size depends on the order in which values are placed. The best order is hard to find but
//! easy to recognise, because no arena is smaller than the largest live set. So a few orders are tried,
//! and [`search`](super::search) improves the good ones. Work is counted, not timed, so a graph gets the
//! same arena on every machine.

use super::search::Search;
pub use crate::ir::lir::ALIGNMENT;
use crate::order;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Most pairs of values that live at the same time for which a table is made. A program of 100 layers has
/// some 5,000; a graph with more pairs than this is packed in one sweep.
const PAIRS: u64 = 1 << 21;

/// A value's bytes, and the steps from its write to its last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub bytes: u64,
    pub from: usize,
    pub to: usize,
}

/// Rules for offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Slots start at multiples of this power of two.
    pub alignment: u64,
    /// No slot crosses a multiple of this, which is a multiple of the alignment. No slot is larger.
    pub segment: Option<u64>,
}

impl Rules {
    /// Bytes of a value's slot.
    pub fn slot(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.alignment) * self.alignment
    }

    /// The first valid start of a slot at or after `at`.
    pub fn shift(&self, at: u64, size: u64) -> u64 {
        match self.segment {
            Some(segment) if at % segment + size > segment => at.div_ceil(segment) * segment,
            _ => at,
        }
    }

    /// The place for `size` bytes between `taken` ranges, sorted by their start: in the smallest
    /// gap that holds them, or in the lowest.
    pub fn gap(&self, taken: &[(u64, u64)], size: u64, tightest: bool) -> u64 {
        let (mut best, mut end) = (None::<(u64, u64)>, 0u64);
        for &(from, to) in taken {
            if from > end {
                let at = self.shift(end, size);
                if at + size <= from {
                    if !tightest {
                        return at;
                    }
                    if best.is_none_or(|(gap, _)| from - end < gap) {
                        best = Some((from - end, at));
                    }
                }
            }
            end = end.max(to);
        }
        best.map_or(self.shift(end, size), |(_, at)| at)
    }
}

/// The offset of each value, and the arena's bytes. The sum of all slots must fit 63 bits, and so must
/// the bytes of as many segments as there are values.
pub(super) fn place(spans: &[Span], rules: Rules) -> (Vec<u64>, u64) {
    let (least, pairs) = live(spans, rules);
    if pairs > PAIRS {
        return sweep(spans, rules);
    }
    searched(spans, rules, least).best()
}

fn searched(spans: &[Span], rules: Rules, least: u64) -> Search {
    let mut search = Search::new(spans, rules, least);
    let length = |i: usize| spans[i].to - spans[i].from + 1;
    let area = |i: usize| rules.slot(spans[i].bytes).saturating_mul(length(i) as u64);
    let (bytes, from) = (|i: usize| spans[i].bytes, |i: usize| spans[i].from);
    let mut orders: [Vec<usize>; 4] = core::array::from_fn(|_| (0..spans.len()).collect());
    order::sort_by_key(&mut orders[0], |&i| (Reverse(bytes(i)), Reverse(length(i)), from(i)));
    order::sort_by_key(&mut orders[1], |&i| (Reverse(area(i)), from(i)));
    order::sort_by_key(&mut orders[2], |&i| (Reverse(length(i)), Reverse(bytes(i)), from(i)));
    order::sort_by_key(&mut orders[3], |&i| (from(i), Reverse(bytes(i))));
    for order in orders {
        if search.start(&order) {
            break;
        }
    }
    search.improve();
    search
}

/// The most bytes of slots that live at one step, which is a lower bound of the arena, and the number of
/// pairs of values that live at the same time.
fn live(spans: &[Span], rules: Rules) -> (u64, u64) {
    let mut begins: Vec<usize> = (0..spans.len()).collect();
    let mut ends = begins.clone();
    order::sort_by_key(&mut begins, |&i| spans[i].from);
    order::sort_by_key(&mut ends, |&i| spans[i].to);
    let mut ends = ends.into_iter().peekable();
    let (mut now, mut count, mut most, mut pairs) = (0u64, 0u64, 0u64, 0u64);
    for i in begins {
        while let Some(dead) = ends.next_if(|&e| spans[e].to < spans[i].from) {
            now -= rules.slot(spans[dead].bytes);
            count -= 1;
        }
        pairs += count;
        count += 1;
        now += rules.slot(spans[i].bytes);
        most = most.max(now);
    }
    (most, pairs)
}

/// Places values in the order in which they are written, each in the tightest gap at that step.
fn sweep(spans: &[Span], rules: Rules) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order::sort_by_key(&mut order, |&i| (spans[i].from, Reverse(spans[i].bytes)));
    let mut offsets = vec![0; spans.len()];
    // The live values, by offset: start, end, last step.
    let mut taken: Vec<(u64, u64)> = Vec::new();
    let mut until: Vec<usize> = Vec::new();
    let (mut total, mut step) = (0, 0);
    for i in order {
        if spans[i].from > step {
            step = spans[i].from;
            let mut alive = until.iter().map(|&to| to >= step);
            taken.retain(|_| alive.next().unwrap_or(true));
            until.retain(|&to| to >= step);
        }
        let size = rules.slot(spans[i].bytes);
        let at = rules.gap(&taken, size, true);
        let k = taken.partition_point(|t| t.0 < at);
        taken.insert(k, (at, at + size));
        until.insert(k, spans[i].to);
        offsets[i] = at;
        total = total.max(at + size);
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Rules = Rules { alignment: ALIGNMENT, segment: None };

    fn span(bytes: u64, from: usize, to: usize) -> Span {
        Span { bytes, from, to }
    }

    /// Fails if two values of one time share a byte, or a value breaks a rule.
    fn proven(spans: &[Span], rules: Rules, (offsets, total): &(Vec<u64>, u64)) {
        for (i, a) in spans.iter().enumerate() {
            let end = offsets[i] + a.bytes;
            assert!(offsets[i].is_multiple_of(rules.alignment) && end <= *total);
            if let (Some(s), true) = (rules.segment, a.bytes > 0) {
                assert_eq!(offsets[i] / s, (end - 1) / s, "{i} crosses a segment");
            }
            for (j, b) in spans[..i].iter().enumerate() {
                let apart = end <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                assert!(apart || a.from > b.to || b.from > a.to, "{i} and {j}");
            }
        }
    }

    fn random(n: usize, spread: u64, seed: u64) -> Vec<Span> {
        let mut rng = super::super::search::Rng::new(seed);
        let mut below = |n: u64| rng.below(n as usize) as u64;
        (0..n)
            .map(|i| span(4 + 4 * below(4096), i, (i + 1 + below(spread) as usize).min(n)))
            .collect()
    }

    #[test]
    fn values_of_one_time_never_overlap_and_others_share() {
        let all = [span(100, 0, 2), span(200, 1, 3), span(100, 3, 5), span(1, 4, 4)];
        let placed = place(&all, PLAIN);
        proven(&all, PLAIN, &placed);
        assert_eq!(placed.1, live(&all, PLAIN).0);
    }

    #[test]
    fn an_order_is_found_where_largest_first_leaves_a_hole() {
        // Largest first puts the 3-slot value on the 2-slot one that it meets; the value between
        // them in time then fits neither below nor between.
        let s = ALIGNMENT;
        let all = [
            span(2 * s, 0, 1),
            span(2 * s, 1, 2),
            span(s, 2, 4),
            span(3 * s, 3, 4),
            span(2 * s, 0, 0),
        ];
        assert_eq!(place(&all, PLAIN).1, live(&all, PLAIN).0);
    }

    #[test]
    fn nothing_takes_nothing() {
        assert_eq!(place(&[], PLAIN), (Vec::new(), 0));
    }

    #[test]
    fn random_values_keep_every_rule() {
        for seed in 0..40 {
            let spans = random(12 + 5 * seed as usize, 12, seed);
            for (alignment, segment) in [(64, None), (256, None), (64, Some(32 << 10))] {
                let rules = Rules { alignment, segment };
                proven(&spans, rules, &place(&spans, rules));
                proven(&spans, rules, &sweep(&spans, rules));
            }
        }
    }

    /// Four million looks and what is begun: some 50 ms in a release build, whatever the graph.
    #[test]
    fn no_search_among_a_thousand_values_looks_longer_than_its_patience() {
        for (n, spread) in [(200, 40), (500, 60), (500, 250), (1000, 40), (1000, 300), (1000, 1000)]
        {
            let spans = random(n, spread, n as u64 + spread);
            let (least, pairs) = live(&spans, PLAIN);
            let search = searched(&spans, PLAIN, least);
            // One packing looks at every pair from both sides, and sorts.
            let packing = 2 * pairs * (1 + 10 / 4) + n as u64;
            assert!(search.looks() <= (1 << 22) + packing, "{n}, {spread}: {}", search.looks());
            proven(&spans, PLAIN, &search.best());
        }
    }

    #[test]
    fn a_graph_of_very_many_long_lives_is_packed_in_one_sweep() {
        let spans = random(3000, 3000, 1);
        assert!(live(&spans, PLAIN).1 > PAIRS);
        proven(&spans, PLAIN, &place(&spans, PLAIN));
    }
}
