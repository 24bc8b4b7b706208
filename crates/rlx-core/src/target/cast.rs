//! The operator that a cast with block scales becomes.

use super::CastConfig;
use crate::error::{Error, Result};
use crate::ops::{ScaleLayout, ScaledQuantize, Scaling};
use crate::types::{DType, Scalar, SmallFloat};
use alloc::format;

impl CastConfig {
    /// The operator `x -> codes, scales` of a cast to a small float: codes are u8, scales f32, one
    /// for each block of `sf_block`, powers of two where `round_sf` says so.
    ///
    /// # Errors
    /// `Usage` for a cast without blocks, because it has no scales, or to another type than u8, in
    /// which codes of small floats are stored.
    pub fn quantize(&self, format: SmallFloat) -> Result<ScaledQuantize> {
        let Some((rows, columns)) = self.sf_block else {
            return Err(Error::usage("a cast without blocks has no scales")
                .hint("give sf_block the rows and columns that share a scale"));
        };
        if self.out_dtype != DType::Scalar(Scalar::U8) {
            return Err(Error::usage(format!(
                "a cast to {} has {} as its type, expected u8, which holds a code a byte",
                format.name(),
                self.out_dtype
            )));
        }
        let (rows, columns) = (rows.into(), columns.into());
        let layout = ScaleLayout::Block { rows, columns, round: self.round_sf };
        Ok(ScaledQuantize { scaling: Scaling { format, layout } })
    }
}

#[cfg(all(test, feature = "reference"))]
mod tests {
    use super::*;
    use crate::ops::Op;
    use crate::reference::{View, run};
    use crate::types::{Shape, Type};
    use alloc::vec::Vec;

    const BLOCKS: CastConfig = CastConfig {
        out_dtype: DType::Scalar(Scalar::U8),
        sf_block: Some((1, 2)),
        round_sf: false,
    };

    fn cast(config: CastConfig, x: &[f32]) -> (Vec<f64>, Vec<f32>) {
        let op = Op::from(config.quantize(SmallFloat::F8E4M3).unwrap());
        let ty = Type::tensor(DType::F32, Shape::of(&[2, x.len() as u64 / 2]));
        let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
        let out = run(&op, &[View::new(&ty, &bytes)]).unwrap();
        let scales = out[1].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        (out[0].iter().map(|&c| SmallFloat::F8E4M3.decode(c)).collect(), scales)
    }

    #[test]
    fn every_block_has_a_scale_that_may_be_a_power_of_two() {
        let x = [1.0, -4.0, 0.0, 0.0, 3.5, 0.875, 100.0, 448.0];
        let (values, scales) = cast(BLOCKS, &x);
        assert_eq!(scales, [4.0 / 448.0, 1.0, 3.5 / 448.0, 1.0]);
        assert_eq!(values, [112.0, -448.0, 0.0, 0.0, 448.0, 112.0, 96.0, 448.0]);
        let (values, scales) = cast(CastConfig { round_sf: true, ..BLOCKS }, &x);
        assert_eq!(scales, [1.0 / 64.0, 1.0, 1.0 / 128.0, 1.0]);
        assert_eq!(values, [64.0, -256.0, 0.0, 0.0, 448.0, 112.0, 96.0, 448.0]);
    }

    #[test]
    fn plain_casts_and_other_types_have_no_codes() {
        let e = CastConfig::plain(DType::F16).quantize(SmallFloat::F4E2M1).unwrap_err();
        assert_eq!(e.what, "a cast without blocks has no scales");
        let e = CastConfig { out_dtype: DType::F16, ..BLOCKS }.quantize(SmallFloat::F4E2M1);
        assert_eq!(
            e.unwrap_err().what,
            "a cast to f4e2m1 has f16 as its type, expected u8, which holds a code a byte"
        );
    }
}
