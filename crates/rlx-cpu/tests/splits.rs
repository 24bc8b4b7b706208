//! Attention in splits at every SIMD level, with one worker and with three: against the reference, and
//! joined against attention.

use crate::common;
use common::*;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::parse::parse_hir;
use rlx_core::lower::{ProgramSpec, lower};
use rlx_core::ops::*;
use rlx_core::passes::optimise_watched;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::sample::Control;
use rlx_core::target::{CompileOptions, Path, Target};
use rlx_core::types::{BlockFormat, DType, Type};
use std::sync::Arc;

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);
const Q4_0: DType = DType::Block(BlockFormat::Q4_0);
const CACHES: [DType; 4] = [DType::F32, DType::F16, Q8_0, Q4_0];
const MIN: u32 = 256;
/// Positions of the tests' caches: three splits of the least, and some.
const CAPACITY: u64 = 3 * MIN as u64 + 41;

/// Query, caches and no control block.
fn operands(random: &mut Random, dtype: DType, [heads, kv, e]: [u64; 3]) -> [Value; 3] {
    let q = f32s(&[1, heads * e], &random.floats((heads * e) as usize));
    let dims = [kv, CAPACITY, e];
    let mut rows = || cache(dtype, &dims, &random.floats(dims.iter().product::<u64>() as usize));
    [q, rows(), rows()]
}

/// Numbers at even and at odd places.
fn pairs(stats: &[f32]) -> [Vec<f32>; 2] {
    [0, 1].map(|i| stats.iter().skip(i).step_by(2).copied().collect())
}

/// Compares splits with the reference's, and what they join to with attention's.
fn check_split(whole: &Attention, splits: usize, [q, k, v]: &[Value; 3], past: u32, what: &str) {
    let op = Op::from(AttentionSplit { whole: whole.clone(), splits, least: MIN as usize });
    let join = Op::from(AttentionJoin { splits, sinks: false });
    let operands = [q.clone(), k.clone(), v.clone(), control(past, 1, 0)];
    let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
    let types = op.infer(&types).unwrap();
    let expected = oracle(&op, &operands);
    let y = to_f32s(&oracle(&whole.clone().into(), &operands)[0]);
    for device in devices() {
        assert_eq!(
            device.target().path(&op, &[&q.ty, &k.ty, &v.ty, &operands[3].ty]),
            Ok(Path::Native)
        );
        let what = format!("{what}, {past} in {splits}, {}", device.info().adapter);
        let got = run_op(&device, &op, &operands);
        let [acc, expected_acc] = [&got[0], &expected[0]].map(|b| to_f32s(b));
        assert_close(&acc, &expected_acc, 1e-5, &format!("acc of {what}"));
        let [[max, sum], [expected_max, expected_sum]] =
            [&got[1], &expected[1]].map(|b| pairs(&to_f32s(b)));
        assert_close(&sum, &expected_sum, 1e-5, &format!("sums of {what}"));
        // Splits without a position have no maximum, and are not compared with those that have.
        let none = |x: &[f32]| x.iter().map(|x| *x == f32::NEG_INFINITY).collect::<Vec<_>>();
        assert_eq!(none(&max), none(&expected_max), "{what}");
        let some = |x: Vec<f32>| x.into_iter().filter(|x| x.is_finite()).collect::<Vec<_>>();
        assert_close(&some(max), &some(expected_max), 2e-6, &format!("maxima of {what}"));
        let halves: Vec<Value> =
            types.iter().zip(got).map(|(ty, bytes)| Value::new(ty.clone(), bytes)).collect();
        let joined = to_f32s(&run_op(&device, &join, &halves)[0]);
        assert_close(
            &joined,
            &to_f32s(&oracle(&join, &halves)[0]),
            1e-6,
            &format!("join of {what}"),
        );
        assert_close(&joined, &y, 2e-6, &format!("row of {what}"));
        // The same where heads have sinks, below and above the other scores.
        let heads = y.len() / whole.head_dim;
        let sinks: Vec<f32> = (0..heads).map(|h| [-9.0, 0.5, 6.0][h % 3]).collect();
        let sinks = f32s(&[heads as u64], &sinks);
        let sinking = Attention { sinks: true, ..whole.clone() };
        let all = [operands.as_slice(), core::slice::from_ref(&sinks)].concat();
        let y = oracle(&sinking.into(), &all);
        let join = AttentionJoin { splits, sinks: true };
        let parts = [halves.as_slice(), &[sinks]].concat();
        let joined = to_f32s(&run_op(&device, &join.into(), &parts)[0]);
        assert_close(&joined, &to_f32s(&y[0]), 2e-6, &format!("row with sinks of {what}"));
    }
}

#[test]
fn splits_are_the_references_and_join_to_attention() {
    let mut random = Random(20);
    for dtype in CACHES {
        for (heads, kv, e) in [(1, 1, 8), (6, 2, 12), (9, 3, 64), (7, 1, 5), (5, 1, 96u64)] {
            let e = e.next_multiple_of(dtype.block_elements() as u64);
            let operands = operands(&mut random, dtype, [heads, kv, e]);
            let whole = Attention::causal(e as usize, 1.5);
            let what = format!("{dtype} {heads}/{kv}x{e}");
            for (past, splits) in
                [(0, 2), (31, 3), (MIN - 1, 2), (MIN, 2), (2 * MIN, 2), (3 * MIN + 7, 5)]
            {
                check_split(&whole, splits, &operands, past, &what);
            }
            check_split(&whole, 1, &operands, CAPACITY as u32 - 1, &what);
        }
    }
}

#[test]
fn windows_and_softcaps_go_with_the_splits() {
    let mut random = Random(21);
    for dtype in CACHES {
        let e = 40u64.next_multiple_of(dtype.block_elements() as u64);
        let operands = operands(&mut random, dtype, [6, 2, e]);
        for (window, softcap) in [(Some(7), None), (Some(400), Some(0.5)), (None, Some(2.0))] {
            let whole = Attention { window, softcap, ..Attention::causal(e as usize, 1.5) };
            for past in [6, MIN + 100, CAPACITY as u32 - 1] {
                check_split(&whole, 3, &operands, past, &format!("{dtype} {window:?} {softcap:?}"));
            }
            if window.is_some() {
                let ring = Attention { ring: true, ..whole };
                let past = 2 * CAPACITY as u32 + 3;
                check_split(&ring, 3, &operands, past, &format!("a ring of {dtype} {window:?}"));
            }
        }
    }
}

#[test]
fn numbers_that_are_not_finite_stand_where_attentions_do() {
    let n = 2 * MIN as usize;
    let q = f32s(&[1, 32], &[0.25; 32]);
    let mut random = Random(22);
    let v = cache(DType::F32, &[1, n as u64, 32], &random.floats(32 * n));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [5, n - 1] {
            let mut k = random.floats(32 * n);
            k[at * 32] = bad;
            let k = cache(DType::F32, &[1, n as u64, 32], &k);
            let operands = [q.clone(), k, v.clone(), control(n as u32 - 1, 1, 0)];
            let whole = Attention::causal(32, 1.0);
            let op =
                Op::from(AttentionSplit { whole: whole.clone(), splits: 2, least: MIN as usize });
            for device in devices() {
                let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
                let types = op.infer(&types).unwrap();
                let parts = run_op(&device, &op, &operands);
                let parts: Vec<Value> =
                    types.into_iter().zip(parts).map(|(ty, b)| Value::new(ty, b)).collect();
                let y = to_f32s(
                    &run_op(&device, &AttentionJoin { splits: 2, sinks: false }.into(), &parts)[0],
                );
                let whole = to_f32s(&run_op(&device, &whole.clone().into(), &operands)[0]);
                let nans = |y: &[f32]| y.iter().map(|y| y.is_nan()).collect::<Vec<_>>();
                assert_eq!(nans(&y), nans(&whole), "{bad} at {at}, {}", device.info().adapter);
                if !y[0].is_nan() {
                    assert_close(&y, &whole, 2e-6, "the rest");
                }
            }
        }
    }
}

/// The decode program of a small model with caches of 4,096 positions that are filled at random, its
/// parameters, and how many attentions were split.
fn decode(target: &Target, kv: DType, without: &[&str]) -> (Graph, Vec<Value>, usize) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/graphs/llama.hir");
    let text = std::fs::read_to_string(path).unwrap();
    // Heads of whole blocks, so that every type of cache holds them.
    let text = text
        .replace("context = 24", "context = 4096")
        .replace("head_dim = 6", "head_dim = 32")
        .replace("dims = 6", "dims = 32")
        .replace("<24x20xf32>", "<128x20xf32>")
        .replace("<12x20xf32>", "<64x20xf32>")
        .replace("<20x24xf32>", "<20x128xf32>")
        .replace("rope_freqs.weight : tensor<3xf32>", "rope_freqs.weight : tensor<16xf32>");
    let module = parse_hir(&text).unwrap();
    let g = lower(&module, &ProgramSpec::decode().with_logits(), kv).unwrap();
    let options = CompileOptions {
        kv,
        without: without.iter().map(|s| (*s).to_owned()).collect(),
        ..CompileOptions::default()
    };
    let done = optimise_watched(g, target, &options, &mut Default::default()).unwrap();
    let (g, split) = (done.graph, done.fusion.count("split_attention"));
    let mut random = Random(23);
    let ctl = Control { past: 3000, len: 1, capacity: 4096, limit: 5000, ..Control::default() };
    let params = g.params.iter().map(|p| {
        let ty = g.ty(p.value).clone();
        let n = ty.shape.elements().unwrap() as usize;
        let words = |x: &[u32]| x.iter().flat_map(|w| w.to_le_bytes()).collect();
        let value = match (p.kind, ty.dtype) {
            _ if p.name == "ctl" => Value::new(ty, words(&ctl.to_words())),
            (_, DType::U32) => Value::new(ty, words(&vec![0; n])),
            (ParamKind::State, dtype) => {
                cache(dtype, &ty.shape.static_dims().unwrap(), &random.floats(n))
            }
            _ => {
                let low =
                    if p.name.contains("norm") || p.name.contains("freqs") { 1.5 } else { 0.0 };
                let x: Vec<f32> = random.floats(n).iter().map(|x| low + x).collect();
                f32s(&ty.shape.static_dims().unwrap(), &x)
            }
        };
        if p.kind == ParamKind::Weight { value.weight() } else { value }
    });
    let params = params.collect();
    (g, params, split)
}

#[test]
fn a_model_answers_the_same_with_splits_and_with_any_number_of_workers() {
    // A last bit of a key or value that is written may be a step of the cache's type, in one of 3,000
    // positions: a tenth of what caches may differ by. Without splits levels differ as much.
    for (kv, tolerance) in CACHES.into_iter().zip([3e-6, 3e-4, 3e-3, 5e-2]) {
        let logits = |device: &Arc<dyn Device>, target: &Target, without: &[&str]| {
            let (g, params, split) = decode(target, kv, without);
            assert_eq!(split, if without.is_empty() { 2 } else { 0 });
            let at = g.outputs.iter().position(|o| o.name == "logits").unwrap();
            to_f32s(&outputs(device, &g, &params).unwrap()[at])
        };
        // The plan's replay, which is the reference, runs the splits too.
        let cpu = rlx_cpu::target();
        let reference: Arc<dyn Device> = Arc::new(ReferenceDevice::new());
        let expected = logits(&reference, &cpu, &["split_attention"]);
        let what = format!("logits over {kv}");
        assert_close(&logits(&reference, &cpu, &[]), &expected, tolerance, &what);
        for pair in devices().chunks(2) {
            for without in [&[][..], &["split_attention"]] {
                let [one, three] = [0, 1].map(|i| logits(&pair[i], pair[i].target(), without));
                assert_eq!(one, three, "{kv} {without:?}: workers change bits");
                let what = format!("{what} {without:?}, {}", pair[0].info().adapter);
                assert_close(&one, &expected, tolerance, &what);
            }
        }
    }
}
