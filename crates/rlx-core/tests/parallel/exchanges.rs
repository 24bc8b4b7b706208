//! What ranks exchange, and what becomes of a group when they do not.

use super::{answered, group};
use rlx_core::Code;
use rlx_core::ir::lir::Program;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{AllGather, AllReduce, Op};
use rlx_core::plan::{WeightPlan, plan};
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::group::{Group, InTurn, Meeting, together};
use rlx_core::runtime::device::{Device, ProgramId, SessionId, Submission, Write, WriteTo};
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{DType, Shape, Type};
use std::sync::Arc;

fn planned(g: Graph) -> Program {
    plan(g, &[], &Target::reference(), &CompileOptions::default()).unwrap()
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn sums_and_rows_are_those_of_all_ranks() {
    let all = [bytes(&[1.0, 2.0]), bytes(&[10.0, 20.0]), bytes(&[100.0, 200.0])];
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let sum = together(&AllReduce { ranks: 3 }.into(), DType::F32, &all).unwrap();
    assert_eq!(sum, bytes(&[111.0, 222.0]));
    let rows = together(&AllGather { ranks: 3 }.into(), DType::F32, &all).unwrap();
    assert_eq!(rows, bytes(&[1.0, 2.0, 10.0, 20.0, 100.0, 200.0]));
    // Halves are summed in f32, and round once.
    let halves = [0x3c00u16, 0x1000, 0x1000].map(u16::to_le_bytes);
    let halves: Vec<&[u8]> = halves.iter().map(|h| h.as_slice()).collect();
    let sum = together(&AllReduce { ranks: 3 }.into(), DType::F16, &halves).unwrap();
    assert_eq!(sum, 0x3c01u16.to_le_bytes());
    let e = together(&AllReduce { ranks: 3 }.into(), DType::U32, &all).expect_err("no floats");
    assert_eq!(e.code, Code::Unsupported);
}

#[test]
fn a_rank_waits_until_all_have_come() {
    let meeting = Meeting::new(2);
    let op: Op = AllReduce { ranks: 2 }.into();
    let come = |rank, x: f32| meeting.exchange(rank, &op, DType::F32, &bytes(&[x])).unwrap();
    assert_eq!(come(0, 1.0), None);
    assert_eq!(come(0, 1.0), None);
    assert_eq!(come(1, 2.0), Some(bytes(&[3.0])));
    // Rank 1 is at the next exchange before rank 0 has left this one.
    assert_eq!(come(1, 5.0), None);
    assert_eq!(come(0, 1.0), Some(bytes(&[3.0])));
    assert_eq!(come(0, 7.0), Some(bytes(&[12.0])));
    assert_eq!(come(1, 5.0), Some(bytes(&[12.0])));
    let gather: Op = AllGather { ranks: 2 }.into();
    assert_eq!(come(0, 1.0), None);
    let e = meeting.exchange(1, &gather, DType::F32, &bytes(&[1.0])).expect_err("another one");
    assert!(e.what.starts_with("rank 1 comes to all_gather"), "{}", e.what);
    meeting.has(&AllReduce { ranks: 3 }.into()).expect_err("another number of ranks");
}

#[test]
fn alone_a_rank_has_its_own_tensor_only() {
    let x = bytes(&[1.0, 2.0]);
    let ty = Type::tensor(DType::F32, Shape::of(&[2]));
    let view = [rlx_core::reference::View::new(&ty, &x)];
    let run = |ranks| rlx_core::reference::run(&AllReduce { ranks }.into(), &view);
    assert_eq!(run(1).unwrap(), std::slice::from_ref(&x));
    assert_eq!(run(2).expect_err("no group").code, Code::Unsupported);
    assert_eq!(run(0).expect_err("no ranks").code, Code::BadGraph);
}

/// A group of two, and in a session of it the program that sums `x` over so many ranks.
fn summing(ranks: u64) -> (Arc<dyn Device>, ProgramId, SessionId) {
    let mut g = Graph::new("sum");
    let x = g.param(ParamKind::Input, "x", Type::tensor(DType::F32, Shape::of(&[2])));
    let y = g.push1(AllReduce { ranks }, &[x], "sum").unwrap();
    g.output("y", y);
    let program = Arc::new(planned(g));
    let device = group(2);
    let (m, t) = device.allocate(Arc::new(WeightPlan::default())).unwrap();
    answered(&*device, t).unwrap();
    let (p, t) = device.build(m, program).unwrap();
    answered(&*device, t).unwrap();
    let (s, t) = device.session(m, &[], &[64]).unwrap();
    answered(&*device, t).unwrap();
    (device, p, s)
}

/// A sum over ranks of what the host writes: twice that for two ranks.
#[test]
fn what_the_host_writes_reaches_every_rank() {
    let (device, p, s) = summing(2);
    let writes = [Write { to: WriteTo::Input(0), offset: 0, bytes: bytes(&[1.5, 2.0]) }];
    let t = device.submit_with(s, p, &Submission::new(&writes)).unwrap();
    let outputs = crate::load::wait(|cx| device.poll(t, cx)).unwrap();
    assert_eq!(outputs.values, [bytes(&[3.0, 4.0])]);
}

#[test]
fn a_group_has_devices_of_one_kind() {
    let other = Target { name: "other".into(), ..Target::reference() };
    let devices: [Arc<dyn Device>; 2] =
        [Arc::new(ReferenceDevice::new()), Arc::new(ReferenceDevice::with_target(other))];
    let what = |devices: Vec<Arc<dyn Device>>| match Group::new(devices, Arc::new(InTurn)) {
        Ok(_) => panic!("no group"),
        Err(e) => e.what,
    };
    assert_eq!(what(devices.into()), "a group of reference and other, expected one kind of device");
    assert_eq!(what(Vec::new()), "a group of no devices");
}

/// A rank that computes nothing more leaves the others waiting, so that the group is lost.
#[test]
fn an_error_of_one_rank_is_the_groups() {
    let (device, p, s) = summing(3);
    let t = device.submit_with(s, p, &Submission::new(&[])).unwrap();
    let e = answered(&*device, t).expect_err("another number of ranks");
    assert_eq!(e.what, "all_reduce of 3 ranks in a group of 2");
    let e = device.submit_with(s, p, &Submission::new(&[])).expect_err("the group is lost");
    assert_eq!(e.code, Code::DeviceLost);
}
