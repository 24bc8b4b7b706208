//! Several cards that run a model together: emulated ones, or where `RLX_CUDA` is set, ranks that share one card.

use crate::common::{driver, input, plain_device, run_op};
use crate::recorded;
use crate::skip::skip;
use rlx_core::ops::{AllGather, AllReduce};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::device::group::Group;
use rlx_core::target::Ranks;
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Code, Error};
use rlx_cuda::driver::met::{Hall, Met};
use rlx_cuda::driver::{At, Driver, Exchange, Exchanged, Work};
use rlx_cuda::group::group_by_host;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// So many ranks that split every weight which divides.
fn group(ranks: usize) -> Arc<dyn Device> {
    let target = rlx_cuda::target().with_ranks(Ranks { gathered: 0, ..Ranks::ONE });
    let drivers = (0..ranks).map(|_| driver()).collect();
    let group: Group = group_by_host(drivers, &target, PATIENCE).expect("one kind of device");
    Arc::new(group)
}

#[test]
fn tokens_of_two_cards_are_llama_cpps() {
    recorded::greedy_tokens_are_llama_cpps(group(2), 1, 8);
}

#[test]
fn logits_of_two_cards_agree_with_the_reference_device() {
    let models = [("gguf/llama.gguf", DType::F32, 1e-5), ("gguf/qwen3moe.gguf", DType::F16, 1e-3)];
    recorded::logits_agree(|| group(2), models);
}

#[test]
fn a_card_alone_exchanges_with_nobody() {
    let device = plain_device();
    let refused = |ranks| {
        let ty = Type::tensor(DType::F32, Shape::of(&[2, 3]));
        device.target().path(&AllReduce { ranks }.into(), &[&ty])
    };
    assert_eq!(refused(2), Err("it is of 2 devices, and 1 run together".into()));
    assert!(refused(1).is_ok());
    let integers = Type::tensor(DType::U32, Shape::of(&[2]));
    let sums = device.target().path(&AllReduce { ranks: 1 }.into(), &[&integers]);
    assert_eq!(sums, Err("its work takes no u32 as operand 0".into()));
    assert!(device.target().path(&AllGather { ranks: 1 }.into(), &[&integers]).is_ok());
    let error = device.driver().record(
        9,
        &[Work::Exchange(Exchange {
            what: Exchanged::All,
            x: At { buffer: 1, offset: 0 },
            y: At { buffer: 1, offset: 0 },
            bytes: 4,
        })],
    );
    let error = error.and_then(|()| device.driver().submit(9)).expect_err("no group");
    assert_eq!(error.code, Code::Unsupported);
}

/// Two drivers of a hall with these words in their buffers.
fn two(patience: Duration) -> [Met<Box<dyn Driver>>; 2] {
    let hall = Arc::new(Hall::new(2, patience));
    [0, 1].map(|rank| {
        let met = Met::new(driver(), rank, hall.clone());
        met.create(1, 64).unwrap();
        let words: Vec<u8> =
            [1.5f32, 2.0].iter().flat_map(|x| (x + rank as f32).to_le_bytes()).collect();
        met.write(At { buffer: 1, offset: 0 }, &words).unwrap();
        met
    })
}

fn exchange(what: Exchanged) -> [Work; 1] {
    let at = |offset| At { buffer: 1, offset };
    [Work::Exchange(Exchange { what, x: at(0), y: at(16), bytes: 8 })]
}

fn result(driver: &impl Driver, floats: u64) -> Vec<f32> {
    driver.read(7, &[(At { buffer: 1, offset: 16 }, 4 * floats)]).unwrap();
    loop {
        if let Some(bytes) = driver.poll_read(7).unwrap() {
            let four = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
            return bytes.chunks_exact(4).map(four).collect();
        }
    }
}

#[test]
fn ranks_that_meet_have_sums_and_all_tensors() {
    let ranks = two(PATIENCE);
    for (list, what, want) in [
        (3, Exchanged::Sum(DType::F32), vec![4.0, 5.0]),
        (4, Exchanged::All, vec![1.5, 2.0, 2.5, 3.0]),
    ] {
        thread::scope(|scope| {
            for met in &ranks {
                let want = &want;
                scope.spawn(move || {
                    met.record(list, &exchange(what)).unwrap();
                    met.submit(list).unwrap();
                    assert_eq!(result(met, want.len() as u64), *want);
                });
            }
        });
    }
}

#[test]
fn a_rank_that_waits_for_nobody_gives_up() {
    let ranks = two(Duration::from_millis(50));
    ranks[0].record(3, &exchange(Exchanged::All)).unwrap();
    let e = ranks[0].submit(3).expect_err("nobody came");
    assert_eq!(e.what, "device 0 of a group waited 50 ms for another one, which did not come");
    // The other one learns why at once.
    ranks[1].record(3, &exchange(Exchanged::All)).unwrap();
    let Error { code, what, .. } = ranks[1].submit(3).expect_err("the group is lost");
    assert_eq!(code, Code::DeviceLost);
    assert!(what.starts_with("another device of the group failed: device 0"), "{what}");
}

#[test]
fn a_card_is_named_once() {
    use rlx_cuda::driver::cuda::Cuda;
    use rlx_cuda::driver::cuda::texts::Folders;
    let what = |cards: &[usize]| match Cuda::group(cards, &Folders::default()) {
        Ok(_) => panic!("no group"),
        Err(e) => (e.code, e.what),
    };
    assert_eq!(what(&[1, 0, 1]), (Code::Usage, "card 1 is named twice".into()));
    assert_eq!(what(&[]).0, Code::Usage);
}

/// A group of one card by NCCL, which is all that one card can show of it.
#[test]
fn one_card_is_a_rank_of_nccls() {
    use rlx_cuda::driver::cuda::Cuda;
    use rlx_cuda::driver::cuda::texts::Folders;
    if std::env::var_os("RLX_CUDA").is_none() || std::env::var_os("RLX_NCCL").is_none() {
        skip(
            "cuda: a card is a rank of NCCL's",
            "no CUDA device with NCCL, or RLX_NCCL does not name it",
        );
        return;
    }
    let cards = Cuda::group(&[0], &Folders::default()).unwrap();
    let target = rlx_cuda::target().with_ranks(Ranks { gathered: 0, ..Ranks::ONE });
    let device =
        Arc::new(rlx_cuda::CudaDevice::with_target(cards.into_iter().next().unwrap(), target));
    let x = input(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for got in [
        run_op(&device, AllReduce { ranks: 1 }, std::slice::from_ref(&x)),
        run_op(&device, AllGather { ranks: 1 }, std::slice::from_ref(&x)),
    ] {
        assert_eq!(got, std::slice::from_ref(&x.bytes));
    }
}
