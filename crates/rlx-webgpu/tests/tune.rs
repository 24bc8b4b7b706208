//! A tuning run: what it measured to be fastest is chosen, and nothing of it is left.

use crate::common;
use common::*;
use core::cell::Cell;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use rlx_core::Result;
use rlx_core::runtime::device::Device;
use rlx_webgpu::device::{Tuned, tune};
use rlx_webgpu::gpu::Gpu;
use rlx_webgpu::tuning::Class;
use std::sync::Arc;

/// A device that binds one class of matrices alone, so that a run is short.
fn small() -> Arc<TestDevice> {
    device_with(|info| info.max_binding = 5 << 20)
}

fn run(d: &TestDevice, clock: impl Fn(u32) -> f64) -> Result<Tuned> {
    let (calls, ms) = (Cell::new(0), Cell::new(0.0));
    let now = || {
        ms.set(ms.get() + clock(calls.replace(calls.get() + 1)));
        ms.get()
    };
    let done = Cell::new(0.0);
    let progress = |share: f64| {
        assert!((0.0..=1.0).contains(&share) && share >= done.replace(share));
    };
    let mut future = pin!(tune(d, &now, &progress));
    let mut cx = Context::from_waker(Waker::noop());
    let answer = loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut cx) {
            break answer;
        }
    };
    assert!(answer.is_err() || done.get() == 1.0);
    answer
}

#[test]
fn the_fastest_shape_is_chosen_and_its_memory_freed() {
    let d = small();
    let usual = d.tuning();
    let wgsl = d.gpu().info().wgsl;
    let shapes = usual.shapes(Class::Short, wgsl);
    assert_eq!(shapes.len(), 7);
    // Each candidate is warmed up; then two rounds follow, each measurement between two looks at the
    // clock, of which a round of its own begins with one.
    let looks = 2 * shapes.len() as u32;
    let fourth = looks + 1 + looks + 2 * 3 + 1;
    let found = run(&d, |call| if call == fourth { 100.0 } else { 1000.0 }).unwrap();
    let Tuned { tuning: found, tried } = found;
    assert_eq!(found, usual.with_shape(Class::Short, shapes[3]));
    assert_eq!(d.tuning(), found);
    // The times behind it: of the one class that the device binds, and of attention.
    let times: Vec<_> = tried.iter().map(|t| (t.choice, t.tuning)).collect();
    let short = shapes.iter().map(|shape| ("short", usual.with_shape(Class::Short, *shape)));
    let parts = found.all_parts().into_iter().map(|parts| ("parts", found.with_parts(parts)));
    assert_eq!(times, short.chain(parts).collect::<Vec<_>>());
    let least = tried[..7].iter().min_by(|a, b| a.ms.total_cmp(&b.ms)).unwrap();
    assert_eq!(least.tuning, found);
    assert!(tried.iter().all(|t| t.ms.is_finite() && t.ms > 0.0));
    assert_eq!(d.counters().live_bytes, 0);
    let left = d.gpu().counts();
    assert_eq!((left.live_bytes, left.bind_groups, left.lists), (0, 0, 0));
    assert_eq!(d.info().tuning, Some(found.to_string()));
}

#[test]
fn a_gain_within_noise_changes_nothing() {
    let d = small();
    let usual = d.tuning();
    let found = run(&d, |call| if call % 2 == 1 { 990.0 } else { 1000.0 });
    assert_eq!(found.unwrap().tuning, usual);
}

#[test]
fn a_lost_device_is_an_error_and_keeps_its_tuning() {
    let d = small();
    let usual = d.tuning();
    d.gpu().inner().lose();
    assert!(run(&d, |_| 1000.0).is_err());
    assert_eq!(d.tuning(), usual);
}
