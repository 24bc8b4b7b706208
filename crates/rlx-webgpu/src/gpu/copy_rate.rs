//! How fast a device moves bytes: what kernels are measured against.

use super::{Command, Gpu, Usage};
use core::task::{Context, Waker};
use rlx_core::Result;
use std::time::{Duration, Instant};

/// Above the last cache of today's cards, and the most that WebGPU promises a buffer.
const BYTES: u64 = 256 << 20;

/// How long copies are timed, about.
const TIME: Duration = Duration::from_millis(200);

/// Bytes a second that copies between two buffers read and write, both counted.
///
/// # Errors
/// `OutOfMemory` where there is no room for two buffers of 256 MiB, or of the largest that the device
/// makes; what the device meets.
pub fn copy_rate(gpu: &impl Gpu) -> Result<f64> {
    let bytes = BYTES.min(gpu.info().max_buffer) / 16 * 16;
    let (from, to, list) = (u32::MAX, u32::MAX - 1, u32::MAX);
    gpu.push_scopes();
    gpu.create_buffer(from, bytes, Usage::Storage, "copied");
    gpu.create_buffer(to, bytes, Usage::Storage, "copy");
    gpu.pop_scopes(list);
    let mut cx = Context::from_waker(Waker::noop());
    let made = loop {
        if let core::task::Poll::Ready(made) = gpu.poll_scopes(list, &mut cx) {
            break made;
        }
    };
    let seconds = made.map(|()| {
        gpu.record(list, &[Command::Copy { from, from_offset: 0, to, to_offset: 0, bytes }]);
        let run = |times: usize| {
            let start = Instant::now();
            gpu.submit(&vec![list; times]);
            gpu.fence(list);
            while gpu.poll_fence(list, &mut Context::from_waker(Waker::noop())).is_pending() {}
            start.elapsed()
        };
        run(1);
        let once = run(1);
        let times = (TIME.as_secs_f64() / once.as_secs_f64()).clamp(1.0, 64.0) as usize;
        // What a submission costs by itself is in both.
        match times {
            1 => once.as_secs_f64(),
            _ => run(1 + times).saturating_sub(run(1)).as_secs_f64() / times as f64,
        }
    });
    gpu.free_list(list);
    gpu.destroy_buffer(from);
    gpu.destroy_buffer(to);
    seconds.map(|seconds| 2.0 * bytes as f64 / seconds.max(1e-9))
}
