//! One input times its weights. Each weight row is decoded once.

use super::{quantize_rows, rms_norm};
use crate::error::Result;
use crate::formats::decode_row;
use crate::ops::{Epilogue, MatMul};
use crate::reference::view::{dot, rounded, scalar_bytes};
use crate::reference::{Run, View};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

impl Run for MatMul {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let parts = self.parts();
        let sizes = operands[0].sizes()?;
        let width = sizes.last().copied().unwrap_or(1);
        let rows = sizes.iter().rev().skip(1).product::<usize>();
        // int8 blocks give f32.
        let dtype = match operands[0].ty.dtype {
            DType::Block(_) => DType::F32,
            float => float,
        };
        let mut x = operands[0].f64s()?;
        if let (Some(eps), Some(at)) = (self.norm, parts.norm) {
            let w = operands[at].f64s()?;
            for i in 0..rows {
                rms_norm::normalise(&mut x[i * width..][..width], &w, eps, dtype);
            }
        }
        if let Some(format) = self.quantize {
            // Rows are f32, so nothing is lost on the way there.
            let rows: Vec<f32> = x.iter().map(|&v| v as f32).collect();
            let mut decoded = vec![0.0; rows.len()];
            decode_row(DType::Block(format), &quantize_rows::blocks(&rows, format)?, &mut decoded)?;
            x = decoded.into_iter().map(f64::from).collect();
        }
        if self.half {
            x.iter_mut().for_each(|x| *x = f64::from(to_11_bits(*x as f32)));
        }
        let mut results = Vec::with_capacity(self.segments);
        for segment in 0..self.segments {
            let weight = &operands[parts.weights + segment];
            let [columns, _] = weight.dims()?;
            let bias = match parts.biases {
                Some(first) => operands[first + segment].f64s()?,
                None => vec![0.0; columns],
            };
            let mut y = vec![0.0f64; rows * columns];
            let mut w = vec![0.0f64; width];
            for n in 0..columns {
                weight.row_f64(n, &mut w)?;
                for m in 0..rows {
                    let product = dot(&x[m * width..][..width], &w);
                    y[m * columns + n] = rounded(dtype, product + bias[n]);
                }
            }
            results.push(y);
        }
        // Rounded between the product and the epilogue, as if that were a step of its own.
        match self.epilogue {
            Epilogue::None => {}
            Epilogue::Map(f) => {
                for y in results.iter_mut().flatten() {
                    *y = f.eval(*y);
                }
            }
            Epilogue::Add => {
                if let (Some(at), Some(y)) = (parts.residual, results.first_mut()) {
                    for (y, r) in y.iter_mut().zip(operands[at].f64s()?) {
                        *y += r;
                    }
                }
            }
            Epilogue::Glu(f) => {
                let up = results.pop().unwrap_or_default(); // the type rule asks for two segments
                for (gate, up) in results.iter_mut().flatten().zip(up) {
                    *gate = rounded(dtype, f.eval(*gate)) * up;
                }
            }
        }
        results.iter().map(|y| scalar_bytes(dtype, y)).collect()
    }
}

/// The nearest number of 11 bits, of two that are as near the even one.
pub(super) fn to_11_bits(x: f32) -> f32 {
    if !x.is_finite() {
        return x;
    }
    let bits = x.to_bits();
    f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff)
}

#[cfg(test)]
mod tests {
    use crate::ops::{Binary, Epilogue, Map, MatMul, QuantizeRows, RmsNorm, Unary, Zip};
    use crate::reference::testing::*;
    use crate::reference::view::scalar_bytes;
    use crate::types::{BlockFormat, DType, Scalar};
    use alloc::string::ToString;
    use alloc::vec::Vec;

    /// `x W^T` in f64, rows of `k`.
    fn product(x: &[f32], w: &[f32], k: usize) -> Vec<f64> {
        x.chunks(k)
            .flat_map(|x| {
                w.chunks(k).map(|w| {
                    x.iter().zip(w).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
                })
            })
            .collect()
    }

    #[test]
    fn segments_give_a_result_each_with_its_own_bias() {
        let (x, w0, w1) = (noise(2 * 11, 1), noise(3 * 11, 2), noise(11, 3));
        let op = MatMul { segments: 2, bias: true, ..MatMul::default() };
        let y = run(
            op,
            &[
                &f32s(&[2, 11], &x),
                &f32s(&[3, 11], &w0),
                &f32s(&[1, 11], &w1),
                &f32s(&[3], &[1.0, 2.0, 3.0]),
                &f32s(&[1], &[-1.0]),
            ],
        );
        let mut expected = product(&x, &w0, 11);
        for row in expected.chunks_mut(3) {
            row.iter_mut().zip([1.0, 2.0, 3.0]).for_each(|(y, b)| *y += b);
        }
        close(&y[0].f32s(), &expected);
        let expected: Vec<f64> = product(&x, &w1, 11).iter().map(|y| y - 1.0).collect();
        close(&y[1].f32s(), &expected);
    }

    #[test]
    fn a_map_epilogue_applies_to_every_segment() {
        let (x, w) = (f32s(&[1, 1], &[1.0]), f32s(&[2, 1], &[-2.0, 3.0]));
        let op = MatMul { segments: 2, epilogue: Epilogue::Map(Unary::Relu), ..MatMul::default() };
        let y = run(op, &[&x, &w, &w]);
        assert_eq!((y[0].f32s(), y[1].f32s()), (alloc::vec![0.0, 3.0], alloc::vec![0.0, 3.0]));
    }

    #[test]
    fn fused_forms_give_the_bits_of_the_steps_they_stand_for() {
        let x = f32s(&[3, 16], &noise(48, 1));
        let norm = f32s(&[16], &noise(16, 2));
        let (w0, w1) = (f32s(&[5, 16], &noise(80, 3)), f32s(&[5, 16], &noise(80, 4)));
        let residual = f32s(&[3, 5], &noise(15, 5));
        let normed = &run(RmsNorm { eps: 1e-5 }, &[&x, &norm])[0];
        let y0 = &run(MatMul::plain(), &[normed, &w0])[0];
        let y1 = &run(MatMul::plain(), &[normed, &w1])[0];

        let glu = MatMul {
            segments: 2,
            norm: Some(1e-5),
            epilogue: Epilogue::Glu(Unary::Silu),
            ..MatMul::default()
        };
        let gate = &run(Map { f: Unary::Silu }, &[y0])[0];
        let expected = run(Zip { f: Binary::Mul }, &[gate, y1]);
        assert_eq!(run(glu, &[&x, &norm, &w0, &w1]), expected);

        let add = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
        let expected = run(Zip { f: Binary::Add }, &[y0, &residual]);
        assert_eq!(run(add, &[normed, &w0, &residual]), expected);
    }

    #[test]
    fn int8_blocks_of_x_and_packed_weights_are_decoded() {
        for format in [BlockFormat::Q8_0, BlockFormat::Q8K] {
            let (x, w) = (noise(2 * 256, 6), noise(3 * 256, 7));
            let quantized = &run(QuantizeRows::to(format), &[&f32s(&[2, 256], &x)])[0];
            let y = run1(MatMul::plain(), &[quantized, &q8_0(&[3, 256], &w)]);
            let exact = product(&x, &w, 256);
            let largest = exact.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            for (y, e) in y.iter().zip(exact) {
                assert!((f64::from(*y) - e).abs() < 0.02 * largest, "{format:?}: {y} {e}");
            }
        }
    }

    #[test]
    fn a_quantisation_inside_is_one_before() {
        let x = f32s(&[1, 256], &noise(256, 6));
        let (g, w) = (f32s(&[256], &noise(256, 8)), q8_0(&[3, 256], &noise(3 * 256, 7)));
        for format in [BlockFormat::Q8_0, BlockFormat::Q8K] {
            let normed = &run(RmsNorm { eps: 1e-5 }, &[&x, &g])[0];
            let quantized = &run(QuantizeRows::to(format), &[normed])[0];
            let plain = MatMul { quantize: Some(format), ..MatMul::plain() };
            let expected = run(MatMul::plain(), &[quantized, &w]);
            assert_eq!(run(plain.clone(), &[normed, &w]), expected);
            let inside = MatMul { norm: Some(1e-5), ..plain };
            assert_eq!(run(inside, &[&x, &g, &w]), expected);
        }
    }

    #[test]
    fn half_rounds_x_to_the_bits_of_f16_but_not_to_its_range() {
        let x = noise(2 * 64, 6);
        let halves: Vec<f32> = x.iter().map(|&x| half::f16::from_f32(x).to_f32()).collect();
        assert_ne!(x, halves);
        let w = f32s(&[3, 64], &noise(3 * 64, 7));
        let op = MatMul { half: true, ..MatMul::plain() };
        // Far beyond the largest number of f16, and far below its least.
        for size in [1.0, 2f32.powi(40), 2f32.powi(-60)] {
            let [x, halves] = [&x, &halves].map(|x| x.iter().map(|x| x * size).collect::<Vec<_>>());
            let y = &run(op.clone(), &[&f32s(&[2, 64], &x), &w])[0];
            assert_eq!(y.bytes, run(MatMul::plain(), &[&f32s(&[2, 64], &halves), &w])[0].bytes);
        }
        // Of two numbers that are as near the even one.
        let y = run1(op.clone(), &[&f32s(&[2, 1], &[2049.0, 2051.0]), &f32s(&[1, 1], &[1.0])]);
        assert_eq!(y, [2048.0, 2052.0]);
        let e = fails(op, &[&halfs(&[2, 64], &x), &w]);
        assert_eq!(e.what, "matmul: half rounds x in f32, which becomes no blocks");
    }

    #[test]
    fn leading_axes_of_x_are_rows() {
        let (x, w) = (noise(2 * 3 * 5, 1), f32s(&[4, 5], &noise(20, 2)));
        let y = &run(MatMul::plain(), &[&f32s(&[2, 3, 5], &x), &w])[0];
        assert_eq!(y.ty.to_string(), "tensor<2x3x4xf32>");
        assert_eq!(y.bytes, run(MatMul::plain(), &[&f32s(&[6, 5], &x), &w])[0].bytes);
    }

    #[test]
    fn results_have_the_type_of_x_whatever_the_weights_are_and_round_once() {
        let (x, w, b) = (noise(2 * 32, 1), noise(3 * 32, 2), f32s(&[3], &noise(3, 3)));
        let op = MatMul { bias: true, ..MatMul::plain() };
        for dtype in [DType::F16, DType::BF16] {
            let x = floats(dtype, &[2, 32], &x);
            let exact: Vec<f32> = x.f64s().iter().map(|v| *v as f32).collect();
            let exact = floats(DType::Scalar(Scalar::F64), &[2, 32], &exact);
            for w in [f32s(&[3, 32], &w), halfs(&[3, 32], &w), q8_0(&[3, 32], &w)] {
                let wide = run(op.clone(), &[&exact, &w, &b])[0].f64s();
                let y = &run(op.clone(), &[&x, &w, &b])[0];
                assert_eq!(y.ty.dtype, dtype);
                assert_eq!(y.bytes, scalar_bytes(dtype, &wide).unwrap());
            }
        }
    }

    #[test]
    fn a_weight_of_another_width_is_refused_with_both_types() {
        let (x, w) = (halfs(&[1, 4], &[0.0; 4]), f32s(&[2, 3], &[0.0; 6]));
        assert_eq!(
            fails(MatMul::plain(), &[&x, &w]).what,
            "matmul: weight 0 is tensor<2x3xf32>, expected 4 columns to match x tensor<1x4xf16>"
        );
        let op = MatMul { bias: true, ..MatMul::plain() };
        let w = f32s(&[2, 4], &[0.0; 8]);
        let e = fails(op, &[&x, &w, &floats(DType::BF16, &[2], &[0.0; 2])]);
        assert_eq!(e.what, "matmul: bias is tensor<2xbf16>, expected tensor<2xf32> or f16");
    }
}
