//! `matmul` of one row, in int8 blocks that it makes or as it is, against the reference: every format, epilogue
//! and length of row, with subgroups and without, with integer dot products and without.

use crate::common;
use common::*;
use rlx_core::compare::difference;
use rlx_core::ops::{Epilogue, MatMul, Op, Unary};
use rlx_core::reference::{self, View};
use rlx_core::types::{BlockFormat, DType};
use rlx_webgpu::WebGpuDevice;
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{CountingGpu, Gpu, Wgsl};
use std::sync::Arc;

/// One quant that rounds the other way, of a row's largest sum: 1.2e-3 was seen, in one case of 72.
const ONE_QUANT: f64 = 2e-3;
/// Every other case, and all of floats: ten times the 2.4e-7 that was seen.
const NO_QUANT: f64 = 2.5e-6;

/// How many cases there were, and in how many of them a quant rounded the other way.
#[derive(Default)]
struct Cases {
    all: usize,
    other_way: usize,
}

impl Drop for Cases {
    /// Where many differ, it is no rounding of a tie: sums or scales are wrong.
    fn drop(&mut self) {
        let Cases { all, other_way } = *self;
        if !std::thread::panicking() {
            assert!(all > 0 && other_way <= 1 + all / 20, "{other_way} of {all} cases differ");
        }
    }
}

/// The GPU as it is, and with less.
fn devices() -> Vec<(&'static str, Arc<TestDevice>)> {
    let masked = |mask: fn(Wgsl) -> Wgsl| {
        let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
        let wgsl = mask(gpu.info().wgsl);
        Arc::new(WebGpuDevice::with_wgsl(CountingGpu::new(gpu), wgsl))
    };
    vec![
        ("whole", masked(|w| w)),
        ("no subgroups", masked(|w| Wgsl { subgroup: None, ..w })),
        ("no packed dot", masked(|w| Wgsl { packed_dot: false, ..w })),
        // Fewer lanes than a subgroup has: a driver may promise less than it does.
        ("four lanes", masked(|w| Wgsl { subgroup: w.subgroup.map(|_| 4), ..w })),
    ]
}

/// The operands of a product of one row: `n` rows of each of these types, of `k` elements.
fn operands_of(rng: &mut Rng, op: &MatMul, types: &[(DType, usize)], k: usize) -> Vec<Operand> {
    let mut operands = vec![input(&[1, k as u64], &rng.floats(k))];
    if op.norm.is_some() {
        let w = rng.floats(k);
        operands.push(weight(DType::F32, &[k as u64], f32_bytes(&w)));
    }
    for &(dtype, n) in types {
        let w = random_weights(rng, dtype, n, k);
        operands.push(weight(dtype, &[n as u64, k as u64], w));
    }
    for &(_, n) in types.iter().filter(|_| op.bias) {
        let b = f32_bytes(&rng.floats(n));
        operands.push(weight(DType::F32, &[n as u64], b));
    }
    if op.epilogue == Epilogue::Add {
        let n = types[0].1;
        operands.push(input(&[1, n as u64], &rng.floats(n)));
    }
    operands
}

/// A product of floats, which rounds as any other order of its sums does.
fn check_floats(what: &str, d: &Arc<TestDevice>, op: MatMul, operands: &[Operand]) {
    let mut cases = Cases::default();
    check(&mut cases, what, d, op, operands);
    assert_eq!(cases.other_way, 0, "{what}");
}

fn check(cases: &mut Cases, what: &str, d: &Arc<TestDevice>, op: MatMul, operands: &[Operand]) {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let op = Op::from(op);
    let want = reference::run(&op, &views).expect("the reference runs this");
    let got = run_op(d, op, operands);
    for (got, want) in got.iter().zip(&want) {
        let want: Vec<f64> = floats(want).into_iter().map(f64::from).collect();
        let off = difference(&floats(got), &want).relative();
        if off > NO_QUANT {
            println!("{what}: {off:.2e} of the largest");
        }
        assert_close(what, &floats(got), &want, ONE_QUANT);
        cases.all += 1;
        cases.other_way += usize::from(off > NO_QUANT);
    }
}

/// Every format with one epilogue at one length, and one format with the others: each is a pipeline,
/// which software drivers compile for most of a second. What a device without subgroups or integer dot products has is
/// tried with one format in every run.
#[test]
fn every_format_epilogue_and_length() {
    let mut cases_seen = Cases::default();
    let (add, map) = (Epilogue::Add, Epilogue::Map(Unary::Gelu));
    let glu = Epilogue::Glu(Unary::Silu);
    for (at, (name, d)) in devices().into_iter().enumerate() {
        let mut rng = Rng(1);
        let others = if at == 0 { other_formats() } else { Vec::new() };
        let q4_k = DType::Block(BlockFormat::Q4K);
        let all = common_types().into_iter().chain(others).filter(|t| t.is_block() && *t != q4_k);
        for dtype in first_of(if at == 0 { usize::MAX } else { 1 }, [q4_k].into_iter().chain(all)) {
            let short = dtype.block_elements() < 256;
            let common = matches!(dtype, DType::Block(BlockFormat::Q4K | BlockFormat::Q8_0));
            let (q8_0, q15_0) = (BlockFormat::Q8_0, BlockFormat::Q15_0);
            let mut cases = vec![(256, 70, add, true, q8_0)];
            if at == 0 && (is_wide() || common_types().contains(&dtype)) {
                cases.push((256, 70, add, true, q15_0));
            }
            if common && at == 0 {
                let longest = (14_336, 1, Epilogue::None, true, q8_0);
                let normed = (6144, 1, Epilogue::None, true, q15_0);
                cases.extend([(1280, 33, map, false, q8_0), longest, normed]);
            }
            if common && (is_wide() || at < 2) {
                let k = if short { 192 } else { 512 };
                // Rows in spans, of which the last is in part.
                cases.extend([(k, 66, glu, false, q8_0), (8448, 5, add, false, q15_0)]);
            }
            if dtype == DType::Block(BlockFormat::Q6K) {
                // Rows that the device has in planes.
                cases.extend([(2048, 9, add, true, q8_0), (2048, 9, add, true, q15_0)]);
            }
            for (k, n, epilogue, norm, blocks) in cases {
                let segments = if matches!(epilogue, Epilogue::Glu(_)) { 2 } else { 1 };
                let quantize = Some(blocks);
                let (bias, norm) = (!norm, norm.then_some(1e-5));
                let op = MatMul { segments, bias, norm, quantize, epilogue, ..MatMul::plain() };
                let operands = operands_of(&mut rng, &op, &vec![(dtype, n); segments], k);
                let what = format!("{name}: {dtype} 1x{k}x{n} {epilogue:?}");
                check(&mut cases_seen, &what, &d, op, &operands);
            }
        }
    }
}

#[test]
fn segments_of_different_formats_and_a_matrix_of_many_rows() {
    let mut cases = Cases::default();
    for (name, d) in first_of(2, devices()) {
        let mut rng = Rng(2);
        let k = 512usize;
        let types = [BlockFormat::Q4K, BlockFormat::Q6K, BlockFormat::Q4K].map(DType::Block);
        let mut operands = vec![input(&[1, k as u64], &rng.floats(k))];
        for (dtype, n) in types.into_iter().zip([130usize, 33, 20_000]) {
            let w = random_weights(&mut rng, dtype, n, k);
            operands.push(weight(dtype, &[n as u64, k as u64], w));
        }
        let quantize = Some(BlockFormat::Q8_0);
        let op = MatMul { segments: 3, quantize, ..MatMul::plain() };
        check(&mut cases, &format!("{name}: segments"), &d, op, &operands);
    }
}

#[test]
fn a_row_of_zeros_and_one_of_the_longest() {
    let mut seen = Cases::default();
    for (name, d) in first_of(2, devices()) {
        let mut rng = Rng(3);
        let cases = [(512usize, vec![0.0; 512]), (14_336, rng.floats(14_336))];
        let blocks = [BlockFormat::Q8_0, BlockFormat::Q15_0];
        for ((k, x), quantize) in cases.iter().flat_map(|c| blocks.map(|b| (c, Some(b)))) {
            let k = *k;
            let dtype = DType::Block(BlockFormat::Q4K);
            let w = random_weights(&mut rng, dtype, 9, k);
            let operands = [input(&[1, k as u64], x), weight(dtype, &[9, k as u64], w)];
            let op = MatMul { quantize, ..MatMul::plain() };
            check(&mut seen, &format!("{name}: {k}"), &d, op, &operands);
        }
    }
}

/// As the first test, of rows as they are.
#[test]
fn floats_of_every_type_epilogue_and_length() {
    let (add, map) = (Epilogue::Add, Epilogue::Map(Unary::Gelu));
    let glu = Epilogue::Glu(Unary::Silu);
    for (at, (name, d)) in devices().into_iter().enumerate() {
        if name == "no packed dot" {
            continue;
        }
        let mut rng = Rng(4);
        // Other formats have one row of floats in every run, in tests/matmul.rs.
        let others = if at == 0 && is_wide() { other_formats() } else { Vec::new() };
        let q4_k = DType::Block(BlockFormat::Q4K);
        let all = common_types().into_iter().chain(others).filter(|t| *t != q4_k);
        for dtype in first_of(if at == 0 { usize::MAX } else { 1 }, [q4_k].into_iter().chain(all)) {
            let short = dtype.block_elements() < 256;
            let common = matches!(dtype, DType::Block(BlockFormat::Q4K | BlockFormat::Q8_0));
            let mut cases = vec![(256, 70, add, true)];
            if common {
                // Rows that fill a lane's turns in part, and rows in spans of which the last is in part.
                cases.extend([(1280, 33, map, false), (8448, 5, add, true)]);
                cases.push((if short { 64 } else { 512 }, 66, glu, false));
            }
            if dtype == DType::Block(BlockFormat::Q6K) {
                cases.push((2048, 9, add, true));
            }
            for (k, n, epilogue, norm) in cases {
                let segments = if matches!(epilogue, Epilogue::Glu(_)) { 2 } else { 1 };
                let (bias, norm) = (!norm, norm.then_some(1e-5));
                let op = MatMul { segments, bias, norm, epilogue, ..MatMul::plain() };
                let operands = operands_of(&mut rng, &op, &vec![(dtype, n); segments], k);
                let what = format!("{name}: {dtype} 1x{k}x{n} {epilogue:?}");
                check_floats(&what, &d, op, &operands);
            }
        }
    }
}

/// Types that no int8 blocks serve together, and workgroups that take rows more than once.
#[test]
fn floats_meet_segments_of_any_types_and_a_matrix_of_many_rows() {
    let types = [DType::Block(BlockFormat::Q4K), DType::F16, DType::Block(BlockFormat::Q8_0)];
    for (name, d) in first_of(2, devices()) {
        let mut rng = Rng(5);
        for (k, many) in [(256, 40_000), (4096, 3)] {
            let of: Vec<_> = types.into_iter().zip([130usize, 33, many]).collect();
            let op = MatMul { segments: 3, norm: Some(1e-5), ..MatMul::plain() };
            let operands = operands_of(&mut rng, &op, &of, k);
            check_floats(&format!("{name}: segments of {k}"), &d, op, &operands);
        }
    }
}

/// What does not lie at whole 16 bytes, or is no whole share, has a kernel that reads words.
#[test]
fn floats_anywhere_and_of_any_length() {
    let d = device();
    let mut rng = Rng(6);
    let mut run_at = |dtype: DType, k: usize, moved: u64| {
        let op = MatMul { norm: Some(1e-5), epilogue: Epilogue::Add, ..MatMul::plain() };
        let operands = operands_of(&mut rng, &op, &[(dtype, 7)], k);
        let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
        let want = reference::run(&Op::from(op.clone()), &views).expect("the reference runs this");
        let want: Vec<f64> = floats(&want[0]).into_iter().map(f64::from).collect();
        let mut case = case(op, &operands, Buffers::One);
        case.program.steps[0].results[0].offset += moved;
        case.program.outputs[0].slice.offset += moved;
        case.program.arena_bytes += 64;
        case.program.arena_segments = vec![case.program.arena_bytes];
        let got = run(&d, &case).expect("it runs");
        assert_close(&format!("{dtype} {k}, {moved}"), &floats(&got[0]), &want, NO_QUANT);
    };
    for dtype in common_types().into_iter().chain(other_formats()) {
        run_at(dtype, 512, 4);
    }
    run_at(DType::Block(BlockFormat::Q6K), 2048, 4);
    run_at(DType::Block(BlockFormat::Q4_0), 96, 0);
    run_at(DType::F32, 67, 0);
}
