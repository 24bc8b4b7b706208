//! `matmul` on the device against f64: every type, 1 and many rows, every prologue and epilogue.

use crate::common;
use common::*;
use rlx_core::ops::{Epilogue, MatMul, Unary};
use rlx_core::types::{BlockFormat, DType};

/// Row counts: the mat-vec, a tile not full, a tile and a row more.
const ROWS: [usize; 4] = [1, 2, 5, 33];

/// Those that a type is tried with: of formats that are not common, whose readers stand in the same kernels, one of
/// each kernel, or of the first one.
fn rows_of(dtype: DType) -> &'static [usize] {
    if common_types().contains(&dtype) {
        &ROWS
    } else if is_wide() {
        &[1, 5]
    } else {
        &[1]
    }
}

struct Truth {
    m: usize,
    k: usize,
    x: Vec<f64>,
}

impl Truth {
    fn normed(&self, norm: &[f32], eps: f32) -> Truth {
        let x = self
            .x
            .chunks(self.k)
            .flat_map(|row| {
                let mean = row.iter().map(|v| v * v).sum::<f64>() / self.k as f64;
                let scale = 1.0 / (mean + f64::from(eps)).sqrt();
                row.iter()
                    .zip(norm)
                    .map(move |(v, w)| v * scale * f64::from(*w))
                    .collect::<Vec<_>>()
            })
            .collect();
        Truth { m: self.m, k: self.k, x }
    }

    fn times(&self, w: &[f64], bias: Option<&[f32]>) -> Vec<f64> {
        let n = w.len() / self.k;
        let mut y = Vec::with_capacity(self.m * n);
        for m in 0..self.m {
            for r in 0..n {
                let x = &self.x[m * self.k..(m + 1) * self.k];
                let w = &w[r * self.k..(r + 1) * self.k];
                let dot: f64 = x.iter().zip(w).map(|(a, b)| a * b).sum();
                y.push(dot + bias.map_or(0.0, |b| f64::from(b[r])));
            }
        }
        y
    }
}

fn truth(m: usize, k: usize, xs: &[f32]) -> Truth {
    Truth { m, k, x: xs.iter().map(|&x| f64::from(x)).collect() }
}

fn norm_weight(rng: &mut Rng, k: usize) -> (Vec<f32>, Operand) {
    let w = rng.floats(k);
    let operand = weight(DType::F32, &[k as u64], f32_bytes(&w));
    (w, operand)
}

#[test]
fn every_type_multiplies_every_number_of_rows() {
    let d = device();
    let mut rng = Rng(1);
    for dtype in common_types().into_iter().chain(other_formats()) {
        let sizes: &[(usize, usize)] = if dtype.is_block() {
            &[(256, 7), (512, 70), (1280, 3)]
        } else {
            &[(1, 1), (31, 5), (33, 66), (256, 70)]
        };
        let common = common_types().contains(&dtype);
        for &(k, n) in first_of(if common { 4 } else { 1 }, sizes) {
            for &m in rows_of(dtype) {
                let xs = rng.floats(m * k);
                let w = random_weights(&mut rng, dtype, n, k);
                let dims = [n as u64, k as u64];
                let got = run_op(
                    &d,
                    MatMul::plain(),
                    &[input(&[m as u64, k as u64], &xs), weight(dtype, &dims, w.clone())],
                );
                let want = truth(m, k, &xs).times(&decode(dtype, &w), None);
                assert_close(&format!("{dtype} {m}x{k}x{n}"), &floats(&got[0]), &want, 2e-6);
            }
        }
    }
}

#[test]
fn segments_of_different_types_share_a_step() {
    let d = device();
    let mut rng = Rng(2);
    let k = 256;
    let types = [
        DType::Block(BlockFormat::Q4K),
        DType::Block(BlockFormat::Q6K),
        DType::F16,
        DType::Block(BlockFormat::Q4K),
    ];
    let ns = [64usize, 33, 1, 130];
    for m in ROWS {
        for buffers in [Buffers::One, Buffers::Each] {
            for (bias, norm) in [(false, false), (true, true), (false, true)] {
                let xs = rng.floats(m * k);
                let mut operands = vec![input(&[m as u64, k as u64], &xs)];
                let mut t = truth(m, k, &xs);
                if norm {
                    let (w, operand) = norm_weight(&mut rng, k);
                    operands.push(operand);
                    t = t.normed(&w, 1e-5);
                }
                let ws: Vec<Vec<u8>> = types
                    .iter()
                    .zip(ns)
                    .map(|(&ty, n)| random_weights(&mut rng, ty, n, k))
                    .collect();
                for i in 0..4 {
                    operands.push(weight(types[i], &[ns[i] as u64, k as u64], ws[i].clone()));
                }
                let biases: Vec<Vec<f32>> = ns.iter().map(|&n| rng.floats(n)).collect();
                if bias {
                    for b in &biases {
                        operands.push(weight(DType::F32, &[b.len() as u64], f32_bytes(b)));
                    }
                }
                let op =
                    MatMul { segments: 4, bias, norm: norm.then_some(1e-5), ..MatMul::plain() };
                // Nine weights in buffers of their own are more than a step may bind.
                if buffers == Buffers::Each && operands.len() > 7 {
                    continue;
                }
                let got = run(&d, &case(op, &operands, buffers)).unwrap();
                for i in 0..4 {
                    let b = bias.then_some(biases[i].as_slice());
                    let want = t.times(&decode(types[i], &ws[i]), b);
                    assert_close(&format!("segment {i}, {m} rows"), &floats(&got[i]), &want, 3e-6);
                }
            }
        }
    }
}

#[test]
fn epilogues_and_the_norm_prologue_hold_for_every_type() {
    let d = device();
    let mut rng = Rng(3);
    let types = [DType::F16, DType::Block(BlockFormat::Q4K)];
    let others = common_types().into_iter().filter(|t| !types.contains(t));
    for dtype in first_of(types.len(), types.into_iter().chain(others)) {
        let k = if dtype.is_block() { 512 } else { 130 };
        let n = 67usize;
        for m in [1usize, 5] {
            for epilogue in [Epilogue::Add, Epilogue::Map(Unary::Gelu), Epilogue::Glu(Unary::Silu)]
            {
                let norm = !matches!(epilogue, Epilogue::Map(_));
                let bias = m != 5;
                let glu = matches!(epilogue, Epilogue::Glu(_));
                let segments = if glu { 2 } else { 1 };
                let xs = rng.floats(m * k);
                let mut t = truth(m, k, &xs);
                let mut operands = vec![input(&[m as u64, k as u64], &xs)];
                if norm {
                    let (w, operand) = norm_weight(&mut rng, k);
                    operands.push(operand);
                    t = t.normed(&w, 1e-6);
                }
                let ws: Vec<Vec<u8>> =
                    (0..segments).map(|_| random_weights(&mut rng, dtype, n, k)).collect();
                for w in &ws {
                    operands.push(weight(dtype, &[n as u64, k as u64], w.clone()));
                }
                let biases: Vec<Vec<f32>> = (0..segments).map(|_| rng.floats(n)).collect();
                if bias {
                    for b in &biases {
                        operands.push(weight(DType::F32, &[n as u64], f32_bytes(b)));
                    }
                }
                let residual = rng.floats(m * n);
                if epilogue == Epilogue::Add {
                    operands.push(input(&[m as u64, n as u64], &residual));
                }
                let op = MatMul {
                    segments,
                    bias,
                    norm: norm.then_some(1e-6),
                    epilogue,
                    ..MatMul::plain()
                };
                let got = run_op(&d, op, &operands);
                let ys: Vec<Vec<f64>> = (0..segments)
                    .map(|i| {
                        let b = bias.then_some(biases[i].as_slice());
                        t.times(&decode(dtype, &ws[i]), b)
                    })
                    .collect();
                let want: Vec<f64> = (0..m * n)
                    .map(|i| match epilogue {
                        Epilogue::None => ys[0][i],
                        Epilogue::Add => ys[0][i] + f64::from(residual[i]),
                        Epilogue::Map(f) => f.eval(ys[0][i]),
                        Epilogue::Glu(f) => f.eval(ys[0][i]) * ys[1][i],
                    })
                    .collect();
                let what = format!("{dtype}, {m} rows, {epilogue:?}");
                assert_close(&what, &floats(&got[0]), &want, 1e-5);
            }
        }
    }
}

/// Blocks of integers as `quantize_rows` makes them, here from random bytes.
fn int8_input(rng: &mut Rng, format: BlockFormat, m: usize, k: usize) -> Operand {
    let mut bytes = rng.bytes(m * k / format.elements() * format.bytes());
    for block in bytes.chunks_exact_mut(format.bytes()) {
        let d = 0.01 + rng.float().abs() * 0.02;
        match format {
            BlockFormat::Q8_0 => {
                block[..2].copy_from_slice(&half::f16::from_f32(d).to_le_bytes());
            }
            _ => block[..4].copy_from_slice(&d.to_le_bytes()),
        }
    }
    let mut operand = input(&[1], &[0.0]);
    operand.ty = rlx_core::types::Type::tensor(
        DType::Block(format),
        rlx_core::types::Shape::of(&[m as u64, k as u64]),
    );
    operand.bytes = bytes;
    operand
}

#[test]
fn integer_activations_multiply_packed_weights() {
    let d = device();
    let wide = device_with(|info| info.wgsl.subgroup = Some(32));
    let decoded = device_with(|info| info.wgsl.packed_dot = false);
    let mut rng = Rng(4);
    let packed: Vec<DType> = common_types().into_iter().filter(|t| t.is_block()).collect();
    // Other formats have one row in every run, in tests/matmul_rows.rs.
    for (at, dtype) in first_of(packed.len(), packed.into_iter().chain(other_formats())).enumerate()
    {
        // Readers of a format and the epilogue are apart: other formats have one of both epilogues.
        let q4_k = dtype == DType::Block(BlockFormat::Q4K);
        let common = if is_wide() { common_types().contains(&dtype) } else { q4_k };
        let epilogues = if common { vec![false, true] } else { vec![at % 2 == 0] };
        let (short, two) = (BlockFormat::Q8_0, BlockFormat::Q15_0);
        // Inputs are whole words: an even number of 34-byte blocks.
        let rows = if common { rows_of(dtype) } else { &[1, 5] };
        let mut cases: Vec<(_, _, usize, usize, &[usize])> = vec![(&d, short, 256, 7, rows)];
        if is_wide() || common {
            cases.extend([(&d, short, 1024, 70, &[66][..]), (&d, two, 256, 7, rows)]);
            // Rows that are few are no tiles where subgroups are wide.
            cases.push((&wide, short, 1024, 70, &[5, 13]));
            cases.extend([(&d, two, 1024, 70, &[66][..]), (&wide, two, 1024, 70, &[5])]);
        }
        if q4_k {
            cases
                .extend([(&decoded, short, 512, 7, &[1, 5][..]), (&decoded, two, 512, 7, &[1, 5])]);
        }
        if dtype == DType::Block(BlockFormat::Q6K) {
            // Rows that the device has in planes.
            cases.extend([(&d, short, 2048, 7, &[1, 5, 66][..]), (&wide, two, 2048, 7, &[5])]);
        }
        for (d, format, k, n, rows) in cases {
            for &m in rows {
                for &glu in &epilogues {
                    let x = int8_input(&mut rng, format, m, k);
                    let t = Truth { m, k, x: decode(DType::Block(format), &x.bytes) };
                    let count = if glu { 2 } else { 1 };
                    let ws: Vec<Vec<u8>> =
                        (0..count).map(|_| random_weights(&mut rng, dtype, n, k)).collect();
                    let mut operands = vec![x];
                    for w in &ws {
                        operands.push(weight(dtype, &[n as u64, k as u64], w.clone()));
                    }
                    let epilogue = if glu { Epilogue::Glu(Unary::Silu) } else { Epilogue::None };
                    let op = MatMul { segments: count, epilogue, ..MatMul::plain() };
                    let got = run_op(d, op, &operands);
                    let ys: Vec<Vec<f64>> =
                        ws.iter().map(|w| t.times(&decode(dtype, w), None)).collect();
                    let want: Vec<f64> = (0..m * n)
                        .map(|i| if glu { Unary::Silu.eval(ys[0][i]) * ys[1][i] } else { ys[0][i] })
                        .collect();
                    let what = format!("{dtype} by {} {m}x{k}x{n} glu {glu}", format.name());
                    assert_close(&what, &floats(&got[0]), &want, 5e-6);
                }
            }
        }
    }
}
