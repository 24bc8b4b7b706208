//! Decodes packed blocks to f32, the same numbers as `rlx_core::formats`: every product that meets a sum is exact in
//! f32, so that it may be contracted with it.

use super::builder::{Builder, El, V};
use super::{codebooks, functions};
use BlockFormat as B;
use rlx_core::formats::codebook::FP4;
use rlx_core::types::{BlockFormat, DType, Type};
use rlx_core::{Code, Error, Result};

/// Formats of weights that are decoded.
pub(crate) const FORMATS: &[BlockFormat] = &[
    B::Q4_0,
    B::Q4_1,
    B::Q5_0,
    B::Q5_1,
    B::Q8_0,
    B::Q1_0,
    B::Q2_0,
    B::Q2K,
    B::Q3K,
    B::Q4K,
    B::Q5K,
    B::Q6K,
    B::Iq1S,
    B::Iq1M,
    B::Iq2Xxs,
    B::Iq2Xs,
    B::Iq2S,
    B::Iq3Xxs,
    B::Iq3S,
    B::Iq4Nl,
    B::Iq4Xs,
    B::Mxfp4,
    B::Nvfp4,
    B::Tq1_0,
    B::Tq2_0,
];

/// A tensor's numbers: a packed one's in f32, others as they are.
///
/// # Errors
/// `Unsupported` for a format that is not in [`FORMATS`].
pub(super) fn numbers(b: &mut Builder, x: &V, ty: &Type) -> Result<V> {
    let DType::Block(format) = ty.dtype else { return Ok(x.clone()) };
    let bytes = format.bytes() as u64;
    let blocks = b.reshape(x, &[x.elements() / bytes, bytes]);
    let y = decode(b, format, &blocks)?;
    Ok(b.reshape(&y, &ty.shape.static_dims()?))
}

/// The bytes of these rows, of `row` bytes each, of a packed tensor: `[ids, row]`. The tensor keeps its one axis,
/// because a TPU copies all of it to give it two.
pub(super) fn rows(b: &mut Builder, x: &V, ids: &V, row: u64) -> V {
    let ids = b.convert(ids, index(x.elements()));
    let starts = b.with("multiply", &ids, row as f64);
    b.take_runs(x, &starts, row)
}

/// The type of an index of so many elements: 32 bits where that is enough, because devices emulate wider ones.
pub(super) fn index(elements: u64) -> El {
    if elements < 1 << 31 { El::I32 } else { El::I64 }
}

/// Blocks `[n, bytes]` to their elements `[n, elements]`.
///
/// # Errors
/// `Unsupported` for a format that is not in [`FORMATS`].
pub(super) fn decode(b: &mut Builder, format: BlockFormat, x: &V) -> Result<V> {
    let n = x.dims[0];
    let y = match format {
        B::Q4_0 => nibbles_of(b, x, 2, None, 8.0),
        B::Q4_1 => nibbles_of(b, x, 4, None, 0.0),
        B::Q5_0 => nibbles_of(b, x, 6, Some(2), 16.0),
        B::Q5_1 => nibbles_of(b, x, 8, Some(4), 0.0),
        B::Q8_0 => {
            let (d, q) = (half(b, x, 0), signed(b, x, 2, 32));
            scaled(b, &q, &d)
        }
        B::Q1_0 => {
            let (d, q) = (half(b, x, 0), fields(b, x, 2, 16, 8, 1));
            let up = b.compare_with("NE", &q, 0.0);
            let d = b.repeat(&d, &q.dims.clone(), &[0]);
            let down = b.unary("negate", &d);
            b.select(&up, &d, &down)
        }
        B::Q2_0 => {
            let (d, q) = (half(b, x, 0), fields(b, x, 2, 16, 4, 3));
            let q = b.convert(&q, El::F32);
            let q = b.with("subtract", &q, 1.0);
            scaled(b, &q, &d)
        }
        B::Q2K => q2_k(b, x),
        B::Q3K => q3_k(b, x),
        B::Q4K => q45_k(b, x, false),
        B::Q5K => q45_k(b, x, true),
        B::Q6K => q6_k(b, x),
        B::Mxfp4 => mxfp4(b, x),
        B::Nvfp4 => nvfp4(b, x),
        B::Tq1_0 => tq1_0(b, x),
        B::Tq2_0 => tq2_0(b, x),
        B::Iq1S | B::Iq1M | B::Iq2Xxs | B::Iq2Xs | B::Iq2S => codebooks::eights(b, format, x),
        B::Iq3Xxs | B::Iq3S => codebooks::fours(b, format, x),
        B::Iq4Nl | B::Iq4Xs => codebooks::non_linear(b, format, x),
        B::Q8_1 | B::Q8K | B::Q15_0 => {
            let what = format!("XLA reads no weights of {}", format.name());
            return Err(Error::new(Code::Unsupported, what));
        }
    };
    Ok(b.reshape(&y, &[n, format.elements() as u64]))
}

/// Blocks `[n, 32]` of f32 to their bytes as q8_0 `[n, 34]`.
pub(super) fn encode_q8_0(b: &mut Builder, x: &V) -> V {
    let size = b.unary("abs", x);
    let most = b.reduce("maximum", &size, 0.0, &[1]);
    let d = b.with("divide", &most, 127.0);
    let one = b.splat(El::F32, &d.dims, 1.0);
    let inverse = b.div(&one, &d);
    let some = b.compare_with("NE", &d, 0.0);
    let zero = b.splat(El::F32, &d.dims, 0.0);
    let inverse = b.select(&some, &inverse, &zero);
    let q = scaled(b, x, &inverse);
    let q = b.unary("round_nearest_afz", &q);
    let q = functions::cast(b, &q, El::I8);
    let q = b.bitcast(&q, El::U8);
    let d = b.convert(&d, El::F16);
    let d = b.bitcast(&d, El::U8);
    b.concat(&[d, q], 1)
}

/// Bytes `at..at + len` of every block.
pub(super) fn bytes(b: &mut Builder, x: &V, at: u64, len: u64) -> V {
    b.part(x, 1, at, len)
}

/// The f16 at byte `at` of every block, in f32.
pub(super) fn half(b: &mut Builder, x: &V, at: u64) -> V {
    let two = bytes(b, x, at, 2);
    let half = b.bitcast(&two, El::F16);
    b.convert(&half, El::F32)
}

/// Words of two or four bytes from byte `at` on.
pub(super) fn words(b: &mut Builder, x: &V, at: u64, count: u64, el: El) -> V {
    let width = u64::from(el.bits() / 8);
    let all = bytes(b, x, at, count * width);
    let all = b.reshape(&all, &[x.dims[0], count, width]);
    b.bitcast(&all, el)
}

/// Bytes as signed numbers in f32.
fn signed(b: &mut Builder, x: &V, at: u64, len: u64) -> V {
    let q = bytes(b, x, at, len);
    let q = b.bitcast(&q, El::I8);
    b.convert(&q, El::F32)
}

/// Numbers `[n, ..]` times a factor of each block.
pub(super) fn scaled(b: &mut Builder, q: &V, d: &V) -> V {
    let axes: Vec<usize> = (0..d.dims.len()).collect();
    let d = b.repeat(d, &q.dims, &axes);
    b.mul(q, &d)
}

/// `count` numbers in each of `len` bytes, lowest first: `[n, len * count]`.
fn fields(b: &mut Builder, x: &V, at: u64, len: u64, count: u64, mask: u32) -> V {
    let q = bytes(b, x, at, len);
    let dims = [x.dims[0], len, count];
    let q = b.repeat(&q, &dims, &[0, 1]);
    let by: Vec<i64> = (0..count).map(|i| (i * (8 / count)) as i64).collect();
    let q = shifted(b, &q, &by, 2);
    let q = b.bits(&q, mask);
    b.reshape(&q, &[x.dims[0], len * count])
}

/// Shifts right by a number of each index of an axis.
pub(super) fn shifted(b: &mut Builder, q: &V, by: &[i64], axis: usize) -> V {
    let by = b.table(q.el, by);
    let by = b.repeat(&by, &q.dims, &[axis]);
    b.binary("shift_right_logical", q, &by)
}

/// Low and then high nibbles of 16 bytes.
pub(super) fn nibbles(b: &mut Builder, q: &V) -> V {
    let (low, high) = (b.bits(q, 15), b.shift_right(q, 4));
    b.concat(&[low, high], q.dims.len() - 1)
}

/// Blocks of 32 nibbles, with a fifth bit or not, about a middle, or else with a minimum.
fn nibbles_of(b: &mut Builder, x: &V, at: u64, fifth: Option<u64>, middle: f64) -> V {
    let d = half(b, x, 0);
    let q = bytes(b, x, at, 16);
    let mut q = nibbles(b, &q);
    if let Some(high) = fifth {
        let bits = fields(b, x, high, 4, 8, 1);
        let bits = b.shift_left(&bits, 4);
        q = b.or(&q, &bits);
    }
    let q = b.convert(&q, El::F32);
    if middle > 0.0 {
        let q = b.with("subtract", &q, middle);
        return scaled(b, &q, &d);
    }
    let m = half(b, x, 2);
    let y = scaled(b, &q, &d);
    let m = b.repeat(&m, &y.dims.clone(), &[0]);
    b.add(&y, &m)
}

/// Two bits of 32 bytes, four times, of each half: `[n, 2, 4, 32]`.
fn quarters(b: &mut Builder, x: &V, at: u64) -> V {
    let n = x.dims[0];
    let q = bytes(b, x, at, 64);
    let q = b.reshape(&q, &[n, 2, 1, 32]);
    let q = b.repeat(&q, &[n, 2, 4, 32], &[0, 1, 2, 3]);
    let q = shifted(b, &q, &[0, 2, 4, 6], 2);
    b.bits(&q, 3)
}

fn q2_k(b: &mut Builder, x: &V) -> V {
    let n = x.dims[0];
    let parts = bytes(b, x, 0, 16);
    let (scale, min) = (b.bits(&parts, 15), b.shift_right(&parts, 4));
    let (d, m) = (half(b, x, 80), half(b, x, 82));
    let (scale, min) = (b.convert(&scale, El::F32), b.convert(&min, El::F32));
    let (ds, mt) = (scaled(b, &scale, &d), scaled(b, &min, &m));
    let q = quarters(b, x, 16);
    let q = b.reshape(&q, &[n, 16, 16]);
    let q = b.convert(&q, El::F32);
    let y = scaled(b, &q, &ds);
    let mt = b.repeat(&mt, &[n, 16, 16], &[0, 1]);
    b.sub(&y, &mt)
}

fn q3_k(b: &mut Builder, x: &V) -> V {
    let n = x.dims[0];
    let d = half(b, x, 108);
    // Low nibbles of parts 0..8 and 8..16, and two bits above of four times four.
    let low = bytes(b, x, 96, 8);
    let low = nibbles(b, &low);
    let high = bytes(b, x, 104, 4);
    let high = b.reshape(&high, &[n, 1, 4]);
    let high = b.repeat(&high, &[n, 4, 4], &[0, 1, 2]);
    let high = shifted(b, &high, &[0, 2, 4, 6], 1);
    let high = b.bits(&high, 3);
    let high = b.reshape(&high, &[n, 16]);
    let high = b.shift_left(&high, 4);
    let scale = b.or(&low, &high);
    let scale = b.convert(&scale, El::F32);
    let scale = b.with("subtract", &scale, 32.0);
    let ds = scaled(b, &scale, &d);
    let q = quarters(b, x, 32);
    // The third bits of all runs stand in the same 32 bytes.
    let h = bytes(b, x, 0, 32);
    let h = b.reshape(&h, &[n, 1, 32]);
    let h = b.repeat(&h, &[n, 8, 32], &[0, 1, 2]);
    let h = shifted(b, &h, &[0, 1, 2, 3, 4, 5, 6, 7], 1);
    let h = b.bits(&h, 1);
    let h = b.shift_left(&h, 2);
    let h = b.reshape(&h, &[n, 2, 4, 32]);
    let q = b.or(&q, &h);
    let q = b.reshape(&q, &[n, 16, 16]);
    let q = b.convert(&q, El::F32);
    let q = b.with("subtract", &q, 4.0);
    scaled(b, &q, &ds)
}

/// Scales and minima of 8 runs, 6 bits each, of the 12 bytes from 4 on.
fn scale_min(b: &mut Builder, x: &V) -> (V, V) {
    let [first, second, third] = [4, 8, 12].map(|at| bytes(b, x, at, 4));
    let above = |b: &mut Builder, v: &V| {
        let top = b.shift_right(v, 6);
        b.shift_left(&top, 4)
    };
    let (low, top) = (b.bits(&third, 15), above(b, &first));
    let late = b.or(&low, &top);
    let early = b.bits(&first, 63);
    let scale = b.concat(&[early, late], 1);
    let (low, top) = (b.shift_right(&third, 4), above(b, &second));
    let late = b.or(&low, &top);
    let early = b.bits(&second, 63);
    let min = b.concat(&[early, late], 1);
    (b.convert(&scale, El::F32), b.convert(&min, El::F32))
}

fn q45_k(b: &mut Builder, x: &V, fifth: bool) -> V {
    let n = x.dims[0];
    let (d, m) = (half(b, x, 0), half(b, x, 2));
    let (scale, min) = scale_min(b, x);
    let (ds, mt) = (scaled(b, &scale, &d), scaled(b, &min, &m));
    // Two runs share 32 bytes.
    let q = bytes(b, x, if fifth { 48 } else { 16 }, 128);
    let q = b.reshape(&q, &[n, 4, 1, 32]);
    let q = b.repeat(&q, &[n, 4, 2, 32], &[0, 1, 2, 3]);
    let q = shifted(b, &q, &[0, 4], 2);
    let q = b.bits(&q, 15);
    let mut q = b.reshape(&q, &[n, 8, 32]);
    if fifth {
        let h = bytes(b, x, 16, 32);
        let h = b.reshape(&h, &[n, 1, 32]);
        let h = b.repeat(&h, &[n, 8, 32], &[0, 1, 2]);
        let h = shifted(b, &h, &[0, 1, 2, 3, 4, 5, 6, 7], 1);
        let h = b.bits(&h, 1);
        let h = b.shift_left(&h, 4);
        q = b.or(&q, &h);
    }
    let q = b.convert(&q, El::F32);
    let y = scaled(b, &q, &ds);
    let mt = b.repeat(&mt, &[n, 8, 32], &[0, 1]);
    b.sub(&y, &mt)
}

fn q6_k(b: &mut Builder, x: &V) -> V {
    let n = x.dims[0];
    let d = half(b, x, 208);
    // A half's runs: low nibbles of two times 32 bytes, then their high nibbles.
    let low = bytes(b, x, 0, 128);
    let low = b.reshape(&low, &[n, 2, 1, 64]);
    let low = b.repeat(&low, &[n, 2, 2, 64], &[0, 1, 2, 3]);
    let low = shifted(b, &low, &[0, 4], 2);
    let low = b.bits(&low, 15);
    let low = b.reshape(&low, &[n, 2, 4, 32]);
    let high = quarters(b, x, 128);
    let high = b.shift_left(&high, 4);
    let q = b.or(&low, &high);
    let q = b.reshape(&q, &[n, 16, 16]);
    let q = b.convert(&q, El::F32);
    let q = b.with("subtract", &q, 32.0);
    let scale = signed(b, x, 192, 16);
    let ds = scaled(b, &scale, &d);
    scaled(b, &q, &ds)
}

/// Values of E2M1, twice as large: those of low and then of high nibbles.
fn fp4(b: &mut Builder, q: &V) -> V {
    let q = nibbles(b, q);
    let table: Vec<i64> = FP4.iter().map(|&x| x.into()).collect();
    let table = b.table(El::F32, &table);
    let ids = b.convert(&q, El::I32);
    b.take(&table, &ids, 0)
}

fn mxfp4(b: &mut Builder, x: &V) -> V {
    let n = x.dims[0];
    let e = bytes(b, x, 0, 1);
    let e = b.reshape(&e, &[n]);
    let e = b.convert(&e, El::U32);
    // Exponents 0 and 1 are of numbers below the normal ones.
    let denormal = b.integer(El::U32, &[n], 0x0020_0000);
    let denormal = b.binary("shift_left", &denormal, &e);
    let power = b.with("subtract", &e, 1.0);
    let power = b.shift_left(&power, 23);
    let small = b.compare_with("LT", &e, 2.0);
    let bits = b.select(&small, &denormal, &power);
    let d = b.bitcast(&bits, El::F32);
    let q = bytes(b, x, 1, 16);
    let q = fp4(b, &q);
    scaled(b, &q, &d)
}

fn nvfp4(b: &mut Builder, x: &V) -> V {
    let n = x.dims[0];
    let e = bytes(b, x, 0, 4);
    let e = b.convert(&e, El::U32);
    // Half of an E4M3 float without a sign.
    let exponent = b.shift_right(&e, 3);
    let exponent = b.bits(&exponent, 15);
    let fraction = b.bits(&e, 7);
    let fraction = b.convert(&fraction, El::F32);
    let denormal = b.with("multiply", &fraction, 1.0 / 1024.0);
    let power = b.with("add", &exponent, 119.0);
    let power = b.shift_left(&power, 23);
    let power = b.bitcast(&power, El::F32);
    let share = b.with("divide", &fraction, 8.0);
    let share = b.with("add", &share, 1.0);
    let normal = b.mul(&share, &power);
    let is_small = b.compare_with("EQ", &exponent, 0.0);
    let d = b.select(&is_small, &denormal, &normal);
    let is_none = b.compare_with("EQ", &e, 127.0);
    let zero = b.splat(El::F32, &d.dims, 0.0);
    let d = b.select(&is_none, &zero, &d);
    let q = bytes(b, x, 4, 32);
    let q = b.reshape(&q, &[n, 4, 8]);
    let q = fp4(b, &q);
    scaled(b, &q, &d)
}

fn tq1_0(b: &mut Builder, x: &V) -> V {
    let n = x.dims[0];
    let d = half(b, x, 52);
    let mut all = Vec::new();
    for (at, len, digits) in [(0, 32, 5u64), (32, 16, 5), (48, 4, 4)] {
        let q = bytes(b, x, at, len);
        let q = b.reshape(&q, &[n, 1, len]);
        let dims = [n, digits, len];
        let q = b.repeat(&q, &dims, &[0, 1, 2]);
        let powers = b.table(El::U8, &[1, 3, 9, 27, 81][..digits as usize]);
        let powers = b.repeat(&powers, &dims, &[1]);
        // The product wraps: what is left is the digit's place.
        let rest = b.mul(&q, &powers);
        let rest = b.convert(&rest, El::I32);
        let rest = b.with("multiply", &rest, 3.0);
        let digit = b.shift_right(&rest, 8);
        all.push(b.reshape(&digit, &[n, digits * len]));
    }
    let q = b.concat(&all, 1);
    let q = b.convert(&q, El::F32);
    let q = b.with("subtract", &q, 1.0);
    scaled(b, &q, &d)
}

fn tq2_0(b: &mut Builder, x: &V) -> V {
    let d = half(b, x, 64);
    let q = quarters(b, x, 0);
    let q = b.convert(&q, El::F32);
    let q = b.with("subtract", &q, 1.0);
    scaled(b, &q, &d)
}
