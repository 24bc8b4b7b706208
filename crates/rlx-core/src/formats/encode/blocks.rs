//! Encoders of the short blocks: one scale, perhaps an offset, in f16.

use super::fit::{self, Integers, Levels, Line};
use super::{NonLinear, Unit, near, to_half};
use half::f16;

/// The f16 scale that loses least, and the scale in the units of `x`.
fn scale<L: Levels>(unit: &Unit<32>) -> (f16, f32) {
    let first = L::PLACES.first().map_or(1.0, |place| place.0);
    let starts = [fit::scale::<L>(&unit.x), fit::largest(&unit.x) / first];
    let halves = starts.into_iter().flat_map(|s| near(to_half(s * unit.size)));
    let tried = halves.map(|d| (fit::error::<L>(&unit.x, d.to_f32() / unit.size), d));
    let best = tried.reduce(|a, b| if b.0 < a.0 { b } else { a });
    let d = best.map_or(f16::ZERO, |b| b.1);
    (d, d.to_f32() / unit.size)
}

fn codes<L: Levels>(unit: &Unit<32>, scale: f32) -> [u8; 32] {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    unit.x.map(|x| L::code(x * inverse))
}

/// Low nibbles are the first 16 elements; bit `i` of the result is the fifth of element `i`.
fn put_nibbles(codes: &[u8; 32], out: &mut [u8]) -> u32 {
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = (codes[i] & 15) | ((codes[i + 16] & 15) << 4);
    }
    codes.iter().enumerate().fold(0, |high, (i, q)| high | (u32::from((q >> 4) & 1) << i))
}

pub fn q4_0(x: &[f32; 32], out: &mut [u8]) {
    let unit = Unit::new(x);
    let (d, scale) = scale::<Integers<-8, 7>>(&unit);
    out[..2].copy_from_slice(&d.to_le_bytes());
    put_nibbles(&codes::<Integers<-8, 7>>(&unit, scale), &mut out[2..18]);
}

pub fn q5_0(x: &[f32; 32], out: &mut [u8]) {
    let unit = Unit::new(x);
    let (d, scale) = scale::<Integers<-16, 15>>(&unit);
    out[..2].copy_from_slice(&d.to_le_bytes());
    let high = put_nibbles(&codes::<Integers<-16, 15>>(&unit, scale), &mut out[6..22]);
    out[2..6].copy_from_slice(&high.to_le_bytes());
}

pub fn iq4_nl(x: &[f32; 32], out: &mut [u8]) {
    let unit = Unit::new(x);
    let (d, scale) = scale::<NonLinear>(&unit);
    out[..2].copy_from_slice(&d.to_le_bytes());
    put_nibbles(&codes::<NonLinear>(&unit, scale), &mut out[2..18]);
}

/// The f16 scale and least value that lose least, and the codes.
fn line(unit: &Unit<32>, top: f32) -> (f16, f16, [u8; 32]) {
    let line = Line::new(&unit.x, top, false);
    let (mut best, mut found) = (f32::INFINITY, (f16::ZERO, f16::ZERO));
    for (scale, offset) in [line.best(), line.ends()] {
        for m in near(to_half(-offset * unit.size)) {
            for d in near(to_half(scale * unit.size)) {
                let error = line.error(d.to_f32() / unit.size, -m.to_f32() / unit.size);
                if error < best {
                    (best, found) = (error, (d, m));
                }
            }
        }
    }
    let (d, m) = found;
    let inverse = if d == f16::ZERO { 0.0 } else { unit.size / d.to_f32() };
    let m_units = m.to_f32() / unit.size;
    (d, m, unit.x.map(|x| fit::count((x - m_units) * inverse, top) as u8))
}

pub fn q4_1(x: &[f32; 32], out: &mut [u8]) {
    let (d, m, codes) = line(&Unit::new(x), 15.0);
    out[..2].copy_from_slice(&d.to_le_bytes());
    out[2..4].copy_from_slice(&m.to_le_bytes());
    put_nibbles(&codes, &mut out[4..20]);
}

pub fn q5_1(x: &[f32; 32], out: &mut [u8]) {
    let (d, m, codes) = line(&Unit::new(x), 31.0);
    out[..2].copy_from_slice(&d.to_le_bytes());
    out[2..4].copy_from_slice(&m.to_le_bytes());
    let high = put_nibbles(&codes, &mut out[8..24]);
    out[4..8].copy_from_slice(&high.to_le_bytes());
}
