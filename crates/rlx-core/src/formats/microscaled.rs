//! Blocks of MXFP4 of the parts that transformers' files have: 32 values of 4 bits in 16 bytes, two neighbours a byte
//! and the first one low, and the byte of their scale. Both files mean the same numbers: a value of E2M1 times a
//! power of two with bias 127 (OCP Microscaling Formats 1.0, sections 5.3.3 and 6.3).

/// Bytes of a block's values.
pub const VALUES: usize = 16;
/// Bytes of a block of `mxfp4`.
pub const BLOCK: usize = 17;

/// The block of a scale and values: those of the first half low, those of the second half high.
pub fn block(scale: u8, values: &[u8; VALUES]) -> [u8; BLOCK] {
    let value = |i: usize| (values[i / 2] >> (4 * (i % 2))) & 15;
    let mut out = [scale; BLOCK];
    for (i, both) in out[1..].iter_mut().enumerate() {
        *both = value(i) | value(i + VALUES) << 4;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::decode_row;
    use crate::types::{BlockFormat, DType};

    #[test]
    fn a_block_has_the_numbers_of_its_parts_in_their_order() {
        // Every code twice, and scales of small, usual and large powers.
        let values: [u8; VALUES] = core::array::from_fn(|i| {
            let code = 2 * (i as u8 % 8);
            code | (code + 1) << 4
        });
        let numbers = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0f32];
        for scale in [0u8, 1, 126, 127, 128, 250] {
            let mut got = [0.0; 32];
            decode_row(DType::Block(BlockFormat::Mxfp4), &block(scale, &values), &mut got).unwrap();
            for (i, got) in got.into_iter().enumerate() {
                let sign = if i % 16 < 8 { 1.0 } else { -1.0 };
                let power = f64::from_bits((u64::from(scale) + 1023 - 127) << 52);
                let want = f64::from(sign * numbers[i % 8]) * power;
                assert_eq!(f64::from(got), want, "{i} of scale {scale}");
            }
        }
    }
}
