//! The window of steps in flight, on a device of virtual time that tells of its steps late.
#![cfg(feature = "text")]

use crate::load::{Hand, fill};
use rlx_core::Result;
use rlx_core::ir::hir::{LinearWeights, Module, Weight};
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::{
    AnyId, Bytes, Copy, Counters, Device, DeviceInfo, Memory, ModelId, Outputs, Placed, ProgramId,
    SessionId, Submission, TensorId, Ticket,
};
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions, Progress};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::Opening;
use rlx_core::target::Target;
use rlx_core::text::{Tokenizer, VocabData};
use rlx_core::types::{DType, Shape, Type};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Microseconds of a step.
const STEP: u64 = 5_000;
/// Steps a second, when none waits for the host.
const SPEED: f64 = 200.0;

/// Time passes only when the test says so.
#[derive(Default)]
struct Clock {
    now: u64,
    /// When the device has done all that it was given.
    busy_until: u64,
    /// When a ticket's work is done.
    tickets: BTreeMap<u32, u64>,
    next: u32,
    /// The host hears of what is done at multiples of this.
    tick: u64,
    most_in_flight: usize,
}

impl Clock {
    fn heard(&self, done: u64) -> u64 {
        done.next_multiple_of(self.tick)
    }
}

/// The ticket of all that takes this device no time.
const DONE: Ticket = Ticket(u32::MAX);

struct Late {
    target: Target,
    clock: Lock<Clock>,
}

impl Device for Late {
    fn target(&self) -> &Target {
        &self.target
    }
    fn info(&self) -> DeviceInfo {
        DeviceInfo::default()
    }
    fn allocate(&self, _: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        Ok((ModelId(0), DONE))
    }
    fn extend(&self, _: ModelId, _: Arc<WeightPlan>) -> Result<Ticket> {
        unreachable!("a language model's weights are planned at once")
    }
    fn poll_put(
        &self,
        _: ModelId,
        _: Placed,
        _: Bytes<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn build(&self, _: ModelId, _: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        Ok((ProgramId(0), DONE))
    }
    fn session(&self, _: ModelId, _: &[StateDecl], _: &[u64]) -> Result<(SessionId, Ticket)> {
        Ok((SessionId(0), DONE))
    }
    fn grow(&self, _: SessionId, _: &[u64]) -> Result<Ticket> {
        unreachable!("a generation has one arena")
    }
    fn tensor(&self, _: SessionId, _: u64) -> Result<(TensorId, Ticket)> {
        unreachable!("a generation makes no tensors")
    }
    fn copy(&self, _: SessionId, _: &[Copy]) -> Result<()> {
        unreachable!("a generation copies nothing")
    }
    fn read(&self, _: SessionId, _: Memory, _: u64, _: u64) -> Result<Ticket> {
        unreachable!("a generation reads its outputs alone")
    }
    fn submit_with(&self, _: SessionId, _: ProgramId, _: &Submission<'_>) -> Result<Ticket> {
        let c = &mut *self.clock.lock();
        c.busy_until = c.busy_until.max(c.now) + STEP;
        c.next += 1;
        c.tickets.insert(c.next, c.busy_until);
        c.most_in_flight = c.most_in_flight.max(c.tickets.len());
        Ok(Ticket(c.next))
    }
    fn begin(&self, _: SessionId, _: ProgramId) -> Result<bool> {
        unreachable!("nothing holds these answers")
    }
    fn poll(&self, t: Ticket, _: &mut Context<'_>) -> Poll<Result<Outputs>> {
        if t == DONE {
            return Poll::Ready(Ok(Outputs::default()));
        }
        let c = &mut *self.clock.lock();
        if c.heard(c.tickets[&t.0]) > c.now {
            return Poll::Pending;
        }
        c.tickets.remove(&t.0);
        Poll::Ready(Ok(Outputs { values: vec![0u32.to_le_bytes().into()] }))
    }
    fn free(&self, _: AnyId) {}
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

fn engine(tick: u64) -> (Engine, Arc<Late>) {
    let ty = Type::tensor(DType::F32, Shape::of(&[2, 4]));
    let table = Weight { name: "table".into(), ty };
    let mut m = Module::new("late", 4096, 2);
    let ids = m.ids();
    let x = m.embedding(ids, table.clone());
    let x = m.out_rows(x);
    m.lm_head(x, LinearWeights { weight: table, bias: None });
    let options = ModelOptions::chat(16);
    let target = Target::reference();
    let compiled = CompiledModel::from_module(m, &target, &options, |_| Some((0, 0, 32))).unwrap();
    let data = VocabData {
        model: "gpt2".into(),
        pre: "llama-bpe".into(),
        tokens: vec!["a".into(), "b".into()],
        ..VocabData::default()
    };
    let tokenizer = Arc::new(Tokenizer::new(data).unwrap());
    let clock = Lock::new(Clock { tick, ..Clock::default() });
    let late = Arc::new(Late { target, clock });
    let opening = Opening::programs(late.clone(), &compiled).unwrap();
    let session = fill(opening, &[Arc::new(vec![0; 32])], Hand::Kept).unwrap();
    (Engine::new(session, Arc::new(compiled), tokenizer).unwrap(), late)
}

/// Tokens a virtual second of an answer of `tokens`.
fn speed(engine: &mut Engine, device: &Late, tokens: usize, most: usize) -> f64 {
    device.clock.lock().most_in_flight = 0;
    let start = device.clock.lock().now;
    let options = GenerateOptions {
        max_tokens: Some(tokens),
        ahead_most: most,
        ..GenerateOptions::default()
    };
    let mut generation = engine.start(vec![0, 1, 1], &options).unwrap();
    loop {
        match generation.poll_next(engine, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Progress::Done(reason))) => {
                assert_eq!(reason.finish(), Some("length"));
                break;
            }
            Poll::Ready(Some(_)) => {}
            Poll::Ready(None) => panic!("no Done"),
            Poll::Pending => {
                let c = &mut *device.clock.lock();
                let next = c.tickets.values().min().expect("it waits for something");
                assert!(c.heard(*next) > c.now, "it waits for what is there");
                c.now = c.heard(*next);
            }
        }
    }
    assert_eq!(generation.tokens().len(), tokens);
    tokens as f64 * 1e6 / (device.clock.lock().now - start) as f64
}

#[test]
fn a_device_that_tells_every_100_ms_still_streams_at_its_speed() {
    let (mut engine, device) = engine(100_000);
    let got = speed(&mut engine, &device, 1000, 64);
    assert!(got >= 0.9 * SPEED, "{got} tokens/s");
    let most = device.clock.lock().most_in_flight;
    assert!((20..=40).contains(&most), "{most} in flight for 20 steps between two answers");
    // The next answer begins with what was learned.
    let again = speed(&mut engine, &device, 200, 64);
    assert!(again >= 0.9 * SPEED, "{again} tokens/s");
}

#[test]
fn a_window_that_may_not_grow_is_all_that_such_a_device_does_at_once() {
    let (mut engine, device) = engine(100_000);
    let got = speed(&mut engine, &device, 200, 0);
    assert!((39.0..41.0).contains(&got), "{got} tokens/s");
    assert_eq!(device.clock.lock().most_in_flight, 4);
}

#[test]
fn where_each_answer_comes_as_its_step_ends_the_window_stays() {
    let (mut engine, device) = engine(1);
    let got = speed(&mut engine, &device, 300, 64);
    assert!(got >= 0.99 * SPEED, "{got} tokens/s");
    assert_eq!(device.clock.lock().most_in_flight, 4);
}

#[test]
fn a_device_that_is_late_no_more_has_its_first_window_again() {
    let (mut engine, device) = engine(100_000);
    speed(&mut engine, &device, 300, 64);
    assert!(device.clock.lock().most_in_flight > 4);
    device.clock.lock().tick = 1;
    speed(&mut engine, &device, 100, 64);
    speed(&mut engine, &device, 100, 64);
    assert_eq!(device.clock.lock().most_in_flight, 4);
}

/// A step so short that hundreds end between two answers: the bound holds.
#[test]
fn the_window_has_a_bound() {
    let (mut engine, device) = engine(2_000_000);
    speed(&mut engine, &device, 1000, 64);
    assert_eq!(device.clock.lock().most_in_flight, 64);
}
