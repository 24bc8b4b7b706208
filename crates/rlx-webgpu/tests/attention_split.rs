//! Attention in splits on the device, with teams of a subgroup's lanes and without: joined, it is the
//! reference's attention, whether or not a split rotates and writes the row's own key and value.

use crate::common;
use common::*;
use half::f16;
use rlx_core::ops::{
    Attention, AttentionJoin, AttentionSplit, Op, RmsNorm, RopeAttentionSplit, RopeKvWrite,
    RopeScaling, RopeStyle, RopeTable,
};
use rlx_core::reference::{self, View};
use rlx_core::types::{BlockFormat, DType, Type};
use rlx_webgpu::gpu::Wgsl;
use std::sync::Arc;

const CAPACITY: u64 = 704;
/// The GPU with all its features.
const ITS_OWN: &str = "its own";
const CACHES: [DType; 4] =
    [DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0), DType::Block(BlockFormat::Q4_0)];

/// The head's elements in a cache of this type, of blocks whole 64; `None` where that is another case.
fn head(dtype: DType, e: u64) -> Option<u64> {
    if dtype.is_block() { (e >= 64).then(|| e.next_multiple_of(64)) } else { Some(e) }
}

fn truth(op: &Op, operands: &[Operand]) -> Vec<f64> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let y = reference::run(op, &views).expect("the reference runs this");
    floats(&y[0]).into_iter().map(f64::from).collect()
}

fn cache(rng: &mut Rng, dtype: DType, heads: u64, e: u64) -> Operand {
    let xs = rng.floats((heads * CAPACITY * e) as usize);
    let bytes = match dtype {
        DType::F16 => xs.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::Block(_) => cache_blocks(dtype, &xs),
        _ => f32_bytes(&xs),
    };
    state(dtype, &[heads, CAPACITY, e], bytes)
}

/// This machine's subgroups, fewer lanes than they have, and none.
fn devices() -> [(&'static str, Arc<TestDevice>); 3] {
    let least = |lanes: Option<u32>| {
        device_with(|info| {
            let subgroup = info.wgsl.subgroup.and(lanes);
            info.wgsl = Wgsl { subgroup, ..info.wgsl };
        })
    };
    [(ITS_OWN, device()), ("four lanes", least(Some(4))), ("no subgroups", least(None))]
}

/// Types of caches that a device of [`devices`] is tried with. Each is a pipeline, which software drivers compile for
/// most of a second: the GPU as it is has all, one with fewer features those that a page uses.
fn caches_of(which: &str) -> Vec<DType> {
    let paged = |t: &DType| [DType::F16, DType::Block(BlockFormat::Q8_0)].contains(t);
    CACHES.into_iter().filter(|t| which == ITS_OWN || paged(t)).collect()
}

/// Whether the GPU is as it is and the cache the usual one: such a pair is tried in every form.
fn is_usual(which: &str, dtype: DType) -> bool {
    is_wide() || which == ITS_OWN && dtype == DType::F16
}

/// The heads of a case with such a cache: all of a usual pair, of the others one each, not the same for all.
fn heads_of<T: Copy>(all: &[T], which: &str, dtype: DType) -> Vec<T> {
    if is_usual(which, dtype) {
        return all.to_vec();
    }
    let at = CACHES.iter().position(|t| *t == dtype).unwrap_or(0) + which.len();
    vec![all[at % all.len()]]
}

/// The row that an attention's splits make.
fn joined(
    d: &Arc<TestDevice>,
    op: &AttentionSplit,
    halves: &[Vec<u8>],
    types: &[Type],
    sinks: Option<&Operand>,
) -> Vec<f32> {
    let mut halves: Vec<Operand> = halves
        .iter()
        .zip(types)
        .map(|(bytes, ty)| {
            let dims: Vec<u64> = ty.shape.static_dims().expect("static");
            input(&dims, &floats(bytes))
        })
        .collect();
    halves.extend(sinks.cloned());
    let join = AttentionJoin { splits: op.splits, sinks: sinks.is_some() };
    floats(&run_op(d, join, &halves)[0])
}

/// The two steps, one after the other.
fn split(d: &Arc<TestDevice>, op: &AttentionSplit, operands: &[Operand]) -> Vec<f32> {
    let types: Vec<&Type> = operands[..4].iter().map(|o| &o.ty).collect();
    let results = Op::from(op.clone()).infer(&types).expect("one row");
    let halves = run_op(d, op.clone(), &operands[..4]);
    joined(d, op, &halves, &results, operands.get(4))
}

#[test]
fn splits_join_to_attention() {
    for (which, d) in devices() {
        let mut rng = Rng(5);
        for dtype in caches_of(which) {
            let all =
                [(64u64, 4u64, 2u64), (64, 8, 1), (32, 4, 1), (8, 3, 3), (80, 4, 1), (256, 4, 1)];
            let fitting: Vec<_> =
                all.into_iter().filter(|(e, ..)| head(dtype, *e).is_some()).collect();
            for (e, heads, kv) in heads_of(&fitting, which, dtype) {
                let Some(e) = head(dtype, e) else { continue };
                let causal = Attention::causal(e as usize, 0.3);
                let capped = Attention { window: Some(70), softcap: Some(5.0), ..causal.clone() };
                let sinking = Attention { sinks: true, ..causal.clone() };
                let ring = Attention { ring: true, ..capped.clone() };
                // The usual cache has all forms; others have rings, with a window and bounded scores, too.
                let forms = if is_usual(which, dtype) {
                    vec![causal, capped, sinking, ring]
                } else {
                    vec![causal, ring]
                };
                for whole in forms {
                    // A ring of 704 positions begins anew at 1,408.
                    let pasts: &[u32] =
                        if whole.ring { &[31, 1450] } else { &[0, 31, 63, 64, 200, 703] };
                    for &past in pasts {
                        let mut operands = vec![
                            input(&[1, heads * e], &rng.floats((heads * e) as usize)),
                            cache(&mut rng, dtype, kv, e),
                            cache(&mut rng, dtype, kv, e),
                            control(past, 1, 0),
                        ];
                        if whole.sinks {
                            operands.push(input(&[heads], &rng.floats(heads as usize)));
                        }
                        let want = truth(&Op::from(whole.clone()), &operands);
                        let part = Attention { sinks: false, ..whole.clone() };
                        let op = AttentionSplit { whole: part, splits: 3, least: 64 };
                        let got = split(&d, &op, &operands);
                        let window = whole.window;
                        let what = format!("{which}, {dtype} heads of {e} past {past} {window:?}");
                        assert_close(&what, &got, &want, 1e-5);
                    }
                }
            }
        }
    }
}

#[test]
fn many_splits_join_as_few_do() {
    let d = device();
    let mut rng = Rng(8);
    for (e, heads, splits) in [(64u64, 4u64, 21usize), (256, 2, 11), (320, 1, 7), (24, 3, 1)] {
        let operands = [
            input(&[1, heads * e], &rng.floats((heads * e) as usize)),
            cache(&mut rng, DType::F32, 1, e),
            cache(&mut rng, DType::F32, 1, e),
            control(660, 1, 0),
        ];
        let whole = Attention::causal(e as usize, 0.3);
        let want = truth(&Op::from(whole.clone()), &operands);
        let got = split(&d, &AttentionSplit { whole, splits, least: 32 }, &operands);
        assert_close(&format!("heads of {e} in {splits}"), &got, &want, 1e-5);
    }
}

#[test]
fn a_split_rotates_and_writes_what_the_step_of_its_own_does() {
    for (which, d) in devices() {
        let mut rng = Rng(7);
        for dtype in caches_of(which) {
            let all = [(64u64, 8u64, 2u64, 64u64), (64, 2, 1, 40), (80, 2, 2, 80), (512, 2, 1, 64)];
            for (e, heads, kv, turned) in heads_of(&all, which, dtype) {
                let Some(e) = head(dtype, e) else { continue };
                let op = RopeTable {
                    base: 1e4,
                    dims: turned as usize,
                    context: 2 * CAPACITY,
                    scaling: RopeScaling::None,
                };
                let table = &reference::run(&Op::from(op.clone()), &[]).expect("a table")[0];
                let dims = Op::from(op).infer(&[]).expect("a table")[0].shape.static_dims();
                let table = input(&dims.expect("static"), &floats(table));
                // The usual cache is turned in both styles, and others in one; a ring is a pipeline of its own, too.
                let usual = is_usual(which, dtype);
                for (past, len, done, ring) in [
                    (0u32, 1u32, 0u32, false),
                    (63, 1, 0, false),
                    (64, 1, 0, false),
                    (400, 1, 0, false),
                    (703, 1, 0, false),
                    (90, 1, 1, false),
                    (720, 1, 0, true),
                ] {
                    if ring && !usual {
                        continue;
                    }
                    let row = |rng: &mut Rng, n: u64| input(&[1, n], &rng.floats(n as usize));
                    let operands = [
                        row(&mut rng, heads * e),
                        row(&mut rng, kv * e),
                        row(&mut rng, kv * e),
                        table.clone(),
                        cache(&mut rng, dtype, kv, e),
                        cache(&mut rng, dtype, kv, e),
                        control(past, len, done),
                    ];
                    let adjacent = usual && past == 64;
                    let style = if adjacent { RopeStyle::Adjacent } else { RopeStyle::Half };
                    let window = ring.then_some(250);
                    let whole = Attention { window, ring, ..Attention::causal(e as usize, 0.3) };
                    let split = AttentionSplit { whole: whole.clone(), splits: 3, least: 64 };
                    let op =
                        Op::from(RopeAttentionSplit { style, norm: None, split: split.clone() });
                    let got = run_op(&d, op.clone(), &operands);
                    let what = format!("{which}, {dtype} heads of {e} past {past} done {done}");

                    // Caches are the other kernel's, bit for bit.
                    let turn = Op::from(RopeKvWrite { style, head_dim: e as usize, ring });
                    let written = run_op(&d, turn.clone(), &operands);
                    assert!(got[2] == written[1] && got[3] == written[2], "{what}: caches");

                    let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
                    let results = op.infer(&types).expect("one row");
                    let y = joined(&d, &split, &got[..2], &results[..2], None);
                    let mut turned = operands.to_vec();
                    let q = input(&[1, heads * e], &floats(&written[0]));
                    turned[4].bytes.clone_from(&written[1]);
                    turned[5].bytes.clone_from(&written[2]);
                    let [k, v, ctl] = [4, 5, 6].map(|i| turned[i].clone());
                    let want = truth(&Op::from(whole), &[q, k, v, ctl]);
                    assert_close(&what, &y, &want, 1e-5);
                }
            }
        }
    }
}

#[test]
fn a_split_norms_heads_before_it_rotates_them() {
    for (which, d) in devices() {
        let mut rng = Rng(9);
        for dtype in caches_of(which) {
            let all = [(64u64, 8u64, 2u64), (64, 1, 1), (80, 2, 2), (512, 2, 1)];
            for (e, heads, kv) in heads_of(&all, which, dtype) {
                let Some(e) = head(dtype, e) else { continue };
                let (dims, context) = (e as usize, CAPACITY);
                let table = RopeTable { base: 1e4, dims, context, scaling: RopeScaling::None };
                let values = &reference::run(&Op::from(table.clone()), &[]).expect("a table")[0];
                let ty = &Op::from(table).infer(&[]).expect("a table")[0];
                let table = ty.shape.static_dims().expect("static");
                let table = weight(DType::F32, &table, values.clone());
                for past in [0u32, 64, 400] {
                    // Rows of another size than one, which norms forget.
                    let mut row = |n: u64| {
                        let row: Vec<f32> =
                            rng.floats(n as usize).iter().map(|x| 7.0 * x).collect();
                        row
                    };
                    let (q, k) = (row(heads * e), row(kv * e));
                    let v = input(&[1, kv * e], &row(kv * e));
                    let norms = [row(e), row(e)];
                    let [q_norm, k_norm] =
                        [0, 1].map(|i: usize| weight(DType::F32, &[e], f32_bytes(&norms[i])));
                    let operands = [
                        input(&[1, heads * e], &q),
                        input(&[1, kv * e], &k),
                        v.clone(),
                        table.clone(),
                        cache(&mut rng, dtype, kv, e),
                        cache(&mut rng, dtype, kv, e),
                        control(past, 1, 0),
                        q_norm.clone(),
                        k_norm.clone(),
                    ];
                    let whole = Attention::causal(e as usize, 0.01);
                    let split = AttentionSplit { whole: whole.clone(), splits: 3, least: 64 };
                    let adjacent = is_usual(which, dtype) && past == 64;
                    let style = if adjacent { RopeStyle::Adjacent } else { RopeStyle::Half };
                    let op = RopeAttentionSplit { style, norm: Some(1e-5), split: split.clone() };
                    let op = Op::from(op);
                    let got = run_op(&d, op.clone(), &operands);
                    let what = format!("{which}, {dtype} heads of {e} past {past}");

                    // The reference's rows of the heads that its norm gives.
                    let normed = |x: &[f32], heads: u64, weight: &Operand| {
                        let norm = Op::from(RmsNorm { eps: 1e-5 });
                        let y = truth(&norm, &[input(&[heads, e], x), weight.clone()]);
                        let y: Vec<f32> = y.into_iter().map(|y| y as f32).collect();
                        input(&[1, heads * e], &y)
                    };
                    let (q, k) = (normed(&q, heads, &q_norm), normed(&k, kv, &k_norm));
                    let turn = Op::from(RopeKvWrite { style, head_dim: e as usize, ring: false });
                    let mut turned = vec![q, k];
                    turned.extend_from_slice(&operands[2..7]);
                    let views: Vec<View<'_>> =
                        turned.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
                    let written = reference::run(&turn, &views).expect("the reference turns");
                    // What is stored is rounded to the cache's type: a step of it apart at most.
                    let step = match dtype {
                        DType::F16 => 1e-3,
                        DType::Block(BlockFormat::Q4_0) => 1.0 / 8.0,
                        DType::Block(_) => 1.0 / 127.0,
                        _ => 1e-6,
                    };
                    for (i, name) in [(1, "keys"), (2, "values")] {
                        let want: Vec<f64> = elements(dtype, &written[i]);
                        let got: Vec<f32> =
                            elements(dtype, &got[i + 1]).iter().map(|&x| x as f32).collect();
                        assert_close(&format!("{what}: {name}"), &got, &want, step);
                    }

                    let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
                    let results = op.infer(&types).expect("one row");
                    let y = joined(&d, &split, &got[..2], &results[..2], None);
                    let (mut k, mut v) = (operands[4].clone(), operands[5].clone());
                    k.bytes.clone_from(&got[2]);
                    v.bytes.clone_from(&got[3]);
                    let q = input(&[1, heads * e], &floats(&written[0]));
                    let want = truth(&Op::from(whole), &[q, k, v, operands[6].clone()]);
                    assert_close(&what, &y, &want, 1e-5);
                }
            }
        }
    }
}

/// What a cache of this type holds.
fn elements(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F16 => {
            let halves = bytes.chunks_exact(2);
            halves.map(|b| f16::from_le_bytes([b[0], b[1]]).to_f64()).collect()
        }
        DType::Block(b) => {
            let mut row = vec![0.0; bytes.len() / b.bytes() * b.elements()];
            rlx_core::formats::decode_row(dtype, bytes, &mut row).expect("whole blocks");
            row.into_iter().map(f64::from).collect()
        }
        _ => floats(bytes).into_iter().map(f64::from).collect(),
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
