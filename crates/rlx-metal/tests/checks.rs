//! What the host does with Metal's calls: order, failures, memory; and that the checker sees what is wrong.

use crate::emulator::Watch;
use crate::fake::Fake;
use rlx_core::Code;
use rlx_metal::gpu::MetalGpu;
use rlx_webgpu::gpu::{Binding, BindingKind, Command, Gpu, Usage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

/// Doubles every word.
const DOUBLE: &str = "struct Step { n: u32 }
@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read_write> b1: array<u32>;
@compute @workgroup_size(32)
fn double(@builtin(local_invocation_index) thread: u32) {
    if thread < step.n { b1[thread] *= 2u; }
}";

fn polled<T>(mut ask: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loop {
        if let Poll::Ready(answer) = ask(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
    }
}

/// A host with the pipeline, constants (1), memory (2), readback (3), and a list that doubles (1) or copies back (2).
fn host() -> MetalGpu<Fake> {
    let gpu = MetalGpu::new(Fake::new(Watch::Addresses));
    gpu.create_buffer(1, 256, Usage::Uniform, "constants");
    gpu.create_buffer(2, 64, Usage::Storage, "memory");
    gpu.create_buffer(3, 64, Usage::Readback, "back");
    gpu.write_buffer(1, 0, &4u32.to_le_bytes());
    gpu.create_pipeline(1, DOUBLE, "double", &[BindingKind::Uniform, BindingKind::ReadWrite]);
    polled(|cx| gpu.poll_pipeline(1, cx)).unwrap();
    let bound = |buffer, size| Binding { buffer, offset: 0, size };
    gpu.create_bind_group(1, 1, &[bound(1, 256), bound(2, 64)]);
    gpu.record(1, &[Command::Dispatch { pipeline: 1, bind_group: 1, groups: [1, 1, 1] }]);
    let copy = Command::Copy { from: 2, from_offset: 0, to: 3, to_offset: 0, bytes: 64 };
    gpu.record(2, &[copy]);
    assert_eq!(gpu.take_error(), None);
    gpu
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect()
}

#[test]
fn writes_stand_in_order_with_submissions_under_way() {
    let gpu = host();
    gpu.write_buffer(2, 0, &7u32.to_le_bytes());
    gpu.submit(&[1]);
    // The first one has not run: this write must come behind it, the next one behind this.
    gpu.write_buffer(2, 4, &9u32.to_le_bytes());
    gpu.write_buffer(2, 8, &1u32.to_le_bytes());
    gpu.submit(&[1, 1, 2]);
    gpu.read(1, 3, 64);
    let back = polled(|cx| gpu.poll_read(1, cx)).unwrap();
    assert_eq!(words(&back)[..4], [56, 36, 4, 0]);
    // Writes without a submission behind them are done when a fence is reached.
    gpu.write_buffer(2, 0, &5u32.to_le_bytes());
    gpu.fence(1);
    polled(|cx| gpu.poll_fence(1, cx));
    gpu.submit(&[2]);
    gpu.read(2, 3, 4);
    assert_eq!(words(&polled(|cx| gpu.poll_read(2, cx)).unwrap()), [5]);
    assert_eq!(gpu.take_error(), None);
    for id in 1..=3 {
        gpu.destroy_buffer(id);
    }
    assert_eq!(gpu.metal().live(), (0, 0));
}

#[test]
fn each_dispatch_of_a_timed_submission_has_its_times() {
    let gpu = host();
    gpu.submit_timed(1, &[1, 1, 2]);
    let times = polled(|cx| gpu.poll_times(1, cx)).unwrap();
    assert_eq!(times.len(), 2);
    assert!(times[0][0] < times[0][1] && times[0][1] <= times[1][0], "{times:?}");
}

#[test]
fn a_failed_command_buffer_loses_the_device() {
    let gpu = host();
    gpu.metal().fail_at(0);
    gpu.submit(&[1, 2]);
    gpu.read(1, 3, 64);
    assert_eq!(polled(|cx| gpu.poll_read(1, cx)).unwrap_err().code, Code::DeviceLost);
    assert!(gpu.is_lost());
    assert_eq!(gpu.take_error().map(|e| e.what).as_deref(), Some("the GPU hung, says Metal"));
    gpu.fence(1);
    polled(|cx| gpu.poll_fence(1, cx));
}

#[test]
fn what_is_wrong_is_an_error_of_its_scope() {
    let gpu = host();
    let caught = |what: &dyn Fn()| {
        gpu.push_scopes();
        what();
        gpu.pop_scopes(9);
        polled(|cx| gpu.poll_scopes(9, cx)).unwrap_err()
    };
    let e = caught(&|| gpu.create_buffer(8, 1 << 40, Usage::Storage, "weights"));
    assert_eq!(
        (e.code, e.what.as_str()),
        (Code::OutOfMemory, "the GPU has no 1099511627776 bytes for weights")
    );
    let whole = Binding { buffer: 2, offset: 0, size: 64 };
    let e = caught(&|| gpu.create_bind_group(2, 1, &[whole]));
    assert_eq!(e.what, "1 bindings of a kernel that has 2");
    let e = caught(&|| gpu.create_bind_group(2, 1, &[whole, Binding { offset: 256, ..whole }]));
    assert_eq!(e.what, "a binding of 64 bytes at 256 of buffer 2");
    assert_eq!(caught(&|| gpu.submit(&[7])).what, "the GPU has no list 7");
    assert_eq!(caught(&|| gpu.write_buffer(2, 64, &[0; 4])).what, "a write of 4 bytes at 64 of 64");
    gpu.destroy_buffer(2);
    assert_eq!(caught(&|| gpu.submit(&[1])).what, "the GPU has no buffer 2");
    let e = caught(&|| gpu.create_pipeline(3, "fn broken(", "broken", &[]));
    assert!(e.what.starts_with("naga does not take it"), "{e}");
    let square = DOUBLE.replace("@workgroup_size(32)", "@workgroup_size(8, 4)");
    let e = caught(&|| gpu.create_pipeline(4, &square, "double", &[BindingKind::Uniform; 2]));
    assert!(e.what.contains("threadgroups of [8, 4, 1] threads"), "{e}");
    let wide = DOUBLE.replace("@compute", "var<workgroup> much: array<vec4u, 4096>;\n@compute");
    let wide = wide.replace("*= 2u", "*= much[thread].x");
    let e = caught(&|| gpu.create_pipeline(5, &wide, "double", &[BindingKind::Uniform; 2]));
    assert_eq!(
        (e.code, e.what.as_str()),
        (Code::Unsupported, "it needs [65536] bytes of a threadgroup's memory, of 32768")
    );
}

#[test]
fn the_checker_sees_what_comes_too_early() {
    use rlx_metal::api::Metal;
    let metal = Fake::new(Watch::Nothing);
    let (a, b) = (metal.buffer(16, "a").unwrap(), metal.buffer(16, "b").unwrap());
    let mut commands = metal.commands().unwrap();
    metal.copy(&mut commands, (&a, 0), (&b, 0), 16);
    let _under_way = metal.commit(commands);
    for too_early in [&(|| metal.write(&a, 0, &[1])) as &dyn Fn(), &|| drop(metal.read(&b, 0, 1))] {
        assert!(catch_unwind(AssertUnwindSafe(too_early)).is_err());
    }
    let mut commands = metal.commands().unwrap();
    let unbound = catch_unwind(AssertUnwindSafe(|| metal.dispatch(&mut commands, [1, 1, 1], 32)));
    assert!(unbound.is_err(), "no encoder is open");
}
