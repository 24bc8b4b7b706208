//! Integers or floats, by what a device of virtual time takes for its steps.
#![cfg(all(feature = "reference", feature = "text"))]

use crate::load::wait;
use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::ir::mir::Graph;
use rlx_core::models::Checkpoint;
use rlx_core::ops::Op;
use rlx_core::plan::WeightPlan;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::choice::{Choice, Times};
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::{
    AnyId, Bytes, Copy, Counters, Device, DeviceInfo, Memory, ModelId, Outputs, Placed, ProgramId,
    SessionId, Submission, TensorId, Ticket,
};
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::{Activations, ProgramActivations, Target};
use rlx_core::{Code, Error, Result};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Milliseconds of a step: of decode with integers and with floats, of a prompt with integers and with floats.
type Costs = [f64; 4];

#[derive(Default)]
struct Clock {
    now: f64,
    costs: BTreeMap<u32, f64>,
    submissions: usize,
}

/// The reference executor, whose steps take as long as the test says.
struct Paced {
    inner: ReferenceDevice,
    costs: Costs,
    /// The host hears of what is done at multiples of this.
    tick: f64,
    /// Whether programs with floats are refused.
    refuses: bool,
    name: Option<&'static str>,
    clock: Lock<Clock>,
}

fn paced(costs: Costs) -> Paced {
    let (inner, clock) = (ReferenceDevice::new(), Lock::default());
    Paced { inner, costs, tick: 0.0, refuses: false, name: Some("a card; a driver"), clock }
}

fn has_integers(g: &Graph) -> bool {
    let makes = |op: &Op| match op {
        Op::QuantizeRows(_) => true,
        Op::MatMul(m) => m.quantize.is_some(),
        _ => false,
    };
    g.nodes.iter().any(|n| makes(&n.op))
}

impl Device for Paced {
    fn target(&self) -> &Target {
        self.inner.target()
    }
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }
    fn timed_as(&self) -> Option<String> {
        self.name.map(Into::into)
    }
    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        self.inner.allocate(plan)
    }
    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        self.inner.extend(m, plan)
    }
    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.inner.poll_put(m, at, bytes, cx)
    }
    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        let integers = has_integers(&program.graph);
        if self.refuses && !integers {
            return Err(Error::new(Code::Internal, "the driver refuses a kernel"));
        }
        let prompt = !program.inputs.is_empty();
        let cost = self.costs[2 * usize::from(prompt) + usize::from(!integers)];
        let (id, ticket) = self.inner.build(m, program)?;
        self.clock.lock().costs.insert(id.0, cost);
        Ok((id, ticket))
    }
    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena: &[u64],
    ) -> Result<(SessionId, Ticket)> {
        self.inner.session(m, states, arena)
    }
    fn grow(&self, s: SessionId, arena: &[u64]) -> Result<Ticket> {
        self.inner.grow(s, arena)
    }
    fn tensor(&self, s: SessionId, bytes: u64) -> Result<(TensorId, Ticket)> {
        self.inner.tensor(s, bytes)
    }
    fn submit_with(&self, s: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket> {
        let clock = &mut *self.clock.lock();
        clock.now += clock.costs[&p.0];
        clock.submissions += 1;
        self.inner.submit_with(s, p, how)
    }
    fn begin(&self, s: SessionId, p: ProgramId) -> Result<bool> {
        self.inner.begin(s, p)
    }
    fn copy(&self, s: SessionId, copies: &[Copy]) -> Result<()> {
        self.inner.copy(s, copies)
    }
    fn read(&self, s: SessionId, from: Memory, offset: u64, bytes: u64) -> Result<Ticket> {
        self.inner.read(s, from, offset, bytes)
    }
    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>> {
        self.inner.poll(t, cx)
    }
    fn free(&self, id: AnyId) {
        self.inner.free(id);
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

fn model() -> ModelFiles {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/gguf/llama-q4_k_m.gguf");
    let mut reader = HeaderReader::new("a.gguf", None);
    reader.push(&std::fs::read(path).unwrap()).unwrap();
    ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap()
}

fn options(recommended: &str) -> ModelOptions {
    let activations = ProgramActivations::from_names(recommended).unwrap();
    ModelOptions { activations, ..ModelOptions::chat(16) }
}

/// A timing: what came of it, the key, and how many steps ran.
struct Found {
    times: Result<(Times, bool)>,
    key: String,
    steps: usize,
    ms: f64,
}

fn find(device: Paced, recommended: &str, kept: Option<&str>) -> Option<Found> {
    let device = Arc::new(device);
    let shared: Arc<dyn Device> = device.clone();
    let files = model();
    let choice = Choice::new(&Checkpoint::gguf(&files), &shared, &options(recommended)).unwrap()?;
    let key = choice.key().to_owned();
    let now = || {
        let clock = &mut *device.clock.lock();
        if device.tick > 0.0 {
            clock.now = (clock.now / device.tick).ceil() * device.tick;
        }
        clock.now
    };
    let mut run = pin!(choice.times(kept, &now));
    let times = wait(|cx| run.as_mut().poll(cx));
    assert_eq!(device.counters().live_bytes, 0, "nothing is left on the device");
    let clock = device.clock.lock();
    Some(Found { times, key, steps: clock.submissions, ms: clock.now })
}

/// What is chosen in place of the recommended types.
fn chosen(device: Paced, recommended: &str) -> String {
    let (times, measured) = find(device, recommended, None).unwrap().times.unwrap();
    assert!(measured);
    times.choose(ProgramActivations::from_names(recommended).unwrap()).to_string()
}

#[test]
fn decode_and_prompts_have_what_is_faster_on_the_device_each() {
    for (costs, want) in [
        ([1.0, 2.0, 10.0, 20.0], "int8"),
        ([2.0, 1.0, 20.0, 10.0], "f32"),
        ([1.0, 2.0, 20.0, 10.0], "int8/f32"),
        ([2.0, 1.0, 10.0, 20.0], "f32/int8"),
        // Integers gain too little, and just enough.
        ([0.96, 1.0, 9.6, 10.0], "f32"),
        ([0.94, 1.0, 9.4, 10.0], "int8"),
    ] {
        assert_eq!(chosen(paced(costs), "int8"), want, "{costs:?}");
    }
}

#[test]
fn whatever_is_recommended_is_compared_with_floats() {
    assert_eq!(chosen(paced([2.0, 1.0, 10.0, 20.0]), "int16/int8"), "f32/int8");
    assert_eq!(chosen(paced([1.0, 2.0, 20.0, 10.0]), "int16/int8"), "int16/f32");
    // Where floats are recommended there is nothing to time.
    let Found { times, .. } = find(paced([1.0, 2.0, 1.0, 2.0]), "f32/int8", None).unwrap();
    let (times, _) = times.unwrap();
    assert!(times.decode.is_none() && times.prompts.is_some(), "{times:?}");
    assert!(find(paced([1.0; 4]), "f32", None).is_none());
}

#[test]
fn times_are_those_of_steps_on_fast_and_slow_devices_and_take_no_longer_than_they_must() {
    for factor in [0.1, 1.0, 10.0, 1000.0] {
        let costs = [0.3, 0.4, 2.0, 1.5].map(|ms| ms * factor);
        let found = find(paced(costs), "int8", None).unwrap();
        let (times, _) = found.times.unwrap();
        let got = [times.decode.unwrap(), times.prompts.unwrap()].concat();
        for (got, want) in got.iter().zip(costs) {
            assert!((got - want).abs() < 1e-6 * want, "{factor}: {got:?} {costs:?}");
        }
        // Of a slow device four steps of each, otherwise some hundred milliseconds.
        let least: f64 = costs.iter().sum::<f64>() * 4.5;
        assert!(
            found.ms < f64::max(least, 300.0),
            "{factor}: {} ms, {} steps",
            found.ms,
            found.steps
        );
    }
}

#[test]
fn a_host_that_hears_late_sees_the_same() {
    for (costs, want) in
        [([2.0, 3.0, 30.0, 20.0], "int8/f32"), ([3.0, 2.0, 20.0, 30.0], "f32/int8")]
    {
        assert_eq!(chosen(Paced { tick: 100.0, ..paced(costs) }, "int8"), want);
    }
}

#[test]
fn what_is_kept_is_not_timed_again_and_what_is_no_such_text_is() {
    let costs = [1.0, 2.0, 20.0, 10.0];
    let first = find(paced(costs), "int8", None).unwrap();
    let (times, _) = first.times.unwrap();
    assert!(first.steps > 0);
    let text = times.to_string();
    assert_eq!(text, "1000000 2000000 20000000 10000000");
    let again = find(paced([9.0; 4]), "int8", Some(&text)).unwrap();
    assert_eq!((again.times.unwrap(), again.steps), ((times, false), 0));
    assert_eq!(again.key, first.key);

    let long = "9".repeat(400);
    let wrong = [
        "",
        " ",
        "1 2 3",
        "1 2 3 4 5",
        "1 2 3 0",
        "1 2 3 -4",
        "1 2 3 x",
        "1.5 2 3 4",
        "1  2 3 4",
        &long,
    ];
    for text in wrong {
        let found = find(paced(costs), "int8", Some(text)).unwrap();
        assert_eq!(found.times.unwrap(), (times, true), "{text:?}");
    }
    // Two numbers are those of one kind of programs.
    let found = find(paced(costs), "f32/int8", Some("5000000 6000000")).unwrap();
    let want = Times { decode: None, prompts: Some([5.0, 6.0]) };
    assert_eq!((found.times.unwrap(), found.steps), ((want, false), 0));
}

#[test]
fn times_are_kept_by_device_model_and_types() {
    let key =
        |name, types| find(Paced { name: Some(name), ..paced([1.0; 4]) }, types, None).unwrap().key;
    let first = key("a card; a driver", "int8");
    assert!(first.starts_with("a card; a driver; llama32 "), "{first}");
    assert_ne!(key("a card; another driver", "int8"), first);
    assert_ne!(key("a card; a driver", "int16"), first);
}

#[test]
fn a_device_that_does_not_want_it_is_not_timed() {
    assert!(find(Paced { name: None, ..paced([1.0; 4]) }, "int8", None).is_none());
}

#[test]
fn a_form_that_fails_is_an_error_that_leaves_nothing() {
    let found = find(Paced { refuses: true, ..paced([1.0; 4]) }, "int8", None).unwrap();
    assert_eq!(found.times.unwrap_err().what, "the driver refuses a kernel");
    // A clock that stands still has told nothing.
    let found = find(paced([0.0; 4]), "int8", None).unwrap();
    assert_eq!(found.times.unwrap_err().what, "the clock stood still while forms were timed");
}

#[test]
fn hostile_times_choose_without_a_fault() {
    let most = u64::MAX;
    let usual = Activations::Int8.into();
    let choose = |text: &str| Times::parse(text, usual).unwrap().choose(usual).to_string();
    assert_eq!(choose(&format!("1 {most} {most} 1")), "int8/f32");
    assert_eq!(choose(&format!("{most} {most} 1 1")), "f32");
}
