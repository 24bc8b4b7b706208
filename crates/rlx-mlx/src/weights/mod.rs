//! Packed weights in MLX's own layout, which its products read.
//!
//! MLX packs integers `q` of 2, 3, 4, 5, 6 or 8 bits, the first lowest in a stream of bits, and has an f32 scale and an
//! f32 bias for each 32: the number is `scale q + bias`. Every format of ggml is integers under a scale, so each
//! becomes such groups, and the numbers are the same ones: products of a scale and an integer have at most 24 bits, so
//! that they do not round but where ggml's own do. Formats with a scale for each 16 have two scales for 32 elements, of
//! which MLX's product takes one: there x is multiplied twice, with zeros in place of one half of each group.

mod integers;

use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::types::BlockFormat;
use rlx_core::{Error, Result};
use std::thread;

/// Elements under one scale in MLX.
const GROUP: usize = 32;

/// A packed weight's arrays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packed<T> {
    /// u32: the integers.
    words: T,
    /// f32: scales and biases of each 32, or of the first 16 of each.
    first: [T; 2],
    /// Those of the other 16.
    second: Option<[T; 2]>,
    bits: u8,
}

/// What a format's integers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bits of an integer.
    bits: u8,
    /// Whether each 16 elements have a scale of their own.
    halves: bool,
}

impl<T: Copy> Packed<T> {
    /// The arrays of a format, made one after another.
    pub(crate) fn of(format: BlockFormat, mut make: impl FnMut() -> T) -> Packed<T> {
        let layout = integers::layout(format);
        let words = make();
        let first = [make(), make()];
        let second = layout.halves.then(|| [make(), make()]);
        Packed { words, first, second, bits: layout.bits }
    }

    /// All arrays, in order.
    pub(crate) fn arrays(&self) -> Vec<T> {
        let second = self.second.into_iter().flatten();
        std::iter::once(self.words).chain(self.first).chain(second).collect()
    }

    /// Each array made anew, with the size of its last axis, of rows of so many columns.
    pub(crate) fn each(&self, columns: i64, mut f: impl FnMut(T, i64) -> T) -> Packed<T> {
        let groups = columns / GROUP as i64;
        Packed {
            words: f(self.words, groups * i64::from(self.bits)),
            first: self.first.map(|x| f(x, groups)),
            second: self.second.map(|pair| pair.map(|x| f(x, groups))),
            bits: self.bits,
        }
    }
}

impl Packed<Reg> {
    fn sizes(&self) -> [i64; 2] {
        [GROUP as i64, self.bits.into()]
    }

    /// Which of `k` columns have the first scale of their group.
    fn is_first(t: &mut Tape, k: i64) -> Reg {
        let columns = t.arange(Kind::I32, k);
        let sixteen = t.integer(Kind::I32, GROUP as i64 / 2);
        let half = t.bit_and(columns, sixteen);
        let zero = t.integer(Kind::I32, 0);
        t.eq(half, zero)
    }

    /// The numbers, f32.
    pub(crate) fn decode(&self, t: &mut Tape, k: i64) -> Reg {
        let mut decode = |[scales, biases]: [Reg; 2]| {
            t.with(Code::Dequantize, &[self.words, scales, biases], &self.sizes())
        };
        let first = decode(self.first);
        let Some(second) = self.second else { return first };
        let second = decode(second);
        let is_first = Self::is_first(t, k);
        t.select(is_first, first, second)
    }

    /// `x W^T` of f32 rows of `k` columns, by a product with each pair of scales and biases.
    fn by_halves(&self, t: &mut Tape, x: Reg, k: i64, product: Multiply<'_>) -> Reg {
        let Some(second) = self.second else { return product(t, x, self.words, self.first) };
        let (is_first, zero) = (Self::is_first(t, k), t.float(0.0));
        let (a, b) = (t.select(is_first, x, zero), t.select(is_first, zero, x));
        let a = product(t, a, self.words, self.first);
        let b = product(t, b, self.words, second);
        t.add(a, b)
    }

    /// `x W^T` of f32 rows of `k` columns.
    pub(crate) fn product(&self, t: &mut Tape, x: Reg, k: i64) -> Reg {
        let sizes = self.sizes();
        self.by_halves(t, x, k, &|t, x, words, [scales, biases]| {
            t.with(Code::QuantizedMatMul, &[x, words, scales, biases], &sizes)
        })
    }

    /// The same with a matrix for each row of `x [.., 1, k]`, of matrices one behind another.
    pub(crate) fn chosen_product(&self, t: &mut Tape, x: Reg, k: i64, which: Reg) -> Reg {
        let sizes = self.sizes();
        self.by_halves(t, x, k, &|t, x, words, [scales, biases]| {
            t.with(Code::GatherQuantizedMatMul, &[x, words, scales, biases, which], &sizes)
        })
    }
}

/// Writes a product of x with integers under scales and biases.
type Multiply<'a> = &'a dyn Fn(&mut Tape, Reg, Reg, [Reg; 2]) -> Reg;

/// A packed weight's bytes in MLX's layout, array by array, as [`Packed::arrays`] orders them.
pub(crate) struct Repacked {
    /// Integers: `elements / 32 * bits` words.
    pub words: Vec<u32>,
    /// Scales and biases, `elements / 32` of each.
    pub numbers: Vec<Vec<f32>>,
    /// Bits of an integer.
    pub bits: u8,
}

/// Threads that share a weight's blocks, from so many blocks on.
const SHARED: usize = 1 << 12;

/// Brings ggml's blocks into MLX's layout.
///
/// # Errors
/// `Internal` for bytes that are no whole blocks.
pub(crate) fn repack(format: BlockFormat, bytes: &[u8]) -> Result<Repacked> {
    let layout = integers::layout(format);
    let (elements, size) = (format.elements(), format.bytes());
    if !bytes.len().is_multiple_of(size) || !elements.is_multiple_of(GROUP) {
        let what = format!("{} bytes are no whole blocks of {}", bytes.len(), format.name());
        return Err(Error::internal(what));
    }
    let blocks = bytes.len() / size;
    let groups = elements / GROUP;
    let (per_block, kinds) = (groups * usize::from(layout.bits), if layout.halves { 4 } else { 2 });
    let mut words = vec![0u32; blocks * per_block];
    let mut numbers = vec![vec![0f32; blocks * groups]; kinds];
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = if blocks < SHARED { blocks.max(1) } else { blocks.div_ceil(threads) };
    thread::scope(|scope| {
        let mut numbers: Vec<_> =
            numbers.iter_mut().map(|all| all.chunks_mut(share * groups)).collect();
        let parts = bytes.chunks(share * size).zip(words.chunks_mut(share * per_block));
        for (bytes, words) in parts {
            let mut numbers: Vec<&mut [f32]> =
                numbers.iter_mut().map(|all| all.next().unwrap_or_default()).collect();
            let mut work = move || repack_blocks(format, layout, bytes, words, &mut numbers);
            if share >= blocks {
                work();
            } else {
                scope.spawn(work);
            }
        }
    });
    Ok(Repacked { words, numbers, bits: layout.bits })
}

fn repack_blocks(
    format: BlockFormat,
    layout: Layout,
    bytes: &[u8],
    words: &mut [u32],
    numbers: &mut [&mut [f32]],
) {
    let groups = format.elements() / GROUP;
    let per_block = groups * usize::from(layout.bits);
    let mut q = vec![0u8; format.elements()];
    let parts = if layout.halves { 2 } else { 1 };
    let mut scales = vec![[0f32; 2]; groups * parts];
    let blocks = bytes.chunks_exact(format.bytes()).zip(words.chunks_exact_mut(per_block));
    for (i, (block, words)) in blocks.enumerate() {
        integers::of_block(format, block, &mut q, &mut scales);
        pack(&q, layout.bits, words);
        for (j, pair) in scales.iter().enumerate() {
            let (group, half) = (i * groups + j / parts, j % parts);
            for (n, x) in pair.iter().enumerate() {
                numbers[2 * half + n][group] = *x;
            }
        }
    }
}

/// Integers of so many bits one behind the other, the first lowest.
fn pack(q: &[u8], bits: u8, words: &mut [u32]) {
    let (mut held, mut n, mut at) = (0u64, 0, 0);
    for &q in q {
        held |= u64::from(q) << n;
        n += u32::from(bits);
        if n >= 32 {
            words[at] = held as u32;
            (held, n, at) = (held >> 32, n - 32, at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlx_core::formats::decode_block;
    use rlx_core::target::Target;

    /// What MLX makes of the layout.
    fn decoded(r: &Repacked, i: usize) -> f32 {
        let bit = i * usize::from(r.bits);
        let two = u64::from(r.words[bit / 32])
            | u64::from(*r.words.get(bit / 32 + 1).unwrap_or(&0)) << 32;
        let q = two >> (bit % 32) & ((1 << r.bits) - 1);
        let half = if r.numbers.len() == 4 { i % 32 / 16 } else { 0 };
        let [scale, bias] = [0, 1].map(|n| r.numbers[2 * half + n][i / 32]);
        scale * q as f32 + bias
    }

    #[test]
    fn every_format_has_the_numbers_of_its_blocks() {
        for format in Target::every_format() {
            let mut seed = 0x9e37_79b9_7f4a_7c15u64;
            let mut byte = || {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                (seed >> 32) as u8
            };
            let blocks = 37;
            let mut bytes: Vec<u8> = (0..blocks * format.bytes()).map(|_| byte()).collect();
            // Scales that are infinite or none at all are another matter: exponents below the largest.
            for block in bytes.chunks_exact_mut(format.bytes()) {
                for (at, mask) in integers::scale_bytes(format) {
                    block[at] &= mask;
                }
            }
            let packed = repack(format, &bytes).expect("whole blocks");
            let mut want = vec![0f32; blocks * format.elements()];
            let each = bytes.chunks_exact(format.bytes());
            for (block, out) in each.zip(want.chunks_exact_mut(format.elements())) {
                decode_block(format, block, out).expect("a block");
            }
            let largest = want.iter().fold(0f32, |m, x| m.max(x.abs()));
            let exact = !integers::rounds(format);
            for (i, want) in want.iter().enumerate() {
                let got = decoded(&packed, i);
                let near = (got - want).abs() <= largest * f32::EPSILON;
                let fits = if exact { got == *want } else { near };
                assert!(fits, "{} {i}: {got:e}, expected {want:e}", format.name());
            }
        }
    }
}
