//! Encoders of super-blocks: a scale in f16, small integers that multiply it for each run.
//!
//! Each run first gets the scale (and offset) that it would like. Then f16 factors are tried under which
//! these become integers; under each, every run takes the integers among the nearest ones that lose least
//! with its values rounded anew. Last, the factors are fitted to all values as they are rounded.

use super::fit::{self, Integers, Levels, Line};
use super::{NonLinear, Unit, near, to_half};
use half::f16;

/// Bounds of a run's integer scale.
#[derive(Clone, Copy)]
struct Bounds {
    lo: i32,
    hi: i32,
}

impl Bounds {
    fn nearest(self, v: f32) -> i32 {
        // Casts saturate, so a quotient of any size is in bounds.
        (v.clamp(self.lo as f32, self.hi as f32) + if v < 0.0 { -0.5 } else { 0.5 }) as i32
    }

    /// The nearest integer, and those beside it where they are another choice.
    fn around(self, v: f32) -> impl Iterator<Item = i32> {
        let middle = self.nearest(v).clamp(self.lo, self.hi);
        // Beside a large integer the next one differs by a few per cent and never is better.
        let beside = if middle.abs() < 24 { 1 } else { 0 };
        (middle - beside..=middle + beside).filter(move |l| (self.lo..=self.hi).contains(l))
    }
}

/// A scale for all, and one integer a run.
struct Scales<const RUNS: usize> {
    error: f32,
    d: f16,
    l: [i32; RUNS],
}

struct Scaled<'a, const RUNS: usize> {
    unit: &'a Unit<256>,
    bounds: Bounds,
    /// What each run would like.
    wish: [f32; RUNS],
}

impl<const RUNS: usize> Scaled<'_, RUNS> {
    fn run(&self, run: usize) -> &[f32] {
        let n = 256 / RUNS;
        &self.unit.x[n * run..][..n]
    }

    fn under<L: Levels>(&self, d: f16) -> Scales<RUNS> {
        let scale = d.to_f32() / self.unit.size;
        let mut out = Scales { error: 0.0, d, l: [0; RUNS] };
        for run in 0..RUNS {
            let (x, mut best) = (self.run(run), f32::INFINITY);
            let wish = if scale == 0.0 { 0.0 } else { self.wish[run] / scale };
            for l in self.bounds.around(wish) {
                let error = fit::error::<L>(x, scale * l as f32);
                if error < best {
                    (best, out.l[run]) = (error, l);
                }
            }
            out.error += best;
        }
        out
    }

    /// The factor that is best for the integers and roundings there are.
    fn fitted<L: Levels>(&self, at: &Scales<RUNS>) -> f16 {
        let scale = at.d.to_f32() / self.unit.size;
        let (mut xq, mut qq) = (0.0f32, 0.0f32);
        for run in 0..RUNS {
            let l = at.l[run] as f32;
            let (a, b) = fit::products::<L>(self.run(run), scale * l);
            xq += l * a;
            qq += l * l * b;
        }
        to_half(if qq > 0.0 { xq / qq * self.unit.size } else { 0.0 })
    }

    fn best<L: Levels>(&self) -> Scales<RUNS> {
        let end = fit::largest(&self.wish);
        let (lo, hi) = (self.bounds.lo as f32, self.bounds.hi as f32);
        let mut best = self.under::<L>(to_half(end / lo * self.unit.size));
        for last in [lo * 1.02 - 0.4, lo * 0.98 + 0.4, lo * 0.96 + 0.8, lo * 0.92 + 1.2, hi] {
            let other = self.under::<L>(to_half(end / last * self.unit.size));
            if other.error < best.error {
                best = other;
            }
        }
        for _ in 0..3 {
            let mut better = false;
            for d in near(self.fitted::<L>(&best)) {
                let other = self.under::<L>(d);
                if other.error < best.error {
                    (best, better) = (other, true);
                }
            }
            if !better {
                break;
            }
        }
        best
    }
}

/// The scales that lose least, and the code of every element.
fn scaled<L: Levels, const RUNS: usize>(
    x: &[f32; 256],
    lo: i32,
    hi: i32,
) -> (f16, [i32; RUNS], [u8; 256]) {
    let unit = Unit::new(x);
    let mut fit = Scaled { unit: &unit, bounds: Bounds { lo, hi }, wish: [0.0; RUNS] };
    fit.wish = core::array::from_fn(|run| fit::scale::<L>(fit.run(run)));
    let scales = fit.best::<L>();
    let codes = core::array::from_fn(|i| {
        let scale = scales.d.to_f32() / unit.size * scales.l[i * RUNS / 256] as f32;
        L::code(if scale == 0.0 { 0.0 } else { unit.x[i] / scale })
    });
    (scales.d, scales.l, codes)
}

/// Factors for all, and a scale and an offset a run.
struct Lines<const RUNS: usize> {
    error: f32,
    d: f16,
    m: f16,
    l: [(i32, i32); RUNS],
}

struct Lined<'a, const RUNS: usize> {
    size: f32,
    top: f32,
    bounds: Bounds,
    lines: [Line<'a>; RUNS],
    wish: [(f32, f32); RUNS],
}

impl<const RUNS: usize> Lined<'_, RUNS> {
    fn under(&self, d: f16, m: f16) -> Lines<RUNS> {
        let (scale, offset) = (d.to_f32() / self.size, m.to_f32() / self.size);
        let part = |wish: f32, of: f32| if of == 0.0 { 0.0 } else { wish / of };
        let mut out = Lines { error: 0.0, d, m, l: [(0, 0); RUNS] };
        for run in 0..RUNS {
            let (line, mut best) = (&self.lines[run], f32::INFINITY);
            let (l, t) = (part(self.wish[run].0, scale), part(self.wish[run].1, offset));
            let mut attempt = |l: i32, t: i32| {
                let error = line.error(scale * l as f32, offset * t as f32);
                if error < best {
                    (best, out.l[run]) = (error, (l, t));
                }
                out.l[run]
            };
            let middle = self.bounds.nearest(t);
            let mut found = (0, middle);
            for l in self.bounds.around(l) {
                found = attempt(l, middle);
            }
            for t in self.bounds.around(t).filter(|&t| t != middle) {
                attempt(found.0, t);
            }
            out.error += best;
        }
        out
    }

    /// The factors that are best for the integers and roundings there are.
    fn fitted(&self, at: &Lines<RUNS>) -> (f16, f16) {
        let (scale, offset) = (at.d.to_f32() / self.size, at.m.to_f32() / self.size);
        // x near d u - m v: sums of u u, u v, v v, x u, x v.
        let (mut uu, mut uv, mut vv, mut xu, mut xv) = (0.0f32, 0.0f32, 0.0f32, 0.0f32, 0.0f32);
        for (line, at) in self.lines.iter().zip(at.l) {
            let (l, t) = (at.0 as f32, at.1 as f32);
            let [q, qq, xq] = line.sums(scale * l, offset * t);
            uu += l * l * qq;
            uv += l * t * q;
            vv += t * t * (256 / RUNS) as f32;
            xu += l * xq;
            xv += t * line.sum();
        }
        let spread = uu * vv - uv * uv;
        let (d, m) = if spread > 1e-6 * uu * vv {
            ((xu * vv - xv * uv) / spread, (xu * uv - xv * uu) / spread)
        } else if uu > 0.0 {
            ((xu + offset * uv) / uu, offset)
        } else {
            (0.0, if vv > 0.0 { -xv / vv } else { 0.0 })
        };
        (to_half(d.max(0.0) * self.size), to_half(m.max(0.0) * self.size))
    }

    fn best(&self) -> Lines<RUNS> {
        let most = |f: fn(&(f32, f32)) -> f32| {
            self.wish.iter().map(f).fold(0.0f32, |a, b| if b > a { b } else { a })
        };
        let (s, t, hi) = (most(|w| w.0), most(|w| w.1), self.bounds.hi as f32);
        let at =
            |last: f32| self.under(to_half(s / last * self.size), to_half(t / last * self.size));
        let mut best = at(hi);
        for last in [hi + 0.4, hi * 0.99 - 0.3, hi * 0.97 - 0.6, hi * 0.93 - 0.8] {
            let other = at(last);
            if other.error < best.error {
                best = other;
            }
        }
        for _ in 0..3 {
            let (d, m) = self.fitted(&best);
            let mut better = false;
            for (d, m) in near(d).map(|d| (d, m)).into_iter().chain(near(m).map(|m| (d, m))) {
                let other = self.under(d, m);
                if other.error < best.error {
                    (best, better) = (other, true);
                }
            }
            if !better {
                break;
            }
        }
        best
    }
}

/// The lines that lose least, and the code of every element.
fn lined<const RUNS: usize>(x: &[f32; 256], top: f32, hi: i32) -> (Lines<RUNS>, [u8; 256]) {
    let unit = Unit::new(x);
    let n = 256 / RUNS;
    let lines: [Line; RUNS] =
        core::array::from_fn(|run| Line::new(&unit.x[n * run..][..n], top, true));
    let wish = core::array::from_fn(|run| lines[run].best());
    let fit = Lined { size: unit.size, top, bounds: Bounds { lo: 0, hi }, lines, wish };
    let found = fit.best();
    let codes = core::array::from_fn(|i| {
        let (l, t) = found.l[i / n];
        let scale = found.d.to_f32() / unit.size * l as f32;
        let offset = found.m.to_f32() / unit.size * t as f32;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        fit::count((unit.x[i] + offset) * inverse, fit.top) as u8
    });
    (found, codes)
}

/// Two bits of each code, four to a byte: each half of 128 has 32 bytes, its runs of 32 lowest first.
fn put_pairs(codes: &[u8; 256], shift: u32, out: &mut [u8]) {
    for (i, byte) in out.iter_mut().enumerate() {
        let first = i / 32 * 128 + i % 32;
        *byte = (0..4).fold(0, |b, run| b | ((codes[first + 32 * run] >> shift) & 3) << (2 * run));
    }
}

/// Low nibbles: each 64 codes are 32 bytes, the first 32 the low half.
fn put_nibbles(codes: &[u8; 256], out: &mut [u8]) {
    for (i, byte) in out.iter_mut().enumerate() {
        let first = i / 32 * 64 + i % 32;
        *byte = (codes[first] & 15) | ((codes[first + 32] & 15) << 4);
    }
}

/// Bit `bit` of each code: byte `l` has element `l` of the eight runs of 32, lowest first.
fn put_bits(codes: &[u8; 256], bit: u32, out: &mut [u8]) {
    for (l, byte) in out.iter_mut().enumerate() {
        *byte = (0..8).fold(0, |b, run| b | ((codes[32 * run + l] >> bit) & 1) << run);
    }
}

/// Eight pairs of 6 bits as `k_quants.rs` reads them.
fn put_scale_mins(pairs: &[(i32, i32); 8], out: &mut [u8]) {
    for j in 0..4 {
        let [(s, t), (s4, t4)] = [pairs[j], pairs[j + 4]].map(|p| (p.0 as u8, p.1 as u8));
        out[j] = s | ((s4 >> 4) << 6);
        out[j + 4] = t | ((t4 >> 4) << 6);
        out[j + 8] = (s4 & 15) | ((t4 & 15) << 4);
    }
}

pub fn q2_k(x: &[f32; 256], out: &mut [u8]) {
    let (lines, codes) = lined::<16>(x, 3.0, 15);
    for (byte, (s, t)) in out[..16].iter_mut().zip(lines.l) {
        *byte = s as u8 | ((t as u8) << 4);
    }
    put_pairs(&codes, 0, &mut out[16..80]);
    out[80..82].copy_from_slice(&lines.d.to_le_bytes());
    out[82..84].copy_from_slice(&lines.m.to_le_bytes());
}

pub fn q3_k(x: &[f32; 256], out: &mut [u8]) {
    let (d, scales, codes) = scaled::<Integers<-4, 3>, 16>(x, -32, 31);
    put_bits(&codes, 2, &mut out[..32]);
    put_pairs(&codes, 0, &mut out[32..96]);
    out[96..108].fill(0);
    for (j, s) in scales.into_iter().enumerate() {
        let s = (s + 32) as u8;
        out[96 + j % 8] |= (s & 15) << (4 * (j / 8));
        out[104 + j % 4] |= (s >> 4) << (2 * (j / 4));
    }
    out[108..110].copy_from_slice(&d.to_le_bytes());
}

pub fn q4_k(x: &[f32; 256], out: &mut [u8]) {
    let (lines, codes) = lined::<8>(x, 15.0, 63);
    out[..2].copy_from_slice(&lines.d.to_le_bytes());
    out[2..4].copy_from_slice(&lines.m.to_le_bytes());
    put_scale_mins(&lines.l, &mut out[4..16]);
    put_nibbles(&codes, &mut out[16..144]);
}

pub fn q5_k(x: &[f32; 256], out: &mut [u8]) {
    let (lines, codes) = lined::<8>(x, 31.0, 63);
    out[..2].copy_from_slice(&lines.d.to_le_bytes());
    out[2..4].copy_from_slice(&lines.m.to_le_bytes());
    put_scale_mins(&lines.l, &mut out[4..16]);
    put_bits(&codes, 4, &mut out[16..48]);
    put_nibbles(&codes, &mut out[48..176]);
}

pub fn q6_k(x: &[f32; 256], out: &mut [u8]) {
    let (d, scales, codes) = scaled::<Integers<-32, 31>, 16>(x, -128, 127);
    // A half's four runs of 32: low nibbles of two runs of 32 bytes, then their high nibbles.
    for (i, byte) in out[..128].iter_mut().enumerate() {
        let first = i / 64 * 128 + i % 64;
        *byte = (codes[first] & 15) | ((codes[first + 64] & 15) << 4);
    }
    put_pairs(&codes, 4, &mut out[128..192]);
    for (byte, s) in out[192..208].iter_mut().zip(scales) {
        *byte = s as i8 as u8;
    }
    out[208..210].copy_from_slice(&d.to_le_bytes());
}

pub fn iq4_xs(x: &[f32; 256], out: &mut [u8]) {
    let (d, scales, codes) = scaled::<NonLinear, 8>(x, -32, 31);
    out[..2].copy_from_slice(&d.to_le_bytes());
    out[2..8].fill(0);
    for (j, s) in scales.into_iter().enumerate() {
        let s = (s + 32) as u8;
        out[4 + j / 2] |= (s & 15) << (4 * (j % 2));
        out[2 + j / 4] |= (s >> 4) << (2 * (j % 4));
    }
    for (i, byte) in out[8..136].iter_mut().enumerate() {
        let first = i / 16 * 32 + i % 16;
        *byte = codes[first] | (codes[first + 16] << 4);
    }
}
