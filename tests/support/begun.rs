//! What every executor owes of programs in two parts: the rest gives what the whole gives, and whatever comes between
//! the parts ends what has begun. It drives the trait by hand, because the trait is what it tests.

use core::task::{Context, Poll, Waker};
use rlx_core::Code;
use rlx_core::ir::lir::StateDecl;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{Map, Sample, Token, Unary};
use rlx_core::plan::{WeightPlan, plan};
use rlx_core::runtime::device::{
    AnyId, Copy, Device, Memory, Outputs, ProgramId, SessionId, Submission, Ticket, Write, WriteTo,
};
use rlx_core::sample::{Control, SampleParams, params};
use rlx_core::target::CompileOptions;
use rlx_core::types::{DType, Shape, Type};
use std::sync::Arc;

const VOCAB: u64 = 64;
const STATES: [(&str, u64); 3] =
    [("ctl", 16), ("params", params::WORDS as u64 + VOCAB / 32), ("counts", VOCAB)];

fn wait(device: &dyn Device, ticket: Ticket) -> rlx_core::Result<Outputs> {
    loop {
        match device.poll(ticket, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

fn state(n: u64) -> Type {
    Type::state(DType::U32, Shape::of(&[n]))
}

/// `x -> -x`, and where it `samples` the token that is chosen by it, and the logits themselves.
fn graph(samples: bool) -> Graph {
    let mut g = Graph::new(if samples { "choose" } else { "negate" });
    let ty = Type::tensor(DType::F32, Shape::of(&[1, VOCAB]));
    let x = g.param_once(ParamKind::Input, "x", ty).unwrap();
    let y = g.push1(Map { f: Unary::Neg }, &[x], "negate").unwrap();
    if samples {
        let [ctl, params, counts] =
            STATES.map(|(name, n)| g.param_once(ParamKind::State, name, state(n)).unwrap());
        let chosen = g.push(Sample, &[y, params, counts, ctl], "sample").unwrap();
        let token = g.push1(Token, &[chosen[1]], "token").unwrap();
        g.output("token", token);
    }
    g.output("y", y);
    g
}

fn write(to: WriteTo, offset: usize, words: &[u32]) -> Write {
    let bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    Write { to, offset: 4 * offset as u64, bytes }
}

/// Has the sampler take one of these tokens.
fn mask(tokens: &[u32]) -> Write {
    let mut words = vec![0; params::WORDS - params::MASKED + (VOCAB / 32) as usize];
    words[0] = 1;
    for token in tokens {
        words[params::WORDS - params::MASKED + *token as usize / 32] |= 1 << (token % 32);
    }
    write(WriteTo::State(1), params::MASKED, &words)
}

/// The first output, a token.
fn token(answer: rlx_core::Result<Outputs>) -> u32 {
    u32::from_le_bytes(answer.unwrap().values[0][..].try_into().unwrap())
}

/// A session with both programs.
fn opened(device: &dyn Device) -> (SessionId, ProgramId, ProgramId) {
    let states =
        STATES.map(|(name, n)| StateDecl { name: name.into(), ty: state(n), bytes: 4 * n });
    let target = device.target();
    let mut programs = [true, false]
        .map(|samples| plan(graph(samples), &states, target, &CompileOptions::default()).unwrap());
    let weights =
        WeightPlan::new(&programs.each_ref()[..], &target.limits, |_| None::<(u32, u64, u64)>)
            .unwrap();
    programs.iter_mut().for_each(|p| weights.bind(p).unwrap());
    let cut = programs[0].cut().unwrap();
    assert_eq!((cut.params, programs[0].steps.len() - cut.step), (1, 1), "the sampler is the rest");
    assert_eq!(programs[1].cut(), None);
    let (model, t) = device.allocate(Arc::new(weights)).unwrap();
    wait(device, t).unwrap();
    let arena = programs.iter().map(|p| p.arena_bytes).max().unwrap();
    let (s, t) = device.session(model, &states, &[arena]).unwrap();
    wait(device, t).unwrap();
    let [p, q] = programs.map(|program| {
        let (id, t) = device.build(model, Arc::new(program)).unwrap();
        wait(device, t).unwrap();
        id
    });
    (s, p, q)
}

/// Runs the contract on a device; gives whether it runs first parts on their own.
pub fn programs_run_in_two_parts(device: &dyn Device) -> bool {
    let (s, p, q) = opened(device);
    // The best logit is that of token 9, then those of 8 and 7.
    let x: Vec<u32> = (0..VOCAB).map(|i| (i as f32 - 9.0).abs().to_bits()).collect();
    let x = write(WriteTo::Input(0), 0, &x);
    let control = Control { len: 1, limit: 100, capacity: 100, ..Control::default() };
    let first = [
        write(WriteTo::State(0), 0, &control.to_words()),
        write(WriteTo::State(1), 0, &SampleParams::default().to_words()),
        x.clone(),
    ];
    let whole = |writes: &[Write]| wait(device, device.submit(s, p, writes).unwrap());
    let rest = |p, writes: &[Write]| {
        let how = Submission { begun: true, ..Submission::new(writes) };
        device.submit_with(s, p, &how)
    };
    let refused = |p, writes: &[Write]| rest(p, writes).map_err(|e| e.code) == Err(Code::Usage);
    assert_eq!(token(whole(&first)), 9);
    let counted = || (device.counters().dispatches, device.counters().submits);
    let before = counted();
    let y = whole(&[mask(&[3, 20])]).unwrap().values[1].clone();
    let (launches, submits) = (counted().0 - before.0, counted().1 - before.1);

    // The second part has the mask that came between, and the control block advances once.
    let before = counted();
    let queued = device.begin(s, p).unwrap();
    assert_eq!(counted().0 - before.0, if queued { launches - 1 } else { 0 });
    let answer = wait(device, rest(p, &[mask(&[20, 2, 40])]).unwrap()).unwrap();
    assert_eq!(counted().0 - before.0, launches, "each launch ran once");
    assert_eq!(counted().1 - before.1, submits + u64::from(queued));
    assert_eq!(answer.values[1], y, "the logits are those of the whole");
    assert_eq!(token(Ok(answer)), 2);
    let ctl = |device: &dyn Device| {
        let t = device.read(s, Memory::State(0), 0, 64).unwrap();
        let bytes = wait(device, t).unwrap().values.remove(0);
        let words = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
        Control::from_words(&words.collect::<Vec<_>>().try_into().unwrap())
    };
    assert_eq!((ctl(device).past, ctl(device).step, ctl(device).token), (3, 3, 2));

    // Many in a row, begun while the one before is in flight.
    let mut tickets = Vec::new();
    for n in 0..20 {
        device.begin(s, p).unwrap();
        tickets.push(rest(p, &[mask(&[n])]).unwrap());
    }
    for (n, t) in tickets.into_iter().enumerate() {
        assert_eq!(token(wait(device, t)), n as u32);
    }
    assert_eq!(ctl(device).step, 23);

    // A rest needs a beginning, and nothing between.
    assert!(refused(p, &[]), "nothing has begun");
    device.begin(s, p).unwrap();
    let how = Submission { read: false, ..Submission::new(core::slice::from_ref(&x)) };
    device.submit_with(s, q, &how).unwrap();
    assert!(refused(p, &[]), "another program ran between");
    device.begin(s, p).unwrap();
    assert!(refused(q, &[]), "another program has begun");
    assert!(refused(p, &[]), "what was refused has ended it");
    device.begin(s, p).unwrap();
    wait(device, device.read(s, Memory::State(0), 0, 4).unwrap()).unwrap();
    assert!(refused(p, &[]), "a read came between");
    let (tensor, t) = device.tensor(s, 64).unwrap();
    wait(device, t).unwrap();
    device.begin(s, p).unwrap();
    let (from, to) = (Memory::State(0), Memory::Tensor(tensor));
    device.copy(s, &[Copy { from, from_offset: 0, to, to_offset: 0, bytes: 64 }]).unwrap();
    assert!(refused(p, &[]), "a copy came between");
    device.begin(s, p).unwrap();
    wait(device, device.grow(s, &[1 << 16]).unwrap()).unwrap();
    assert!(refused(p, &[]), "the arena is another one");
    for elsewhere in [x.clone(), first[0].clone()] {
        device.begin(s, p).unwrap();
        assert!(refused(p, &[mask(&[1]), elsewhere]), "the first part may have read it");
    }
    assert_eq!(device.begin(s, q).map_err(|e| e.code), Err(Code::Usage), "it samples nothing");

    // What has begun and is left changes nothing of what comes then, nor does beginning twice.
    assert_eq!(ctl(device).step, 23);
    device.begin(s, p).unwrap();
    assert_eq!(token(whole(&[mask(&[5, 50]), x])), 5);
    device.begin(s, p).unwrap();
    assert_eq!(device.begin(s, p), Ok(queued));
    assert_eq!(token(wait(device, rest(p, &[]).unwrap())), 5, "the mask stays");
    assert_eq!(ctl(device).step, 25);
    device.begin(s, p).unwrap();
    device.free(AnyId::Session(s));
    assert!(rest(p, &[]).is_err() && device.begin(s, p).is_err(), "the session is gone");
    queued
}

/// A device that is lost between the parts says so of the rest, and of what would begin then.
#[allow(dead_code)] // for executors that can be lost
pub fn a_loss_between_the_parts_is_told(device: &dyn Device, lose: impl FnOnce()) {
    let (s, p, _) = opened(device);
    wait(device, device.submit(s, p, &[]).unwrap()).unwrap();
    device.begin(s, p).unwrap();
    lose();
    let how = Submission { begun: true, ..Submission::new(&[]) };
    let rest = device.submit_with(s, p, &how).and_then(|t| wait(device, t));
    assert_eq!(rest.map_err(|e| e.code), Err(Code::DeviceLost));
    assert_eq!(device.begin(s, p).map_err(|e| e.code), Err(Code::DeviceLost));
}
