//! How fast a device moves bytes: what kernels are measured against.

use super::{Binding, BindingKind, Command, Gpu, Usage};
use core::task::{Context, Poll, Waker};
use rlx_core::Result;
use std::time::{Duration, Instant};

/// Above the last cache of today's cards, and the most that WebGPU promises a buffer.
const BYTES: u64 = 256 << 20;
/// Bytes of a workgroup, a quad a thread.
const GROUP: u64 = 256 * 16;
/// How long copies are timed, about.
const TIME: Duration = Duration::from_millis(100);

/// Bytes a second that a kernel reads and writes, both counted, which copies a buffer by quads. A
/// copy command is no measure: an H200's driver does it at a fifth of the rate.
///
/// # Errors
/// `OutOfMemory` where there is no room for two buffers of 256 MiB, or of the largest that a binding
/// may have; what the device meets.
pub fn copy_rate(gpu: &impl Gpu) -> Result<f64> {
    let info = gpu.info();
    let bytes = BYTES.min(info.max_buffer).min(info.max_binding) / GROUP * GROUP;
    // The GPU is this measurement's own: every number is free.
    let (from, to, id) = (1, 2, 3);
    gpu.push_scopes();
    gpu.create_buffer(from, bytes, Usage::Storage, "copied");
    gpu.create_buffer(to, bytes, Usage::Storage, "copy");
    gpu.pop_scopes(id);
    let seconds = wait(|cx| gpu.poll_scopes(id, cx)).and_then(|()| {
        let kinds = [BindingKind::Read, BindingKind::ReadWrite];
        gpu.create_pipeline(id, wgsl!("copy_rate.wgsl"), "copy", &kinds);
        wait(|cx| gpu.poll_pipeline(id, cx))?;
        let bindings = [from, to].map(|buffer| Binding { buffer, offset: 0, size: bytes });
        gpu.create_bind_group(id, id, &bindings);
        let groups = [256, (bytes / GROUP).div_ceil(256) as u32, 1];
        gpu.record(id, &[Command::Dispatch { pipeline: id, bind_group: id, groups }]);
        let seconds = copy_seconds(gpu, id);
        gpu.free_list(id);
        gpu.free_bind_group(id);
        gpu.free_pipeline(id);
        Ok(seconds)
    });
    gpu.destroy_buffer(from);
    gpu.destroy_buffer(to);
    seconds.map(|seconds| 2.0 * bytes as f64 / seconds.max(1e-9))
}

/// Seconds of one run of the list.
fn copy_seconds(gpu: &impl Gpu, list: u32) -> f64 {
    let run = |times: usize| {
        let start = Instant::now();
        gpu.submit(&vec![list; times]);
        gpu.fence(list);
        wait(|cx| gpu.poll_fence(list, cx));
        start.elapsed()
    };
    run(1);
    let once = run(1);
    let times = (TIME.as_secs_f64() / once.as_secs_f64()).clamp(1.0, 256.0) as usize;
    match times {
        1 => once.as_secs_f64(),
        // What a submission costs by itself is in both.
        _ => run(1 + times).saturating_sub(run(1)).as_secs_f64() / times as f64,
    }
}

fn wait<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(answer) = poll(&mut cx) {
            return answer;
        }
    }
}
