//! The driver for AMD's cards over a library that stands for AMD's (`tests/hip/fake.cpp`): it notes what is done wrong
//! and runs the kernels by the emulator, behind the header that AMD's compiler gets.

use crate::common::{Rng, cache, sources};
use crate::fake::Fake;
use crate::language::{FIXTURES, generate, load, numbers};
use crate::times::answers_are_timed;
use rlx_core::compare::difference;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Error};
use rlx_cuda::driver::emulator::{Emulator, Watch};
use rlx_cuda::driver::hip::Hip;
use rlx_cuda::driver::{At, Driver, Floats, Launch, Parameter, Product, Work};
use std::fs;
use std::path::Path;
use std::sync::Arc;

#[test]
fn greedy_tokens_are_llama_cpps_on_rocm() {
    let text = fs::read_to_string(format!("{FIXTURES}/rustdoc-2m/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    /// A form of the model, the type of its caches, and rows of a chunk.
    type Form = (&'static str, DType, u64);
    let cases: [(&str, bool, &[Form]); 2] = [
        ("gfx90a:sramecc+:xnack-", false, &[("f16", DType::F32, 16), ("q4_k_m", DType::F16, 7)]),
        ("gfx1100", true, &[("q4_k_m", DType::F16, 7)]),
    ];
    for (arch, old, models) in cases {
        let fake = Fake::new(arch, old);
        let device = fake.device(false);
        for &(format, kv, chunk) in models {
            let mut options = ModelOptions::chat(chunk);
            options.compile.kv = kv;
            options.context = Some(256);
            let file = format!("rustdoc-2m/rustdoc-2m-{format}.gguf");
            let mut engine = load(device.clone(), &file, &options);
            let question = &expected["questions"].as_array().unwrap()[0];
            let want = numbers(&question["formats"][format]["tokens"]);
            let (got, _) = generate(&mut engine, numbers(&question["prompt_ids"]), 24, false);
            assert_eq!(got, want[..got.len()], "{arch} {format} {kv} {}", question["prompt"]);
            assert_eq!(got.len(), 24.min(want.len()));
        }
        assert_eq!(device.counters().live_bytes, 0, "everything was freed");
        let (launches, lists) = (fake.number("fake_launches"), fake.number("fake_submissions"));
        assert!(launches > 200 && lists > 20, "{launches} launches in {lists} lists");
        assert_eq!(device.driver().info().warp, if old { 32 } else { 64 });
        assert_eq!(device.info().kind, "rocm");
        drop(device);
        fake.is_content();
    }
}

/// Wavefronts of 64, in every kernel of these models.
#[test]
fn logits_agree_with_the_reference_device_on_rocm() {
    let fake = Fake::new("gfx90a", false);
    for (file, kv, tolerance) in [
        ("gguf/llama-q6_k.gguf", DType::F32, 1e-5),
        ("gguf/gemma3.gguf", DType::F16, 1e-3),
        ("gguf/qwen3moe.gguf", DType::F32, 1e-5),
        ("gguf/qwen35.gguf", DType::F32, 1e-5),
        ("rustdoc-2m/rustdoc-2m-f16.gguf", DType::Block(BlockFormat::Q8_0), 1e-3),
    ] {
        let mut options = ModelOptions::chat(16).with_logits();
        options.compile.kv = kv;
        options.context = Some(64);
        let on = |device: Arc<dyn Device>| {
            let mut engine = load(device, file, &options);
            generate(&mut engine, vec![1, 5, 9, 2, 7, 3], 2, true).1.expect("logits were asked for")
        };
        let want = on(Arc::new(ReferenceDevice::new()));
        let off = difference(&on(fake.device(false)), &want).relative();
        println!("{file} {kv}: {off:.2e} of the largest, {tolerance:.0e} allowed");
        assert!(off <= tolerance, "{file} {kv}: off by {off:e}");
        fake.is_content();
    }
}

#[test]
fn every_launch_of_an_answer_has_its_time() {
    let fake = Fake::new("gfx1100", true);
    let device = fake.device(false);
    let names = answers_are_timed(&device);
    assert!(names.contains("matmul_one") && !names.contains("library"), "{names:?}");
    drop(device);
    fake.is_content();
}

fn at(buffer: u32, offset: u64) -> At {
    At { buffer, offset }
}

#[test]
fn bytes_go_both_ways_in_any_size() {
    let fake = Fake::new("gfx90a", false);
    let gpu = fake.driver();
    // Many pieces, the last one short; more than may be under way.
    let bytes: Vec<u8> = (0..70_000_003u32).map(|i| ((i * 7) >> 3) as u8).collect();
    gpu.create(1, bytes.len() as u64 + 5).unwrap();
    gpu.create(2, 64).unwrap();
    gpu.write(at(1, 5), &bytes).unwrap();
    gpu.write(at(2, 60), &[1, 2, 3, 4]).unwrap();
    gpu.write(at(2, 60), &[]).unwrap();
    gpu.copy(at(1, 5), at(2, 0), 32).unwrap();
    gpu.copy(at(2, 0), at(2, 32), 8).unwrap();
    gpu.read(3, &[(at(1, 0), 6), (at(2, 0), 0), (at(2, 0), 64)]).unwrap();
    gpu.read(4, &[(at(1, 5), bytes.len() as u64)]).unwrap();
    gpu.read(5, &[]).unwrap();
    let wait = |read| loop {
        if let Some(bytes) = gpu.poll_read(read).unwrap() {
            return bytes;
        }
    };
    assert!(wait(4) == bytes);
    let small = wait(3);
    assert_eq!(small[..6], [0, 0, 0, 0, 0, bytes[0]], "new memory is zeros");
    assert_eq!(small[6..38], bytes[..32]);
    assert_eq!(small[38..46], bytes[..8]);
    assert_eq!(small[46..], [[0; 20].as_slice(), &[1, 2, 3, 4]].concat());
    assert!(wait(5).is_empty());
    for e in [
        gpu.write(at(2, 61), &[0; 4]).unwrap_err(),
        gpu.write(at(2, u64::MAX), &[0; 4]).unwrap_err(),
        gpu.copy(at(2, 0), at(1, u64::MAX - 3), 8).unwrap_err(),
        gpu.read(6, &[(at(2, 0), 8), (at(2, 60), 5)]).unwrap_err(),
        gpu.write(at(9, 0), &[0; 4]).unwrap_err(),
        gpu.poll_read(6).unwrap_err(),
        gpu.submit(1).unwrap_err(),
    ] {
        assert_eq!(e.code, Code::Internal, "{e}");
    }
    let e = gpu.create(7, 1 << 40).unwrap_err();
    assert_eq!(e.code, Code::OutOfMemory, "{e}");
    assert!(e.what.contains("1099511627776 bytes") && e.what.contains("out of memory"), "{e}");
    // What is under way when a buffer goes is not lost to it.
    gpu.write(at(1, 0), &bytes[..5]).unwrap();
    gpu.destroy(1);
    gpu.read(8, &[(at(2, 0), 4)]).unwrap();
    drop(gpu);
    fake.is_content();
}

/// What the header says of CUDA's words: each result of a lane, from a number of its own.
pub const WORDS: &str = r#"
typedef unsigned int u32;
typedef unsigned long long u64;
#ifdef RLX_EMULATOR
static void words(const u32* x, u32* y) {
    emulator::is_behind_previous();
#else
extern "C" __global__ void __launch_bounds__(128) words(const u32* x, u32* y) {
#endif
    const u64 all = ~0ull >> (64 - RLX_WARP);
    u32 a = x[threadIdx.x], b = x[127 - threadIdx.x], lane = threadIdx.x % RLX_WARP, sums = 0;
    y += threadIdx.x * 16;
    y[0] = __shfl_sync(all, a, b);
    y[1] = __shfl_xor_sync(all, a, 5);
    u64 two = __shfl_xor_sync(all, (u64)a << 32 | b, RLX_WARP - 1);
    y[2] = u32(two >> 32);
    y[3] = u32(two);
    y[4] = __shfl_down_sync(all, a, 3);
    u64 votes = __ballot_sync(all, a & 1);
    y[5] = u32(votes);
    y[6] = u32(votes >> 32);
    y[7] = __any_sync(all, lane == 9) + 2 * __all_sync(all, lane != 9) + 4 * __any_sync(all, lane > 99);
    __syncwarp();
    y[8] = __byte_perm(a, b, a);
    y[9] = __funnelshift_r(a, b, a >> 27);
    y[10] = u32(__dp4a(int(a), int(b), int(a ^ b)));
    float p = float(a), q = float(b) * 1.0e-9f;
    y[11] = __float_as_uint(__fadd_rn(__fmul_rn(p, q), -p));
    double wide = __shfl_xor_sync(all, (double)a + 0.5, 16);
    y[12] = u32(wide * 0.25);
    y[13] = __ldg(x + 7) + __ldcg(x + 8);
    y[14] = __umulhi(a, b) + u32(__popc(a)) + (a ? u32(__clz(int(a))) : 0);
    for (u32 by = RLX_WARP / 2; by > 0; by /= 2) sums += __shfl_xor_sync(all, a + sums, by);
    y[15] = sums;
}
"#;

#[test]
fn words_of_cuda_mean_the_same() {
    for (arch, lanes) in [("gfx90a", 64), ("gfx1100", 32)] {
        let fake = Fake::new(arch, false);
        let emulator = Emulator::start(&sources(), &cache(), lanes, Watch::Nothing).unwrap();
        let mut rng = Rng(33);
        let x: Vec<u8> = (0..128).flat_map(|_| (rng.next() as u32).to_le_bytes()).collect();
        let of = |gpu: &dyn Driver| {
            gpu.create(1, 512).unwrap();
            gpu.create(2, 128 * 64).unwrap();
            gpu.write(at(1, 0), &x).unwrap();
            gpu.compile(3, WORDS, "words").unwrap();
            let arguments = [at(1, 0), at(2, 0)].map(Parameter::Place).to_vec();
            let launch = Launch {
                function: 3,
                grid: [1; 3],
                threads: 128,
                shared: 0,
                arguments,
                early: false,
            };
            gpu.record(4, &[Work::Launch(launch)]).unwrap();
            gpu.submit(4).unwrap();
            gpu.read(5, &[(at(2, 0), 128 * 64)]).unwrap();
            loop {
                if let Some(bytes) = gpu.poll_read(5).unwrap() {
                    let words = bytes.as_chunks::<4>().0.iter();
                    break words.map(|b| u32::from_le_bytes(*b)).collect::<Vec<u32>>();
                }
            }
        };
        let (want, got) = (of(&emulator), of(&fake.driver()));
        for (thread, (want, got)) in want.chunks(16).zip(got.chunks(16)).enumerate() {
            assert_eq!(want, got, "{arch}, thread {thread}");
        }
        fake.is_content();
    }
}

const TEXT: &str = "
typedef unsigned int u32;
extern \"C\" __global__ void k(const float* x, float* y) { y[threadIdx.x] = 2.0f * x[threadIdx.x ^ 1]; }
";

fn launch(function: u32, x: u32, arguments: Vec<At>) -> Work {
    let arguments = arguments.into_iter().map(Parameter::Place).collect();
    Work::Launch(Launch {
        function,
        grid: [x, 1, 1],
        threads: 64,
        shared: 0,
        arguments,
        early: true,
    })
}

#[test]
fn lists_are_recorded_submitted_and_freed() {
    let fake = Fake::new("gfx1030", true);
    let gpu = fake.driver();
    gpu.create(1, 256).unwrap();
    gpu.create(2, 256).unwrap();
    gpu.compile(3, TEXT, "k").unwrap();
    let bytes: Vec<u8> = (0..64).flat_map(|i| (i as f32).to_le_bytes()).collect();
    gpu.write(at(1, 0), &bytes).unwrap();
    let there = launch(3, 1, vec![at(1, 0), at(2, 0)]);
    let back = launch(3, 1, vec![at(2, 0), at(1, 0)]);
    gpu.record(4, &[there.clone(), back]).unwrap();
    gpu.record(5, &[]).unwrap();
    for _ in 0..3 {
        gpu.submit(4).unwrap();
        gpu.submit(5).unwrap();
    }
    gpu.drop_list(4);
    gpu.drop_list(5);
    gpu.read(6, &[(at(1, 0), 256)]).unwrap();
    let got = loop {
        if let Some(got) = gpu.poll_read(6).unwrap() {
            break got;
        }
    };
    let got: Vec<f32> = got.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    assert!(got.iter().enumerate().all(|(i, x)| *x == 64.0 * i as f32), "{got:?}");
    // A recording ends whatever happens in it.
    let (floats, bias, residual) = (Floats::Sums, None, None);
    let (x, y) = (at(1, 0), at(2, 0));
    let product = Product { x, w: x, y, rows: 1, columns: 1, k: 8, floats, bias, residual };
    for (work, code) in [
        (Work::Product(product), Code::Internal),
        (launch(9, 1, Vec::new()), Code::Internal),
        (launch(3, 1, vec![at(1, 0), at(9, 0)]), Code::Internal),
        (launch(3, 1, vec![at(1, 0), at(2, 257)]), Code::Internal),
        (launch(3, 1 << 26, vec![at(1, 0), at(2, 0)]), Code::Unsupported),
    ] {
        let e = gpu.record(7, &[there.clone(), work]).unwrap_err();
        assert_eq!(e.code, code, "{e}");
        gpu.record(8, std::slice::from_ref(&there)).unwrap();
        gpu.submit(8).unwrap();
        gpu.drop_list(8);
    }
    assert_eq!(fake.faults(), "");
    // The arguments that a kernel has are counted.
    for arguments in [vec![at(1, 0)], vec![at(1, 0), at(2, 0), at(2, 0)]] {
        gpu.record(7, &[launch(3, 1, arguments)]).unwrap_err();
    }
    assert_eq!(
        fake.faults(),
        "a launch with too few arguments\na launch with too many arguments\n"
    );
    let e = gpu.compile(11, "nonsense;", "k").unwrap_err();
    assert!(e.code == Code::Internal && e.what.contains("nonsense"), "{e}");
    gpu.forget(3);
    drop(gpu);
    fake.is_content();
}

#[test]
fn a_device_that_is_not_there_or_is_lost_is_told() {
    let open = |runtime: &Path, compiler: &Path, n| -> Error {
        let opened = Hip::with_libraries([runtime, compiler], None, n, None).map(|_| ());
        let e = opened.unwrap_err();
        assert_eq!(e.code, Code::DeviceUnavailable, "{e}");
        e
    };
    let fake = Fake::new("gfx90a", false);
    let nowhere = Path::new("/nowhere/lib.so");
    assert!(open(nowhere, &fake.path, 0).what.contains("HIP runtime was not found"));
    assert!(open(&fake.path, nowhere, 0).what.contains("run-time compiler was not found"));
    assert_eq!(open(&fake.path, &fake.path, 2).what, "ROCm has 2 devices, none is 2");
    let gpu = fake.driver();
    let info = gpu.info();
    assert_eq!((info.name.as_str(), info.arch.as_str()), ("fake", "gfx90a"));
    assert_eq!((info.driver.as_str(), info.memory), ("HIP 6.1", 1 << 30));
    gpu.create(1, 64).unwrap();
    fake.lose(719);
    for e in [
        gpu.write(at(1, 0), &[1]).unwrap_err(),
        gpu.read(2, &[(at(1, 0), 4)]).unwrap_err(),
        gpu.create(3, 64).unwrap_err(),
    ] {
        assert_eq!(e.code, Code::DeviceLost, "{e}");
        assert!(e.what.contains("unspecified launch failure"), "{e}");
    }
    drop(gpu);
    fake.lose(0);
    fake.is_content();
    drop(fake);
    let old = Fake::new("gfx803", true);
    assert_eq!(open(&old.path, &old.path, 0).what, "there are no kernels for gfx803");
    old.is_content();
}

/// The library notes what it should: each line here is such a fault.
#[test]
fn the_library_that_stands_for_amds_notes_faults() {
    let fake = Fake::new("gfx90a", false);
    let says = |what: &str| assert_eq!(fake.faults(), format!("{what}\n"));
    let call = |function: &str, arguments: [usize; 5]| {
        fake.call(function, arguments);
    };
    let one = |a: usize| [a, 0, 0, 0, 0];
    call("hipSetDevice", one(0));
    let a = fake.make("hipMalloc", [64, 0]);
    let pinned = fake.make("hipHostMalloc", [64, 0]);
    let stream = fake.make("hipStreamCreateWithFlags", [1, 0]);
    assert_eq!(fake.text("fake_living"), "2 memories\n1 streams\n");
    assert_eq!(fake.faults(), "");
    call("hipMemcpyAsync", [a + 1, pinned, 64, 1, stream]);
    says("a copy writes outside of memory");
    call("hipMemcpyAsync", [a, pinned, 64, 2, stream]);
    says("a copy reads in memory of the wrong kind");
    call("hipMemcpyAsync", [a, a, 64, 3, stream]);
    says("a copy onto itself");
    call("hipMemcpyAsync", [a, [7u64].as_ptr().addr(), 8, 1, stream]);
    says("a copy reads outside of memory");
    call("hipMemcpyAsync", [a, pinned, 64, 1, stream]);
    call("hipHostFree", one(pinned));
    says("memory is freed that work uses");
    call("hipStreamSynchronize", one(8));
    says("a stream that is not there");
    call("hipSetDevice", one(1));
    call("hipStreamSynchronize", one(stream));
    says("a stream of another device than the thread's");
    call("hipSetDevice", one(0));
    let second = fake.make("hipStreamCreateWithFlags", [1, 0]);
    call("hipStreamBeginCapture", [second, 2, 0, 0, 0]);
    call("hipStreamSynchronize", one(second));
    says("somebody waits for a stream that records");
    call("hipFree", one(a));
    says("memory is freed in the middle of a recording\nmemory is freed that work uses");
    call("hipFree", one(a));
    says("memory is freed that is not there");
    let graph = fake.make_second("hipStreamEndCapture", second);
    assert_eq!(fake.text("fake_living"), "1 graphs\n2 streams\n");
    call("hipGraphDestroy", one(graph));
    call("hipGraphDestroy", one(graph));
    says("a graph is freed that is not there");
    call("hipStreamDestroy", one(stream));
    says("a stream is freed that has work");
    call("hipStreamDestroy", one(second));
    fake.is_content();
}
