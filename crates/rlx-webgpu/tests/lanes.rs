//! Kernels that use subgroups, with subgroups of every width that GPUs have; and what a device makes of a host that
//! does not say the width.

use crate::common::lanes::{Emulated, WIDTHS, emulate};
use crate::common::*;
use half::f16;
use rlx_core::ops::{
    Attention, AttentionSplit, Epilogue, MatMul, Op, RopeAttentionSplit, RopeScaling, RopeStyle,
    RopeTable, Unary,
};
use rlx_core::reference::{self, View};
use rlx_core::runtime::device::Device;
use rlx_core::types::{BlockFormat, DType};
use rlx_webgpu::Tuning;
use rlx_webgpu::device::Probes;
use rlx_webgpu::gpu::{SUBGROUPS, Vendor, Width};
use std::task::{Context, Poll, Waker};

fn probe(gpu: &Emulated) {
    let mut probes = Probes::new(&gpu.device);
    let mut cx = Context::from_waker(Waker::noop());
    while match probes.poll(&gpu.device, &mut cx) {
        Poll::Ready(answer) => answer.map(|()| false).expect("the GPU is there"),
        Poll::Pending => true,
    } {}
    assert_eq!(gpu.device.counters().live_bytes, 0);
}

/// Every result of the operator, against the reference's.
fn check(what: &str, gpu: &Emulated, op: impl Into<Op>, operands: &[Operand], tolerance: f64) {
    let op = op.into();
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let want = reference::run(&op, &views).expect("the reference runs this");
    let got = run_op(&gpu.device, op, operands);
    for (got, want) in got.iter().zip(&want) {
        close(what, got, want, tolerance);
    }
}

fn close(what: &str, got: &[u8], want: &[u8], tolerance: f64) {
    // The largest score of a split without positions is no number to take differences of.
    let finite = |bytes: &[u8]| -> Vec<f32> {
        let empty = |x: f32| if x == f32::NEG_INFINITY { -1.0 } else { x };
        floats(bytes).into_iter().map(empty).collect()
    };
    let want: Vec<f64> = finite(want).into_iter().map(f64::from).collect();
    assert_close(what, &finite(got), &want, tolerance);
}

/// Every width in the wide suite; otherwise the narrowest, and 32, which most GPUs have.
fn few_widths() -> impl Iterator<Item = u32> {
    let few = [WIDTHS[0], 32];
    first_of(few.len(), few.into_iter().chain(WIDTHS.into_iter().filter(move |w| !few.contains(w))))
}

#[test]
fn products_with_one_row_are_right_at_every_width() {
    // Shares of 64 elements: more than a team's lanes, fewer, and no multiple of them; the longest row too.
    let (k, legacy) = (DType::Block(BlockFormat::Q4K), DType::Block(BlockFormat::Q8_0));
    let glu = Epilogue::Glu(Unary::Silu);
    let (int8, int16) = (BlockFormat::Q8_0, BlockFormat::Q15_0);
    let cases = [
        (k, 256u64, 70u64, Epilogue::Add, int8),
        (k, 1280, 33, glu, int8),
        (k, 14_336, 9, Epilogue::None, int8),
        (legacy, 192, 66, glu, int8),
        (legacy, 4352, 18, Epilogue::None, int8),
        (k, 1280, 33, glu, int16),
        (legacy, 6144, 18, Epilogue::None, int16),
    ];
    for lanes in few_widths() {
        let gpu = Emulated::new(lanes);
        let mut rng = Rng(11);
        for (dtype, k, n, epilogue, blocks) in cases {
            let segments = if epilogue == glu { 2 } else { 1 };
            let mut operands = vec![input(&[1, k], &rng.floats(k as usize))];
            operands.push(weight(DType::F32, &[k], f32_bytes(&rng.floats(k as usize))));
            for _ in 0..segments {
                let w = random_weights(&mut rng, dtype, n as usize, k as usize);
                operands.push(weight(dtype, &[n, k], w));
            }
            if epilogue == Epilogue::Add {
                operands.push(input(&[1, n], &rng.floats(n as usize)));
            }
            let (norm, quantize) = (Some(1e-5), Some(blocks));
            let op = MatMul { segments, norm, quantize, epilogue, ..MatMul::plain() };
            // One quant may round the other way, as in tests/matmul_rows.rs.
            check(
                &format!("{lanes} lanes: {dtype} 1x{k}x{n} {blocks:?}"),
                &gpu,
                op,
                &operands,
                2e-3,
            );
        }
        assert_eq!(gpu.shuffled(), cases.len(), "each has a kernel that shuffles");
    }
}

const CAPACITY: u64 = 256;

fn cache(rng: &mut Rng, dtype: DType, heads: u64, e: u64) -> Operand {
    let xs = rng.floats((heads * CAPACITY * e) as usize);
    let bytes = match dtype {
        DType::F16 => xs.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::Block(_) => cache_blocks(dtype, &xs),
        _ => f32_bytes(&xs),
    };
    state(dtype, &[heads, CAPACITY, e], bytes)
}

#[test]
fn splits_of_attention_are_right_at_every_width() {
    let [q8_0, q4_0] = [BlockFormat::Q8_0, BlockFormat::Q4_0].map(DType::Block);
    for lanes in few_widths() {
        let gpu = Emulated::new(lanes);
        let mut rng = Rng(12);
        let mut kernels = 0;
        // The widest heads whose pieces a team of so many lanes has, and narrower ones.
        let most = u64::from(lanes.min(32));
        for (dtype, e) in [
            (DType::F32, 4 * most),
            (DType::F16, 8 * most),
            (DType::F16, 16),
            (q8_0, (8 * most).max(64)),
            (q4_0, (8 * most).max(64)),
        ] {
            if dtype.is_block() && e > 8 * most {
                continue;
            }
            kernels += 2;
            for past in [0u32, 63, 200] {
                let (heads, kv) = (4u64, 2u64);
                let row = |rng: &mut Rng, n: u64| input(&[1, n], &rng.floats(n as usize));
                let q = row(&mut rng, heads * e);
                let caches = [cache(&mut rng, dtype, kv, e), cache(&mut rng, dtype, kv, e)];
                let ctl = control(past, 1, 0);
                let whole = Attention::causal(e as usize, 0.3);
                let op = AttentionSplit { whole, splits: 3, least: 64 };
                let what = format!("{lanes} lanes: {dtype} heads of {e} past {past}");
                let [k, v] = caches.clone();
                check(&what, &gpu, op.clone(), &[q.clone(), k, v, ctl.clone()], 1e-5);

                let table = RopeTable {
                    base: 1e4,
                    dims: e as usize,
                    context: CAPACITY,
                    scaling: RopeScaling::None,
                };
                let table = Op::from(table);
                let dims = table.infer(&[]).expect("a table")[0].shape.static_dims();
                let values = reference::run(&table, &[]).expect("a table");
                let table = input(&dims.expect("static"), &floats(&values[0]));
                let (key, value) = (row(&mut rng, kv * e), row(&mut rng, kv * e));
                let [k, v] = caches;
                let operands = [q, key, value, table, k, v, ctl];
                let style = RopeStyle::Half;
                let op = Op::from(RopeAttentionSplit { style, norm: None, split: op });
                let views: Vec<View<'_>> =
                    operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
                let want = reference::run(&op, &views).expect("the reference runs this");
                let got = run_op(&gpu.device, op, &operands);
                for (got, want) in got.iter().zip(&want).take(2) {
                    // A key that is turned here may round to the other neighbour in its cache.
                    let step = if dtype == DType::F32 { 1e-5 } else { 2e-3 };
                    close(&what, got, want, step);
                }
            }
        }
        assert_eq!(gpu.shuffled(), kernels, "each has kernels that shuffle, built once");
    }
}

#[test]
fn the_width_is_measured_where_the_host_names_a_range() {
    for lanes in WIDTHS {
        let gpu = Emulated::with_width(lanes, Width::of(4, 128, Vendor::Other));
        assert_eq!(gpu.device.tuning(), Tuning::usual(wgsl(4)));
        probe(&gpu);
        let info = gpu.device.info();
        assert_eq!(info.demoted, [""; 0]);
        assert!(info.features.iter().any(|f| f == SUBGROUPS), "{:?}", info.features);
        let text = format!("{lanes} lanes, as measured (the driver says 4 to 128)");
        assert_eq!(info.subgroups, Some(text));
        assert_eq!(gpu.device.tuning(), Tuning::usual(wgsl(lanes)));
    }
}

fn wgsl(lanes: u32) -> rlx_webgpu::gpu::Wgsl {
    rlx_webgpu::gpu::Wgsl { subgroup: Some(lanes), ..Default::default() }
}

#[test]
fn a_compiler_that_chooses_for_each_shader_is_held_to_the_fewest_lanes() {
    use crate::common::changed::Changed;
    use rlx_webgpu::WebGpuDevice;
    use rlx_webgpu::gpu::native::NativeGpu;
    use std::sync::Arc;
    // The full shader gets half of the lanes; then a shader that does not compile; then a measured one.
    let chooses = |text: &str| emulate(text, if text.contains("r39") { 16 } else { 32 });
    let refuses = |text: &str| emulate(&text.replace("subgroup_size) l", "no_size) l"), 32);
    for change in [chooses as fn(&str) -> String, refuses] {
        let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
        let mut gpu = Changed::new(gpu, change);
        gpu.info.width = Width::of(8, 32, Vendor::Other);
        gpu.info.wgsl.subgroup = gpu.info.width.lanes();
        let device = Arc::new(WebGpuDevice::new(gpu));
        let mut probes = Probes::new(&device);
        let mut cx = Context::from_waker(Waker::noop());
        while probes.poll(&device, &mut cx).map(|r| r.expect("the GPU is there")).is_pending() {}
        let text = device.info().subgroups.expect("they work all the same");
        assert!(text.starts_with("8 lanes, the fewest of 8 to 32: "), "{text}");
        assert_eq!(device.counters().live_bytes, 0);
    }
}
