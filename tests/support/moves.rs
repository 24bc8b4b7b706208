//! What every executor owes of its sessions' tensors: an output stays on the device, becomes an input of the next
//! submission, goes to a state and back, and is read when it is asked for. It drives the trait by hand,
//! because the trait is what it tests.

use core::task::{Context, Poll, Waker};
use rlx_core::Code;
use rlx_core::ir::lir::StateDecl;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{Map, Unary};
use rlx_core::plan::{WeightPlan, plan};
use rlx_core::runtime::device::{
    AnyId, Copy, Device, Memory, Outputs, Submission, Ticket, Write, WriteTo,
};
use rlx_core::target::CompileOptions;
use rlx_core::types::{DType, Shape, Type};
use std::sync::Arc;

fn wait(device: &dyn Device, ticket: Ticket) -> rlx_core::Result<Outputs> {
    loop {
        match device.poll(ticket, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Runs the contract on a device.
pub fn tensors_stay_on_the_device_and_are_copied_and_read(device: &dyn Device) {
    let mut g = Graph::new("negate");
    let x = g.param_once(ParamKind::Input, "x", Type::tensor(DType::F32, Shape::of(&[4]))).unwrap();
    let y = g.push1(Map { f: Unary::Neg }, &[x], "negate").unwrap();
    g.output("y", y);
    let ty = Type::state(DType::F32, Shape::of(&[8]));
    let states = [StateDecl { name: "kept".into(), ty, bytes: 32 }];
    let mut program = plan(g, &states, device.target(), &CompileOptions::default()).unwrap();
    let weights =
        WeightPlan::new(&[&program], &device.target().limits, |_| None::<(u32, u64, u64)>).unwrap();
    weights.bind(&mut program).unwrap();
    let before = device.counters().live_bytes;
    let (model, t) = device.allocate(Arc::new(weights)).unwrap();
    wait(device, t).unwrap();
    let (s, t) = device.session(model, &states, &program.arena_segments).unwrap();
    wait(device, t).unwrap();
    let (p, t) = device.build(model, Arc::new(program)).unwrap();
    wait(device, t).unwrap();
    let (tensor, t) = device.tensor(s, 14).unwrap();
    wait(device, t).unwrap();
    let read =
        |memory, offset, n| device.read(s, memory, offset, n).map(|t| wait(device, t).unwrap());
    let (x, tensor_memory) = (Memory::Input(p, 0), Memory::Tensor(tensor));
    assert_eq!(
        read(tensor_memory, 0, 16).unwrap().values,
        [vec![0; 16]],
        "a tensor begins as zeros"
    );

    let values = bytes(&[1.0, -2.0, 3.5, f32::INFINITY]);
    let negated = bytes(&[-1.0, 2.0, -3.5, f32::NEG_INFINITY]);
    let write = Write { to: WriteTo::Input(0), offset: 0, bytes: values.clone() };
    let copy = |from, to| Copy { from, from_offset: 0, to, to_offset: 0, bytes: 16 };
    let how = Submission { read: false, ..Submission::new(core::slice::from_ref(&write)) };
    let first = device.submit_with(s, p, &how).unwrap();
    device.copy(s, &[copy(Memory::Output(p, 0), tensor_memory), copy(tensor_memory, x)]).unwrap();
    // Without a write: what was copied is the input.
    let second = device.submit(s, p, &[]).unwrap();
    assert_eq!(wait(device, second).unwrap().values, vec![values.clone()], "negated twice");
    assert!(wait(device, first).unwrap().values.is_empty(), "nothing was read back");
    assert_eq!(read(x, 0, 16).unwrap().values, vec![negated.clone()]);

    // To a state's end, and parts of both.
    device.copy(s, &[Copy { to_offset: 16, ..copy(tensor_memory, Memory::State(0)) }]).unwrap();
    assert_eq!(read(Memory::State(0), 0, 16).unwrap().values, [vec![0; 16]]);
    assert_eq!(read(Memory::State(0), 20, 8).unwrap().values, [negated[4..12].to_vec()]);
    assert_eq!(read(Memory::Output(p, 0), 4, 4).unwrap().values, [values[4..8].to_vec()]);

    // A larger arena: what is not in it stays, and programs run.
    let t = device.grow(s, &[1 << 16]).unwrap();
    wait(device, t).unwrap();
    assert_eq!(read(tensor_memory, 0, 16).unwrap().values[0], negated);
    assert_eq!(read(Memory::State(0), 16, 16).unwrap().values[0], negated);
    let t = device.submit(s, p, core::slice::from_ref(&write)).unwrap();
    assert_eq!(wait(device, t).unwrap().values[0], negated);

    let whole = copy(tensor_memory, Memory::State(0));
    for bad in [
        Copy { bytes: 20, ..whole },
        Copy { from_offset: 4, ..whole },
        Copy { to_offset: u64::MAX - 3, ..whole },
        Copy { bytes: 6, ..whole },
        Copy { to_offset: 2, bytes: 4, ..whole },
        Copy { from: Memory::State(0), ..whole },
        Copy { to: Memory::Output(p, 0), ..whole },
        Copy { to: Memory::State(1), ..whole },
        Copy { from: Memory::Output(p, 1), ..whole },
        Copy { from: Memory::Input(p, 1), ..whole },
    ] {
        assert_eq!(device.copy(s, &[bad]).map_err(|e| e.code), Err(Code::Internal), "{bad:?}");
    }
    assert!(read(tensor_memory, 12, 8).is_err() && read(Memory::State(0), 2, 4).is_err());
    device.free(AnyId::Tensor(s, tensor));
    assert!(device.copy(s, &[whole]).is_err(), "the tensor is gone");
    device.free(AnyId::Session(s));
    assert!(device.tensor(s, 16).is_err(), "the session is gone");
    device.free(AnyId::Model(model));
    let kept = device.counters().live_bytes;
    assert_eq!(kept, before, "a freed session leaves nothing");
}
