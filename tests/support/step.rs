//! One step of a program on any executor: its operands, the program around it, and random weights of every type.
#![allow(dead_code)] // executors' tests use parts of it

use crate::load::{Hand, run_once};
use half::{bf16, f16};
use rlx_core::compare::difference;
use rlx_core::formats::activations::{encode_q4_0, encode_q8_0};
use rlx_core::formats::decode_row;
use rlx_core::ir::lir::{InputDecl, OutputDecl, Phase, Program, Slice, Space, StateDecl, Step};
use rlx_core::ir::mir::Graph;
use rlx_core::ops::{Op, RopeScaling, RopeTable};
use rlx_core::plan::{Buffer, Entry, Origin, WeightPlan};
use rlx_core::runtime::device::{Device, Write, WriteTo};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Kind, Shape, Type};
use rlx_core::{Error, Result};
use std::sync::Arc;

/// A small generator: tests print nothing and repeat exactly.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    /// In [-1, 1).
    pub fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| (self.next() >> 32) as u8).collect()
    }
}

/// An operand of a step under test.
#[derive(Clone)]
pub struct Operand {
    pub space: Space,
    pub ty: Type,
    pub bytes: Vec<u8>,
}

pub fn f32_bytes(xs: &[f32]) -> Vec<u8> {
    xs.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub fn u32_bytes(xs: &[u32]) -> Vec<u8> {
    xs.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// An f32 tensor that the host writes: an activation.
pub fn input(dims: &[u64], xs: &[f32]) -> Operand {
    let ty = Type::tensor(DType::F32, Shape::of(dims));
    Operand { space: Space::Input, ty, bytes: f32_bytes(xs) }
}

/// A weight.
pub fn weight(dtype: DType, dims: &[u64], bytes: Vec<u8>) -> Operand {
    Operand { space: Space::Weight, ty: Type::tensor(dtype, Shape::of(dims)), bytes }
}

/// A state.
pub fn state(dtype: DType, dims: &[u64], bytes: Vec<u8>) -> Operand {
    Operand { space: Space::State, ty: Type::state(dtype, Shape::of(dims)), bytes }
}

/// A control block.
pub fn control(past: u32, len: u32, done: u32) -> Operand {
    let mut w = [0u32; 16];
    (w[0], w[1], w[4]) = (past, len, done);
    state(DType::U32, &[16], u32_bytes(&w))
}

/// A weight buffer of its own for each of these operands, or one for all.
#[derive(Clone, Copy, PartialEq)]
pub enum Buffers {
    One,
    Each,
}

/// A program of one step (and those `before` it), its plan, and what to write before it runs.
pub struct Case {
    pub program: Program,
    pub plan: WeightPlan,
    /// The file that the plan's weights come from.
    pub file: Vec<u8>,
    pub writes: Vec<Write>,
}

/// Builds the program that runs `op` once and returns every result.
pub fn case(op: impl Into<Op>, operands: &[Operand], buffers: Buffers) -> Case {
    let op = op.into();
    let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
    let result_types = op.infer(&types).expect("the operator accepts these types");
    let mut plan = WeightPlan::default();
    let mut file = Vec::new();
    let mut writes = Vec::new();
    let (mut states, mut inputs) = (Vec::new(), Vec::new());
    let mut slices = Vec::new();
    for (i, o) in operands.iter().enumerate() {
        let bytes = o.bytes.len() as u64;
        assert_eq!(o.ty.bytes().unwrap(), bytes, "operand {i} has {}", o.ty);
        let name = format!("operand{i}");
        let index = match o.space {
            Space::Weight => {
                let rounded = bytes.next_multiple_of(4);
                if buffers == Buffers::Each || plan.buffers.is_empty() {
                    // Something stands before every weight: offsets must be used.
                    plan.buffers.push(Buffer { bytes: 256 });
                }
                let buffer = plan.buffers.len() as u32 - 1;
                let last = plan.buffers.last_mut().unwrap();
                let offset = last.bytes.next_multiple_of(256);
                last.bytes = offset + rounded;
                let origin = Origin::File { shard: 0, offset: file.len() as u64 };
                file.extend_from_slice(&o.bytes);
                plan.entries.push(Entry { name, ty: o.ty.clone(), origin, buffer, offset, bytes });
                plan.entries.len() - 1
            }
            Space::State => {
                states.push(StateDecl { name, ty: o.ty.clone(), bytes });
                let to = WriteTo::State(states.len() as u32 - 1);
                writes.push(Write { to, offset: 0, bytes: o.bytes.clone() });
                states.len() - 1
            }
            Space::Input => {
                inputs.push(InputDecl { name, ty: o.ty.clone(), bytes });
                let to = WriteTo::Input(inputs.len() as u32 - 1);
                writes.push(Write { to, offset: 0, bytes: o.bytes.clone() });
                inputs.len() - 1
            }
            Space::Arena => unreachable!("operands of a test are written by the host"),
        };
        slices.push(Slice {
            space: o.space,
            index: index as u32,
            offset: 0,
            ty: o.ty.clone(),
            bytes,
        });
    }
    // Something stands before the results too.
    let mut arena_bytes = 64;
    let mut results = Vec::new();
    for (i, ty) in result_types.iter().enumerate() {
        let slice = match op.writes().iter().find(|w| w.1 == i) {
            Some(&(operand, _)) => slices[operand].clone(),
            None => {
                assert_eq!(ty.kind, Kind::Tensor);
                let bytes = ty.bytes().unwrap();
                let offset = arena_bytes;
                arena_bytes += bytes.next_multiple_of(64);
                Slice { space: Space::Arena, index: 0, offset, ty: ty.clone(), bytes }
            }
        };
        results.push(slice);
    }
    let outputs = results
        .iter()
        .enumerate()
        .map(|(i, s)| OutputDecl { name: format!("y{i}"), slice: s.clone() })
        .collect();
    let step = Step {
        op,
        operands: slices,
        results,
        regions: vec![],
        part: None,
        live: None,
        phase: Phase::Steady,
        label: "test".into(),
    };
    let program = Program {
        name: "test".into(),
        graph: Graph::new("test"),
        steps: vec![step],
        weights: Vec::new(),
        states,
        control: None,
        inputs,
        outputs,
        arena_bytes,
        arena_segments: vec![arena_bytes],
        alignment: 64,
        largest_live_bytes: arena_bytes,
        unshared_bytes: arena_bytes,
        template: None,
        fingerprint: 0,
    };
    Case { program, plan, file, writes }
}

/// Runs the program once: its outputs.
pub fn run<D: Device + 'static>(d: &Arc<D>, case: &Case) -> Result<Vec<Vec<u8>>> {
    run_in(d, case, usize::MAX)
}

/// The same with weights that are put in pieces of at most so many bytes.
pub fn run_in<D: Device + 'static>(d: &Arc<D>, case: &Case, bytes: usize) -> Result<Vec<Vec<u8>>> {
    let (plan, program) = (case.plan.clone(), case.program.clone());
    let file = Arc::new(case.file.clone());
    run_once(d.clone(), plan, program, file, Hand::Pieces(bytes), &case.writes)
}

/// `case` and `run` with all weights in one buffer.
pub fn run_op<D: Device + 'static>(
    d: &Arc<D>,
    op: impl Into<Op>,
    operands: &[Operand],
) -> Vec<Vec<u8>> {
    run(d, &case(op, operands, Buffers::One)).unwrap_or_else(|e: Error| panic!("{e}"))
}

/// Fails unless every element is within `tolerance` times the largest expected one.
#[track_caller]
pub fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    let found = difference(got, want);
    assert!(
        found.relative() <= tolerance,
        "{what}: element {} is {:?}, expected {:?}: {found:?}, {tolerance:e} allowed",
        found.at,
        got.get(found.at),
        want.get(found.at)
    );
}

/// Types of weights whose kernels are tried in every form.
pub fn common_types() -> Vec<DType> {
    use BlockFormat as B;
    let packed = [B::Q4_0, B::Q8_0, B::Q4K, B::Q5K, B::Q6K].map(DType::Block);
    [DType::F32, DType::F16, DType::BF16].into_iter().chain(packed).collect()
}

/// The other formats: their readers stand in the same kernels.
pub fn other_formats() -> Vec<DType> {
    let all = Target::every_format().into_iter().map(DType::Block);
    all.filter(|t| !common_types().contains(t)).collect()
}

/// Random bytes of `rows` rows of `k` elements, whose scales are numbers of ordinary size.
pub fn random_weights(rng: &mut Rng, dtype: DType, rows: usize, k: usize) -> Vec<u8> {
    use BlockFormat as B;
    let n = rows * k;
    match dtype {
        DType::F32 => f32_bytes(&rng.floats(n)),
        DType::F16 => (0..n).flat_map(|_| f16::from_f32(rng.float()).to_le_bytes()).collect(),
        DType::BF16 => (0..n).flat_map(|_| bf16::from_f32(rng.float()).to_le_bytes()).collect(),
        DType::Block(format) => {
            let mut bytes = rng.bytes(n / format.elements() * format.bytes());
            // Where f16 scales stand.
            let scales: &[usize] = match format {
                B::Q4_1 | B::Q5_1 | B::Q4K | B::Q5K => &[0, 2],
                B::Q2K => &[80, 82],
                B::Q3K => &[108],
                B::Q6K => &[208],
                B::Tq1_0 => &[52],
                B::Tq2_0 => &[64],
                B::Mxfp4 | B::Nvfp4 | B::Iq1M => &[],
                _ => &[0],
            };
            for block in bytes.chunks_exact_mut(format.bytes()) {
                let d = f16::from_f32(rng.float() * 0.05).to_bits();
                for &at in scales {
                    let d = f16::from_f32(rng.float() * 0.05);
                    block[at..at + 2].copy_from_slice(&d.to_le_bytes());
                }
                match format {
                    B::Mxfp4 => block[0] = 118 + block[0] % 8,
                    // A nibble of the scale in the top of each of four words.
                    B::Iq1M => (0..4).for_each(|i| {
                        let top = &mut block[49 + 2 * i];
                        *top = (*top & 15) | ((d >> (4 * i)) as u8) << 4;
                    }),
                    _ => {}
                }
            }
            bytes
        }
        other => panic!("no weights of {other}"),
    }
}

/// The values of packed bytes: the core's decoders are held to ggml's own record.
pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let elements = dtype.block_elements();
    let block = dtype.row_bytes(elements as u64).expect("a whole block") as usize;
    let mut out = vec![0.0f32; bytes.len() / block * elements];
    decode_row(dtype, bytes, &mut out).unwrap();
    out.into_iter().map(f64::from).collect()
}

/// Blocks of a cache's type, as the reference makes them.
pub fn cache_blocks(dtype: DType, xs: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; xs.len() / dtype.block_elements() * dtype.block_bytes()];
    match dtype {
        DType::Block(BlockFormat::Q4_0) => encode_q4_0(xs, &mut bytes),
        _ => encode_q8_0(xs, &mut bytes),
    }
    .expect("whole blocks");
    bytes
}

/// Numbers of rows that the host writes.
pub fn ids(xs: &[u32]) -> Operand {
    let ty = Type::tensor(DType::U32, Shape::of(&[xs.len() as u64]));
    Operand { space: Space::Input, ty, bytes: u32_bytes(xs) }
}

/// Angles of rotation, as a weight.
pub fn table(dims: usize, context: u64) -> Operand {
    let op = RopeTable { base: 10000.0, dims, context, scaling: RopeScaling::None };
    let rows = op.low_rows() + op.high_rows();
    weight(DType::F32, &[rows, dims as u64 / 2, 2], f32_bytes(&op.compute(None)))
}

/// The first `len` rows of `width` f32.
pub fn rows_of(bytes: &[u8], len: usize, width: usize) -> &[u8] {
    &bytes[..4 * len * width]
}

/// Random rows of every head.
pub fn cache(rng: &mut Rng, dtype: DType, heads: u64, capacity: u64, e: u64) -> Operand {
    let n = (heads * capacity) as usize;
    state(dtype, &[heads, capacity, e], random_weights(rng, dtype, n, e as usize))
}
