//! Vectors whose lanes are rows of a weight: what matrix products are written in.
//!
//! A panel ([`panel`](crate::panel)) holds 16 rows of a weight word by word, so a vector of words is the
//! same word of [`Lanes::LANES`] rows. Code over them reads like code for one row: a product needs no sum
//! across lanes, and a block's scale is one vector.

use super::books::{Eights, Fours};
use crate::written_out::list;

/// Vector operations on words and floats of rows.
///
/// `V` is a 32-bit word a row, `G` an f32 a row. `A` and `AS` are sums of integer products, which a level
/// may keep in pieces until [`total`](Self::total), and in 16 bits until [`settle`](Self::settle).
pub(crate) trait Lanes: Copy {
    /// A word of each row.
    type V: Copy;
    /// An f32 of each row.
    type G: Copy;
    /// Integer sums of [`dot`](Self::dot).
    type A: Copy;
    /// Integer sums of [`dot_signed`](Self::dot_signed).
    type AS: Copy;
    /// Rows in a vector: 16, or a divisor of it.
    const LANES: usize;
    /// Rows of x that a tile of a matrix product has: its sums stay in registers.
    const TILE: usize;
    /// Rows of x that a tile of a float product has: 4, 6, 8 or 12.
    const FLOATS: usize = 6;
    /// Vectors of a panel's row that a tile of a float product multiplies at once: enough sums in flight to hide
    /// the latency of one, and no more than registers hold.
    const VECTORS: usize = 2;
    /// Bytes that a word of x takes, as [`put_x`](Self::put_x) writes them.
    const X: usize = 4;
    /// What a lane of `A` holds before it must [`settle`](Self::settle); each [`dot`](Self::dot) adds two
    /// products to it.
    const MOST: i32 = i32::MAX;

    // words

    /// The first `4 LANES` bytes.
    fn words(self, x: &[u8]) -> Self::V;
    /// Asks for a cache line that will be read soon. Any address will do.
    #[inline(always)]
    fn fetch(self, _: *const u8) {}
    /// The first `LANES` bytes, each to a word.
    fn bytes(self, x: &[u8]) -> Self::V;
    /// The first `LANES` bytes, each to a word with its sign.
    fn signed_bytes(self, x: &[u8]) -> Self::V;
    fn put_words(self, x: Self::V, out: &mut [u8]);
    fn set(self, x: u32) -> Self::V;
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    fn plus(self, a: Self::V, b: Self::V) -> Self::V;
    fn minus(self, a: Self::V, b: Self::V) -> Self::V;
    /// Low 32 bits.
    fn times(self, a: Self::V, b: Self::V) -> Self::V;
    /// All ones where equal, else zero.
    fn equal(self, a: Self::V, b: Self::V) -> Self::V;
    /// Left by `n` in 0..32.
    fn left(self, a: Self::V, n: u32) -> Self::V;
    /// Right by `n` in 0..32, zeros in.
    fn right(self, a: Self::V, n: u32) -> Self::V;
    /// Right by `n` in 0..32, the sign in.
    fn signed_right(self, a: Self::V, n: u32) -> Self::V;
    /// Byte by byte, wrapping.
    fn minus_bytes(self, a: Self::V, b: Self::V) -> Self::V;
    /// The table's entry for each byte of `a`, which is in 0..16.
    fn look_up(self, table: &[u8; 16], a: Self::V) -> Self::V;
    /// `table[a mod len]`; the length is a power of two.
    fn gather(self, table: &[u32], a: Self::V) -> Self::V;

    // bits to bytes

    /// Bits `4 i..4 i + 4` of each word, `i` in 0..8, each at place `up`, 0..=4, of its byte.
    #[inline(always)]
    fn bits(self, w: Self::V, i: usize, up: u32) -> Self::V {
        let four = self.and(self.right(w, 4 * i as u32), self.set(15));
        self.and(self.times(four, self.set(0x0020_4081 << up)), self.set(0x0101_0101 << up))
    }
    /// Four pairs of bits of each word, those of its byte `i`, one to a byte.
    #[inline(always)]
    fn pairs(self, w: Self::V, i: usize) -> Self::V {
        let four = byte(self, w, i);
        let two = self.and(self.or(four, self.left(four, 12)), self.set(0x000f_000f));
        self.and(self.or(two, self.left(two, 6)), self.set(0x0303_0303))
    }

    // codebooks

    /// Levels, one to a byte, of entries `low + 256 top` of the book, for bytes 0, 1, 2 and 3 of each word.
    #[inline(always)]
    fn eights<const N: usize>(
        self,
        book: &Eights<N>,
        low: Self::V,
        top: Self::V,
    ) -> [[Self::V; 2]; 4] {
        list!(P in 0 1 2 3 => {
            let levels = self.gather(&book.nibbles, index::<Self, N>(self, low, top, P));
            [self::low(self, levels), high(self, levels)]
        })
    }
    /// Values, one to a byte, of the same entries of a book of four.
    #[inline(always)]
    fn fours<const N: usize>(self, book: &Fours<N>, low: Self::V, top: Self::V) -> [Self::V; 4] {
        list!(P in 0 1 2 3 => self.gather(&book.words, index::<Self, N>(self, low, top, P)))
    }
    /// Bytes less than 128 with the signs of bits `8 p..` of each word, four for each of the two.
    #[inline(always)]
    fn with_signs(self, w: [Self::V; 2], signs: Self::V, p: usize) -> [Self::V; 2] {
        [signed(self, w[0], signs, 2 * p), signed(self, w[1], signs, 2 * p + 1)]
    }

    // sums of products of four bytes

    /// Writes four signed bytes of x, each in -127..=127, as [`dot`](Self::dot) and
    /// [`dot_signed`](Self::dot_signed) read them: `X` bytes. `whole` has the integers whose high part the bytes are,
    /// or which they are.
    #[inline(always)]
    fn put_x(x: [u8; 4], whole: [i16; 4], out: &mut [u8]) {
        let _ = whole;
        out.copy_from_slice(&x);
    }
    /// Where sums begin: what they have more than products.
    fn start(self, sum: i32) -> Self::A;
    /// Adds the products of each row's four bytes, 0..=127, with the word of x.
    fn dot(self, acc: Self::A, w: Self::V, x: &[u8]) -> Self::A;
    /// Makes room for as many products as at the beginning.
    #[inline(always)]
    fn settle(self, acc: Self::A) -> Self::A {
        acc
    }
    fn total(self, acc: Self::A) -> Self::V;
    /// Where sums with signed bytes begin; `sum` is that of the bytes of x to come. A level that adds
    /// to every weight takes it back here, in integers.
    fn zero_signed(self, sum: i32) -> Self::AS;
    /// As [`dot`](Self::dot) with signed bytes.
    fn dot_signed(self, acc: Self::AS, w: Self::V, x: &[u8]) -> Self::AS;
    fn total_signed(self, acc: Self::AS) -> Self::V;

    // floats

    /// From signed words.
    fn floats(self, a: Self::V) -> Self::G;
    /// From f16 in the words' low halves.
    fn halves(self, a: Self::V) -> Self::G;
    fn as_floats(self, a: Self::V) -> Self::G;
    /// From the first `LANES` f32.
    fn take_f32(self, x: &[u8]) -> Self::G;
    /// From the first `LANES` f16.
    fn take_f16(self, x: &[u8]) -> Self::G;
    /// From the first `LANES` bfloat16.
    fn take_bf16(self, x: &[u8]) -> Self::G;
    fn take(self, x: &[f32]) -> Self::G;
    fn put(self, x: Self::G, out: &mut [f32]);
    fn all(self, x: f32) -> Self::G;
    fn product(self, a: Self::G, b: Self::G) -> Self::G;
    /// `a b + c`, rounded once where the level can.
    fn add_product(self, a: Self::G, b: Self::G, c: Self::G) -> Self::G;
    /// The sum of the lanes, in halves.
    #[inline(always)]
    fn across(self, a: Self::G) -> f32 {
        let mut v = [0.0; 16];
        self.put(a, &mut v);
        let mut n = Self::LANES;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                v[i] += v[i + n];
            }
        }
        v[0]
    }
}

/// Byte `i` of each word, without a sign.
#[inline(always)]
pub(crate) fn byte<S: Lanes>(s: S, w: S::V, i: usize) -> S::V {
    s.and(s.right(w, 8 * i as u32), s.set(0xff))
}

/// The low nibbles of the bytes.
#[inline(always)]
pub(crate) fn low<S: Lanes>(s: S, w: S::V) -> S::V {
    s.and(w, s.set(0x0f0f_0f0f))
}

/// The high nibbles of the bytes.
#[inline(always)]
pub(crate) fn high<S: Lanes>(s: S, w: S::V) -> S::V {
    low(s, s.right(w, 4))
}

/// Byte `p` of `low`, and of `top` above it where a book has more than 256 entries.
#[inline(always)]
fn index<S: Lanes, const N: usize>(s: S, low: S::V, top: S::V, p: usize) -> S::V {
    let low = byte(s, low, p);
    if N > 256 { s.or(low, s.left(byte(s, top, p), 8)) } else { low }
}

/// Bytes with the signs of bits `4 i..4 i + 4`.
#[inline(always)]
fn signed<S: Lanes>(s: S, w: S::V, signs: S::V, i: usize) -> S::V {
    let ones = s.bits(signs, i, 0);
    let mask = s.minus(s.left(ones, 8), ones); // 255 for each 1
    s.minus_bytes(s.xor(w, mask), mask)
}

/// An array, byte offset 0; what is missing is zero. Callers pass slices that are long enough, which
/// the compiler sees: no branch is left.
#[inline(always)]
pub(crate) fn head<const N: usize>(x: &[u8]) -> &[u8; N] {
    x.first_chunk().unwrap_or(const { &[0; N] })
}

/// A word of x that is kept as its four bytes.
#[inline(always)]
pub(crate) fn four(x: &[u8]) -> u32 {
    u32::from_le_bytes(*head(x))
}

#[inline(always)]
pub(crate) fn head_f32<const N: usize>(x: &[f32]) -> &[f32; N] {
    x.first_chunk().unwrap_or(const { &[0.0; N] })
}
