//! Attention in splits on the device: joined, it is the reference's attention; split, its sums are.

mod common;

use common::*;
use half::f16;
use rlx_core::ops::{Attention, AttentionJoin, AttentionSplit, Op};
use rlx_core::reference::{self, View};
use rlx_core::types::{DType, Type};

const CAPACITY: u64 = 704;

fn truth(op: &Op, operands: &[Operand]) -> Vec<f64> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let y = reference::run(op, &views).expect("the reference runs this");
    floats(&y[0]).into_iter().map(f64::from).collect()
}

fn cache(rng: &mut Rng, dtype: DType, heads: u64, e: u64) -> Operand {
    let xs = rng.floats((heads * CAPACITY * e) as usize);
    let bytes = match dtype {
        DType::F16 => xs.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        _ => f32_bytes(&xs),
    };
    state(dtype, &[heads, CAPACITY, e], bytes)
}

/// The two steps, one after the other.
fn split(d: &TestDevice, op: &AttentionSplit, operands: &[Operand]) -> Vec<f32> {
    let op = op.clone();
    let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
    let results = Op::from(op.clone()).infer(&types).expect("one row");
    let halves: Vec<Operand> = run_op(d, op.clone(), operands)
        .iter()
        .zip(&results)
        .map(|(bytes, ty)| {
            let dims: Vec<u64> = ty.shape.static_dims().expect("static");
            input(&dims, &floats(bytes))
        })
        .collect();
    floats(&run_op(d, AttentionJoin { splits: op.splits }, &halves)[0])
}

#[test]
fn splits_join_to_attention() {
    let d = device();
    let mut rng = Rng(5);
    for dtype in [DType::F32, DType::F16] {
        for (e, heads, kv) in [(64u64, 4u64, 2u64), (8, 3, 3), (80, 4, 1), (256, 4, 1)] {
            let causal = Attention::causal(e as usize, 0.3);
            let capped = Attention { window: Some(70), softcap: Some(5.0), ..causal.clone() };
            for whole in [causal, capped] {
                for past in [0u32, 31, 63, 64, 200, 703] {
                    let operands = [
                        input(&[1, heads * e], &rng.floats((heads * e) as usize)),
                        cache(&mut rng, dtype, kv, e),
                        cache(&mut rng, dtype, kv, e),
                        control(past, 1, 0),
                    ];
                    let want = truth(&Op::from(whole.clone()), &operands);
                    let op = AttentionSplit { whole: whole.clone(), splits: 3, least: 64 };
                    let got = split(&d, &op, &operands);
                    let what =
                        format!("{dtype} heads of {e} past {past} window {:?}", whole.window);
                    assert_close(&what, &got, &want, 1e-5);
                }
            }
        }
    }
}

#[test]
fn a_step_without_rows_leaves_empty_splits() {
    let d = device();
    let mut rng = Rng(6);
    let operands = [
        input(&[1, 128], &rng.floats(128)),
        cache(&mut rng, DType::F16, 2, 64),
        cache(&mut rng, DType::F16, 2, 64),
        control(40, 0, 1),
    ];
    let whole = Attention::causal(64, 0.3);
    let got = run_op(&d, AttentionSplit { whole, splits: 2, least: 64 }, &operands);
    assert!(floats(&got[0]).iter().all(|&x| x == 0.0));
    let stats = floats(&got[1]);
    assert!(stats.chunks(2).all(|s| s == [f32::NEG_INFINITY, 0.0]), "{stats:?}");
}
