//! A search for better orders of the arena's values.
//!
//! Values are packed in an order, each in a gap between those that live at the same time; the arena ends
//! with the highest of them. A change takes the highest value, or a neighbour, and swaps its turn with
//! a value that lives at the same time. Only values whose neighbours moved are packed again, so a change
//! is cheap. A change is kept if the arena does not grow, and now and then if it grows a little.

use super::arena::{Rules, Span};
use crate::order;
use alloc::vec;
use alloc::vec::Vec;

/// How far a search goes: `(looks, percent)`. Until it has looked at this many neighbours, it wants an
/// arena at most this many percent above the largest live set. A look takes some 10 ns, so the search for
/// a model's program takes at most 50 ms.
const PATIENCE: [(u64, u64); 3] = [(1 << 19, 0), (1 << 21, 3), (1 << 22, 8)];
/// The same for more than [`MANY`] values.
const HASTE: [(u64, u64); 3] = [(1 << 18, 0), (5 << 18, 4), (5 << 19, 7)];
const MANY: usize = 1000;
/// Most changes from one starting order.
const CHANGES: usize = 400;
/// Most looks, in units of one packing: a few values that cannot fit better end the search early.
const PACKINGS: u64 = 4096;

/// A random number generator with the same numbers on every machine.
pub(super) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

pub(super) struct Search {
    rules: Rules,
    sizes: Vec<u64>,
    /// Values that live at the same time as value `i`: `near[starts[i]..starts[i + 1]]`.
    starts: Vec<usize>,
    near: Vec<u32>,
    /// A lower bound of the arena.
    least: u64,
    looks: u64,
    rng: Rng,
    /// Offsets and bytes of the best arena so far.
    best: (Vec<u64>, u64),
    /// The starting orders: arena, order, and whether gaps are the tightest.
    tried: Vec<(u64, Vec<usize>, bool)>,
    taken: Vec<(u64, u64)>,
}

/// A packing that is being changed.
struct Packing {
    order: Vec<usize>,
    turn: Vec<usize>,
    offsets: Vec<u64>,
    total: u64,
    tightest: bool,
    /// Values whose neighbours moved.
    dirty: Vec<bool>,
    /// Values that moved, with their old offsets.
    log: Vec<(usize, u64)>,
    /// Values that end highest.
    tops: Vec<usize>,
}

impl Search {
    pub fn new(spans: &[Span], rules: Rules, least: u64) -> Search {
        let n = spans.len();
        let mut begins: Vec<usize> = (0..n).collect();
        order::sort_by_key(&mut begins, |&i| spans[i].from);
        let (mut live, mut pairs): (Vec<usize>, Vec<(u32, u32)>) = Default::default();
        for i in begins {
            live.retain(|&j| spans[j].to >= spans[i].from);
            for &j in &live {
                pairs.push((i as u32, j as u32));
            }
            live.push(i);
        }
        let mut starts = vec![0; n + 1];
        for &(a, b) in &pairs {
            starts[a as usize + 1] += 1;
            starts[b as usize + 1] += 1;
        }
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut near = vec![0; 2 * pairs.len()];
        for (a, b) in pairs {
            for (x, y) in [(a, b), (b, a)] {
                near[next[x as usize]] = y;
                next[x as usize] += 1;
            }
        }
        let sizes = spans.iter().map(|s| rules.slot(s.bytes)).collect();
        Search {
            rules,
            sizes,
            starts,
            near,
            least,
            looks: 0,
            rng: Rng::new(1),
            best: (Vec::new(), u64::MAX),
            tried: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Packs in an order, with both kinds of gaps; true if the best so far is good enough for the work done.
    pub fn start(&mut self, order: &[usize]) -> bool {
        for tightest in [true, false] {
            let packing = self.pack(order.to_vec(), tightest);
            self.tried.push((packing.total, packing.order, tightest));
            if !self.wants_more() {
                return true;
            }
        }
        false
    }

    /// How many neighbours were looked at.
    #[cfg(test)]
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Offsets of the values, and the arena's bytes.
    pub fn best(self) -> (Vec<u64>, u64) {
        self.best
    }

    /// Improves the orders that were tried, the best first.
    pub fn improve(&mut self) {
        order::sort_by_key(&mut self.tried, |t| t.0);
        let tried = core::mem::take(&mut self.tried);
        let mut round = 0;
        while self.wants_more() {
            let Some((_, order, tightest)) = tried.get(round % tried.len().max(1)) else { return };
            let mut packing = self.pack(order.clone(), *tightest);
            for _ in 0..CHANGES {
                if !self.wants_more() {
                    return;
                }
                self.change(&mut packing);
            }
            round += 1;
        }
    }

    fn wants_more(&self) -> bool {
        let levels = if self.sizes.len() > MANY { HASTE } else { PATIENCE };
        let most = (self.near.len() as u64 + 1) * PACKINGS;
        let level = levels.iter().find(|l| self.looks < l.0.min(most));
        level.is_some_and(|l| self.best.1 > self.least + self.least / 100 * l.1)
    }

    fn near(&self, i: usize) -> &[u32] {
        &self.near[self.starts[i]..self.starts[i + 1]]
    }

    /// The offset of value `i` among the values with a turn before `turn`.
    fn gap(
        &mut self,
        i: usize,
        before: usize,
        turn: &[usize],
        offsets: &[u64],
        tight: bool,
    ) -> u64 {
        self.taken.clear();
        let near = &self.near[self.starts[i]..self.starts[i + 1]];
        for &j in near {
            let j = j as usize;
            if turn[j] < before {
                self.taken.push((offsets[j], offsets[j] + self.sizes[j]));
            }
        }
        // Sorting takes a quarter of a look an element and level.
        let n = self.taken.len();
        let sorting = n * n.checked_ilog2().unwrap_or(0) as usize / 4;
        self.looks += (near.len() + sorting) as u64 + 1;
        self.taken.sort_unstable();
        self.rules.gap(&self.taken, self.sizes[i], tight)
    }

    fn pack(&mut self, order: Vec<usize>, tightest: bool) -> Packing {
        let n = order.len();
        let mut turn = vec![0; n];
        for (t, &i) in order.iter().enumerate() {
            turn[i] = t;
        }
        let mut offsets = vec![0; n];
        let mut total = 0;
        for (t, &i) in order.iter().enumerate() {
            offsets[i] = self.gap(i, t, &turn, &offsets, tightest);
            total = total.max(offsets[i] + self.sizes[i]);
        }
        if total < self.best.1 {
            self.best = (offsets.clone(), total);
        }
        let dirty = vec![false; n];
        let log = Vec::new();
        let mut packing =
            Packing { order, turn, offsets, total, tightest, dirty, log, tops: Vec::new() };
        packing.find_tops(&self.sizes);
        packing
    }

    fn change(&mut self, p: &mut Packing) {
        let top = p.tops[self.rng.below(p.tops.len())];
        let pick = |search: &mut Self, of: usize| {
            let n = search.near(of).len();
            // A value without neighbours ends highest only if it is as large as the largest live set.
            (n > 0).then(|| search.rng.below(n)).map_or(of, |k| search.near(of)[k] as usize)
        };
        let a = if self.rng.below(2) == 0 { top } else { pick(self, top) };
        let b = pick(self, a);
        let (x, y) = (p.turn[a].min(p.turn[b]), p.turn[a].max(p.turn[b]));
        let swap = self.rng.below(2) == 0;
        let most = match self.rng.below(8) {
            0 => p.total.max(self.best.1 + self.best.1 / 100),
            _ => p.total,
        };
        // Swap the two turns, or move the later value to the front and shift those between.
        if swap {
            p.order.swap(x, y);
        } else {
            p.order[x..=y].rotate_right(1);
        }
        p.number(x, y);
        self.looks += (p.order.len() - x) as u64 / 8 + 1;
        let moved = [Some(p.order[x]), swap.then_some(p.order[y])];
        for m in moved.into_iter().flatten() {
            p.dirty[m] = true;
            for &j in self.near(m) {
                if (x..=y).contains(&p.turn[j as usize]) {
                    p.dirty[j as usize] = true;
                }
            }
        }
        p.log.clear();
        let mut kept = true;
        for t in x..p.order.len() {
            let i = p.order[t];
            if !core::mem::take(&mut p.dirty[i]) || !kept {
                continue;
            }
            let at = self.gap(i, t, &p.turn, &p.offsets, p.tightest);
            if at == p.offsets[i] {
                continue;
            }
            p.log.push((i, p.offsets[i]));
            p.offsets[i] = at;
            kept = at + self.sizes[i] <= most;
            for &j in self.near(i) {
                if p.turn[j as usize] > t {
                    p.dirty[j as usize] = true;
                }
            }
        }
        if !kept {
            for &(i, at) in p.log.iter().rev() {
                p.offsets[i] = at;
            }
            if swap {
                p.order.swap(x, y);
            } else {
                p.order[x..=y].rotate_left(1);
            }
            p.number(x, y);
        } else if p.log.iter().any(|&(i, at)| at.max(p.offsets[i]) + self.sizes[i] >= p.total) {
            p.find_tops(&self.sizes);
            if p.total < self.best.1 {
                self.best = (p.offsets.clone(), p.total);
            }
        }
    }
}

impl Packing {
    /// Turns of the values from `x` to `y` of the order.
    fn number(&mut self, x: usize, y: usize) {
        for t in x..=y {
            self.turn[self.order[t]] = t;
        }
    }

    fn find_tops(&mut self, sizes: &[u64]) {
        let end = |i: usize| self.offsets[i] + sizes[i];
        self.total = (0..sizes.len()).map(end).max().unwrap_or(0);
        self.tops.clear();
        self.tops.extend((0..sizes.len()).filter(|&i| self.offsets[i] + sizes[i] == self.total));
    }
}
