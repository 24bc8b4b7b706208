//! Logarithms of mel energies.

use super::fft::transform;
use crate::error::Result;
use crate::math;
use crate::ops::{Log, LogMel, Operator};
use crate::reference::view::{dot, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

impl Run for LogMel {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, window, filters] = operands else { return Err(arity("log_mel")) };
        let types: Vec<&Type> = operands.iter().map(|v| v.ty).collect();
        let shape = self.infer(&types)?[0].shape.static_dims()?;
        let (window, filters) = (window.f64s()?, filters.f64s()?);
        let (n, bins) = (window.len(), window.len() / 2 + 1);
        let (mels, frames) = (filters.len() / bins, shape.last().map_or(0, |&t| t as usize));
        let (samples, side) =
            (x.sizes()?.last().copied().unwrap_or(1), if self.center { n / 2 } else { 0 });
        let mut out = Vec::with_capacity(shape.iter().product::<u64>() as usize);
        for row in x.f64s()?.chunks_exact(samples.max(1)) {
            let sample = |i: usize| match i.checked_sub(side) {
                None => row[side - i],
                Some(i) if i < samples => row[i],
                Some(i) => row[2 * (samples - 1) - i],
            };
            let from = out.len();
            out.resize(from + mels * frames, 0.0);
            let y = &mut out[from..];
            for t in 0..frames {
                let frame: Vec<(f64, f64)> =
                    (0..n).map(|j| (window[j] * sample(t * self.hop as usize + j), 0.0)).collect();
                let spectrum = transform(&frame, false);
                let power: Vec<f64> =
                    spectrum[..bins].iter().map(|v| v.0 * v.0 + v.1 * v.1).collect();
                for (m, filter) in filters.chunks_exact(bins).enumerate() {
                    let energy = dot(&power, filter).max(f64::from(self.floor));
                    y[m * frames + t] = match self.log {
                        Log::Ln => math::log(energy),
                        Log::Log10 => math::log10(energy),
                    };
                }
            }
            if let Some(range) = self.range {
                let least = y.iter().copied().fold(f64::NEG_INFINITY, f64::max) - f64::from(range);
                y.iter_mut().for_each(|v| *v = v.max(least));
            }
            y.iter_mut().for_each(|v| *v = *v * f64::from(self.gain) + f64::from(self.offset));
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &out)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Log, LogMel, Op};
    use crate::reference::testing::*;
    use crate::types::{DType, Dim, Shape, Type};
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn plain(hop: u64) -> LogMel {
        LogMel {
            hop,
            center: false,
            drop_last: false,
            log: Log::Ln,
            floor: 1e-3,
            range: None,
            gain: 1.0,
            offset: 0.0,
        }
    }

    #[test]
    fn a_cosine_has_its_energy_in_its_own_bin() {
        // cos(2 pi 2 j / 8): |X|^2 = (8 / 2)^2 in bin 2, nothing elsewhere.
        let x: Vec<f32> =
            (0..16).map(|j| (core::f32::consts::FRAC_PI_2 * j as f32).cos()).collect();
        let mut filters = [0.0f32; 15];
        (filters[2], filters[5 + 1], filters[10 + 2]) = (1.0, 1.0, 0.5);
        let (window, filters) = (f32s(&[8], &[1.0; 8]), f32s(&[3, 5], &filters));
        let y = run1(plain(4), &[&f32s(&[16], &x), &window, &filters]);
        let (own, none, half) = (16f64.ln(), 1e-3f64.ln(), 8f64.ln());
        close(&y, &[own, own, own, none, none, none, half, half, half]);
        let op = LogMel { log: Log::Log10, range: Some(2.0), gain: 0.25, offset: 1.0, ..plain(8) };
        let y = run1(op, &[&f32s(&[16], &x), &window, &filters]);
        let (own, half) = (16f64.log10(), 8f64.log10());
        let scaled = [own, own, own - 2.0, own - 2.0, half, half].map(|v| v / 4.0 + 1.0);
        close(&y, &scaled);
    }

    #[test]
    fn centred_frames_mirror_the_ends() {
        let x = f32s(&[1, 6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let (window, filters) = (f32s(&[4], &[1.0; 4]), f32s(&[1, 3], &[1.0, 0.0, 0.0]));
        // Bin 0 is the squared sum of a frame: 3 2 1 2, then 1 2 3 4, then 3 4 5 6, then 5 6 5 4.
        let op = LogMel { center: true, ..plain(2) };
        let y = run1(op.clone(), &[&x, &window, &filters]);
        close(&y, &[8.0, 10.0, 18.0, 20.0].map(|v: f64| 2.0 * v.ln()));
        let y = run1(LogMel { drop_last: true, ..op }, &[&x, &window, &filters]);
        assert_eq!(y.len(), 3);
    }

    #[test]
    fn whisper_has_a_frame_for_each_hop_of_any_number_of_samples() {
        let ty = |dims: &[Dim]| Type::tensor(DType::F32, Shape(dims.to_vec()));
        let operands = [
            ty(&[Dim::symbol("BATCH"), Dim::symbol("SAMPLES")]),
            ty(&[400u64.into()]),
            ty(&[80u64.into(), 201u64.into()]),
        ];
        let operands: Vec<&Type> = operands.iter().collect();
        let y = Op::from(LogMel::whisper()).infer(&operands).unwrap();
        assert_eq!(y[0].to_string(), "tensor<BATCHx80xfloordiv(SAMPLES,160)xf32>");
        let fixed = ty(&[1u64.into(), 480_000u64.into()]);
        let y = Op::from(LogMel::whisper()).infer(&[&fixed, operands[1], operands[2]]).unwrap();
        assert_eq!(y[0].to_string(), "tensor<1x80x3000xf32>");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (x, window) = (f32s(&[6], &[0.0; 6]), f32s(&[4], &[0.0; 4]));
        let filters = f32s(&[1, 3], &[0.0; 3]);
        assert_eq!(
            fails(plain(0), &[&x, &window, &filters]).what,
            "log_mel: hop is 0, expected 1 or more"
        );
        assert_eq!(
            fails(plain(1), &[&x, &window, &f32s(&[1, 4], &[0.0; 4])]).what,
            "log_mel: x is tensor<6xf32>, window is tensor<4xf32>, filters is tensor<1x4xf32>; filters needs 3 columns"
        );
        assert_eq!(
            fails(plain(1), &[&f32s(&[3], &[0.0; 3]), &window, &filters]).what,
            "log_mel: 3 samples; a window of 4 elements does not fit, with 0 of padding"
        );
        let op = LogMel { center: true, ..plain(1) };
        assert!(
            fails(op, &[&f32s(&[2], &[0.0; 2]), &window, &filters])
                .what
                .ends_with("; mirroring needs more than 2 samples")
        );
    }
}
