//! Scales that lose least: the search that every encoder shares.
//!
//! What is minimised is the plain sum of squared errors. A rounding `q` of the values gives the scale that
//! is best for it (least squares), and a scale gives its rounding; the two are repeated from some first
//! scales around the one that puts the largest value on the last level. Values come divided by the
//! largest magnitude of their block, so sums neither overflow nor vanish.
//!
//! Sums have eight lanes, so that they are vectors on every machine and the same bits on all.

/// The values that a code can stand for, before its scale.
pub trait Levels {
    /// What the largest magnitude (with its sign) is laid on at first: from, up to, and how many places.
    const PLACES: &'static [(f32, f32, usize)];
    /// The level nearest to `v`.
    fn nearest(v: f32) -> f32;
    /// The code of the level nearest to `v`.
    fn code(v: f32) -> u8;
}

/// Integers from `LO` to `HI`; codes count from `LO`.
pub struct Integers<const LO: i32, const HI: i32>;

/// `v` between two bounds; two instructions, where `clamp` has more for NaN.
fn within(v: f32, lo: f32, hi: f32) -> f32 {
    let v = if v > lo { v } else { lo };
    if v < hi { v } else { hi }
}

/// The nearest integer, halves to even, of a magnitude below 2^22.
pub fn round(v: f32) -> f32 {
    const NO_FRACTION: f32 = 12_582_912.0; // 1.5 * 2^23
    (v + NO_FRACTION) - NO_FRACTION
}

/// The nearest integer in `0..=top`.
pub fn count(v: f32, top: f32) -> f32 {
    round(within(v, 0.0, top))
}

impl<const LO: i32, const HI: i32> Levels for Integers<LO, HI> {
    const PLACES: &'static [(f32, f32, usize)] = &[
        // The last level itself, for values that it holds exactly, then more and less of the range.
        (LO as f32, LO as f32, 1),
        (1.25 * LO as f32 - 0.6, 0.7 * LO as f32, if HI < 16 { 18 } else { 10 }),
        (LO as f32 - 0.6, LO as f32 + 1.5, if HI < 16 { 0 } else { 8 }),
    ];

    fn nearest(v: f32) -> f32 {
        round(within(v, LO as f32, HI as f32))
    }

    fn code(v: f32) -> u8 {
        (Self::nearest(v) as i32 - LO) as u8
    }
}

/// Adds up `f(x, level)` over a run whose length is a multiple of 8, for two sums at once.
fn sums<L: Levels>(x: &[f32], inverse: f32, f: impl Fn(f32, f32) -> (f32, f32)) -> (f32, f32) {
    let (mut a, mut b) = ([0.0f32; 8], [0.0f32; 8]);
    for x in x.as_chunks::<8>().0 {
        for i in 0..8 {
            let (u, v) = f(x[i], L::nearest(x[i] * inverse));
            a[i] += u;
            b[i] += v;
        }
    }
    (total(a), total(b))
}

fn total(a: [f32; 8]) -> f32 {
    ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
}

/// The sum of squared errors of `scale * level`.
pub fn error<L: Levels>(x: &[f32], scale: f32) -> f32 {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    sums::<L>(x, inverse, |x, q| {
        let e = x - scale * q;
        (e * e, 0.0)
    })
    .0
}

/// `sum of x * level` and `sum of level squared` of the levels that `scale` rounds to.
pub fn products<L: Levels>(x: &[f32], scale: f32) -> (f32, f32) {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    sums::<L>(x, inverse, |x, q| (x * q, q * q))
}

/// The value of largest magnitude, with its sign.
pub fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |most: f32, &v| if v.abs() > most.abs() { v } else { most })
}

/// The scale that loses least.
pub fn scale<L: Levels>(x: &[f32]) -> f32 {
    let end = largest(x);
    if end == 0.0 {
        return 0.0;
    }
    // What a scale explains of the sum of squares: (sum of x q)^2 / sum of q^2.
    let mut best = 0.0f32;
    let mut attempt = |inverse: f32| {
        let (xq, qq) = sums::<L>(x, inverse, |x, q| (x * q, q * q));
        let explained = if qq > 0.0 { xq * xq / qq } else { 0.0 };
        let better = explained > best;
        if better {
            best = explained;
        }
        better.then_some(xq / qq)
    };
    let mut found = 0.0;
    for &(from, to, places) in L::PLACES {
        let step = (to - from) / places as f32;
        for place in 0..places {
            found = attempt((from + step * place as f32) / end).unwrap_or(found);
        }
    }
    for _ in 0..4 {
        let Some(better) = attempt(if found == 0.0 { 0.0 } else { 1.0 / found }) else { break };
        found = better;
    }
    found
}

/// A run and what is asked of the line through it: `x` near `scale * q - offset`, `q` in `0..=top`.
pub struct Line<'a> {
    x: &'a [f32],
    sum: f32,
    squares: f32,
    top: f32,
    /// The offset is not negative.
    positive: bool,
}

impl<'a> Line<'a> {
    pub fn new(x: &'a [f32], top: f32, positive: bool) -> Self {
        Self { x, sum: x.iter().sum(), squares: x.iter().map(|v| v * v).sum(), top, positive }
    }

    /// The sum of the run.
    pub fn sum(&self) -> f32 {
        self.sum
    }

    /// Sums of `q`, `q * q` and `x * q` for the rounding that scale and offset give.
    pub fn sums(&self, scale: f32, offset: f32) -> [f32; 3] {
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let mut s = [[0.0f32; 8]; 3];
        for x in self.x.as_chunks::<8>().0 {
            for i in 0..8 {
                let q = count((x[i] + offset) * inverse, self.top);
                s[0][i] += q;
                s[1][i] += q * q;
                s[2][i] += x[i] * q;
            }
        }
        s.map(total)
    }

    /// The sum of squared errors.
    pub fn error(&self, scale: f32, offset: f32) -> f32 {
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let mut s = [0.0f32; 8];
        for x in self.x.as_chunks::<8>().0 {
            for i in 0..8 {
                let moved = x[i] + offset;
                let e = moved - scale * count(moved * inverse, self.top);
                s[i] += e * e;
            }
        }
        total(s)
    }

    /// The line that is best for the rounding of another, and its sum of squared errors under that
    /// rounding, which its own can only lower; `None` where the rounding is all one number.
    fn fitted(&self, scale: f32, offset: f32) -> Option<(f32, (f32, f32))> {
        let [q, qq, xq] = self.sums(scale, offset);
        let n = self.x.len() as f32;
        let spread = n * qq - q * q;
        if spread <= 0.0 {
            return None;
        }
        let scale = (n * xq - self.sum * q) / spread;
        let offset = (scale * q - self.sum) / n;
        let (scale, offset) =
            if self.positive && offset < 0.0 { (xq / qq, 0.0) } else { (scale, offset) };
        // Errors of a best fit are orthogonal to the fit, so their product with x is all of them.
        let error = self.squares + offset * self.sum - scale * xq;
        (scale > 0.0).then_some((error, (scale, offset)))
    }

    /// From the least to the largest value, each exactly on an end. The offset of values that are all
    /// positive is 0 where it may not be negative.
    pub fn ends(&self) -> (f32, f32) {
        let lo = self.x.iter().fold(f32::INFINITY, |a, &b| if b < a { b } else { a });
        let hi = self.x.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        let lo = if self.positive && lo > 0.0 { 0.0 } else { lo };
        if hi > lo { ((hi - lo) / self.top, -lo) } else { (0.0, -lo) }
    }

    /// Scale and offset that lose least.
    pub fn best(&self) -> (f32, f32) {
        let (first, offset) = self.ends();
        if first == 0.0 {
            return (first, offset);
        }
        let (mut bound, mut found) = (self.error(first, offset), (first, offset));
        // A difference of sums near each other has their roundings; a line that is exact stays.
        let noise = 1e-6 * self.squares;
        // Less than the whole range, cut at the lower end, at both, at the upper.
        for k in 0..8 {
            let scale = first * (1.04 - 0.05 * k as f32);
            for cut in [0.0, 0.5, 1.0] {
                let offset = offset - cut * (first - scale) * self.top;
                let offset = if self.positive && offset < 0.0 { 0.0 } else { offset };
                if let Some((error, line)) = self.fitted(scale, offset)
                    && error < bound - noise
                {
                    (bound, found) = (error, line);
                }
            }
        }
        let mut best = self.error(found.0, found.1);
        for _ in 0..4 {
            let Some((_, line)) = self.fitted(found.0, found.1) else { break };
            let error = self.error(line.0, line.1);
            if error >= best {
                break;
            }
            (best, found) = (error, line);
        }
        found
    }
}
