//! Our own attention of one row, whole and in splits, against the reference's.

use crate::attention_rows::Form;
use crate::common::*;
use crate::emulator::Watch;
use half::f16;
use rlx_core::ops::{
    Attention, AttentionSplit, Op, RopeAttentionSplit, RopeScaling, RopeStyle, RopeTable,
};
use rlx_core::reference;
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

/// Runs an operator on our kernel of it, or on WGSL's: what is no cache is the reference's. Gives both.
#[track_caller]
fn check(
    d: &Arc<TestDevice>,
    own: bool,
    op: &Op,
    operands: &[Operand],
    what: &str,
) -> [Vec<Vec<u8>>; 2] {
    let entry = format!("own_{}", op.name());
    let before = d.gpu().metal().launches(&entry);
    let got = run_op(d, op.clone(), operands);
    assert_eq!(d.gpu().metal().launches(&entry) > before, own, "{what}: whose kernel ran");
    let want = truth(op, operands);
    let types: Vec<_> = operands.iter().map(|o| &o.ty).collect();
    // Caches are behind the first two.
    for i in 0..op.infer(&types).expect("operands").len().min(2) {
        let (got, want) = (floats(&got[i]), floats(&want[i]));
        // Of a split without positions.
        let numbers = || (0..want.len()).filter(|n| want[*n].is_finite());
        assert!(
            (0..want.len()).all(|n| want[n].is_finite() || got[n] == want[n]),
            "{what}: result {i}"
        );
        let found: Vec<f32> = numbers().map(|n| got[n]).collect();
        let right: Vec<f64> = numbers().map(|n| want[n].into()).collect();
        assert_close(&format!("{what}: result {i}"), &found, &right, 1e-5);
    }
    [got, want]
}

/// One row in splits.
fn split(form: &Form, splits: usize) -> Op {
    Op::from(AttentionSplit { whole: form.whole.clone(), splits, least: 32 })
}

#[test]
fn one_row_attends_as_the_references_does() {
    let (d, mut rng) = (device(), Rng(81));
    let form = Form::new(DType::F16, 64, 4, 2);
    let whole = form.whole.clone();
    let capped = Attention { window: Some(40), softcap: Some(5.0), ..whole.clone() };
    let ring = Form {
        capacity: 60,
        ..form.with(Attention { ring: true, softcap: None, ..capped.clone() })
    };
    let others = Form::new(DType::F32, 24, 2, 1);
    let forms = [
        (form.clone(), 0),
        (form.with(Attention { sinks: true, ..whole.clone() }), 100),
        (form.with(capped), 90),
        (form.with(Attention { block: Some(8), ..whole }), 70),
        (ring, 170),
        (others, 37),
    ];
    for (form, past) in forms {
        let operands = form.operands(&mut rng, 1, past, 1);
        check(&d, true, &Op::from(form.whole.clone()), &operands, &form.name(past, 1));
    }
}

#[test]
fn splits_of_one_row_are_the_references() {
    let (d, mut rng) = (device(), Rng(82));
    // Groups of one to eight heads, of which a SIMD group has at most five; heads of 8 to 256.
    let forms = [
        (Form::new(DType::F16, 64, 8, 1), 4),
        (Form::new(DType::F16, 128, 6, 1), 3),
        (Form::new(DType::F16, 256, 2, 1), 2),
        (Form::new(DType::F32, 40, 10, 2), 5),
        (Form::new(DType::F32, 8, 2, 2), 1),
    ];
    for (form, splits) in forms {
        for past in [0, 31, 130] {
            let operands = form.operands(&mut rng, 1, past, 1);
            check(&d, true, &split(&form, splits), &operands, &form.name(past, 1));
        }
    }
    let narrow = Attention {
        window: Some(70),
        softcap: Some(4.0),
        ring: true,
        ..Attention::causal(64, 0.3)
    };
    let form = Form { capacity: 80, ..Form::new(DType::F16, 64, 4, 1).with(narrow) };
    check(&d, true, &split(&form, 3), &form.operands(&mut rng, 1, 250, 1), &form.name(250, 1));
    // A submission without rows leaves empty splits.
    let form = Form::new(DType::F16, 64, 4, 1);
    let mut operands = form.operands(&mut rng, 1, 40, 1);
    operands[3] = control(40, 0, 1);
    let got = run_op(&d, split(&form, 2), &operands);
    assert!(floats(&got[0]).iter().all(|x| *x == 0.0));
    assert!(floats(&got[1]).chunks(2).all(|s| s == [f32::NEG_INFINITY, 0.0]));
}

/// Operands of a split that rotates, and norms where `normed` says so.
fn turning(
    form: &Form,
    rng: &mut Rng,
    past: u32,
    done: u32,
    dims: usize,
    normed: bool,
) -> Vec<Operand> {
    let mut all = form.operands(rng, 1, past, 1);
    let op = Op::from(RopeTable { base: 1e4, dims, context: 256, scaling: RopeScaling::None });
    let values = &reference::run(&op, &[]).expect("a table")[0];
    let shape = op.infer(&[]).expect("a table")[0].shape.static_dims().expect("static");
    // Rows of another size than one, which norms forget.
    let mut row = |n: u64| rng.floats(n as usize).iter().map(|x| 3.0 * x).collect::<Vec<f32>>();
    let (k, v) = (row(form.kv * form.e), row(form.kv * form.e));
    let mut norm = || weight(DType::F32, &[form.e], f32_bytes(&row(form.e)));
    let norms = if normed { vec![norm(), norm()] } else { Vec::new() };
    let [k, v] = [k, v].map(|row| input(&[1, form.kv * form.e], &row));
    let table = input(&shape, &floats(values));
    all[3] = control(past, 1, done);
    all.splice(1..1, [k, v, table]);
    all.extend(norms);
    all
}

#[test]
fn a_split_norms_rotates_and_writes() {
    let (d, mut rng) = (device(), Rng(83));
    let scaled = |form: Form| form.with(Attention { scale: 0.02, ..form.whole.clone() });
    let ring = Attention { window: Some(40), ring: true, ..Attention::causal(64, 0.02) };
    let ring = Form { capacity: 48, ..Form::new(DType::F16, 64, 4, 2).with(ring) };
    let forms = [
        (scaled(Form::new(DType::F16, 64, 4, 2)), 64, 100, 0, false, RopeStyle::Half),
        (scaled(Form::new(DType::F16, 64, 4, 2)), 40, 31, 0, true, RopeStyle::Adjacent),
        (scaled(Form::new(DType::F32, 24, 8, 1)), 16, 64, 0, true, RopeStyle::Half),
        (scaled(Form::new(DType::F16, 128, 2, 1)), 128, 90, 1, false, RopeStyle::Half),
        (ring, 64, 230, 0, false, RopeStyle::Half),
    ];
    for (form, dims, past, done, normed, style) in forms {
        let mut operands = turning(&form, &mut rng, past, done, dims, normed);
        if done == 1 {
            // Nothing is written, so the row's own position has to have numbers.
            operands[4..6].clone_from_slice(&form.operands(&mut rng, 1, past, 1)[1..3]);
        }
        let split = AttentionSplit { whole: form.whole.clone(), splits: 3, least: 32 };
        let op = Op::from(RopeAttentionSplit { style, norm: normed.then_some(1e-5), split });
        let what = format!("{}, turned {dims} {normed} {done}", form.name(past, 1));
        let [got, want] = check(&d, true, &op, &operands, &what);
        for i in [2, 3] {
            // A step of the cache's type apart at most.
            let half = form.dtype == DType::F16;
            let numbers = |bytes: &[u8]| if half { halves(bytes) } else { floats(bytes) };
            let off = if half { 1e-3 } else { 1e-6 };
            for (n, (got, want)) in numbers(&got[i]).iter().zip(numbers(&want[i])).enumerate() {
                let close = (got - want).abs() <= off * want.abs().max(1.0);
                assert!(
                    close || got.is_nan() && want.is_nan(),
                    "{what}: cache {i} at {n}: {got}, not {want}"
                );
            }
            assert!(done == 1 || got[i] != operands[i + 2].bytes, "{what}: cache {i} was written");
        }
    }
}

fn halves(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
}

#[test]
fn other_heads_and_caches_are_wgsls() {
    let (d, mut rng) = (device(), Rng(84));
    for form in
        [Form::new(DType::Block(BlockFormat::Q8_0), 64, 2, 1), Form::new(DType::F16, 264, 1, 1)]
    {
        let past = form.capacity as u32 - 1;
        check(
            &d,
            false,
            &split(&form, 2),
            &form.operands(&mut rng, 1, past, 1),
            &form.name(past, 1),
        );
    }
}

#[test]
fn ours_stays_within_its_memory_and_has_no_races() {
    for watch in [Watch::Addresses, Watch::Races] {
        let (d, mut rng) = (watched(watch), Rng(85));
        let form = Form { capacity: 40, ..Form::new(DType::F16, 40, 6, 1) };
        let what = form.name(39, 1);
        check(&d, true, &Op::from(form.whole.clone()), &form.operands(&mut rng, 1, 39, 1), &what);
        let norm = Some(1e-5);
        let split = AttentionSplit { whole: form.whole.clone(), splits: 2, least: 32 };
        let op = Op::from(RopeAttentionSplit { style: RopeStyle::Half, norm, split });
        check(&d, true, &op, &turning(&form, &mut rng, 39, 0, 40, true), &what);
    }
}
