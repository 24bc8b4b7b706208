//! Several devices that run a model together: XLA's CPU is as many as are asked for.

use crate::common::{f32_bytes, path, ready};
use crate::recorded;
use rlx_core::Code;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{AllGather, AllReduce, Op};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::device::group::together;
use rlx_core::target::Ranks;
use rlx_core::types::{DType, Scalar, Shape, Type};
use rlx_pjrt::lower::{lower, lower_for, storage};
use rlx_pjrt::pjrt::{Buffer, Client, Executable};
use std::sync::Arc;

/// These devices as a group that splits every weight which divides.
fn group(devices: &[usize]) -> Arc<dyn Device> {
    let every = Ranks { gathered: 0, ..Ranks::ONE };
    Arc::new(rlx_pjrt::group(Some(path()), devices, every).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn tokens_of_two_devices_are_llama_cpps() {
    if ready("group::tokens_of_two_devices_are_llama_cpps") {
        // Not in the order of their numbers: arguments follow the ranks.
        recorded::greedy_tokens_are_llama_cpps(group(&[1, 0]), 1, 16);
    }
}

/// The one head of keys and values is every rank's, all else is split.
#[test]
fn logits_of_four_devices_agree_with_the_reference_device() {
    if ready("group::logits_of_four_devices_agree_with_the_reference_device") {
        let models = [("gguf/gemma3.gguf", DType::F32, 1e-5)];
        recorded::logits_agree(|| group(&[0, 1, 2, 3]), models);
    }
}

/// A graph of one exchange.
fn exchange(op: impl Into<Op>, ty: &Type) -> Graph {
    let mut g = Graph::new("exchange");
    let x = g.param(ParamKind::Input, "x", ty.clone());
    let y = g.push1(op, &[x], "y").expect("the exchange takes it");
    g.output("y", y);
    g
}

/// Compiles an exchange for these devices, and its result on each of them.
fn exchanged(client: &Client, devices: &[usize], op: Op, ty: &Type, x: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let graph = exchange(op, ty);
    let target = rlx_pjrt::cpu_target().with_ranks(Ranks::of(devices.len() as u64));
    let text = lower_for(&graph, &target).unwrap().text;
    let executable: Executable = client.compile_for(&text, devices).unwrap();
    let (el, dims) = storage(ty).unwrap();
    let upload = |(x, &device): (&Vec<u8>, &usize)| {
        [client.upload_to(device, el.element(), &dims, x).unwrap()]
    };
    let arguments: Vec<[Buffer; 1]> = x.iter().zip(devices).map(upload).collect();
    let arguments: Vec<&[Buffer]> = arguments.iter().map(|own| &own[..]).collect();
    let made = executable.run_each(&arguments, &[]).unwrap();
    let out = graph.ty(graph.outputs[0].value);
    let (rank, bytes) = (out.shape.rank(), out.bytes().unwrap() as usize);
    let read = |own: &Vec<Buffer>| {
        let mut read = own[0].read(rank, bytes).unwrap();
        read.wait().unwrap();
        read.poll().unwrap().expect("the bytes are there")
    };
    made.iter().map(read).collect()
}

#[test]
fn exchanges_are_the_cores_in_the_order_of_the_ranks() {
    if !ready("group::exchanges_are_the_cores_in_the_order_of_the_ranks") {
        return;
    }
    let client = Client::with_devices(path(), 3).unwrap();
    assert!(client.devices() >= 3, "{} devices", client.devices());
    let bytes = |dtype, n: usize, rank: usize| -> Vec<u8> {
        let x: Vec<f32> = (0..n).map(|i| (i as f32 - 2.5) * (1.0 + rank as f32)).collect();
        match dtype {
            DType::F32 => f32_bytes(&x),
            DType::F16 => x.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect(),
            DType::BF16 => x.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect(),
            _ => (0..4 * n).map(|i| (i + 7 * rank) as u8).collect(),
        }
    };
    let u32s = DType::Scalar(Scalar::U32);
    for devices in [&[2usize, 0][..], &[1, 2, 0]] {
        let ranks = devices.len() as u64;
        for (op, dtype) in [
            (Op::from(AllReduce { ranks }), DType::F32),
            (AllReduce { ranks }.into(), DType::F16),
            (AllReduce { ranks }.into(), DType::BF16),
            (AllGather { ranks }.into(), DType::F32),
            (AllGather { ranks }.into(), u32s),
        ] {
            for dims in [&[2u64, 3][..], &[0, 3]] {
                let ty = Type::tensor(dtype, Shape::of(dims));
                let n = dims.iter().product::<u64>() as usize;
                let x: Vec<Vec<u8>> =
                    (0..devices.len()).map(|rank| bytes(dtype, n, rank)).collect();
                let all: Vec<&[u8]> = x.iter().map(Vec::as_slice).collect();
                let want = together(&op, dtype, &all).unwrap();
                for got in exchanged(&client, devices, op.clone(), &ty, &x) {
                    assert_eq!(got, want, "{} of {dtype} {dims:?} on {devices:?}", op.name());
                }
            }
        }
    }
    let e = client.upload_to(client.devices(), rlx_pjrt::pjrt::Element::F32, &[1], &[0; 4]);
    assert_eq!(e.err().map(|e| e.code), Some(Code::DeviceUnavailable));
    let text = lower(&exchange(AllReduce { ranks: 1 }, &Type::tensor(DType::F32, Shape::of(&[1]))));
    let text = text.unwrap().text;
    assert_eq!(client.compile_for(&text, &[]).err().map(|e| e.code), Some(Code::DeviceUnavailable));
    let executable = client.compile_for(&text, &[1]).unwrap();
    let e = executable.run_each(&[&[], &[]], &[]).err().expect("one device");
    assert_eq!(e.what, "[0, 0] arguments for 1 devices");
}

#[test]
fn a_device_alone_exchanges_with_nobody() {
    let ty = Type::tensor(DType::F32, Shape::of(&[2, 3]));
    let target = rlx_pjrt::target();
    let refused = target.claims(&AllReduce { ranks: 2 }.into(), &[&ty]);
    assert_eq!(refused, Err("it is of 2 devices, and 1 run together".into()));
    assert_eq!(
        lower(&exchange(AllGather { ranks: 2 }, &ty)).map_err(|e| e.code),
        Err(Code::Unsupported)
    );
    let integers = Type::tensor(DType::Scalar(Scalar::U32), Shape::of(&[2]));
    let refused = target.claims(&AllReduce { ranks: 1 }.into(), &[&integers]);
    assert_eq!(refused, Err("its lowering takes no u32 as operand 0".into()));
    assert!(target.claims(&AllGather { ranks: 1 }.into(), &[&integers]).is_ok());
}

#[test]
fn a_group_has_every_device_once() {
    let why =
        |devices: &[usize]| match rlx_pjrt::group(Some("/nowhere".as_ref()), devices, Ranks::ONE) {
            Ok(_) => panic!("no group"),
            Err(e) => (e.code, e.what),
        };
    assert_eq!(why(&[1, 0, 1]), (Code::Usage, "device 1 is named twice".into()));
    assert_eq!(why(&[]), (Code::Usage, "a group of no devices".into()));
    assert_eq!(why(&[0, 1]).0, Code::DeviceUnavailable);
}
