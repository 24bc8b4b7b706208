//! Our own attention of several rows, against the reference's.

use crate::common::*;
use crate::emulator::Watch;
use half::f16;
use rlx_core::ops::{Attention, AttentionJoin, AttentionSplit, Op};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

const WHOLE: &str = "own_attention_tile";
const SPLIT: &str = "own_attention_split_tile";

/// What is tried with one pair of kernels.
#[derive(Clone)]
pub struct Form {
    pub dtype: DType,
    pub e: u64,
    pub heads: u64,
    pub kv: u64,
    pub capacity: u64,
    pub whole: Attention,
}

impl Form {
    pub fn new(dtype: DType, e: u64, heads: u64, kv: u64) -> Form {
        Form { dtype, e, heads, kv, capacity: 160, whole: Attention::causal(e as usize, 0.3) }
    }

    pub fn with(&self, whole: Attention) -> Form {
        Form { whole, ..self.clone() }
    }

    /// q, both caches, the control block, and sinks. Where the caches have no positions yet there is no number.
    pub fn operands(&self, rng: &mut Rng, rows: u64, past: u32, len: u32) -> Vec<Operand> {
        let mut cache = || {
            let mut xs = rng.floats((self.kv * self.capacity * self.e) as usize);
            let (e, room) = (self.e as usize, self.capacity as usize);
            for (i, x) in xs.iter_mut().enumerate() {
                let position = i / e % room;
                if !self.whole.ring && position >= (past + len) as usize {
                    *x = f32::NAN;
                }
            }
            let bytes = match self.dtype {
                DType::F16 => xs.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
                DType::F32 => f32_bytes(&xs),
                other => cache_blocks(other, &xs),
            };
            state(self.dtype, &[self.kv, self.capacity, self.e], bytes)
        };
        let (k, v) = (cache(), cache());
        // Rows from `len` on have no numbers either.
        let mut q = rng.floats((rows * self.heads * self.e) as usize);
        q[(u64::from(len) * self.heads * self.e) as usize..].fill(f32::NAN);
        let mut all = vec![input(&[rows, self.heads * self.e], &q), k, v, control(past, len, 0)];
        if self.whole.sinks {
            all.push(input(&[self.heads], &rng.floats(self.heads as usize)));
        }
        all
    }

    pub fn name(&self, past: u32, len: u32) -> String {
        let Form { dtype, e, heads, kv, whole, .. } = self;
        format!("{dtype} heads of {e}, {heads} on {kv}, {len} behind {past}, {whole:?}")
    }

    /// The first `len` rows.
    fn live(&self, y: &[u8], len: u32) -> Vec<f32> {
        floats(y)[..(u64::from(len) * self.heads * self.e) as usize].to_vec()
    }

    #[track_caller]
    fn close(&self, got: &[u8], operands: &[Operand], past: u32, len: u32) {
        let want = &truth(&Op::from(self.whole.clone()), operands)[0];
        let want: Vec<f64> = self.live(want, len).iter().map(|&y| y.into()).collect();
        assert_close(&self.name(past, len), &self.live(got, len), &want, 1e-5);
    }

    /// Whole attention, by our kernel or WGSL's.
    #[track_caller]
    fn whole(&self, d: &Arc<TestDevice>, rng: &mut Rng, own: bool, past: u32, rows: u64, len: u32) {
        let operands = self.operands(rng, rows, past, len);
        let before = d.gpu().metal().launches(WHOLE);
        let got = run_op(d, self.whole.clone(), &operands);
        let ran = d.gpu().metal().launches(WHOLE) > before;
        assert_eq!(ran, own, "{}: whose kernel ran", self.name(past, len));
        self.close(&got[0], &operands, past, len);
    }

    /// In splits, which are joined.
    #[track_caller]
    fn split(
        &self,
        d: &Arc<TestDevice>,
        rng: &mut Rng,
        past: u32,
        rows: u64,
        len: u32,
        splits: usize,
    ) {
        let operands = self.operands(rng, rows, past, len);
        let whole = Attention { sinks: false, ..self.whole.clone() };
        let op = Op::from(AttentionSplit { whole, splits, least: 64 });
        let types: Vec<_> = operands[..4].iter().map(|o| &o.ty).collect();
        let results = op.infer(&types).expect("several rows");
        let before = d.gpu().metal().launches(SPLIT);
        let got = run_op(d, op.clone(), &operands[..4]);
        assert!(d.gpu().metal().launches(SPLIT) > before, "{}", self.name(past, len));
        // Maxima and sums of weights, where there are any; what has none says so.
        let want = floats(&truth(&op, &operands[..4])[1]);
        let stats = floats(&got[1]);
        for (i, (got, want)) in stats.iter().zip(&want).enumerate() {
            let off = (got - want).abs() / want.abs().max(1.0);
            assert!(want.is_nan() || got == want || off < 2e-5, "statistic {i}: {got}, not {want}");
        }
        let mut halves: Vec<Operand> = got
            .iter()
            .zip(&results)
            .map(|(y, ty)| input(&ty.shape.static_dims().expect("static"), &floats(y)))
            .collect();
        halves.extend([operands[0].clone(), operands[3].clone()]);
        halves.extend(operands.get(4).cloned());
        let join = AttentionJoin { splits, sinks: self.whole.sinks };
        self.close(&run_op(d, join, &halves)[0], &operands, past, len);
    }
}

#[test]
fn rows_attend_as_the_references_do() {
    let (d, mut rng) = (device(), Rng(71));
    // Groups that fill a tile and that do not, heads of one matrix and of many; rows of one tile, of several.
    let forms = [
        (Form::new(DType::F16, 64, 4, 2), 70, 40, 37),
        (Form::new(DType::F16, 128, 8, 1), 30, 9, 9),
        (Form::new(DType::F32, 40, 3, 1), 0, 33, 33),
        (Form::new(DType::F32, 8, 2, 2), 101, 5, 3),
    ];
    for (form, past, rows, len) in forms {
        form.whole(&d, &mut rng, true, past, rows, len);
    }
}

#[test]
fn windows_blocks_bounds_sinks_and_rings_are_the_references() {
    let (d, mut rng) = (device(), Rng(72));
    let form = Form::new(DType::F16, 32, 4, 2);
    let whole = form.whole.clone();
    for window in [3, 50] {
        let narrow = Attention { window: Some(window), softcap: Some(5.0), ..whole.clone() };
        form.with(narrow).whole(&d, &mut rng, true, 90, 20, 20);
    }
    form.with(Attention { sinks: true, ..whole.clone() }).whole(&d, &mut rng, true, 60, 20, 19);
    form.with(Attention { block: Some(16), ..whole.clone() }).whole(&d, &mut rng, true, 40, 32, 30);
    let ring = Attention { window: Some(50), ring: true, ..whole };
    let ring = Form { capacity: 90, ..form.with(ring) };
    // The positions that are seen go round the ring's end.
    ring.whole(&d, &mut rng, true, 170, 20, 20);
}

#[test]
fn rows_in_splits_join_to_attention() {
    let (d, mut rng) = (device(), Rng(73));
    let form = Form::new(DType::F16, 64, 4, 2);
    form.split(&d, &mut rng, 0, 20, 1, 6);
    form.split(&d, &mut rng, 130, 20, 20, 6);
    let sinking = Attention { sinks: true, softcap: Some(5.0), ..Attention::causal(24, 0.3) };
    Form::new(DType::F32, 24, 6, 2).with(sinking).split(&d, &mut rng, 100, 16, 13, 5);
}

#[test]
fn other_heads_and_caches_are_wgsls() {
    let (d, mut rng) = (device(), Rng(74));
    let q8_0 = DType::Block(BlockFormat::Q8_0);
    for form in [
        Form::new(q8_0, 64, 2, 1),
        Form::new(DType::F16, 12, 2, 1),
        Form::new(DType::F16, 136, 1, 1),
    ] {
        // Blocks have no NaN.
        let past = form.capacity as u32 - 4;
        form.whole(&d, &mut rng, false, past, 4, 4);
    }
}

#[test]
fn ours_stays_within_its_memory_and_has_no_races() {
    for watch in [Watch::Addresses, Watch::Races] {
        let (d, mut rng) = (watched(watch), Rng(75));
        let form = Form { capacity: 40, ..Form::new(DType::F16, 32, 2, 1) };
        form.whole(&d, &mut rng, true, 31, 9, 9);
        form.split(&d, &mut rng, 31, 9, 9, 3);
    }
}
