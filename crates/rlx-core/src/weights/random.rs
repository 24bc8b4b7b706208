//! Random weights made as blocks of a format, without a quantiser: random payload bits under scales
//! that give the decoded weights the deviation that is asked for.
//!
//! A payload of independent bits makes every code, and every entry of a codebook, equally likely,
//! so a format has one root mean square at scale 1. Scales vary by a quarter around what follows
//! from it, and have either sign where the format has no minimum, which takes the mean away; where
//! there is one, it is put so that codes are centred. Every byte is a function of seed, tensor and
//! place.

use crate::error::{Code, Error, Result};
use crate::math;
use crate::sample::philox::philox4x32_10;
use crate::types::{BlockFormat, DType, Scalar};
use alloc::format;
use half::{bf16, f16};

/// Scales that a tensor's blocks choose from; a power of two.
const SCALES: usize = 64;
/// Bytes of one draw.
const DRAW: usize = 16;

/// Where a block's scale is.
#[derive(Clone, Copy)]
enum Scale {
    /// An f16 of either sign.
    Half(usize),
    /// An f16, and an f16 that is the first times a constant.
    HalfAndMin(usize, usize, f32),
    /// An f16 in the upper nibbles of four u16, the lowest first.
    Nibbles(usize),
    /// A byte: the exponent of a power of two.
    E8m0(usize),
    /// Four bytes: floats of four bits of exponent and three of mantissa.
    Ue4m3(usize),
}

/// What of the payload is not any bits.
#[derive(Clone, Copy)]
enum Payload {
    Any,
    /// 16 bytes from there: the lower nibble is a scale, the upper a minimum. They are made equal.
    PairedNibbles(usize),
    /// 12 bytes from there: eight scales and eight minima of six bits. They are made equal.
    PairedSixBits(usize),
    /// Bytes of four codes in this range of bytes, of which 3 stands for nothing.
    NoThrees(usize, usize),
}

struct Row {
    format: BlockFormat,
    /// Root mean square of what a block of random payload decodes to at scale 1.
    unit: f32,
    scale: Scale,
    payload: Payload,
}

const fn row(format: BlockFormat, unit: f32, scale: Scale, payload: Payload) -> Row {
    Row { format, unit, scale, payload }
}

/// Every format that a file may hold. Units of plain codes are computed, those of codebooks were
/// measured over random blocks (to 2 %).
const ROWS: [Row; 25] = {
    use BlockFormat as B;
    use Payload::{Any, NoThrees, PairedNibbles, PairedSixBits};
    use Scale::{E8m0, Half, HalfAndMin, Nibbles, Ue4m3};
    [
        row(B::Q4_0, 4.637, Half(0), Any),
        row(B::Q4_1, 4.610, HalfAndMin(0, 2, -7.5), Any),
        row(B::Q5_0, 9.247, Half(0), Any),
        row(B::Q5_1, 9.233, HalfAndMin(0, 2, -15.5), Any),
        row(B::Q8_0, 73.90, Half(0), Any),
        row(B::Q2K, 9.843, HalfAndMin(80, 82, 1.5), PairedNibbles(0)),
        row(B::Q3K, 43.34, Half(108), Any),
        row(B::Q4K, 168.3, HalfAndMin(0, 2, 7.5), PairedSixBits(4)),
        row(B::Q5K, 337.2, HalfAndMin(0, 2, 15.5), PairedSixBits(4)),
        row(B::Q6K, 1365.7, Half(208), Any),
        row(B::Iq2Xxs, 53.3, Half(0), Any),
        row(B::Iq2Xs, 56.7, Half(0), Any),
        row(B::Iq2S, 56.6, Half(0), Any),
        row(B::Iq3Xxs, 143.3, Half(0), Any),
        row(B::Iq3S, 139.9, Half(0), Any),
        row(B::Iq1S, 7.23, Half(0), Any),
        row(B::Iq1M, 7.26, Nibbles(48), Any),
        row(B::Iq4Nl, 67.44, Half(0), Any),
        row(B::Iq4Xs, 1246.0, Half(0), Any),
        row(B::Tq1_0, 0.8165, Half(52), Any),
        row(B::Tq2_0, core::f32::consts::FRAC_1_SQRT_2, Half(64), NoThrees(0, 64)),
        row(B::Mxfp4, 5.852, E8m0(0), Any),
        row(B::Nvfp4, 5.852, Ue4m3(0), Any),
        row(B::Q1_0, 1.0, Half(0), Any),
        row(B::Q2_0, 1.2247, Half(0), Any),
    ]
};

/// The formats that random weights can be made in.
pub fn formats() -> impl Iterator<Item = BlockFormat> {
    ROWS.iter().map(|row| row.format)
}

/// Makes the weights of one tensor, in pieces.
pub struct Weights {
    dtype: DType,
    row: Option<&'static Row>,
    sigma: f32,
    scales: [(f16, f16); SCALES],
    key: [u32; 2],
    tensor: u32,
}

impl Weights {
    /// Weights of mean 0 and that standard deviation.
    ///
    /// # Errors
    /// `Unsupported` for an element type that no file holds weights in.
    pub fn new(dtype: DType, sigma: f32, seed: u64, tensor: u32) -> Result<Self> {
        let row = match dtype {
            DType::Block(format) => ROWS.iter().find(|row| row.format == format),
            _ => None,
        };
        let dense = matches!(dtype, DType::Scalar(Scalar::F32 | Scalar::F16 | Scalar::Bf16));
        if row.is_none() && !dense {
            let what = format!("{dtype} is no type of weights in a file");
            return Err(Error::new(Code::Unsupported, what));
        }
        let mut scales = [(f16::ZERO, f16::ZERO); SCALES];
        if let Some(row) = row {
            for (i, (d, min)) in scales.iter_mut().enumerate() {
                let around = 0.75 + 0.5 * (i as f32 + 0.5) / SCALES as f32;
                *d = f16::from_f32(sigma / row.unit * around);
                if let Scale::HalfAndMin(_, _, times) = row.scale {
                    *min = f16::from_f32(d.to_f32() * times);
                }
            }
        }
        let key = [seed as u32, (seed >> 32) as u32];
        Ok(Self { dtype, row, sigma, scales, key, tensor })
    }

    /// Bytes of a piece that is at most about `bytes` long: whole blocks and whole draws.
    pub fn piece(&self, bytes: usize) -> usize {
        let unit = DRAW * self.row.map_or(1, |row| row.format.bytes());
        (bytes / unit).max(1) * unit
    }

    /// Makes the bytes of the tensor from `at` on, a multiple of [`piece`](Self::piece)s.
    pub fn fill(&self, at: u64, out: &mut [u8]) {
        for (part, draw) in out.chunks_mut(DRAW).zip(at / DRAW as u64..) {
            let words = philox4x32_10([draw as u32, (draw >> 32) as u32, self.tensor, 0], self.key);
            for (bytes, word) in part.chunks_mut(4).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
            }
        }
        match self.row {
            Some(row) => out.chunks_exact_mut(row.format.bytes()).for_each(|b| self.finish(row, b)),
            None => self.dense(out),
        }
    }

    /// Uniform numbers of the deviation, from the random bits of each.
    fn dense(&self, out: &mut [u8]) {
        let width = self.sigma * math::sqrtf(3.0);
        let short = |bytes: &[u8]| {
            let bits = i16::from_le_bytes([bytes[0], bytes[1]]);
            f32::from(bits) * (width / 32768.0)
        };
        match self.dtype {
            DType::F32 => {
                for bytes in out.chunks_exact_mut(4) {
                    let bits = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    let value = bits as f32 * (width / 2_147_483_648.0);
                    bytes.copy_from_slice(&value.to_le_bytes());
                }
            }
            DType::F16 => out.chunks_exact_mut(2).for_each(|bytes| {
                bytes.copy_from_slice(&f16::from_f32(short(bytes)).to_le_bytes());
            }),
            _ => out.chunks_exact_mut(2).for_each(|bytes| {
                bytes.copy_from_slice(&bf16::from_f32(short(bytes)).to_le_bytes());
            }),
        }
    }

    /// Puts sane scales into a block of random bytes.
    fn finish(&self, row: &Row, block: &mut [u8]) {
        match row.payload {
            Payload::Any => {}
            Payload::PairedNibbles(at) => {
                block[at..at + 16].iter_mut().for_each(|b| *b = (*b & 15) * 17);
            }
            Payload::PairedSixBits(at) => {
                block.copy_within(at..at + 4, at + 4);
                block[at + 8..at + 12].iter_mut().for_each(|b| *b = (*b & 15) * 17);
            }
            Payload::NoThrees(from, to) => {
                block[from..to].iter_mut().for_each(|b| *b &= !((*b << 1) & 0xaa));
            }
        }
        let chosen = |bits: u8| self.scales[usize::from(bits) % SCALES];
        let signed = |bits: u8| {
            let d = chosen(bits).0;
            if bits & 0x80 == 0 { d } else { -d }
        };
        match row.scale {
            Scale::Half(at) => {
                let d = signed(block[at]);
                block[at..at + 2].copy_from_slice(&d.to_le_bytes());
            }
            Scale::HalfAndMin(at, min_at, _) => {
                let (d, min) = chosen(block[at]);
                block[at..at + 2].copy_from_slice(&d.to_le_bytes());
                block[min_at..min_at + 2].copy_from_slice(&min.to_le_bytes());
            }
            Scale::Nibbles(at) => {
                // The upper nibble of each u16 is that of its second byte.
                let bits = signed(block[at + 1]).to_bits();
                for i in 0..4 {
                    let nibble = (bits >> (4 * i)) as u8 & 15;
                    let upper = &mut block[at + 2 * i + 1];
                    *upper = *upper & 15 | nibble << 4;
                }
            }
            Scale::E8m0(at) => {
                // Codes are of doubled values, so 128 is the bias. Half of the blocks have half the
                // scale, which a third of a power of two makes good.
                let e = math::log2(f64::from(self.sigma / row.unit)) + 128.34;
                block[at] = (math::round(e).clamp(1.0, 254.0) as u8) - (block[at] & 1);
            }
            Scale::Ue4m3(at) => {
                let code = ue4m3(2.0 * self.sigma / row.unit);
                for byte in &mut block[at..at + 4] {
                    *byte = (code + (*byte & 1)).min(0x7e);
                }
            }
        }
    }
}

/// The code, at least 1, of the largest float of 4 bits of exponent (bias 7) and 3 of mantissa, no
/// sign, that is not above `x`.
fn ue4m3(x: f32) -> u8 {
    let value = |code: u8| {
        let (e, m) = (i32::from(code >> 3), f32::from(code & 7));
        if e == 0 { m / 512.0 } else { (1.0 + m / 8.0) * math::exp2(f64::from(e - 7)) as f32 }
    };
    (1..0x7f).rev().find(|&code| value(code) <= x).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::decode_row;
    use alloc::vec;
    use alloc::vec::Vec;

    fn made(dtype: DType, elements: u64, sigma: f32, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; dtype.row_bytes(elements).unwrap() as usize];
        Weights::new(dtype, sigma, seed, 3).unwrap().fill(0, &mut bytes);
        bytes
    }

    #[test]
    fn every_format_that_a_file_may_hold_has_a_row() {
        for &format in BlockFormat::ALL {
            let activations = format.is_for_activations();
            assert_eq!(formats().any(|f| f == format), !activations, "{}", format.name());
        }
    }

    #[test]
    fn decoded_weights_have_the_deviation_that_was_asked_for() {
        let dense = [DType::F32, DType::F16, DType::BF16].into_iter();
        for dtype in dense.chain(formats().map(DType::Block)) {
            for sigma in [1.0 / 32.0, 1.0 / 120.0] {
                let bytes = made(dtype, 65536, sigma, 1);
                let mut x = vec![0.0; 65536];
                decode_row(dtype, &bytes, &mut x).unwrap();
                let mean = x.iter().map(|&v| f64::from(v)).sum::<f64>() / 65536.0;
                let square = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / 65536.0;
                let (mean, rms) = (mean / f64::from(sigma), square.sqrt() / f64::from(sigma));
                // Scales of a few bits are as near as they can be.
                let coarse = [DType::Block(BlockFormat::Mxfp4), DType::Block(BlockFormat::Nvfp4)];
                let off = if coarse.contains(&dtype) { 0.45 } else { 0.04 };
                assert!((rms - 1.0).abs() < off, "{dtype}: {rms} of the deviation");
                assert!(mean.abs() < 0.05, "{dtype}: a mean of {mean} deviations");
            }
        }
    }

    #[test]
    fn bytes_are_a_function_of_seed_and_place_not_of_the_pieces() {
        for dtype in [DType::F16, DType::Block(BlockFormat::Q6K), DType::Block(BlockFormat::Iq1M)] {
            let whole = made(dtype, 256 * 256, 0.1, 7);
            let weights = Weights::new(dtype, 0.1, 7, 3).unwrap();
            let mut pieces = Vec::new();
            while pieces.len() < whole.len() {
                let n = weights.piece(5000).min(whole.len() - pieces.len());
                let mut piece = vec![0; n];
                weights.fill(pieces.len() as u64, &mut piece);
                pieces.extend_from_slice(&piece);
            }
            assert!(pieces == whole, "{dtype}");
            assert!(made(dtype, 256 * 256, 0.1, 8) != whole, "{dtype}: another seed");
        }
    }

    #[test]
    fn a_type_of_activations_is_refused() {
        let e = Weights::new(DType::Block(BlockFormat::Q8K), 1.0, 0, 0).err().unwrap();
        assert_eq!(e.what, "q8_k is no type of weights in a file");
    }
}
