//! The emulator notices what a GPU would leave undefined: each kernel here has one such defect.

use crate::common::{cache, sources};
use rlx_core::{Code, Error, Result};
use rlx_cuda::driver::copy_rate::copy_rate;
use rlx_cuda::driver::emulator::{Emulator, Watch};
use rlx_cuda::driver::{At, Driver, Launch, Parameter, Work};

/// Runs a kernel `k(float* x)` over 64 floats, two blocks of 64 threads; what it leaves.
fn run(body: &str, warp: u32, watch: Watch) -> Result<Vec<f32>> {
    let gpu = Emulator::start(&sources(), &cache(), warp, watch)?;
    let source = format!("static void k(float* x) {{\nemulator::is_behind_previous();\n{body}\n}}");
    gpu.compile(1, &source, "k")?;
    gpu.create(2, 256)?;
    let x = At { buffer: 2, offset: 0 };
    let launch = Launch {
        function: 1,
        grid: [2, 1, 1],
        threads: 64,
        shared: 0,
        arguments: vec![Parameter::Place(x)],
        early: true,
    };
    gpu.record(3, &[Work::Launch(launch)])?;
    gpu.submit(3)?;
    gpu.read(4, &[(x, 256)])?;
    let bytes = gpu.poll_read(4)?.expect("it is there at once");
    Ok(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

fn fails(body: &str, watch: Watch) -> Error {
    let e = run(body, 32, watch).expect_err(body);
    assert_eq!(e.code, Code::DeviceLost, "{e}");
    e
}

#[track_caller]
fn says(e: &Error, what: &str) {
    assert!(e.what.contains(what), "{e}");
}

/// Neighbours are added through shared memory and through a warp's exchange.
const GOOD: &str = "
    __shared__ float all[64];
    all[threadIdx.x] = float(threadIdx.x);
    __syncthreads();
    float next = all[(threadIdx.x + 1) % 64];
    float other = __shfl_xor_sync(~0ull >> (64 - RLX_WARP), float(threadIdx.x), 1);
    if (blockIdx.x == 1) x[threadIdx.x] = next + 100.0f * other;
";

#[test]
fn threads_see_each_other_at_barriers_and_in_exchanges() {
    for warp in [32, 64] {
        for watch in [Watch::Nothing, Watch::Addresses, Watch::Races] {
            let x = run(GOOD, warp, watch).unwrap_or_else(|e| panic!("{warp}, {watch:?}: {e}"));
            let want = |i: usize| ((i + 1) % 64) as f32 + 100.0 * (i ^ 1) as f32;
            assert!(x.iter().enumerate().all(|(i, x)| *x == want(i)), "{warp}, {watch:?}: {x:?}");
        }
    }
}

#[test]
fn a_lane_reads_lanes_of_its_own_warp() {
    let body = "x[threadIdx.x] = __shfl_sync(~0ull >> (64 - RLX_WARP), float(threadIdx.x), 40);";
    assert_eq!(run(body, 64, Watch::Nothing).unwrap(), [40.0; 64]);
    let x = run(body, 32, Watch::Nothing).unwrap();
    assert!(x[..32].iter().all(|x| *x == 8.0) && x[32..].iter().all(|x| *x == 40.0), "{x:?}");
}

#[test]
fn two_barriers_for_one_block_are_told() {
    let body = "if (threadIdx.x < 32) { __syncthreads();\n } else { __syncthreads(); }";
    says(&fails(body, Watch::Nothing), "threads of one block wait at two different barriers");
}

#[test]
fn a_barrier_without_all_threads_is_told() {
    let body = "if (threadIdx.x == 5) return;\n__syncthreads();";
    says(&fails(body, Watch::Nothing), "a barrier waits for threads that have ended");
}

#[test]
fn an_exchange_without_all_lanes_is_told() {
    let body = "if (threadIdx.x == 5) return;\nx[0] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);";
    says(&fails(body, Watch::Nothing), "a lane waits for a lane that has ended or never was");
    let body = "if (threadIdx.x < 8) x[0] = __shfl_sync(0xffu, 1.0f, 9);";
    says(&fails(body, Watch::Nothing), "a lane reads a lane that takes no part");
    let body = "if (threadIdx.x % 2 == 0) __syncthreads();\nelse x[0] = __shfl_sync(0xffffffffu, 1.0f, 0);";
    says(&fails(body, Watch::Nothing), "no thread can go on");
}

#[test]
fn an_access_outside_of_a_buffer_or_a_shared_array_is_told() {
    says(&fails("if (threadIdx.x == 63) x[64] = 1.0f;", Watch::Addresses), "heap-buffer-overflow");
    let body = "__shared__ float all[64];\nall[threadIdx.x + blockIdx.x] = 1.0f;\n__syncthreads();\nx[0] = all[0];";
    says(&fails(body, Watch::Addresses), "global-buffer-overflow");
}

#[test]
fn two_threads_at_one_address_without_a_barrier_are_told() {
    let body = "
        __shared__ float all[64];
        all[threadIdx.x] = 1.0f;
        x[threadIdx.x] = all[63 - threadIdx.x];
    ";
    says(&fails(body, Watch::Races), "data race");
    assert!(run(body, 32, Watch::Nothing).is_ok(), "only who watches sees it");
}

#[test]
fn a_thread_that_does_not_wait_for_the_kernel_before_is_told() {
    let gpu = Emulator::start(&sources(), &cache(), 32, Watch::Nothing).unwrap();
    let source = "static void k(float* x) { if (threadIdx.x > 0) emulator::is_behind_previous(); }";
    gpu.compile(1, source, "k").unwrap();
    gpu.create(2, 16).unwrap();
    let arguments = vec![Parameter::Place(At { buffer: 2, offset: 0 })];
    let launch =
        Launch { function: 1, grid: [1; 3], threads: 32, shared: 0, arguments, early: true };
    gpu.record(3, &[Work::Launch(launch)]).unwrap();
    let e = gpu.submit(3).expect_err("thread 0 does not wait");
    says(&e, "a thread ends that has not waited for the kernel before");
}

#[test]
fn two_texts_may_give_one_name_to_different_things() {
    let gpu = Emulator::start(&sources(), &cache(), 32, Watch::Nothing).unwrap();
    gpu.create(1, 256).unwrap();
    let x = At { buffer: 1, offset: 0 };
    for (i, size) in [(10, 8), (20, 64)] {
        let source = format!(
            "template <class T> inline T* all() {{ __shared__ T x[{size}]; return x; }}
             static void k(float* x) {{
                 emulator::is_behind_previous();
                 all<float>()[threadIdx.x % {size}] = {size};
                 __syncthreads();
                 x[threadIdx.x] = all<float>()[threadIdx.x % {size}] + sizeof(float[{size}]);
             }}"
        );
        gpu.compile(i, &source, "k").unwrap();
        let launch = Launch {
            function: i,
            grid: [1; 3],
            threads: 64,
            shared: 0,
            arguments: vec![Parameter::Place(x)],
            early: true,
        };
        gpu.record(i + 1, &[Work::Launch(launch)]).unwrap();
        gpu.submit(i + 1).unwrap();
        gpu.read(i + 2, &[(x, 256)]).unwrap();
        let bytes = gpu.poll_read(i + 2).unwrap().expect("it is there at once");
        let want = (size * 5) as f32;
        assert!(bytes.as_chunks::<4>().0.iter().all(|b| f32::from_le_bytes(*b) == want), "{size}");
    }
}

#[test]
fn a_text_that_does_not_compile_is_an_error_and_the_gpu_goes_on() {
    let gpu = Emulator::start(&sources(), &cache(), 32, Watch::Nothing).unwrap();
    let e = gpu.compile(1, "static void k(float* x) { nonsense; }", "k").unwrap_err();
    assert_eq!(e.code, Code::Internal);
    assert!(e.what.contains("nonsense"), "{e}");
    gpu.create(2, 16).unwrap();
    gpu.write(At { buffer: 2, offset: 4 }, &[1, 2, 3, 4]).unwrap();
    gpu.create(3, 16).unwrap();
    gpu.copy(At { buffer: 2, offset: 4 }, At { buffer: 3, offset: 0 }, 4).unwrap();
    gpu.read(4, &[(At { buffer: 3, offset: 0 }, 4), (At { buffer: 2, offset: 0 }, 8)]).unwrap();
    assert_eq!(gpu.poll_read(4).unwrap().unwrap(), [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4]);
    let e = gpu.write(At { buffer: 2, offset: 14 }, &[1, 2, 3, 4]).unwrap_err();
    assert_eq!((e.code, e.what.as_str()), (Code::DeviceLost, "4 bytes at 14 of a buffer of 16"));
    assert_eq!(gpu.create(9, 4).unwrap_err().code, Code::DeviceLost, "and stays lost");
}

#[test]
fn copies_have_a_rate() {
    let emulator = Emulator::start(&sources(), &cache(), 32, Watch::Nothing).unwrap();
    let rate = copy_rate(&emulator, 8 << 20).unwrap();
    // No memory is slower than 10 MB/s, or faster than 100 TB/s.
    assert!((1e7..1e14).contains(&rate), "{rate:e}");
    // Its buffers are gone: others may have their numbers.
    emulator.create(1, 16).unwrap();
    let e = copy_rate(&emulator, 1 << 50).unwrap_err();
    assert_eq!(e.code, Code::OutOfMemory, "{e}");
}
