//! Products of many rows, in tiles of floats: both sizes of a tile, sizes that do not fill one, every epilogue.

use crate::common::{
    Operand, Rng, TestDevice, assert_close, device, f32_bytes, floats, input, random_weights,
    run_op, weight,
};
use rlx_core::ops::{Epilogue, MatMul, Op, Unary};
use rlx_core::reference::{self, View};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

fn check(d: &Arc<TestDevice>, op: &MatMul, operands: &[Operand], what: &str) {
    let op = Op::from(op.clone());
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let want = reference::run(&op, &views).expect("the reference runs this");
    for (got, want) in run_op(d, op, operands).iter().zip(&want) {
        let want: Vec<f64> = floats(want).into_iter().map(f64::from).collect();
        assert_close(what, &floats(got), &want, 2e-6);
    }
}

fn matrix(rng: &mut Rng, dtype: DType, n: u64, k: u64) -> Operand {
    weight(dtype, &[n, k], random_weights(rng, dtype, n as usize, k as usize))
}

fn rows(rng: &mut Rng, m: u64, k: u64) -> Operand {
    input(&[m, k], &rng.floats((m * k) as usize))
}

/// Rows, k and columns: of large tiles and of small ones, with whole and with cut ends of each.
const SIZES: [[u64; 3]; 5] =
    [[1700, 20, 1796], [1664, 32, 2048], [130, 36, 1028], [192, 4, 1024], [33, 100, 3080]];

#[test]
fn every_type_of_floats_and_both_tiles() {
    let (d, mut rng) = (device(), Rng(61));
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for [m, k, n] in SIZES {
            let operands = [rows(&mut rng, m, k), matrix(&mut rng, dtype, n, k)];
            check(&d, &MatMul::plain(), &operands, &format!("{dtype} {m}x{k}x{n}"));
        }
    }
}

#[test]
fn epilogues_and_segments() {
    let (d, mut rng) = (device(), Rng(62));
    for [m, k, n] in [[1700, 8, 1796], [130, 12, 1028]] {
        for epilogue in
            [Epilogue::None, Epilogue::Add, Epilogue::Map(Unary::Gelu), Epilogue::Glu(Unary::Silu)]
        {
            let glu = matches!(epilogue, Epilogue::Glu(_));
            // Columns of segments end inside of tiles.
            let columns: &[u64] = if glu { &[n, n] } else { &[n, n - 100, 28] };
            let add = epilogue == Epilogue::Add;
            let columns = if add { &columns[..1] } else { columns };
            for bias in [false, true] {
                let op = MatMul { segments: columns.len(), bias, epilogue, ..MatMul::plain() };
                let mut operands = vec![rows(&mut rng, m, k)];
                operands.extend(columns.iter().map(|&n| matrix(&mut rng, DType::F16, n, k)));
                if bias {
                    let biases = columns
                        .iter()
                        .map(|&n| weight(DType::F32, &[n], f32_bytes(&rng.floats(n as usize))));
                    operands.extend(biases.collect::<Vec<_>>());
                }
                if add {
                    operands.push(rows(&mut rng, m, n));
                }
                check(&d, &op, &operands, &format!("{epilogue:?}, bias {bias}, {m} rows"));
            }
        }
    }
}

#[test]
fn what_has_no_such_tile_is_still_made() {
    let (d, mut rng) = (device(), Rng(63));
    // No whole fours of k, of columns; types that differ; a packed one.
    for ([m, k, n], types) in [
        ([130, 34, 1028], [DType::F32, DType::F32]),
        ([130, 36, 1030], [DType::F32, DType::F32]),
        ([130, 32, 1028], [DType::F16, DType::F32]),
        ([130, 32, 1028], [DType::Block(BlockFormat::Q8_0); 2]),
    ] {
        let op = MatMul { segments: 2, ..MatMul::plain() };
        let mut operands = vec![rows(&mut rng, m, k)];
        operands.extend(types.map(|dtype| matrix(&mut rng, dtype, n, k)));
        check(&d, &op, &operands, &format!("{types:?} {m}x{k}x{n}"));
    }
}
