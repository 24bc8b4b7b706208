//! One operator on the device, and values to give it.

pub mod model;

use crate::load::{Hand, run_once};
use rlx_core::Result;
use rlx_core::compare::difference_of_any;
use rlx_core::formats::activations::{encode_q4_0, encode_q8_0};
use rlx_core::ir::lir::{
    ControlDecl, InputDecl, OutputDecl, Phase, Program, Slice, Space, StateDecl, Step, WeightUse,
};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{Op, RowUse};
use rlx_core::plan::{WeightPlan, plan};
use rlx_core::reference::{self, View};
use rlx_core::runtime::device::{Device, SharedBytes, Write, WriteTo};
use rlx_core::sample::Control;
use rlx_core::target::{CompileOptions, Path};
use rlx_core::types::{BlockFormat, DType, Kind, Scalar, Shape, Type};
use rlx_cpu::{CpuDevice, CpuOptions, Level, target};
use std::sync::Arc;

/// A value and where it lives: a state by its type, a weight if it is one, else an input.
#[derive(Clone, Debug)]
pub struct Value {
    pub ty: Type,
    pub bytes: Vec<u8>,
    pub is_weight: bool,
}

impl Value {
    pub fn new(ty: Type, bytes: Vec<u8>) -> Value {
        assert_eq!(ty.bytes().unwrap(), bytes.len() as u64);
        Value { ty, bytes, is_weight: false }
    }

    pub fn weight(mut self) -> Value {
        self.is_weight = true;
        self
    }
}

/// Numbers that depend on the seed alone (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In -1..1.
    pub fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }

    /// Numbers of a float type, some of them not finite, or zeros of either sign.
    pub fn floats_as(&mut self, dtype: DType, dims: &[u64]) -> Value {
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-30, 7e4];
        let n = dims.iter().product::<u64>() as usize;
        let x = (0..n).map(|_| match self.bits() % 40 {
            i if (i as usize) < odd.len() => odd[i as usize],
            _ => self.float() * 3.0,
        });
        floats_as(dtype, dims, &x.collect::<Vec<f32>>())
    }

    /// Random bits as integers.
    pub fn integers(&mut self, scalar: Scalar, dims: &[u64]) -> Value {
        let ty = Type::tensor(DType::Scalar(scalar), Shape::of(dims));
        let bytes = (0..ty.bytes().unwrap()).map(|_| self.bits() as u8).collect();
        Value::new(ty, bytes)
    }

    /// Rows of a weight: random payloads, scales of sane size, and some blocks whose scale is
    /// zero, subnormal or negative.
    pub fn packed(&mut self, dtype: DType, dims: [u64; 2]) -> Value {
        let ty = Type::tensor(dtype, Shape::of(&dims));
        let n = ty.bytes().unwrap() as usize;
        let mut bytes: Vec<u8> = (0..n).map(|_| self.bits() as u8).collect();
        let half = |x: f32| half::f16::from_f32(x).to_le_bytes();
        match dtype {
            DType::Scalar(s) => {
                bytes = Vec::new();
                for x in self.floats((dims[0] * dims[1]) as usize) {
                    match s {
                        Scalar::F32 => bytes.extend(x.to_le_bytes()),
                        Scalar::F16 => bytes.extend(half(x)),
                        _ => bytes.extend(half::bf16::from_f32(x).to_le_bytes()),
                    }
                }
            }
            DType::Block(format) => {
                for (i, block) in bytes.chunks_exact_mut(format.bytes()).enumerate() {
                    let scale = match i % 11 {
                        7 => 0.0,
                        8 => 3e-7,
                        9 => -0.02,
                        _ => 0.01 + 0.01 * self.float().abs(),
                    };
                    for at in scale_bytes(format) {
                        block[*at..at + 2].copy_from_slice(&half(scale));
                    }
                    match format {
                        // A power of two; a byte for each of 16; the top nibbles of the last four words.
                        BlockFormat::Mxfp4 => block[0] = 120 + block[0] % 8,
                        BlockFormat::Nvfp4 => block[..4].iter_mut().for_each(|b| *b %= 64),
                        BlockFormat::Iq1M => {
                            for (i, n) in half::f16::from_f32(scale)
                                .to_bits()
                                .to_le_bytes()
                                .into_iter()
                                .flat_map(|b| [b & 15, b >> 4])
                                .enumerate()
                            {
                                block[49 + 2 * i] = block[49 + 2 * i] & 15 | n << 4;
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        Value::new(ty, bytes).weight()
    }
}

/// Where a block has its f16 scales.
pub fn scale_bytes(format: BlockFormat) -> &'static [usize] {
    use BlockFormat as B;
    match format {
        B::Q4K | B::Q5K | B::Q4_1 | B::Q5_1 => &[0, 2],
        B::Q2K => &[80, 82],
        B::Q3K => &[108],
        B::Q6K => &[208],
        B::Tq1_0 => &[52],
        B::Tq2_0 => &[64],
        B::Mxfp4 | B::Nvfp4 | B::Iq1M => &[],
        _ => &[0],
    }
}

/// Every type that a file's weights may have; under Miri a few of short blocks, for formats are safe code.
pub fn weight_types() -> Vec<DType> {
    let mut types = vec![DType::F32, DType::F16, DType::BF16];
    if cfg!(miri) {
        use BlockFormat as B;
        types.extend([B::Q4_1, B::Nvfp4].map(DType::Block));
        return types;
    }
    let weights = BlockFormat::ALL.iter().filter(|b| !b.is_for_activations());
    types.extend(weights.map(|b| DType::Block(*b)));
    types
}

/// The blocks of integers that meet packed weights.
pub const INTEGERS: [BlockFormat; 2] = [BlockFormat::Q8_0, BlockFormat::Q15_0];

/// Each of these with each of [`INTEGERS`].
pub fn with_integers<T: Copy>(of: impl IntoIterator<Item = T>) -> Vec<(T, BlockFormat)> {
    of.into_iter().flat_map(|of| INTEGERS.map(|x| (of, x))).collect()
}

/// Every packed type of weights, with each of [`INTEGERS`].
pub fn integer_products() -> Vec<(DType, BlockFormat)> {
    with_integers(weight_types().into_iter().filter(|d| d.is_block()))
}

pub fn f32s(dims: &[u64], x: &[f32]) -> Value {
    let bytes = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    Value::new(Type::tensor(DType::F32, Shape::of(dims)), bytes)
}

/// Numbers rounded to a float type.
pub fn floats_as(dtype: DType, dims: &[u64], x: &[f32]) -> Value {
    let bytes = match dtype {
        DType::F16 => x.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(),
        DType::BF16 => x.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect(),
        _ => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
    };
    Value::new(Type::tensor(dtype, Shape::of(dims)), bytes)
}

/// Elements of a float type.
pub fn floats_of(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let halves = bytes.as_chunks::<2>().0.iter();
    match dtype {
        DType::F16 => halves.map(|b| half::f16::from_le_bytes(*b).to_f32()).collect(),
        DType::BF16 => halves.map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect(),
        _ => to_f32s(bytes),
    }
}

pub fn u32s(dims: &[u64], x: &[u32]) -> Value {
    let bytes = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    Value::new(Type::tensor(DType::U32, Shape::of(dims)), bytes)
}

pub fn state(value: Value) -> Value {
    Value { ty: Type { kind: Kind::State, ..value.ty }, ..value }
}

pub fn cache(dtype: DType, dims: &[u64], x: &[f32]) -> Value {
    let bytes = match dtype {
        DType::F16 => x.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(),
        DType::Block(_) => {
            let mut bytes = vec![0; dtype.row_bytes(x.len() as u64).unwrap() as usize];
            match dtype {
                DType::Block(BlockFormat::Q4_0) => encode_q4_0(x, &mut bytes).unwrap(),
                _ => encode_q8_0(x, &mut bytes).unwrap(),
            }
            bytes
        }
        _ => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
    };
    Value::new(Type::state(dtype, Shape::of(dims)), bytes)
}

pub fn control(past: u32, len: u32, done: u32) -> Value {
    let block = Control { past, len, done, limit: 1000, capacity: 1000, ..Control::default() };
    state(u32s(&[16], &block.to_words()))
}

pub fn to_f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Every level this machine has (under Miri the plain loops alone), one worker and three.
pub fn devices() -> Vec<Arc<dyn Device>> {
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
        for threads in [1, 3] {
            let options =
                CpuOptions { threads: Some(threads), simd: Some(level), ..CpuOptions::default() };
            devices.push(Arc::new(CpuDevice::new(options).unwrap()));
        }
    }
    devices
}

/// A program of one step, its results in the arena and read back.
pub fn program_of(op: &Op, operands: &[Value]) -> (Program, Vec<Write>) {
    let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
    let results = op.infer(&types).unwrap();
    let (mut weights, mut states, mut inputs, mut writes) = (vec![], vec![], vec![], vec![]);
    let mut slices = Vec::new();
    for (i, v) in operands.iter().enumerate() {
        let (name, bytes) = (format!("v{i}"), v.bytes.len() as u64);
        let (space, index) = if v.is_weight {
            weights.push(WeightUse { name, ty: v.ty.clone(), made: None });
            (Space::Weight, weights.len() - 1)
        } else if v.ty.kind == Kind::State {
            states.push(StateDecl { name, ty: v.ty.clone(), bytes });
            let to = WriteTo::State(states.len() as u32 - 1);
            writes.push(Write { to, offset: 0, bytes: v.bytes.clone() });
            (Space::State, states.len() - 1)
        } else {
            inputs.push(InputDecl { name, ty: v.ty.clone(), bytes });
            let to = WriteTo::Input(inputs.len() as u32 - 1);
            writes.push(Write { to, offset: 0, bytes: v.bytes.clone() });
            (Space::Input, inputs.len() - 1)
        };
        slices.push(Slice { space, index: index as u32, offset: 0, ty: v.ty.clone(), bytes });
    }
    let mut arena_bytes = 0;
    let mut places = Vec::new();
    for (i, ty) in results.into_iter().enumerate() {
        if let Some(w) = op.writes().iter().find(|w| w.1 == i) {
            places.push(slices[w.0].clone());
            continue;
        }
        let bytes = ty.bytes().unwrap();
        places.push(Slice { space: Space::Arena, index: 0, offset: arena_bytes, ty, bytes });
        arena_bytes += bytes.div_ceil(64) * 64;
    }
    let outputs = places
        .iter()
        .enumerate()
        .map(|(i, s)| OutputDecl { name: format!("y{i}"), slice: s.clone() })
        .collect();
    let (control, live) = tokens_of(op, &slices, &places);
    let step = Step {
        op: op.clone(),
        operands: slices,
        results: places,
        regions: vec![],
        part: None,
        live,
        phase: Phase::Steady,
        label: "step".into(),
    };
    let program = Program {
        name: "test".into(),
        graph: Graph::new("test"),
        steps: vec![step],
        weights,
        states,
        control,
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
    (program, writes)
}

/// The control block that an operator reads, and the rows of its first result for each token of which only
/// those that are there are wanted.
fn tokens_of(op: &Op, operands: &[Slice], results: &[Slice]) -> (Option<ControlDecl>, Option<u64>) {
    let types: Vec<&Type> = operands.iter().map(|s| &s.ty).collect();
    let Some(k) = op.control(types.len()) else { return (None, None) };
    let counted = (0..types.len()).find(|&k| op.row_use(k, &types) != RowUse::All);
    let tokens = counted.map_or(1, |k| types[k].shape.rows().unwrap().as_static().unwrap());
    let by_token = counted.is_some_and(|k| op.row_use(k, &types) == RowUse::Same)
        && results.first().is_some_and(|r| r.ty.kind == Kind::Tensor);
    let control = ControlDecl { state: operands[k].index, slots: 1, tokens };
    (Some(control), (by_token && tokens > 1).then_some(1))
}

/// What a device makes of a graph with these parameters, in the order of the graph's.
pub fn outputs(device: &Arc<dyn Device>, g: &Graph, params: &[Value]) -> Result<Vec<Vec<u8>>> {
    let of = |kind: ParamKind| {
        g.params.iter().zip(params).filter(move |(p, _)| p.kind == kind).map(|(p, v)| (&p.name, v))
    };
    let states: Vec<StateDecl> = of(ParamKind::State)
        .map(|(name, v)| StateDecl {
            name: name.clone(),
            ty: v.ty.clone(),
            bytes: v.bytes.len() as u64,
        })
        .collect();
    let program = plan(g.clone(), &states, device.target(), &CompileOptions::default())?;
    let mut writes = Vec::new();
    for (i, (_, v)) in of(ParamKind::State).enumerate() {
        writes.push(Write { to: WriteTo::State(i as u32), offset: 0, bytes: v.bytes.clone() });
    }
    for (name, v) in of(ParamKind::Input) {
        if let Some(i) = program.input(name) {
            writes.push(Write { to: WriteTo::Input(i as u32), offset: 0, bytes: v.bytes.clone() });
        }
    }
    let tensors: Vec<(&str, &[u8])> =
        of(ParamKind::Weight).map(|(name, v)| (name.as_str(), v.bytes.as_slice())).collect();
    run_program(device, program, &tensors, &writes, None)
}

/// A file of these tensors, each of which begins `at` bytes past a multiple of 16 in memory; where each begins.
fn file_of(tensors: &[(&str, &[u8])], at: usize) -> (SharedBytes, Vec<u64>) {
    // There is room between them: a tensor that ends where another begins could be taken for a part of it.
    let rooms = tensors.iter().map(|t| t.1.len() / 16 * 16 + 32);
    let mut file = vec![0; 16 + rooms.clone().sum::<usize>()];
    let mut start = (16 - file.as_ptr().addr() % 16) % 16 + at;
    let mut starts = Vec::new();
    for ((_, bytes), room) in tensors.iter().zip(rooms) {
        file[start..start + bytes.len()].copy_from_slice(bytes);
        starts.push(start as u64);
        start += room;
    }
    (Arc::new(file), starts)
}

/// Runs a program once, with weights that are tensors of these names. The device copies them; with `at` (below 16) it
/// may keep their map, in which they begin so many bytes past a multiple of 16.
pub fn run_program(
    device: &Arc<dyn Device>,
    mut program: Program,
    tensors: &[(&str, &[u8])],
    writes: &[Write],
    at: Option<usize>,
) -> Result<Vec<Vec<u8>>> {
    let (file, starts) = file_of(tensors, at.unwrap_or(0));
    let plan = WeightPlan::new(&[&program], &device.target().limits, |name| {
        let i = tensors.iter().position(|t| t.0 == name)?;
        Some((0, starts[i], tensors[i].1.len() as u64))
    })?;
    plan.bind(&mut program)?;
    let hand = if at.is_some() { Hand::Kept } else { Hand::Pieces(usize::MAX) };
    run_once(device.clone(), plan, program, file, hand, writes)
}

fn run_operands(
    device: &Arc<dyn Device>,
    op: &Op,
    operands: &[Value],
    at: Option<usize>,
) -> Vec<Vec<u8>> {
    let (program, writes) = program_of(op, operands);
    let weights = operands.iter().filter(|v| v.is_weight).map(|v| v.bytes.as_slice());
    let names: Vec<String> = program.weights.iter().map(|w| w.name.clone()).collect();
    let tensors: Vec<_> = names.iter().map(String::as_str).zip(weights).collect();
    run_program(device, program, &tensors, &writes, at).unwrap()
}

pub fn run_op(device: &Arc<dyn Device>, op: &Op, operands: &[Value]) -> Vec<Vec<u8>> {
    run_operands(device, op, operands, None)
}

/// The same; weights begin `at` (below 16) bytes past a multiple of 16 in a map.
pub fn run_op_mapped(
    device: &Arc<dyn Device>,
    op: &Op,
    operands: &[Value],
    at: usize,
) -> Vec<Vec<u8>> {
    run_operands(device, op, operands, Some(at))
}

pub fn oracle(op: &Op, operands: &[Value]) -> Vec<Vec<u8>> {
    let views: Vec<View<'_>> = operands.iter().map(|v| View::new(&v.ty, &v.bytes)).collect();
    reference::run(op, &views).unwrap()
}

/// Elements within `tolerance` of the largest magnitude; NaN and infinities where they are expected.
#[track_caller]
pub fn assert_close(got: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let found = difference_of_any(got, expected);
    assert!(
        found.relative() <= f64::from(tolerance),
        "{what}: element {} is {:?}, expected {:?}: {found:?}",
        found.at,
        got.get(found.at),
        expected.get(found.at)
    );
}

/// Runs an operator on every device and compares what it gives with the reference's, as f32.
#[track_caller]
pub fn check(op: impl Into<Op>, operands: &[Value], tolerance: f32, what: &str) {
    let op = op.into();
    let expected = oracle(&op, operands);
    for device in devices() {
        let what = format!("{} {what}, {}", op.name(), device.info().adapter);
        let got = run_op(&device, &op, operands);
        for (got, expected) in got.iter().zip(&expected) {
            assert_close(&to_f32s(got), &to_f32s(expected), tolerance, &what);
        }
    }
}

/// Rows of int8 blocks, as the reference makes them of f32.
pub fn quantized(format: BlockFormat, dims: [u64; 2], x: &[f32]) -> Value {
    let op = Op::from(rlx_core::ops::QuantizeRows::to(format));
    let bytes = oracle(&op, &[f32s(&dims, x)]).remove(0);
    Value::new(Type::tensor(DType::Block(format), Shape::of(&dims)), bytes)
}

/// Float types with kernels.
pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Results of every device beside the reference's: floats within a tolerance of the largest one and a
/// rounding of their type, all else equal.
#[track_caller]
pub fn check_types(op: impl Into<Op>, operands: &[Value], tolerance: f32, what: &str) {
    let op = op.into();
    let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
    assert_eq!(target().path(&op, &types), Ok(Path::Native), "{op:?} {what}");
    let results = op.infer(&types).unwrap();
    let expected = oracle(&op, operands);
    for device in devices() {
        let what = format!("{op:?} {what}, {}", device.info().adapter);
        let got = run_op(&device, &op, operands);
        for ((got, expected), ty) in got.iter().zip(&expected).zip(&results) {
            if !ty.dtype.is_float() {
                assert_eq!(got, expected, "{what}");
                continue;
            }
            let rounding = match ty.dtype {
                DType::F16 => 1e-3,
                DType::BF16 => 8e-3,
                _ => 0.0,
            };
            let (got, expected) = (floats_of(ty.dtype, got), floats_of(ty.dtype, expected));
            if expected.iter().any(|e| e.is_finite()) {
                assert_close(&got, &expected, tolerance + rounding, &what);
                continue;
            }
            // Nothing to be close to: NaN where NaN is, the same infinities, or nothing at all.
            let same = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
            let all = got.len() == expected.len() && got.iter().zip(&expected).all(same);
            assert!(all, "{what}: {got:?}, expected {expected:?}");
        }
    }
}

/// Numbers between -1 and 1.
pub fn small(random: &mut Random, dtype: DType, dims: &[u64]) -> Value {
    floats_as(dtype, dims, &random.floats(dims.iter().product::<u64>() as usize))
}
