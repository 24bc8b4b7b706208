//! The `Device` contract on WebGPU: tickets, staging, refusals, frees.
//! These tests drive the trait by hand, because it is what they test.

use crate::common;
use common::*;
use rlx_core::ops::{Binary, MatMul, Zip};
use rlx_core::plan::{Buffer, Entry, Origin, WeightPlan};
use rlx_core::runtime::device::{
    AnyId, Bytes, Device, ModelId, Outputs, Placed, ProgramId, SessionId, Ticket, Write, WriteTo,
};
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Code, Result};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Polls until a ticket has its answer.
fn wait(d: &TestDevice, t: Ticket) -> Result<Outputs> {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(answer) = d.poll(t, &mut cx) {
            return answer;
        }
    }
}

/// Puts all bytes of a weight.
fn put(d: &TestDevice, m: ModelId, at: Placed, bytes: &[u8]) {
    let mut cx = Context::from_waker(Waker::noop());
    while d.poll_put(m, at, Bytes::Slice(bytes), &mut cx).map(|r| r.unwrap()).is_pending() {}
}

/// `y = a + b` over 8 elements, loaded and built.
fn adder(d: &TestDevice) -> (ModelId, ProgramId, SessionId, Case) {
    let operands = [input(&[1, 8], &[1.0; 8]), input(&[1, 8], &[2.0; 8])];
    let case = case(Zip { f: Binary::Add }, &operands, Buffers::One);
    let (m, t) = d.allocate(Arc::new(case.plan.clone())).unwrap();
    wait(d, t).unwrap();
    let (p, t) = d.build(m, Arc::new(case.program.clone())).unwrap();
    wait(d, t).unwrap();
    let (s, t) = d.session(m, &case.program.states, &case.program.arena_segments).unwrap();
    wait(d, t).unwrap();
    (m, p, s, case)
}

fn first_input(x: f32) -> Write {
    Write { to: WriteTo::Input(0), offset: 0, bytes: f32_bytes(&[x; 8]) }
}

#[test]
fn submissions_in_flight_keep_their_own_outputs() {
    let d = device();
    let (_, p, s, case) = adder(&d);
    let t = d.submit(s, p, &case.writes).unwrap();
    assert_eq!(floats(&wait(&d, t).unwrap().values[0]), [3.0; 8]);
    let tickets: Vec<Ticket> =
        (0..5).map(|i| d.submit(s, p, &[first_input(i as f32)]).unwrap()).collect();
    let before = d.counters().live_bytes;
    // Answers come in any order.
    for (i, &t) in tickets.iter().enumerate().rev() {
        assert_eq!(floats(&wait(&d, t).unwrap().values[0]), [i as f32 + 2.0; 8]);
    }
    let again: Vec<Ticket> =
        (0..5).map(|i| d.submit(s, p, &[first_input(i as f32)]).unwrap()).collect();
    assert_eq!(d.counters().live_bytes, before, "readback buffers are used again");
    for t in again {
        wait(&d, t).unwrap();
    }
    assert_eq!(d.counters().submits, 11);
    assert_eq!(d.gpu().counts().submits, 11);
    assert_eq!(d.counters().readback_bytes, 11 * 32);
}

#[test]
fn a_ticket_answers_once() {
    let d = device();
    let (_, p, s, case) = adder(&d);
    let t = d.submit(s, p, &case.writes).unwrap();
    wait(&d, t).unwrap();
    assert_eq!(wait(&d, t).unwrap_err().code, Code::Usage);
}

#[test]
fn freeing_ends_what_is_in_flight_and_every_byte() {
    let d = device();
    let (m, p, s, case) = adder(&d);
    let t = d.submit(s, p, &case.writes).unwrap();
    d.free(AnyId::Session(s));
    assert_eq!(wait(&d, t).unwrap_err().code, Code::Disposed);
    assert_eq!(d.submit(s, p, &case.writes).unwrap_err().code, Code::Usage);
    d.free(AnyId::Session(s));
    d.free(AnyId::Model(m));
    assert_eq!(d.counters().live_bytes, 0);
    assert_eq!(d.gpu().counts().live_bytes, 0);
    assert_eq!(d.submit(s, p, &[]).unwrap_err().code, Code::Usage);
}

#[test]
fn writes_outside_their_memory_are_refused_before_any_is_made() {
    let d = device();
    let (_, p, s, case) = adder(&d);
    wait(&d, d.submit(s, p, &case.writes).unwrap()).unwrap();
    for bad in [
        Write { to: WriteTo::Input(0), offset: 4, bytes: vec![0; 32] },
        Write { to: WriteTo::Input(0), offset: 2, bytes: vec![0; 4] },
        Write { to: WriteTo::Input(0), offset: 0, bytes: vec![0; 3] },
        Write { to: WriteTo::Input(9), offset: 0, bytes: vec![0; 4] },
        Write { to: WriteTo::State(0), offset: 0, bytes: vec![0; 4] },
    ] {
        let e = d.submit(s, p, &[first_input(9.0), bad]).unwrap_err();
        assert_eq!(e.code, Code::Usage, "{e}");
    }
    let t = d.submit(s, p, &[]).unwrap();
    assert_eq!(floats(&wait(&d, t).unwrap().values[0]), [3.0; 8]);
}

/// A plan of one f32 weight.
fn one_weight(elements: u64) -> WeightPlan {
    let bytes = 4 * elements;
    let mut plan = WeightPlan::default();
    plan.entries.push(Entry {
        name: "w".into(),
        ty: Type::tensor(DType::F32, Shape::of(&[elements])),
        origin: Origin::File { shard: 0, offset: 0 },
        buffer: 0,
        offset: 0,
        bytes,
    });
    plan.buffers.push(Buffer { bytes });
    plan
}

#[test]
fn at_most_sixteen_mebibytes_are_on_their_way() {
    let d = device();
    let elements = 12u64 << 20; // 48 MiB
    let (m, t) = d.allocate(Arc::new(one_weight(elements))).unwrap();
    wait(&d, t).unwrap();
    // One slice of everything, and again in many odd pieces.
    let bytes = vec![7u8; 4 * elements as usize];
    put(&d, m, Placed { buffer: 0, offset: 0 }, &bytes);
    for (i, piece) in bytes.chunks(3_000_004).enumerate() {
        put(&d, m, Placed { buffer: 0, offset: i as u64 * 3_000_004 }, piece);
    }
    let most = d.gpu().counts().staged_bytes_max;
    assert!(most <= 16 << 20, "{most} bytes were in flight");
    assert_eq!(d.gpu().counts().submits, 0, "staging submits nothing itself");
}

#[test]
fn weight_bytes_outside_their_buffer_are_refused() {
    let d = device();
    let (m, t) = d.allocate(Arc::new(one_weight(4))).unwrap();
    wait(&d, t).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    for (buffer, offset, n) in [(0, 16, 1), (0, 2, 4), (0, 0, 17), (1, 0, 4), (0, u64::MAX - 3, 8)]
    {
        let bytes = vec![0; n];
        let at = Placed { buffer, offset };
        let answer = d.poll_put(m, at, Bytes::Slice(&bytes), &mut cx);
        assert!(matches!(answer, Poll::Ready(Err(e)) if e.code == Code::Usage));
    }
}

#[test]
fn a_last_piece_of_odd_length_arrives_whole() {
    let d = device();
    let mut rng = Rng(31);
    // 3 rows of 5 f16: 30 bytes.
    let w = random_weights(&mut rng, DType::F16, 3, 5);
    let xs = rng.floats(5);
    let got =
        run_op(&d, MatMul::plain(), &[input(&[1, 5], &xs), weight(DType::F16, &[3, 5], w.clone())]);
    let w = decode(DType::F16, &w);
    let want: Vec<f64> =
        (0..3).map(|r| (0..5).map(|c| f64::from(xs[c]) * w[r * 5 + c]).sum()).collect();
    assert_close("f16", &floats(&got[0]), &want, 1e-6);
}

#[test]
fn what_is_larger_than_a_binding_is_out_of_memory() {
    let d = device();
    let most = d.target().limits.binding;
    let mut plan = one_weight(4);
    plan.buffers[0].bytes = most + 4;
    assert_eq!(d.allocate(Arc::new(plan)).unwrap_err().code, Code::OutOfMemory);
    let (m, t) = d.allocate(Arc::new(one_weight(4))).unwrap();
    wait(&d, t).unwrap();
    let e = d.session(m, &[], &[most + 4]).unwrap_err();
    assert_eq!(e.code, Code::OutOfMemory);
    assert!(e.to_string().contains("the arena needs"), "{e}");
}

#[test]
fn an_adapter_that_is_not_there_is_unavailable() {
    let e = rlx_webgpu::gpu::native::NativeGpu::new(Some("no such GPU")).err().expect("no adapter");
    assert_eq!(e.code, Code::DeviceUnavailable);
    assert!(e.what.starts_with("no WebGPU adapter is named no such GPU; adapters: "), "{e}");
}

#[test]
fn one_of_two_programs_that_share_a_kernel_compiles_it() {
    let d = device();
    let (m, _, _, case) = adder(&d);
    let pipelines = d.gpu().counts().pipelines;
    let (_, t) = d.build(m, Arc::new(case.program.clone())).unwrap();
    wait(&d, t).unwrap();
    assert_eq!(d.gpu().counts().pipelines, pipelines);
}

#[test]
fn info_names_the_adapter() {
    let d = device();
    assert_eq!(d.info().kind, "webgpu");
    assert!(!d.info().adapter.is_empty());
    assert_eq!(d.target().name, "webgpu");
}
