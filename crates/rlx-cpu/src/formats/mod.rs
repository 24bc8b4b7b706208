//! Packed formats as programs over rows: one function a format says what a panel's block means.
//!
//! A function visits the block's runs: 16 or 32 elements of each row as words of four bytes, with the
//! run's scale and, where the format has one, what is taken away from every element:
//! `w = d scale (q - ZERO) - m least`, with the block's `d` and `m`. Products in integers, decoding for
//! many rows of x, decoding to f32: all are visitors of the same function. Layouts are drawn in
//! `rlx_core::formats`, by byte; here word `i` of a block is bytes `4 i..` without the odd ones, or as
//! [`Cut`](crate::panel::Cut) orders them.

mod codebook;
mod k;
mod levels;
mod simple;
mod small;

pub(crate) use codebook::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
pub(crate) use k::{Q2K, Q3K, Q4K, Q5K, Q6K};
pub(crate) use levels::{Iq4Nl, Iq4Xs, Mxfp4, Nvfp4};
pub(crate) use simple::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub(crate) use small::{Q1_0, Q2_0, Tq1_0, Tq2_0};

use crate::panel::ROWS;
use crate::simd::Lanes;

/// What is done with a block's runs.
pub(crate) trait Visitor<S: Lanes> {
    /// The scales of scales and of minima in a block of 256, before its runs. Shorter blocks have none.
    fn block(&mut self, d: S::G, m: S::G);
    /// Run `r` of 32 elements.
    fn run32(&mut self, r: usize, q: [S::V; 8], scale: S::G, least: S::G);
    /// Run `r` of 16 elements.
    fn run16(&mut self, r: usize, q: [S::V; 4], scale: S::G, least: S::G);
}

/// A block of a panel: words and odd bytes of 16 rows.
pub(crate) struct Parts<'a, W, O> {
    words: &'a W,
    odd: &'a O,
}

/// A block of a format's panel.
pub(crate) type Block<'a, F> = Parts<'a, <F as Format>::Words, <F as Format>::Odd>;

impl<W, O> Parts<'_, W, O> {
    /// Where its words begin.
    #[inline(always)]
    pub(crate) fn words(&self) -> *const u8 {
        core::ptr::from_ref(self.words).cast()
    }
}

impl<W, O> Clone for Parts<'_, W, O> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<W, O> Copy for Parts<'_, W, O> {}

/// A packed format.
pub(crate) trait Format {
    /// Elements of a block.
    const ELEMENTS: usize;
    /// Words of a run: 8 or 4.
    const RUN: usize;
    /// Whether bytes of a run are signed.
    const SIGNED: bool;
    /// The largest byte, of those without a sign: with [`Lanes::MOST`] it says how many products a lane
    /// takes.
    const LARGEST: i32;
    /// What every byte stands above its value.
    const ZERO: i32;
    /// Whether runs have a `least`; else it is not read.
    const LEAST: bool;
    /// Words of a panel's block.
    type Words: 'static;
    /// Its odd bytes.
    type Odd: 'static;
    /// The blocks of a panel.
    fn blocks(panel: &[u8]) -> impl Iterator<Item = Block<'_, Self>>;
    /// Visits every run of the `LANES` rows of group `h` once, in the order that suits the bits.
    fn visit<S: Lanes>(s: S, block: Block<Self>, h: usize, v: &mut impl Visitor<S>);
}

/// Elements, bytes of 16 blocks, words of a run, its bytes, and what they are above their values.
macro_rules! shape {
    ($elements:literal, 16 * $bytes:literal, $run:literal, signed, plain) => {
        shape!($elements, 16 * $bytes, $run, true, 128, 0, false);
    };
    ($elements:literal, 16 * $bytes:literal, $run:literal, 0..=$largest:literal, less $zero:literal) => {
        shape!($elements, 16 * $bytes, $run, false, $largest, $zero, false);
    };
    ($elements:literal, 16 * $bytes:literal, $run:literal, 0..=$largest:literal, least) => {
        shape!($elements, 16 * $bytes, $run, false, $largest, 0, true);
    };
    (
        $elements:literal, 16 * $bytes:literal, $run:literal,
        $signed:literal, $largest:literal, $zero:literal, $least:literal
    ) => {
        const ELEMENTS: usize = $elements;
        const RUN: usize = $run;
        const SIGNED: bool = $signed;
        const LARGEST: i32 = $largest;
        const ZERO: i32 = $zero;
        const LEAST: bool = $least;
        type Words = [u8; 64 * ($bytes / 4)];
        type Odd = [u8; 16 * ($bytes % 4)];
        #[inline(always)]
        fn blocks(panel: &[u8]) -> impl Iterator<Item = Block<'_, Self>> {
            let blocks = panel.len() / (16 * $bytes);
            let (odd, words) = panel.split_at(blocks * size_of::<Self::Odd>());
            words.as_chunks().0.iter().enumerate().map(
                #[inline(always)]
                move |(b, words)| {
                    let odd = odd.get(b * size_of::<Self::Odd>()..);
                    let odd = odd.and_then(<[u8]>::first_chunk);
                    $crate::formats::Parts {
                        words,
                        odd: odd.unwrap_or(const { &[0; 16 * ($bytes % 4)] }),
                    }
                },
            )
        }
    };
}
use shape;

/// `[e(0), …, e(7)]` and `[e(0), …, e(3)]`, written out: closures of `from_fn` and `map` are functions of
/// their own, which are compiled without a level's features where they are not inlined.
macro_rules! eight {
    ($i:ident => $e:expr) => {
        eight!($i => $e; 0 1 2 3 4 5 6 7)
    };
    ($i:ident => $e:expr; $($n:literal)*) => {
        [$({
            let $i: usize = $n;
            $e
        }),*]
    };
}
macro_rules! four {
    ($i:ident => $e:expr) => {
        super::eight!($i => $e; 0 1 2 3)
    };
}
use {eight, four};

/// Word `i` of a block's rows.
#[inline(always)]
fn word<S: Lanes, const N: usize, O>(s: S, b: Parts<'_, [u8; N], O>, h: usize, i: usize) -> S::V {
    s.words(&b.words[4 * (ROWS * i + h * S::LANES)..])
}

/// The f16 that is the block's odd part.
#[inline(always)]
fn odd_f16<S: Lanes, W>(s: S, b: Parts<'_, W, [u8; 32]>, h: usize) -> S::G {
    s.take_f16(&b.odd[2 * h * S::LANES..])
}

/// The two bits at `shift` of each byte.
#[inline(always)]
fn two_bits<S: Lanes>(s: S, w: S::V, shift: u32) -> S::V {
    s.and(s.right(w, shift), s.set(0x0303_0303))
}

/// Byte `i` of each word, with its sign.
#[inline(always)]
fn signed_byte<S: Lanes>(s: S, w: S::V, i: usize) -> S::V {
    s.signed_right(s.left(w, 24 - 8 * i as u32), 24)
}
