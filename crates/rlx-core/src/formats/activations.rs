//! Activations to 8 bits and to 4, as ggml's reference code rounds them, and to 15; `decode_row` is the way back.

use crate::math::round;
use crate::types::BlockFormat;
use crate::{Error, Result};
use alloc::format;
use half::f16;

/// Packs rows of whole blocks of 32 into `q8_0`: f16 `d = max |x| / 127`, then 32 `i8`
/// `x / d`, halves rounded away from zero. `out` has 34 bytes a block.
///
/// The division uses `d` before it is rounded to f16, as ggml's does.
///
/// # Errors
///
/// `Internal` when the lengths do not fit each other.
pub fn encode_q8_0(x: &[f32], out: &mut [u8]) -> Result<()> {
    check("encode_q8_0", BlockFormat::Q8_0, x, out)?;
    for (x, block) in x.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<34>().0) {
        let largest = x.iter().fold(0.0f32, |most, v| most.max(v.abs()));
        let d = largest / 127.0;
        let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
        block[..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
        for (q, &v) in block[2..].iter_mut().zip(x) {
            *q = round(f64::from(v * inverse)) as i8 as u8;
        }
    }
    Ok(())
}

/// Packs rows of whole blocks of 32 into `q4_0`: f16 `d`, then 16 bytes with `q` of element `i` in the low half of byte
/// `i` and of element `16 + i` in the high half; an element is `d (q - 8)`. `out` has 18 bytes a block.
///
/// `d` is minus an eighth of the first value of the largest magnitude, sign kept: that value has the `q` 0. The others
/// have the whole part of `x / d + 8.5`, 15 at most, with `d` before it is rounded to f16, as ggml's do. A block
/// of zeros has the `d` 0, where ggml's has minus 0.
///
/// # Errors
///
/// `Internal` when the lengths do not fit each other.
pub fn encode_q4_0(x: &[f32], out: &mut [u8]) -> Result<()> {
    check("encode_q4_0", BlockFormat::Q4_0, x, out)?;
    for (x, block) in x.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<18>().0) {
        let mut largest = 0.0f32;
        for &v in x {
            if v.abs() > largest.abs() {
                largest = v;
            }
        }
        let d = if largest != 0.0 { largest / -8.0 } else { 0.0 };
        let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
        block[..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
        // A cast cuts off the fraction; NaN becomes 0.
        let code = |v: f32| ((v * inverse + 8.5) as u8).min(15);
        for (i, q) in block[2..].iter_mut().enumerate() {
            *q = code(x[i]) | (code(x[i + 16]) << 4);
        }
    }
    Ok(())
}

/// Packs rows of whole super-blocks of 256 into `q8_k`: f32 `d`, 256 `i8`, and the 16 sums of 16
/// of them as `i16`. `out` has 292 bytes a block.
///
/// `d` is minus the value of largest magnitude, sign kept, over 127: that value becomes -127.
/// Halves are rounded to even.
///
/// # Errors
///
/// `Internal` when the lengths do not fit each other.
pub fn encode_q8_k(x: &[f32], out: &mut [u8]) -> Result<()> {
    check("encode_q8_k", BlockFormat::Q8K, x, out)?;
    for (x, block) in x.as_chunks::<256>().0.iter().zip(out.as_chunks_mut::<292>().0) {
        let mut largest = 0.0f32; // the first of the largest magnitude, with its sign
        for &v in x {
            if v.abs() > largest.abs() {
                largest = v;
            }
        }
        if largest == 0.0 {
            block.fill(0);
            continue;
        }
        let inverse = -127.0 / largest;
        block[..4].copy_from_slice(&(1.0 / inverse).to_le_bytes());
        let mut sums = [0i16; 16];
        for (i, &v) in x.iter().enumerate() {
            let q = round_even(inverse * v).min(127.0) as i8;
            block[4 + i] = q as u8;
            sums[i / 16] += i16::from(q); // at most 16 * 128
        }
        for (slot, sum) in block[260..].as_chunks_mut::<2>().0.iter_mut().zip(sums) {
            *slot = sum.to_le_bytes();
        }
    }
    Ok(())
}

/// The largest integer of a `q15_0` block: both parts are bytes, the low one in -64..=63.
pub const Q15_MOST: f32 = 16_319.0;

/// Packs rows of whole blocks of 32 into `q15_0`: f32 `d = max |x| / 16319`, then of the integers `x / d`, halves
/// rounded to even, 32 `i8` high parts and 32 `i8` low parts: `128 high + low`. `out` has 68 bytes a block.
///
/// # Errors
///
/// `Internal` when the lengths do not fit each other.
pub fn encode_q15_0(x: &[f32], out: &mut [u8]) -> Result<()> {
    check("encode_q15_0", BlockFormat::Q15_0, x, out)?;
    for (x, block) in x.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<68>().0) {
        let d = x.iter().fold(0.0f32, |most, v| most.max(v.abs())) / Q15_MOST;
        let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
        block[..4].copy_from_slice(&d.to_le_bytes());
        for (i, &v) in x.iter().enumerate() {
            // Where d is subnormal its inverse is infinite, and a zero's quotient NaN.
            let v = v * inverse;
            let v = if v.is_nan() { 0.0 } else { v.clamp(-Q15_MOST, Q15_MOST) };
            let q = round_even(v) as i32;
            let high = (q + 64) >> 7;
            (block[4 + i], block[36 + i]) = (high as i8 as u8, (q - 128 * high) as i8 as u8);
        }
    }
    Ok(())
}

/// How many times as large as the mean of its row's blocks the square of a block's scale must be for [`keep_large`]:
/// the largest in steps of a quarter that kept prompts' mean divergence from f32 below 1e-3 in six formats of one model
/// (docs/decisions/2026-11-26-mixed-activations.md).
const LARGE: f64 = 2.25;

/// Which blocks of a row of `q15_0` are large, from the scales of them all: those whose [`is_large`] is true of this
/// bound. An int8 block's rounding errors grow with its scale, and in a row of activations a few blocks have nearly all
/// of them.
pub fn large_above(scales: impl Iterator<Item = f32>) -> f64 {
    let (mut squares, mut blocks) = (0.0, 0u32);
    for d in scales {
        squares += f64::from(d) * f64::from(d);
        blocks += 1;
    }
    LARGE * squares / f64::from(blocks.max(1))
}

/// Whether a block of this scale is large, by the bound of [`large_above`].
pub fn is_large(d: f32, bound: f64) -> bool {
    f64::from(d) * f64::from(d) > bound
}

fn q15_0_scale(block: &[u8; 68]) -> f32 {
    f32::from_le_bytes([block[0], block[1], block[2], block[3]])
}

/// Clears the low parts of a row's small blocks of `q15_0`. What is left is the nearest multiple of 128.
///
/// # Errors
///
/// `Internal` for a row that is no whole blocks.
pub fn keep_large(row: &mut [u8]) -> Result<()> {
    let (blocks, rest) = row.as_chunks::<68>();
    if !rest.is_empty() {
        return Err(Error::internal("keep_large: the row is no whole blocks"));
    }
    let bound = large_above(blocks.iter().map(q15_0_scale));
    clear_small(row, bound);
    Ok(())
}

/// The same for some of a row's blocks, by the row's bound of [`large_above`].
pub fn clear_small(blocks: &mut [u8], bound: f64) {
    let blocks = blocks.as_chunks_mut::<68>().0.iter_mut();
    for block in blocks.filter(|block| !is_large(q15_0_scale(block), bound)) {
        block[36..].fill(0);
    }
}

/// Rounds halves to even, for magnitudes below 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
fn round_even(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    (x + MAGIC) - MAGIC
}

fn check(name: &str, format: BlockFormat, x: &[f32], out: &[u8]) -> Result<()> {
    let per = format.elements();
    if x.len().is_multiple_of(per) && out.len() == x.len() / per * format.bytes() {
        return Ok(());
    }
    Err(Error::internal(format!("{name}: {} elements do not fill {} bytes", x.len(), out.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::decode_block;

    #[test]
    fn q8_0_rounds_halves_away_from_zero() {
        let mut x = [0.0f32; 32];
        (x[0], x[1], x[2], x[3]) = (127.0, 0.5, -0.5, 2.5);
        let mut block = [0; 34];
        encode_q8_0(&x, &mut block).unwrap();
        assert_eq!(block[..6], [0x00, 0x3c, 127, 1, (-1i8) as u8, 3]);
        let mut y = [0.0; 32];
        decode_block(BlockFormat::Q8_0, &block, &mut y).unwrap();
        assert_eq!(y[..4], [127.0, 1.0, -1.0, 3.0]);
    }

    #[test]
    fn q15_0_has_every_number_within_half_a_step_and_its_ends_exactly() {
        let mut x: [f32; 32] = core::array::from_fn(|i| (i as f32 - 15.7) * 37.3);
        (x[0], x[1], x[2], x[3]) = (-16_319.0, 16_319.0, 64.0, -64.0);
        (x[4], x[5], x[6]) = (0.5, 1.5, 63.49);
        let mut block = [0; 68];
        encode_q15_0(&x, &mut block).unwrap();
        assert_eq!(block[..4], 1.0f32.to_le_bytes());
        // 16319 is 128 * 127 + 63, -16319 is 128 * -127 - 63; 64 is 128 - 64.
        assert_eq!(block[4..8], [(-127i8) as u8, 127, 1, 0]);
        assert_eq!(block[36..40], [(-63i8) as u8, 63, (-64i8) as u8, (-64i8) as u8]);
        let mut y = [0.0; 32];
        decode_block(BlockFormat::Q15_0, &block, &mut y).unwrap();
        assert_eq!((y[4], y[5], y[6]), (0.0, 2.0, 63.0));
        assert!(x.iter().zip(y).all(|(x, y)| (x - y).abs() <= 0.5));
    }

    #[test]
    fn q15_0_of_what_is_no_number_is_zero_and_of_the_smallest_numbers_finite() {
        let mut x = [0.0f32; 32];
        let mut block = [0; 68];
        let mut y = [1.0; 32];
        encode_q15_0(&x, &mut block).unwrap();
        assert_eq!(block, [0; 68]);
        (x[0], x[1]) = (f32::NAN, 1.0);
        encode_q15_0(&x, &mut block).unwrap();
        decode_block(BlockFormat::Q15_0, &block, &mut y).unwrap();
        assert_eq!((y[0], y[2]), (0.0, 0.0));
        assert!((y[1] - 1.0).abs() < 1e-6);
        (x[0], x[1]) = (f32::from_bits(20_000), -f32::from_bits(1));
        encode_q15_0(&x, &mut block).unwrap();
        decode_block(BlockFormat::Q15_0, &block, &mut y).unwrap();
        assert!(y.iter().all(|y| y.abs() < 1e-40), "{y:?}");
    }

    #[test]
    fn low_parts_of_large_blocks_are_kept() {
        let mut x = [0.0f32; 32 * 8];
        for (i, x) in x.iter_mut().enumerate() {
            *x = (i as f32 * 0.7).sin() * if i / 32 == 5 { 8.0 } else { 1.0 };
        }
        let mut all = [0; 68 * 8];
        encode_q15_0(&x, &mut all).unwrap();
        let mut kept = all;
        keep_large(&mut kept).unwrap();
        for (b, (kept, all)) in
            kept.as_chunks::<68>().0.iter().zip(all.as_chunks::<68>().0).enumerate()
        {
            assert_eq!(kept[..36], all[..36], "block {b}");
            let low = if b == 5 { &all[36..] } else { &[0; 32] };
            assert_eq!(&kept[36..], low, "block {b}");
        }
        let (mut whole, mut rough) = ([0.0; 32], [0.0; 32]);
        decode_block(BlockFormat::Q15_0, &all[..68], &mut whole).unwrap();
        decode_block(BlockFormat::Q15_0, &kept[..68], &mut rough).unwrap();
        let d = f32::from_le_bytes(*all.first_chunk().unwrap());
        assert!(whole.iter().zip(rough).all(|(a, b)| (a - b).abs() <= 64.5 * d));
    }

    #[test]
    fn a_block_is_large_whose_squared_scale_is_above_nine_quarters_of_the_mean() {
        // Seven blocks of scale 1 and one of s: s^2 > 9/4 (7 + s^2) / 8 holds from s = 1.655 on.
        let large =
            |s: f32| is_large(s, large_above([1.0, 1.0, 1.0, s, 1.0, 1.0, 1.0, 1.0].into_iter()));
        assert!(!large(1.65) && large(1.66));
        // All blocks alike are small.
        assert!(!large(1.0));
    }

    #[test]
    fn scales_that_are_no_numbers_make_no_block_large() {
        assert!(!is_large(f32::INFINITY, large_above([f32::INFINITY, 1.0].into_iter())));
        assert!(!is_large(0.0, large_above([0.0; 4].into_iter())));
        assert!(keep_large(&mut [0; 67]).is_err());
    }

    #[test]
    fn q8_k_maps_the_largest_magnitude_to_minus_127_and_rounds_halves_to_even() {
        let mut x = [0.0f32; 256];
        (x[0], x[1], x[2], x[17]) = (127.0, 0.5, 1.5, -3.0);
        let mut block = [0; 292];
        encode_q8_k(&x, &mut block).unwrap();
        assert_eq!(f32::from_le_bytes(*block.first_chunk().unwrap()), -1.0);
        assert_eq!(block[4..7], [(-127i8) as u8, 0, (-2i8) as u8]);
        assert_eq!(block[260..264], [0x7f, 0xff, 3, 0], "sums -129 and 3");
        let mut y = [0.0; 256];
        decode_block(BlockFormat::Q8K, &block, &mut y).unwrap();
        assert_eq!((y[0], y[1], y[2], y[17]), (127.0, 0.0, 2.0, -3.0));
    }

    #[test]
    fn zeros_stay_zeros() {
        let (mut a, mut b) = ([1; 34], [1; 292]);
        encode_q8_0(&[0.0; 32], &mut a).unwrap();
        encode_q8_k(&[0.0; 256], &mut b).unwrap();
        assert_eq!((a, b), ([0; 34], [0; 292]));
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let error = encode_q8_0(&[0.0; 33], &mut [0; 34]).unwrap_err();
        assert_eq!(error.what, "encode_q8_0: 33 elements do not fill 34 bytes");
    }
}
