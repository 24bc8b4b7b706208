//! Weight types: how a block becomes f32, and its integer dot product with int8 activations.
//!
//! Layouts are ggml's (`rlx_core::reference::dequantize` draws them). Decoding rounds as the
//! reference does, product by product, so that both give the same bits.

use crate::simd::{LANES, Simd};
use core::array::from_fn;

/// The `N` bytes at `offset`, which the caller's array types have room for.
#[inline(always)]
pub(crate) fn at<const N: usize>(bytes: &[u8], offset: usize) -> &[u8; N] {
    bytes[offset..].first_chunk().unwrap_or(const { &[0; N] })
}

#[inline(always)]
fn bits(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(*at(bytes, offset))
}

#[inline(always)]
fn put<S: Simd>(s: S, y: &mut [f32], offset: usize, x: S::F) {
    if let Some(out) = y[offset..].first_chunk_mut() {
        s.store(x, out);
    }
}

/// A weight type, block by block. A scalar type's block is a run of [`LANES`] elements.
pub(crate) trait Weight {
    /// Elements of a block.
    const ELEMENTS: usize;
    /// Bytes of a block.
    type Block;
    /// A row's whole blocks.
    fn blocks(row: &[u8]) -> &[Self::Block];
    /// One block to `y[..ELEMENTS]`.
    fn decode<S: Simd>(s: S, w: &Self::Block, y: &mut [f32]);
}

/// A packed type with its integer dot product.
pub(crate) trait Packed: Weight {
    /// The activations' block of as many elements: `q8_0` for 32, `q8_k` for 256.
    type X;
    /// A row's blocks.
    fn x_blocks(row: &[u8]) -> &[Self::X];
    /// Adds one block's products with `R` rows of activations; a row's result is the sum of its
    /// accumulator's lanes. The weights are unpacked once for all rows.
    fn dot<S: Simd, const R: usize>(s: S, w: &Self::Block, x: [&Self::X; R], acc: &mut [S::F; R]);
}

macro_rules! scalar_weight {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, |$s:ident, $w:ident| $load:expr) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl Weight for $name {
            const ELEMENTS: usize = LANES;
            type Block = [u8; $bytes];
            #[inline(always)]
            fn blocks(row: &[u8]) -> &[Self::Block] {
                row.as_chunks().0
            }
            #[inline(always)]
            fn decode<S: Simd>($s: S, $w: &Self::Block, y: &mut [f32]) {
                put($s, y, 0, $load);
            }
        }
    };
}

scalar_weight!(
    /// f32.
    F32, 32, |s, w| {
        let w = w.as_chunks::<4>().0;
        s.load(&from_fn(|i| f32::from_le_bytes(w[i])))
    }
);
scalar_weight!(
    /// f16.
    F16, 16, |s, w| s.load_f16(w)
);
scalar_weight!(
    /// bfloat16.
    Bf16, 16, |s, w| s.load_bf16(w)
);

macro_rules! block_types {
    ($elements:literal, $bytes:literal) => {
        const ELEMENTS: usize = $elements;
        type Block = [u8; $bytes];
        #[inline(always)]
        fn blocks(row: &[u8]) -> &[Self::Block] {
            row.as_chunks().0
        }
    };
    (x $bytes:literal) => {
        type X = [u8; $bytes];
        #[inline(always)]
        fn x_blocks(row: &[u8]) -> &[Self::X] {
            row.as_chunks().0
        }
    };
}

/// Stores 32 signed bytes times `d`.
#[inline(always)]
fn scaled<S: Simd>(s: S, q: S::B, d: f32, y: &mut [f32], offset: usize) {
    for (i, q) in s.widen(q).into_iter().enumerate() {
        put(s, y, offset + i * LANES, s.mul(q, s.splat(d)));
    }
}

/// The dot product of 32 signed bytes with `q8_0` blocks, times both scales.
#[inline(always)]
fn dot_q8_0<S: Simd, const R: usize>(
    s: S,
    q: S::B,
    d: f32,
    x: [&[u8; 34]; R],
    acc: &mut [S::F; R],
) {
    let one = s.splat_i16(1, 1);
    for r in 0..R {
        let sums = s.dot_signed(q, s.bytes(at(x[r], 2)));
        let sum = s.to_f32(s.madd(s.zero(), sums, one));
        acc[r] = s.fma(sum, s.splat(d * s.f16(bits(x[r], 0))), acc[r]);
    }
}

/// 4 bits less 8, one scale.
pub(crate) struct Q4_0;

impl Weight for Q4_0 {
    block_types!(32, 18);
    #[inline(always)]
    fn decode<S: Simd>(s: S, w: &[u8; 18], y: &mut [f32]) {
        let q = s.sub_u8(s.nibbles(at(w, 2)), s.splat_u8(8));
        scaled(s, q, s.f16(bits(w, 0)), y, 0);
    }
}

impl Packed for Q4_0 {
    block_types!(x 34);
    #[inline(always)]
    fn dot<S: Simd, const R: usize>(s: S, w: &[u8; 18], x: [&[u8; 34]; R], acc: &mut [S::F; R]) {
        let q = s.sub_u8(s.nibbles(at(w, 2)), s.splat_u8(8));
        dot_q8_0(s, q, s.f16(bits(w, 0)), x, acc);
    }
}

/// 8 bits, one scale.
pub(crate) struct Q8_0;

impl Weight for Q8_0 {
    block_types!(32, 34);
    #[inline(always)]
    fn decode<S: Simd>(s: S, w: &[u8; 34], y: &mut [f32]) {
        scaled(s, s.bytes(at(w, 2)), s.f16(bits(w, 0)), y, 0);
    }
}

impl Packed for Q8_0 {
    block_types!(x 34);
    #[inline(always)]
    fn dot<S: Simd, const R: usize>(s: S, w: &[u8; 34], x: [&[u8; 34]; R], acc: &mut [S::F; R]) {
        dot_q8_0(s, s.bytes(at(w, 2)), s.f16(bits(w, 0)), x, acc);
    }
}

/// The eight scales and eight minima of `q4_k` and `q5_k`, from the 12 bytes they share. Runs
/// 0..4 have the low 6 bits of bytes `j` and `j + 4`; runs 4..8 a nibble of byte `j + 4` below
/// the top 2 bits of bytes `j - 4` and `j`. Four runs are unpacked at once in a word.
#[inline(always)]
fn scales_and_minima(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let word = |i: usize| u32::from_le_bytes(*at(packed, i));
    let (a, b, c) = (word(0), word(4), word(8));
    let top = |x: u32| (x >> 2) & 0x3030_3030;
    let join = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32).to_le_bytes();
    (
        join(a & 0x3f3f_3f3f, (c & 0x0f0f_0f0f) | top(a)),
        join(b & 0x3f3f_3f3f, ((c >> 4) & 0x0f0f_0f0f) | top(b)),
    )
}

/// A block of eight runs of 32, each with a scale and a minimum: what `q4_k` and `q5_k` share.
/// `pair(j)` unpacks runs `2j` and `2j + 1`.
#[inline(always)]
fn decode_runs<S: Simd>(s: S, w: &[u8], y: &mut [f32], pair: impl Fn(usize) -> [S::B; 2]) {
    let (d, m) = (s.f16(bits(w, 0)), s.f16(bits(w, 2)));
    let (scales, minima) = scales_and_minima(at(w, 4));
    for j in 0..4 {
        for (k, q) in pair(j).into_iter().enumerate() {
            let run = 2 * j + k;
            let (ds, mt) = (d * f32::from(scales[run]), m * f32::from(minima[run]));
            for (i, q) in s.widen(q).into_iter().enumerate() {
                put(s, y, 32 * run + i * LANES, s.sub(s.mul(s.splat(ds), q), s.splat(mt)));
            }
        }
    }
}

/// The integer product of such a block: `d dx sum(scale q x) - m dx sum(minimum sum(x))`, whose
/// inner sums stay in integers for all 256 elements.
#[inline(always)]
fn dot_runs<S: Simd, const R: usize>(
    s: S,
    w: &[u8],
    x: [&[u8; 292]; R],
    acc: &mut [S::F; R],
    pair: impl Fn(usize) -> [S::B; 2],
) {
    let (d, m) = (s.f16(bits(w, 0)), s.f16(bits(w, 2)));
    let (scales, minima) = scales_and_minima(at(w, 4));
    let mut sums = [s.zero(); R];
    for j in 0..4 {
        let [low, high] = pair(j);
        let scale = |run: usize| s.splat_i16(i16::from(scales[run]), i16::from(scales[run]));
        let (scale_low, scale_high) = (scale(2 * j), scale(2 * j + 1));
        for r in 0..R {
            let x_low = s.bytes(at(x[r], 4 + 64 * j));
            let x_high = s.bytes(at(x[r], 36 + 64 * j));
            sums[r] = s.madd(sums[r], s.dot(low, x_low), scale_low);
            sums[r] = s.madd(sums[r], s.dot(high, x_high), scale_high);
        }
    }
    let minima = s.twice_u8(&minima);
    for r in 0..R {
        let dx = f32::from_le_bytes(*at(x[r], 0));
        let below = s.madd(s.zero(), minima, s.load_i16(at(x[r], 260)));
        acc[r] = s.fma(s.to_f32(sums[r]), s.splat(d * dx), acc[r]);
        acc[r] = s.fma(s.to_f32(below), s.splat(-m * dx), acc[r]);
    }
}

/// 4 bits in super-blocks.
pub(crate) struct Q4K;

impl Q4K {
    #[inline(always)]
    fn pair<S: Simd>(s: S, w: &[u8; 144], j: usize) -> [S::B; 2] {
        let q = s.bytes(at(w, 16 + 32 * j));
        [s.and(q, s.splat_u8(15)), s.shr(q, 4)]
    }
}

impl Weight for Q4K {
    block_types!(256, 144);
    #[inline(always)]
    fn decode<S: Simd>(s: S, w: &[u8; 144], y: &mut [f32]) {
        decode_runs(
            s,
            w,
            y,
            #[inline(always)]
            |j| Self::pair(s, w, j),
        );
    }
}

impl Packed for Q4K {
    block_types!(x 292);
    #[inline(always)]
    fn dot<S: Simd, const R: usize>(s: S, w: &[u8; 144], x: [&[u8; 292]; R], acc: &mut [S::F; R]) {
        dot_runs(
            s,
            w,
            x,
            acc,
            #[inline(always)]
            |j| Self::pair(s, w, j),
        );
    }
}

/// 5 bits in super-blocks.
pub(crate) struct Q5K;

impl Q5K {
    #[inline(always)]
    fn pair<S: Simd>(s: S, w: &[u8; 176], high: S::B, j: usize) -> [S::B; 2] {
        let q = s.bytes(at(w, 48 + 32 * j));
        let (low_bits, one) = (s.splat_u8(15), s.splat_u8(1));
        let fifth = |run: u32| s.shl(s.and(s.shr(high, run), one), 4);
        let run = 2 * j as u32;
        [s.or(s.and(q, low_bits), fifth(run)), s.or(s.shr(q, 4), fifth(run + 1))]
    }
}

impl Weight for Q5K {
    block_types!(256, 176);
    #[inline(always)]
    fn decode<S: Simd>(s: S, w: &[u8; 176], y: &mut [f32]) {
        let high = s.bytes(at(w, 16));
        decode_runs(
            s,
            w,
            y,
            #[inline(always)]
            |j| Self::pair(s, w, high, j),
        );
    }
}

impl Packed for Q5K {
    block_types!(x 292);
    #[inline(always)]
    fn dot<S: Simd, const R: usize>(s: S, w: &[u8; 176], x: [&[u8; 292]; R], acc: &mut [S::F; R]) {
        let high = s.bytes(at(w, 16));
        dot_runs(
            s,
            w,
            x,
            acc,
            #[inline(always)]
            |j| Self::pair(s, w, high, j),
        );
    }
}

/// 6 bits less 32 in super-blocks of 16 runs of 16.
pub(crate) struct Q6K;

impl Q6K {
    /// The four runs of 32 of half `h`, 0..=63.
    #[inline(always)]
    fn quarter<S: Simd>(s: S, w: &[u8; 210], h: usize) -> [S::B; 4] {
        let (a, b) = (s.bytes(at(w, 64 * h)), s.bytes(at(w, 64 * h + 32)));
        let high = s.bytes(at(w, 128 + 32 * h));
        let (low_bits, two) = (s.splat_u8(15), s.splat_u8(0x30));
        [
            s.or(s.and(a, low_bits), s.and(s.shl(high, 4), two)),
            s.or(s.and(b, low_bits), s.and(s.shl(high, 2), two)),
            s.or(s.shr(a, 4), s.and(high, two)),
            s.or(s.shr(b, 4), s.and(s.shr(high, 2), two)),
        ]
    }
}

impl Weight for Q6K {
    block_types!(256, 210);
    #[inline(always)]
    fn decode<S: Simd>(s: S, w: &[u8; 210], y: &mut [f32]) {
        let d = s.f16(bits(w, 208));
        for h in 0..2 {
            for (k, q) in Self::quarter(s, w, h).into_iter().enumerate() {
                let run = 4 * h + k;
                let scale = |half: usize| s.splat(d * f32::from(w[192 + 2 * run + half] as i8));
                let q = s.widen(s.sub_u8(q, s.splat_u8(32)));
                for (i, q) in q.into_iter().enumerate() {
                    put(s, y, 32 * run + i * LANES, s.mul(scale(i / 2), q));
                }
            }
        }
    }
}

impl Packed for Q6K {
    block_types!(x 292);
    #[inline(always)]
    fn dot<S: Simd, const R: usize>(s: S, w: &[u8; 210], x: [&[u8; 292]; R], acc: &mut [S::F; R]) {
        // q is taken as 0..=63; what that adds, 32 scale sum(x), is where the sums start.
        let minus_32 = s.mul_i16(s.widen_i8(at(w, 192)), s.splat_i16(-32, -32));
        let mut sums: [S::I; R] =
            from_fn(|r| s.madd(s.zero(), minus_32, s.load_i16(at(x[r], 260))));
        for h in 0..2 {
            for (k, q) in Self::quarter(s, w, h).into_iter().enumerate() {
                let run = 4 * h + k;
                let scale = |half: usize| i16::from(w[192 + 2 * run + half] as i8);
                let scale = s.splat_i16(scale(0), scale(1));
                for r in 0..R {
                    let x = s.bytes(at(x[r], 4 + 32 * run));
                    sums[r] = s.madd(sums[r], s.dot(q, x), scale);
                }
            }
        }
        let d = s.f16(bits(w, 208));
        for r in 0..R {
            let dx = f32::from_le_bytes(*at(x[r], 0));
            acc[r] = s.fma(s.to_f32(sums[r]), s.splat(d * dx), acc[r]);
        }
    }
}
