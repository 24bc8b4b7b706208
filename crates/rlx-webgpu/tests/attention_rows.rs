//! Attention of several rows in splits on the device: each split is the reference's, and joined they are the
//! reference's attention, for as many rows and positions as a program's room allows.

use crate::common;
use common::*;
use half::f16;
use rlx_core::ops::{Attention, AttentionJoin, AttentionSplit, Op};
use rlx_core::reference::{self, View};
use rlx_core::types::{BlockFormat, DType, Type};
use std::sync::Arc;

const CAPACITY: u64 = 4096;
const ROWS: u64 = 64;

fn truth(op: &Op, operands: &[Operand]) -> Vec<Vec<f32>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let results = reference::run(op, &views).expect("the reference runs this");
    results.iter().map(|y| floats(y)).collect()
}

fn cache(rng: &mut Rng, dtype: DType, heads: u64, capacity: u64, e: u64) -> Operand {
    let xs = rng.floats((heads * capacity * e) as usize);
    let bytes = match dtype {
        DType::F16 => xs.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::Block(_) => cache_blocks(dtype, &xs),
        _ => f32_bytes(&xs),
    };
    state(dtype, &[heads, capacity, e], bytes)
}

/// What is tried with one pair of kernels.
struct Form {
    dtype: DType,
    e: u64,
    heads: u64,
    kv: u64,
    capacity: u64,
    /// Splits of a key and value head.
    splits: usize,
    whole: Attention,
}

impl Form {
    /// Heads of `e`, whole ones in groups.
    fn new(dtype: DType, e: u64, heads: u64, kv: u64, splits: usize) -> Form {
        let whole = Attention::causal(e as usize, 0.3);
        Form { dtype, e, heads, kv, capacity: CAPACITY, splits, whole }
    }

    /// Positions, and rows behind them. A ring of 364 begins anew at 364 and at 3,640. The last of 64 rows behind
    /// 3,905 sees one position more than four splits of whole 32 have.
    fn tried() -> Vec<(u32, u32)> {
        let rows = [1, 7, 8, 64];
        [0, 300, 3905].into_iter().flat_map(|past| rows.map(|len| (past, len))).collect()
    }

    /// Both steps on the device and on the reference.
    fn compare(&self, d: &Arc<TestDevice>, rng: &mut Rng) {
        let &Form { dtype, e, heads, kv, capacity, splits, ref whole } = self;
        let q = input(&[ROWS, heads * e], &rng.floats((ROWS * heads * e) as usize));
        let (k, v) = (cache(rng, dtype, kv, capacity, e), cache(rng, dtype, kv, capacity, e));
        let sinks = whole.sinks.then(|| input(&[heads], &rng.floats(heads as usize)));
        let part = Attention { sinks: false, ..whole.clone() };
        let split = Op::from(AttentionSplit { whole: part, splits, least: 128 });
        let join = Op::from(AttentionJoin { splits, sinks: whole.sinks });
        for (past, len) in Form::tried() {
            let what = format!(
                "{dtype} heads of {e}, {heads} on {kv}, {len} behind {past}, window {:?}, block {:?}",
                whole.window, whole.block
            );
            let ctl = control(past, len, 0);
            let operands = [q.clone(), k.clone(), v.clone(), ctl.clone()];
            let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
            let results = split.infer(&types).expect("several rows");
            let want = truth(&split, &operands);
            let halves: Vec<Vec<f32>> =
                run_op(d, split.clone(), &operands).iter().map(|y| floats(y)).collect();
            let mut given = Vec::new();
            for ((mut got, want), ty) in halves.into_iter().zip(want).zip(&results) {
                let none = |x: &f32| *x == f32::NEG_INFINITY;
                let numbers = || (0..want.len()).filter(|&i| want[i].is_finite());
                let found: Vec<f32> = numbers().map(|i| got[i]).collect();
                let right: Vec<f64> = numbers().map(|i| f64::from(want[i])).collect();
                assert_close(&format!("{what}: {ty}"), &found, &right, 2e-5);
                assert!(
                    got.iter().zip(&want).all(|(got, want)| !none(want) || none(got)),
                    "{what}"
                );
                // What the reference leaves as NaN is nothing that a join may read.
                got.iter_mut()
                    .zip(&want)
                    .filter(|(_, w)| w.is_nan())
                    .for_each(|(g, _)| *g = f32::NAN);
                given.push(input(&ty.shape.static_dims().expect("static"), &got));
            }
            given.extend([q.clone(), ctl]);
            given.extend(sinks.clone());
            let mut operands = operands.to_vec();
            operands.extend(sinks.clone());
            let live = (u64::from(len) * heads * e) as usize;
            let want = truth(&Op::from(whole.clone()), &operands).remove(0);
            let want: Vec<f64> = want[..live].iter().map(|&y| f64::from(y)).collect();
            let got = floats(&run_op(d, join.clone(), &given)[0]);
            assert_close(&what, &got[..live], &want, 1e-5);
        }
    }
}

const F16: DType = DType::F16;

#[test]
fn rows_in_splits_join_to_attention_over_caches_of_every_type() {
    let (d, mut rng) = (device(), Rng(41));
    let [q8_0, q4_0] = [BlockFormat::Q8_0, BlockFormat::Q4_0].map(DType::Block);
    for form in [
        Form::new(F16, 64, 8, 2, 32),
        // Tiles of ten rows: two queries of a workgroup are nobody's.
        Form::new(DType::F32, 80, 6, 2, 32),
        Form::new(q8_0, 128, 4, 2, 17),
        Form::new(q4_0, 64, 8, 1, 70),
    ] {
        form.compare(&d, &mut rng);
    }
}

#[test]
fn windows_blocks_bounds_sinks_and_rings_are_in_splits_of_rows_too() {
    let (d, mut rng) = (device(), Rng(42));
    let form = || Form::new(F16, 64, 8, 2, 32);
    // The same kernels: a window is a number, one shorter and one longer than the rows.
    for window in [9, 700] {
        let whole = Attention { window: Some(window), ..form().whole };
        Form { whole, ..form() }.compare(&d, &mut rng);
    }
    let whole = Attention { window: Some(300), softcap: Some(5.0), ..form().whole };
    let ring = Attention { ring: true, ..whole.clone() };
    let sinking = Attention { softcap: Some(5.0), sinks: true, ..form().whole };
    let block = Attention { block: Some(32), ..form().whole };
    Form { whole: sinking, ..form() }.compare(&d, &mut rng);
    Form { whole: block, ..form() }.compare(&d, &mut rng);
    Form { whole: ring, capacity: 364, ..form() }.compare(&d, &mut rng);
}

#[test]
fn without_rows_no_split_is_written() {
    let (d, mut rng) = (device(), Rng(43));
    let form = Form::new(F16, 64, 8, 2, 32);
    let operands = [
        input(&[ROWS, 512], &rng.floats(64 * 512)),
        cache(&mut rng, F16, 2, CAPACITY, 64),
        cache(&mut rng, F16, 2, CAPACITY, 64),
        control(40, 0, 1),
    ];
    let op = AttentionSplit { whole: form.whole, splits: form.splits, least: 128 };
    // The arena is zeros where nothing wrote.
    for y in run_op(&d, op, &operands) {
        assert!(floats(&y).iter().all(|&x| x == 0.0));
    }
}
