//! Products of 16-bit floats against the reference: every format, epilogue and number of rows, and x and weights
//! beyond the range of f16.

use crate::common;
use common::model::{generate, load};
use common::*;
use rlx_core::compare::difference;
use rlx_core::ops::{Epilogue, MatMul, Op, QuantizeRows, Unary};
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::reference::{self, View};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::Activations;
use rlx_core::types::{BlockFormat, DType, Type};
use rlx_webgpu::WebGpuDevice;
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{CountingGpu, Gpu, SHADER_F16, Wgsl};
use rlx_webgpu::tuning::Tuning;
use std::sync::Arc;

/// Of the largest result: twice the 1.5e-3 that was seen, of random blocks of `q5_k` whose scales and minima nearly
/// cancel each other.
const TOLERANCE: f64 = 3e-3;

/// The GPU with products of 16-bit floats; `None` where it has none.
fn device() -> Option<Arc<TestDevice>> {
    let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
    let info = gpu.info();
    if !info.wgsl.f16 {
        assert!(!info.adapter.contains("llvmpipe"), "{} has f16: {info:?}", info.adapter);
        println!("{} has no shader-f16", info.adapter);
        return None;
    }
    let tuning = Tuning::usual(info.wgsl).with_half(true);
    Some(Arc::new(WebGpuDevice::new(CountingGpu::new(gpu)).with_tuning(tuning)))
}

/// The largest difference from the reference, of the largest result.
fn check(d: &Arc<TestDevice>, op: &MatMul, operands: &[Operand], what: &str) -> f64 {
    let op = Op::from(op.clone());
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let want = reference::run(&op, &views).expect("the reference runs this");
    let mut most = 0.0f64;
    for (got, want) in run_op(d, op, operands).iter().zip(&want) {
        let want: Vec<f64> = floats(want).into_iter().map(f64::from).collect();
        assert_close(what, &floats(got), &want, TOLERANCE);
        most = most.max(difference(&floats(got), &want).relative());
    }
    most
}

fn matrix(rng: &mut Rng, dtype: DType, n: u64, k: u64) -> Operand {
    weight(dtype, &[n, k], random_weights(rng, dtype, n as usize, k as usize))
}

#[test]
fn every_type_and_number_of_rows_is_the_references() {
    let Some(d) = device() else { return };
    let mut rng = Rng(91);
    let mut most = 0.0f64;
    for dtype in common_types().into_iter().chain(other_formats()) {
        let common = common_types().contains(&dtype);
        let sizes: &[(u64, u64)] = match (dtype.is_block(), common) {
            (false, _) => &[(31, 5), (64, 66)],
            (true, true) => &[(512, 70), (1280, 3)],
            (true, false) => &[(256, 9)],
        };
        for &(k, n) in sizes {
            for m in if common { &[2, 33, 66][..] } else { &[5] } {
                let x = input(&[*m, k], &rng.floats((m * k) as usize));
                let operands = [x, matrix(&mut rng, dtype, n, k)];
                let what = format!("{dtype} {m}x{k}x{n}");
                most = most.max(check(&d, &MatMul::plain(), &operands, &what));
            }
        }
    }
    // Products of f32 would be within 2e-6.
    assert!(most > 1e-5, "{most:e}: these are no products of 16-bit floats");
    assert!(d.info().features.iter().any(|f| f == SHADER_F16), "{:?}", d.info());
}

#[test]
fn epilogues_biases_segments_and_blocks_are_the_references() {
    let Some(d) = device() else { return };
    let mut rng = Rng(92);
    let (q4, q6) = (DType::Block(BlockFormat::Q4K), DType::Block(BlockFormat::Q6K));
    for (epilogue, bias, types) in [
        (Epilogue::Add, true, &[q4][..]),
        (Epilogue::Map(Unary::Gelu), false, &[q6]),
        (Epilogue::Glu(Unary::Silu), true, &[q4, q4]),
        (Epilogue::Glu(Unary::Silu), false, &[q4, q6]),
        (Epilogue::None, true, &[q4, q6, DType::F16]),
    ] {
        let (m, n, k) = (37, 67, 512);
        let mut operands = vec![input(&[m, k], &rng.floats((m * k) as usize))];
        operands.extend(types.iter().map(|&t| matrix(&mut rng, t, n, k)));
        for _ in types.iter().filter(|_| bias) {
            operands.push(weight(DType::F32, &[n], f32_bytes(&rng.floats(n as usize))));
        }
        if epilogue == Epilogue::Add {
            operands.push(input(&[m, n], &rng.floats((m * n) as usize)));
        }
        let what = format!("{epilogue:?} {types:?}");
        let op = MatMul { segments: types.len(), bias, epilogue, ..MatMul::plain() };
        check(&d, &op, &operands, &what);
    }
    // A device without integer dot products decodes blocks of x.
    let gpu = NativeGpu::new(None).expect("it was there");
    let wgsl = Wgsl { packed_dot: false, ..gpu.info().wgsl };
    let tuning = Tuning::usual(wgsl).with_half(true);
    let d = WebGpuDevice::with_wgsl(CountingGpu::new(gpu), wgsl).with_tuning(tuning);
    let d = Arc::new(d);
    for format in [BlockFormat::Q8_0, BlockFormat::Q15_0] {
        let x = input(&[9, 512], &rng.floats(9 * 512));
        let views = [View::new(&x.ty, &x.bytes)];
        let made =
            reference::run(&QuantizeRows::to(format).into(), &views).expect("it makes blocks");
        let ty = Type { dtype: DType::Block(format), ..x.ty.clone() };
        let x = Operand { ty, bytes: made.into_iter().next().expect("one result"), ..x };
        let w = matrix(&mut rng, q4, 20, 512);
        check(&d, &MatMul::plain(), &[x, w], format.name());
    }
}

/// Elements of x and weights that f16 has no numbers for, and blocks of nothing.
#[test]
fn what_is_out_of_the_range_of_f16_is_scaled_into_it() {
    let Some(d) = device() else { return };
    let mut rng = Rng(93);
    let (m, n, k) = (6u64, 9u64, 96u64);
    for (x_scale, w_scale) in [(1e6, 1.0), (1e-9, 1.0), (1.0, 1e8), (1e-7, 1e-12), (1e12, 1e-20)] {
        let mut xs: Vec<f32> = rng.floats((m * k) as usize).iter().map(|x| x * x_scale).collect();
        // A chunk of zeros, one of numbers below the normal ones, and one element far above the others.
        xs[..32].fill(0.0);
        xs[32..64].fill(1e-42);
        xs[k as usize] = 50.0 * x_scale;
        let ws: Vec<f32> = rng.floats((n * k) as usize).iter().map(|w| w * w_scale).collect();
        let operands = [input(&[m, k], &xs), weight(DType::F32, &[n, k], f32_bytes(&ws))];
        check(&d, &MatMul::plain(), &operands, &format!("{x_scale:e} {w_scale:e}"));
    }
}

#[test]
fn the_self_test_may_leave_them_out() {
    let Some(d) = device() else { return };
    let mut rng = Rng(94);
    let q4 = DType::Block(BlockFormat::Q4K);
    let operands = [input(&[5, 512], &rng.floats(5 * 512)), matrix(&mut rng, q4, 7, 512)];
    assert!(d.optional().contains(&SHADER_F16));
    assert!(check(&d, &MatMul::plain(), &operands, "with") > 1e-6);
    d.avoid(&[SHADER_F16], "a test");
    d.forget_kernels();
    assert!(check(&d, &MatMul::plain(), &operands, "without") < 1e-6);
    // Nor are they there where the tuning does not say so.
    let usual = common::device();
    assert!(!usual.optional().contains(&SHADER_F16));
    assert!(check(&usual, &MatMul::plain(), &operands, "usual") < 1e-6);
}

#[test]
fn a_models_logits_are_close_to_those_of_f32() {
    let Some(d) = device() else { return };
    let mut options = ModelOptions::chat(16).with_logits();
    options.compile.activations = Activations::F32;
    options.compile.kv = DType::F32;
    options.context = Some(256);
    let on = |device: Arc<dyn Device>| {
        let mut engine = load(device, "gguf/llama-q4_k_m.gguf", &options);
        generate(&mut engine, vec![1, 5, 9, 2, 7, 3], 2, true).1.expect("logits were asked for")
    };
    let want = on(Arc::new(ReferenceDevice::new()));
    let off = difference(&on(d), &want).relative();
    println!("{off:.2e} of the largest");
    assert!(off > 1e-6 && off < 2e-3, "{off:e}");
}
