//! Formats whose values are groups of a codebook.

use super::builder::{Builder, El, V};
use super::formats::{bytes, half, nibbles, scaled, shifted, words};
use rlx_core::formats::codebook::{
    IQ1_S, IQ2_LEVELS, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_S_LEVELS, IQ3_XXS, IQ3_XXS_LEVELS, IQ4_NL,
    even_signs,
};
use rlx_core::types::BlockFormat as B;

/// A codebook `[groups, values]`: bytes of its magnitudes, or of -1, 0 and 1.
fn book(b: &mut Builder, groups: &[u16], values: usize, levels: &[u8]) -> V {
    let bits = if values == 8 { 2 } else { 3 };
    let level = |group: u16, i: usize| levels[usize::from(group >> (bits * i)) & ((1 << bits) - 1)];
    let all: Vec<u8> = groups.iter().flat_map(|&g| (0..values).map(move |i| level(g, i))).collect();
    b.literal(El::I8, &[groups.len() as u64, values as u64], &all)
}

/// Groups at ids of any shape, in f32, with the values on a new last axis.
fn groups(b: &mut Builder, book: &V, ids: &V) -> V {
    let ids = b.convert(ids, El::I32);
    let y = b.take(book, &ids, 0);
    b.convert(&y, El::F32)
}

/// Bit `i` of a byte of signs makes value `i` negative.
fn with_signs(b: &mut Builder, y: &V, signs: &V) -> V {
    let last = y.dims.len() - 1;
    let axes: Vec<usize> = (0..last).collect();
    let signs = b.repeat(signs, &y.dims, &axes);
    let by: Vec<i64> = (0..y.dims[last] as i64).collect();
    let bit = shifted(b, &signs, &by, last);
    let bit = b.bits(&bit, 1);
    let is_negative = b.compare_with("NE", &bit, 0.0);
    let negative = b.unary("negate", y);
    b.select(&is_negative, &negative, y)
}

/// Eight signs of each seven bits.
fn even(b: &mut Builder, seven: &V) -> V {
    let table: Vec<u8> = (0..128).map(even_signs).collect();
    let table = b.literal(El::U8, &[128], &table);
    let ids = b.bits(seven, 127);
    let ids = b.convert(&ids, El::I32);
    b.take(&table, &ids, 0)
}

/// `d (s + 1/2) unit` of nibbles `[n, ..]`.
fn half_scales(b: &mut Builder, d: &V, s: &V, unit: f64) -> V {
    let s = b.convert(s, El::F32);
    let s = b.with("add", &s, 0.5);
    let y = scaled(b, &s, d);
    b.with("multiply", &y, unit)
}

/// Low and high nibbles of bytes `[n, k]` in turn: `[n, 2 k]`.
fn in_turn(b: &mut Builder, q: &V) -> V {
    let dims = [q.dims[0], q.dims[1], 2];
    let q = b.repeat(q, &dims, &[0, 1]);
    let q = shifted(b, &q, &[0, 4], 2);
    let q = b.bits(&q, 15);
    b.reshape(&q, &[dims[0], dims[1] * 2])
}

/// `count` fields of each byte or word `[n, k]`, at these bits: `[n, k * count]`.
fn spread(b: &mut Builder, q: &V, by: &[i64], mask: u32) -> V {
    let dims = [q.dims[0], q.dims[1], by.len() as u64];
    let q = b.repeat(q, &dims, &[0, 1]);
    let q = shifted(b, &q, by, 2);
    let q = b.bits(&q, mask);
    b.reshape(&q, &[dims[0], dims[1] * dims[2]])
}

/// A byte and the bits above it, as an index.
fn index(b: &mut Builder, low: &V, high: &V) -> V {
    let (low, high) = (b.convert(low, El::I32), b.convert(high, El::I32));
    let high = b.shift_left(&high, 8);
    b.or(&low, &high)
}

/// Every one of `[n, k]` repeated: `[n, k * times]`.
fn repeated(b: &mut Builder, x: &V, times: u64) -> V {
    let dims = [x.dims[0], x.dims[1], times];
    let x = b.repeat(x, &dims, &[0, 1]);
    b.reshape(&x, &[dims[0], dims[1] * times])
}

/// Formats of 32 groups of 8: `[n, 32, 8]`.
pub(super) fn eights(b: &mut Builder, format: B, x: &V) -> V {
    let n = x.dims[0];
    if matches!(format, B::Iq1S | B::Iq1M) {
        return ones(b, format, x);
    }
    let d = half(b, x, 0);
    let levels = [IQ2_LEVELS[0], IQ2_LEVELS[1], IQ2_LEVELS[2], 0];
    let (ids, signs, scales, book) = match format {
        B::Iq2Xxs => {
            let both = bytes(b, x, 2, 64);
            let both = b.reshape(&both, &[n, 8, 8]);
            let ids = b.part(&both, 2, 0, 4);
            let ids = b.reshape(&ids, &[n, 32]);
            let g = b.part(&both, 2, 4, 4);
            let g = b.bitcast(&g, El::U32);
            let seven = spread(b, &g, &[0, 7, 14, 21], 127);
            let s = b.shift_right(&g, 28);
            (ids, even(b, &seven), repeated(b, &s, 4), self::book(b, &IQ2_XXS, 8, &levels))
        }
        B::Iq2Xs => {
            let q = words(b, x, 2, 32, El::U16);
            let ids = b.bits(&q, 511);
            let seven = b.shift_right(&q, 9);
            let s = bytes(b, x, 66, 8);
            let s = in_turn(b, &s);
            (ids, even(b, &seven), repeated(b, &s, 2), self::book(b, &IQ2_XS, 8, &levels))
        }
        _ => {
            let high = bytes(b, x, 66, 8);
            let high = spread(b, &high, &[0, 2, 4, 6], 3);
            let low = bytes(b, x, 2, 32);
            let ids = index(b, &low, &high);
            let s = bytes(b, x, 74, 8);
            let s = in_turn(b, &s);
            (ids, bytes(b, x, 34, 32), repeated(b, &s, 2), self::book(b, &IQ2_S, 8, &levels))
        }
    };
    let ds = half_scales(b, &d, &scales, 0.25);
    let y = groups(b, &book, &ids);
    let y = scaled(b, &y, &ds);
    with_signs(b, &y, &signs)
}

/// Groups of -1, 0 and 1, each moved by an eighth.
fn ones(b: &mut Builder, format: B, x: &V) -> V {
    let n = x.dims[0];
    let book = book(b, &IQ1_S, 8, &[255, 0, 1, 0]);
    let (ids, down, ds) = match format {
        B::Iq1S => {
            let d = half(b, x, 0);
            let h = words(b, x, 34, 8, El::U16);
            let high = spread(b, &h, &[0, 3, 6, 9], 7);
            let low = bytes(b, x, 2, 32);
            let s = b.shift_right(&h, 12);
            let s = b.bits(&s, 7);
            let down = b.shift_right(&h, 15);
            let ds = odd_scales(b, &d, &s);
            (index(b, &low, &high), repeated(b, &down, 4), repeated(b, &ds, 4))
        }
        _ => {
            let s = words(b, x, 48, 4, El::U16);
            // The scale's nibbles stand in the top of each word.
            let top = b.shift_right(&s, 12);
            let by = b.table(El::U16, &[0, 4, 8, 12]);
            let by = b.repeat(&by, &[n, 4], &[1]);
            let top = b.binary("shift_left", &top, &by);
            let d = b.reduce("or", &top, 0.0, &[1]);
            let d = b.bitcast(&d, El::F16);
            let d = b.convert(&d, El::F32);
            let s = spread(b, &s, &[0, 3, 6, 9], 7);
            let ds = odd_scales(b, &d, &s);
            let h = bytes(b, x, 32, 16);
            let h = in_turn(b, &h);
            let high = b.bits(&h, 7);
            let low = bytes(b, x, 0, 32);
            (index(b, &low, &high), b.shift_right(&h, 3), repeated(b, &ds, 2))
        }
    };
    let y = groups(b, &book, &ids);
    let is_down = b.compare_with("NE", &down, 0.0);
    let (less, more) =
        (b.splat(El::F32, &is_down.dims, -0.125), b.splat(El::F32, &is_down.dims, 0.125));
    let delta = b.select(&is_down, &less, &more);
    let delta = b.repeat(&delta, &y.dims.clone(), &[0, 1]);
    let y = b.add(&y, &delta);
    scaled(b, &y, &ds)
}

/// `d (2 s + 1)`.
fn odd_scales(b: &mut Builder, d: &V, s: &V) -> V {
    let s = b.shift_left(s, 1);
    let s = b.with("add", &s, 1.0);
    let s = b.convert(&s, El::F32);
    scaled(b, &s, d)
}

/// Formats of 64 groups of 4: `[n, 32, 8]`.
pub(super) fn fours(b: &mut Builder, format: B, x: &V) -> V {
    let n = x.dims[0];
    let d = half(b, x, 0);
    let (ids, signs, ds, book) = match format {
        B::Iq3Xxs => {
            let ids = bytes(b, x, 2, 64);
            let g = words(b, x, 66, 8, El::U32);
            let seven = spread(b, &g, &[0, 7, 14, 21], 127);
            let s = b.shift_right(&g, 28);
            let ds = half_scales(b, &d, &s, 0.5);
            (ids, even(b, &seven), repeated(b, &ds, 4), self::book(b, &IQ3_XXS, 4, &IQ3_XXS_LEVELS))
        }
        _ => {
            let ninth = bytes(b, x, 66, 8);
            let ninth = spread(b, &ninth, &[0, 1, 2, 3, 4, 5, 6, 7], 1);
            let low = bytes(b, x, 2, 64);
            let ids = index(b, &low, &ninth);
            let s = bytes(b, x, 106, 4);
            let s = in_turn(b, &s);
            let ds = odd_scales(b, &d, &s);
            (ids, bytes(b, x, 74, 32), repeated(b, &ds, 4), self::book(b, &IQ3_S, 4, &IQ3_S_LEVELS))
        }
    };
    let y = groups(b, &book, &ids);
    let y = b.reshape(&y, &[n, 32, 8]);
    let y = scaled(b, &y, &ds);
    with_signs(b, &y, &signs)
}

/// Nibbles of values that are not equally far from each other.
pub(super) fn non_linear(b: &mut Builder, format: B, x: &V) -> V {
    let n = x.dims[0];
    let d = half(b, x, 0);
    let (q, ds) = match format {
        B::Iq4Nl => {
            let q = bytes(b, x, 2, 16);
            (b.reshape(&q, &[n, 1, 16]), b.reshape(&d, &[n, 1]))
        }
        _ => {
            let high = words(b, x, 2, 1, El::U16);
            let high = spread(b, &high, &[0, 2, 4, 6, 8, 10, 12, 14], 3);
            let high = b.convert(&high, El::U8);
            let high = b.shift_left(&high, 4);
            let low = bytes(b, x, 4, 4);
            let low = in_turn(b, &low);
            let s = b.or(&low, &high);
            let s = b.convert(&s, El::F32);
            let s = b.with("subtract", &s, 32.0);
            let q = bytes(b, x, 8, 128);
            (b.reshape(&q, &[n, 8, 16]), scaled(b, &s, &d))
        }
    };
    let q = nibbles(b, &q);
    let table: Vec<i64> = IQ4_NL.iter().map(|&x| x.into()).collect();
    let table = b.table(El::F32, &table);
    let ids = b.convert(&q, El::I32);
    let y = b.take(&table, &ids, 0);
    scaled(b, &y, &ds)
}
