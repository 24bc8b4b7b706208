//! The self-test, on a driver that is sound and on ones that compute wrong values: a GPU whose
//! shaders are changed on their way to the compiler.

use crate::common::changed::Changed;
use rlx_core::gguf::{HeaderReader, ModelFiles, TensorSpec, Value, Writer};
use rlx_core::models::Checkpoint;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::runtime::selftest::SelfTest;
use rlx_core::target::Activations;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Result};
use rlx_cpu::{CpuDevice, CpuOptions};
use rlx_webgpu::WebGpuDevice;
use rlx_webgpu::device::Probes;
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{Gpu, GpuInfo, PACKED_DOT, SUBGROUPS, Wgsl};
use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");

fn block<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(answer) = poll(&mut cx) {
            return answer;
        }
    }
}

/// What a driver makes of a shader.
type Fault = fn(&str) -> String;

/// A GPU with a fault in its compiler.
type Faulty = Changed;

fn device(fault: Fault) -> Arc<WebGpuDevice<Faulty>> {
    let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
    Arc::new(WebGpuDevice::new(Faulty::new(gpu, fault)))
}

/// A device with its features probed.
fn probed(fault: Fault) -> Arc<WebGpuDevice<Faulty>> {
    let device = device(fault);
    assert_eq!(device.info().features, [SUBGROUPS, PACKED_DOT], "both are there to be tested");
    let mut probes = Probes::new(&device);
    block(|cx| probes.poll(&device, cx)).unwrap();
    assert_eq!(device.counters().live_bytes, 0);
    device
}

fn files(path: &str) -> ModelFiles {
    let bytes = std::fs::read(format!("{FIXTURES}/{path}")).expect("the fixture is there");
    let mut reader = HeaderReader::new(path, Some(bytes.len() as u64));
    reader.push(&bytes).unwrap();
    ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap()
}

/// The header of a model with a layer for each of these formats; its heads are 64 wide.
fn header(dim: u64, heads: [u64; 2], ffn: u64, formats: &[BlockFormat]) -> ModelFiles {
    let (key, packed) = (|key: &str| format!("llama.{key}"), |i: usize| DType::Block(formats[i]));
    let layers = formats.len();
    let meta: Vec<(String, Value)> = vec![
        ("general.architecture".into(), Value::String("llama".into())),
        (key("block_count"), Value::U32(layers as u32)),
        (key("embedding_length"), Value::U32(dim as u32)),
        (key("feed_forward_length"), Value::U32(ffn as u32)),
        (key("attention.head_count"), Value::U32(heads[0] as u32)),
        (key("attention.head_count_kv"), Value::U32(heads[1] as u32)),
        (key("attention.key_length"), Value::U32(64)),
        (key("attention.layer_norm_rms_epsilon"), Value::F32(1e-5)),
        (key("context_length"), Value::U32(8192)),
        (key("rope.freq_base"), Value::F32(500_000.0)),
    ];
    let tensor = |name: String, dtype, dims: &[u64]| TensorSpec { name, dtype, dims: dims.into() };
    let mut tensors = vec![
        tensor("token_embd.weight".into(), packed(0), &[128_256, dim]),
        tensor("output_norm.weight".into(), DType::F32, &[dim]),
        tensor("rope_freqs.weight".into(), DType::F32, &[32]),
    ];
    for i in 0..layers {
        let at = |part: &str| format!("blk.{i}.{part}.weight");
        let (q, kv) = (heads[0] * 64, heads[1] * 64);
        for part in ["attn_norm", "ffn_norm"] {
            tensors.push(tensor(at(part), DType::F32, &[dim]));
        }
        for (part, out, input) in [
            ("attn_q", q, dim),
            ("attn_k", kv, dim),
            ("attn_v", kv, dim),
            ("attn_output", dim, q),
            ("ffn_gate", ffn, dim),
            ("ffn_up", ffn, dim),
            ("ffn_down", dim, ffn),
        ] {
            tensors.push(tensor(at(part), packed(i), &[out, input]));
        }
    }
    let writer = Writer::new(&meta, &tensors).unwrap();
    let mut reader = HeaderReader::new("header.gguf", None);
    reader.push(writer.header()).unwrap();
    ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap()
}

/// Whether a device had to give up features for the model of these files.
fn tested(
    device: &Arc<WebGpuDevice<Faulty>>,
    files: &ModelFiles,
    activations: Activations,
    context: u64,
) -> Result<bool> {
    tested_with(device, files, activations, DType::F16, context)
}

/// The same, with caches of a type.
fn tested_with(
    device: &Arc<WebGpuDevice<Faulty>>,
    files: &ModelFiles,
    activations: Activations,
    kv: DType,
    context: u64,
) -> Result<bool> {
    let mut options = ModelOptions::chat(512);
    options.compile.kv = kv;
    options.activations = activations.into();
    tested_by(device, files, &options, context)
}

/// The same, with options.
fn tested_by(
    device: &Arc<WebGpuDevice<Faulty>>,
    files: &ModelFiles,
    options: &ModelOptions,
    context: u64,
) -> Result<bool> {
    let oracle: Arc<dyn Device> = Arc::new(CpuDevice::new(CpuOptions::default())?);
    let mut test =
        SelfTest::new(&Checkpoint::gguf(files), context, options, device.clone(), &oracle)?;
    block(|cx| test.poll(cx))
}

const Q4: &str = "rustdoc-2m/rustdoc-2m-q4_k_m.gguf";

#[test]
fn a_sound_driver_passes_for_every_type_of_weights_and_nothing_stays_on_it() {
    let device = probed(str::to_string);
    let fixture = |format| files(&format!("rustdoc-2m/rustdoc-2m-{format}.gguf"));
    // Sizes of a model of 1 GB, of one whose rows are no whole super-blocks, and odd ones.
    let (k, legacy) = ([BlockFormat::Q6K, BlockFormat::Q4K], [BlockFormat::Q8_0]);
    let made = [
        header(2048, [32, 8], 8192, &k),
        header(576, [9, 3], 1536, &legacy),
        header(1312, [5, 5], 2080, &legacy),
    ];
    for files in ["f16", "q8_0", "q4_k_m"].map(fixture).iter().chain(&made) {
        for activations in [Activations::F32, Activations::Int8] {
            // With one split of a row's attention, and with many.
            for context in [256, 4096] {
                let gave_up = tested(&device, files, activations, context);
                let dim = files.metadata.u32("llama.embedding_length");
                assert_eq!(gave_up, Ok(false), "{dim:?} {activations:?} {context}");
            }
        }
    }
    let info = device.info();
    assert_eq!(info.features, [SUBGROUPS, PACKED_DOT]);
    assert_eq!(info.demoted, [""; 0]);
    assert_eq!(device.counters().live_bytes, 0);
}

#[test]
#[ignore = "minutes on a GPU in software: npm test -- --only wide"]
fn caches_of_q8_0_pass_and_a_wrong_reader_or_writer_of_theirs_is_found() {
    let q8_0 = DType::Block(BlockFormat::Q8_0);
    let passes = |fault: Fault, activations, context| {
        tested_with(&probed(fault), &files(Q4), activations, q8_0, context)
    };
    for activations in [Activations::F32, Activations::Int8] {
        for context in [256, 4096] {
            assert_eq!(passes(str::to_string, activations, context), Ok(false), "{context}");
        }
    }
    for fault in [
        // Tiles read bytes half a word early, splits the first block's scale, both a scale that is wrong.
        (|wgsl| wgsl.replace("return (low >> vec4u(shift))", "return (low >> vec4u(0u))")) as Fault,
        |wgsl| wgsl.replace("(start, i / 4u)));", "(start, 0u)));"),
        |wgsl| wgsl.replace("pack2x16float(vec2f(d, 0.0))", "pack2x16float(vec2f(2.0 * d, 0.0))"),
    ] {
        let e = passes(fault, Activations::F32, 256).unwrap_err();
        assert_eq!(e.code, Code::CheckFailed, "{e}");
    }
}

#[test]
fn shuffles_among_other_lanes_are_found_by_their_probe() {
    for fault in [
        (|wgsl| wgsl.replace("subgroupShuffleXor(", "subgroupShuffleUp(")) as Fault,
        |wgsl| wgsl.replace(", 2u)", ", 1u)"),
        // Does not compile.
        |wgsl| wgsl.replace("subgroupShuffleXor(", "noSuchShuffle("),
    ] {
        let device = probed(fault);
        let info = device.info();
        assert_eq!(info.features, [PACKED_DOT]);
        assert_eq!(info.demoted.len(), 1);
        assert!(info.demoted[0].starts_with("subgroups: "), "{:?}", info.demoted);
        assert_eq!(tested(&device, &files(Q4), Activations::Int8, 256), Ok(false));
    }
}

#[test]
fn wrong_products_of_bytes_are_found_by_their_probe() {
    for fault in [
        // Signs are lost.
        (|wgsl| {
            wgsl.replace("dot4I8Packed(a, b)", "i32(dot4U8Packed(a, b))").replace(
                "dot4I8Packed(b[thread], b[64u + thread])",
                "i32(dot4U8Packed(b[thread], b[64u + thread]))",
            )
        }) as Fault,
        |wgsl| wgsl.replace("pack4xI8(", "pack4xI8Clamp(2 * "),
    ] {
        let device = probed(fault);
        let info = device.info();
        assert_eq!(info.features, [SUBGROUPS]);
        assert_eq!(info.demoted, [format!("{PACKED_DOT}: a probe computes wrong values")]);
        assert_eq!(tested(&device, &files(Q4), Activations::Int8, 256), Ok(false));
    }
}

/// A fault that only whole kernels show.
#[test]
fn a_kernel_that_is_wrong_with_a_feature_is_built_without_it() {
    for (fault, features) in [
        // Sums of a team's lanes, not the shuffles themselves.
        (
            (|wgsl| wgsl.replace("y0 + subgroupShuffleXor(y0, 1u)", "y0 + y0")) as Fault,
            [PACKED_DOT],
        ),
        (
            |wgsl| wgsl.replace("return dot4I8Packed(a, b);", "return dot4I8Packed(a, b >> 1u);"),
            [SUBGROUPS],
        ),
    ] {
        let device = probed(fault);
        assert_eq!(device.info().demoted, [""; 0], "the probes do not see it");
        assert_eq!(tested(&device, &files(Q4), Activations::Int8, 256), Ok(true));
        let info = device.info();
        assert_eq!(info.features, features);
        assert_eq!(info.demoted.len(), 1);
        assert!(info.demoted[0].contains(": logits of "), "{:?}", info.demoted);
    }
}

/// Faults of single kernels that no feature explains: with which activations they are looked for, what
/// each replaces, and by what. One position of 160 is less than what int8 rounds.
const WRONG: &[(&str, Activations, &str, &str)] = &[
    (
        "a row of attention leaves out a position",
        Activations::F32,
        "let end = min(start + each, end_of_all);",
        "let end = min(start + each, end_of_all) - 1u;",
    ),
    (
        "a tile of attention sees the future",
        Activations::Int8,
        "let seen = (position < vec4u(own + 1u)) &",
        "let seen =",
    ),
    (
        "a tile of attention forgets the totals of its steps but the last",
        Activations::Int8,
        "total1 = total1 * fade1 + vec4f(",
        "total1 = vec4f(",
    ),
    (
        "rotation turns the other way",
        Activations::Int8,
        "a.y * b.x + a.x * b.y);",
        "a.y * b.x - a.x * b.y);",
    ),
    (
        "caches are written one position late",
        Activations::Int8,
        "let position = past + row;",
        "let position = past + row + 1u;",
    ),
    (
        "a norm adds up half of its row",
        Activations::F32,
        "for (var n = 128u; n > 0u; n /= 2u)",
        "for (var n = 64u; n > 0u; n /= 2u)",
    ),
    (
        "the embedding is of the next token",
        Activations::Int8,
        "let row = min(",
        "let row = 1u + min(",
    ),
    (
        "a drawn token is one late",
        Activations::F32,
        "fn finish(id: u32, position: u32) {",
        "fn finish(best: u32, position: u32) { let id = best + 1u;",
    ),
    (
        "blocks of int8 lose a sign",
        Activations::Int8,
        "let b = bitcast<vec4u>(vec4i(sign(v) * floor(abs(v) + 0.5))) & vec4u(255u);",
        "let b = bitcast<vec4u>(vec4i(sign(v) * floor(abs(v) + 0.5))) & vec4u(127u);",
    ),
    (
        "codes of q4_k lose their minima",
        Activations::Int8,
        "vec2f(sm.x), vec2f(sm.y));",
        "vec2f(sm.x), vec2f());",
    ),
];

thread_local! {
    static CHANGE: Cell<(&'static str, &'static str)> = const { Cell::new(("", "")) };
    /// Shaders that were changed.
    static CHANGED: Cell<u32> = const { Cell::new(0) };
}

fn change(wgsl: &str) -> String {
    let (from, to) = CHANGE.get();
    CHANGED.set(CHANGED.get() + u32::from(wgsl.contains(from)));
    wgsl.replace(from, to)
}

#[test]
#[ignore = "minutes on a GPU in software: npm test -- --only wide"]
fn a_wrong_kernel_of_any_family_is_an_error() {
    let gpu = || NativeGpu::new(None).expect("these tests need a WebGPU adapter");
    for &(what, activations, from, to) in WRONG {
        CHANGE.set((from, to));
        CHANGED.set(0);
        // Without features there is nothing to give up.
        let gpu = Faulty::new(gpu(), change);
        let device = Arc::new(WebGpuDevice::with_wgsl(gpu, Wgsl::default()));
        let e = tested(&device, &files(Q4), activations, 4096).expect_err(what);
        assert!(CHANGED.get() > 0, "{what}: no shader has this text");
        assert_eq!(e.code, Code::CheckFailed, "{what}: {e}");
        assert!(e.hint.contains("another device"), "{e}");
        assert_eq!(device.counters().live_bytes, 0, "{what}");
    }
}

/// A short prompt behind the first one has two splits of positions, on a device that is not simulated.
#[test]
fn a_wrong_split_of_few_rows_is_an_error() {
    let options = ModelOptions::chat(512).with_short(64);
    for (from, to) in [
        // None, and all splits the first.
        ("", ""),
        ("place % splits * each", "place % 1u * each"),
        // Sums of a split that lie where another's are joined.
        ("row / TILE * splits) * TILE", "row / TILE * splits + 1u) * TILE"),
    ] {
        CHANGE.set((from, to));
        CHANGED.set(0);
        let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
        let info = GpuInfo { wgsl: Wgsl::default(), software: false, ..gpu.info() };
        let device = Arc::new(WebGpuDevice::with_info(Faulty::new(gpu, change), info));
        let got = tested_by(&device, &files(Q4), &options, 4096);
        assert!(CHANGED.get() > 0, "no shader has {from}");
        match from {
            "" => assert_eq!(got, Ok(false)),
            _ => assert_eq!(got.expect_err(from).code, Code::CheckFailed),
        }
    }
}

#[test]
fn every_set_of_features_is_tried_before_it_is_an_error() {
    CHANGE.set(("a.y * b.x + a.x * b.y);", "a.y * b.x - a.x * b.y);"));
    CHANGED.set(0);
    let device = probed(change);
    let e = tested(&device, &files(Q4), Activations::Int8, 256).unwrap_err();
    assert_eq!(e.code, Code::CheckFailed);
    assert!(e.what.contains(" computes wrong values: logits of "), "{e}");
    assert_eq!(device.info().features, [""; 0], "the last try did without both");
}
