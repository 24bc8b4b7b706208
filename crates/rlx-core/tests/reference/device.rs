//! The device's contract: order, handles, counters.
//! These tests drive the trait by hand, because it is what they test.

use super::{bytes, f32s, floats, planned};
use rlx_core::ir::lir::Program;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{Binary, KvWrite, Map, Unary, Zip};
use rlx_core::plan::WeightPlan;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::{
    AnyId, Bytes, Device, ModelId, Outputs, Placed, ProgramId, SessionId, SharedBytes, Ticket,
    Write, WriteTo,
};
use rlx_core::sample::Control;
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Code, Result};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Polls a ticket until it answers; returns the number of polls too.
pub(crate) fn wait(device: &dyn Device, t: Ticket) -> (Result<Outputs>, usize) {
    let mut cx = Context::from_waker(Waker::noop());
    for polls in 1.. {
        if let Poll::Ready(answer) = device.poll(t, &mut cx) {
            return (answer, polls);
        }
    }
    unreachable!("the loop has no end")
}

pub(crate) fn put(device: &dyn Device, m: ModelId, at: Placed, bytes: Bytes<'_>) -> Result<()> {
    match device.poll_put(m, at, bytes, &mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the reference device takes bytes at once"),
    }
}

/// Writes `exp(x) + w` to the cache; returns both: 3 steps.
fn example() -> Graph {
    let mut g = Graph::new("example");
    let x = g.param(ParamKind::Input, "x", f32s(&[2, 2]));
    let w = g.param(ParamKind::Weight, "w", f32s(&[2]));
    let ctl = g.param(ParamKind::State, "ctl", Type::state(DType::U32, Shape::of(&[16])));
    let k = g.param(ParamKind::State, "k", Type::state(DType::F32, Shape::of(&[1, 4, 2])));
    let y = g.push1(Map { f: Unary::Exp }, &[x], "exp").unwrap();
    let y = g.push1(Zip { f: Binary::Add }, &[y, w], "add").unwrap();
    let k = g.push1(KvWrite::default(), &[k, y, ctl], "write").unwrap();
    g.output("k", k);
    g.output("y", y);
    g
}

struct Setup {
    device: ReferenceDevice,
    plan: Arc<WeightPlan>,
    program: Arc<Program>,
    model: ModelId,
    built: ProgramId,
    session: SessionId,
}

fn setup() -> Setup {
    let device = ReferenceDevice::new();
    let (program, plan) = planned(example());
    let (program, plan) = (Arc::new(program), Arc::new(plan));
    let (model, t) = device.allocate(plan.clone()).unwrap();
    assert_eq!(wait(&device, t).0, Ok(Outputs::default()));
    let (built, t) = device.build(model, program.clone()).unwrap();
    wait(&device, t).0.unwrap();
    let (session, t) = device.session(model, &program.states, &program.arena_segments).unwrap();
    wait(&device, t).0.unwrap();
    put(&device, model, Placed { buffer: 0, offset: 0 }, Bytes::Slice(&bytes(&[10.0]))).unwrap();
    put(&device, model, Placed { buffer: 0, offset: 4 }, Bytes::Slice(&bytes(&[20.0]))).unwrap();
    Setup { device, plan, program, model, built, session }
}

fn writes(past: u32, len: u32, x: &[f32]) -> Vec<Write> {
    let ctl = Control { past, len, ..Control::default() }.to_words();
    let ctl = ctl.iter().flat_map(|w| w.to_le_bytes()).collect();
    vec![
        Write { to: WriteTo::State(0), offset: 0, bytes: ctl },
        Write { to: WriteTo::Input(0), offset: 0, bytes: bytes(x) },
    ]
}

#[test]
fn submissions_of_a_session_run_in_order_whichever_ticket_is_polled() {
    let s = setup();
    let zero = [0.0; 4];
    let first = s.device.submit(s.session, s.built, &writes(0, 2, &zero)).unwrap();
    // No input written: the last one stays.
    let second = s.device.submit(s.session, s.built, &writes(2, 1, &zero)[..1]).unwrap();
    let (answer, polls) = wait(&s.device, second);
    let k = floats(&answer.unwrap().values[0]);
    assert_eq!(k, [11.0, 21.0, 11.0, 21.0, 11.0, 21.0, 0.0, 0.0]);
    assert_eq!(polls, 8, "three steps and a reading, twice, one a poll");
    let (answer, polls) = wait(&s.device, first);
    let answer = answer.unwrap();
    assert_eq!(floats(&answer.values[0])[4..], [0.0; 4]);
    assert_eq!(floats(&answer.values[1]), [11.0, 21.0, 11.0, 21.0]);
    assert_eq!(polls, 1);
    let e = wait(&s.device, first).0.unwrap_err();
    assert!(e.what.starts_with("ticket ") && e.what.contains("is not known"), "{e}");
}

#[test]
fn counters_count_steps_submissions_readback_and_live_bytes() {
    let s = setup();
    let t = s.device.submit(s.session, s.built, &writes(0, 2, &[0.0; 4])).unwrap();
    wait(&s.device, t).0.unwrap();
    let c = s.device.counters();
    assert_eq!((c.dispatches, c.submits, c.readback_bytes), (3, 1, 32 + 16));
    assert_eq!(c.readback_bytes, s.program.readback_bytes());
    assert_eq!(c.live_bytes, s.plan.bytes() + s.program.arena_bytes + 64 + 32 + 16);
    s.device.free(AnyId::Program(s.built));
    assert_eq!(s.device.counters().live_bytes, c.live_bytes - 16);
    s.device.free(AnyId::Session(s.session));
    assert_eq!(s.device.counters().live_bytes, s.plan.bytes());
    s.device.free(AnyId::Model(s.model));
    s.device.free(AnyId::Model(s.model));
    assert_eq!(s.device.counters().live_bytes, 0);
}

#[test]
fn freed_ids_are_errors_and_running_tickets_say_so() {
    let s = setup();
    let t = s.device.submit(s.session, s.built, &writes(0, 2, &[0.0; 4])).unwrap();
    s.device.free(AnyId::Model(s.model));
    assert_eq!(wait(&s.device, t).0.unwrap_err().code, Code::Disposed);
    assert!(s.device.submit(s.session, s.built, &[]).is_err());
    assert!(s.device.build(s.model, s.program.clone()).is_err());
    assert!(s.device.session(s.model, &[], &[]).is_err());
    let at = Placed { buffer: 0, offset: 0 };
    assert!(put(&s.device, s.model, at, Bytes::Slice(&[0; 4])).is_err());
}

#[test]
fn a_program_that_is_freed_while_queued_still_runs() {
    let s = setup();
    let t = s.device.submit(s.session, s.built, &writes(0, 1, &[0.0; 4])).unwrap();
    s.device.free(AnyId::Program(s.built));
    let k = floats(&wait(&s.device, t).0.unwrap().values[0]);
    assert_eq!(k[..4], [11.0, 21.0, 0.0, 0.0]);
    assert!(s.device.submit(s.session, s.built, &[]).is_err());
}

#[test]
fn a_whole_weight_in_a_shared_map_is_read_there() {
    let s = setup();
    let mut file = vec![0xff; 3];
    file.extend(bytes(&[1.0, 2.0]));
    let map: SharedBytes = Arc::new(file);
    let shared = Bytes::Shared { map: map.clone(), offset: 3, len: 8 };
    put(&s.device, s.model, Placed { buffer: 0, offset: 0 }, shared).unwrap();
    assert_eq!(Arc::strong_count(&map), 2, "kept, not copied");
    let t = s.device.submit(s.session, s.built, &writes(0, 1, &[0.0; 4])).unwrap();
    assert_eq!(floats(&wait(&s.device, t).0.unwrap().values[1]), [2.0, 3.0, 2.0, 3.0]);
    s.device.free(AnyId::Model(s.model));
    assert_eq!(Arc::strong_count(&map), 1);
}

#[test]
fn writes_and_weights_outside_their_memory_are_refused() {
    let s = setup();
    let write = |to, offset, n| vec![Write { to, offset, bytes: vec![0; n] }];
    for bad in [
        write(WriteTo::Input(0), 12, 8),
        write(WriteTo::Input(0), 2, 4),
        write(WriteTo::Input(0), 0, 3),
        write(WriteTo::Input(1), 0, 4),
        write(WriteTo::State(2), 0, 4),
        write(WriteTo::State(0), u64::MAX - 3, 4),
    ] {
        assert!(s.device.submit(s.session, s.built, &bad).is_err(), "{bad:?}");
    }
    for at in [Placed { buffer: 0, offset: 8 }, Placed { buffer: 1, offset: 0 }] {
        assert!(put(&s.device, s.model, at, Bytes::Slice(&[0; 4])).is_err());
    }
}

#[test]
fn a_step_that_fails_fails_its_ticket_alone() {
    let s = setup();
    let bad = s.device.submit(s.session, s.built, &writes(3, 2, &[0.0; 4])).unwrap();
    let good = s.device.submit(s.session, s.built, &writes(0, 1, &[0.0; 4])).unwrap();
    let e = wait(&s.device, bad).0.unwrap_err();
    assert_eq!(e.code, Code::ContextFull);
    assert_eq!(e.at, "@example, step 2 kv_write write");
    wait(&s.device, good).0.unwrap();
}
