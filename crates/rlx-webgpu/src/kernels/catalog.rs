//! Every kernel this crate can print, by way of the operators that ask for it: validators of WGSL
//! (naga, Dawn's Tint) read them all.

#[cfg(feature = "graphs")]
mod graphs;

use super::{Context, Kernel, RowsControl, kernel, planes, scalar};
use crate::gpu::Wgsl;
use crate::tuning::Tuning;
use rlx_core::Result;
use rlx_core::ir::lir::{Phase, Slice, Space, Step};
use rlx_core::ops::{
    Attention, AttentionJoin, AttentionSplit, Binary, CausalConv1d, DeltaNet, Epilogue,
    GatedDeltaNet, GatedRmsNorm, Gather, GroupedEpilogue, GroupedMatMul, KvWrite, Map, MatMul, Op,
    Predict, QuantizeRows, Region, RegionStep, RmsNorm, RmsNormAdd, Rope, RopeAttentionSplit,
    RopeKvWrite, RopeStyle, Route, Sample, StepFn, StepOperand, TakeRows, Unary, Unmask,
    WeightedSum, Zip,
};
use rlx_core::plan::{Buffer, Entry, Origin, WeightPlan};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Shape, Type};
use std::collections::BTreeMap;

/// One step over made-up places.
#[derive(Clone)]
struct Maker {
    plan: WeightPlan,
    operands: Vec<Slice>,
    states: u32,
}

impl Maker {
    fn new() -> Self {
        let mut plan = WeightPlan::default();
        plan.buffers = vec![Buffer { bytes: 1 << 20 }; 4];
        Maker { plan, operands: Vec::new(), states: 0 }
    }

    fn push(mut self, space: Space, index: u32, ty: Type) -> Result<Self> {
        let bytes = ty.bytes()?;
        self.operands.push(Slice { space, index, offset: 0, ty, bytes });
        Ok(self)
    }

    fn arena(self, dtype: DType, dims: &[u64]) -> Result<Self> {
        self.push(Space::Arena, 0, Type::tensor(dtype, Shape::of(dims)))
    }

    fn state(mut self, dtype: DType, dims: &[u64]) -> Result<Self> {
        self.states += 1;
        let index = self.states - 1;
        self.push(Space::State, index, Type::state(dtype, Shape::of(dims)))
    }

    fn weight(mut self, dtype: DType, dims: &[u64], buffer: u32) -> Result<Self> {
        let ty = Type::tensor(dtype, Shape::of(dims));
        let bytes = ty.bytes()?;
        self.plan.entries.push(Entry {
            name: String::new(),
            ty: ty.clone(),
            origin: Origin::File { shard: 0, offset: 0 },
            buffer,
            offset: 0,
            bytes,
        });
        let index = self.plan.entries.len() as u32 - 1;
        self.push(Space::Weight, index, ty)
    }

    fn kernel(self, op: impl Into<Op>, rows_control: bool, packed_dot: bool) -> Result<Kernel> {
        self.kernel_in(op, rows_control, Wgsl { packed_dot, ..Wgsl::default() })
    }

    fn kernel_in(self, op: impl Into<Op>, rows_control: bool, wgsl: Wgsl) -> Result<Kernel> {
        let op = op.into();
        let types: Vec<&Type> = self.operands.iter().map(|s| &s.ty).collect();
        let mut results = Vec::new();
        for (i, ty) in op.infer(&types)?.into_iter().enumerate() {
            results.push(match op.writes().iter().find(|w| w.1 == i) {
                Some(&(operand, _)) => self.operands[operand].clone(),
                None => Slice { space: Space::Arena, index: 0, offset: 0, bytes: ty.bytes()?, ty },
            });
        }
        let label = op.name().to_owned();
        let step = Step {
            op,
            operands: self.operands,
            results,
            regions: Vec::new(),
            part: None,
            live: None,
            phase: Phase::Steady,
            label,
        };
        // A control block after the operands' states.
        let counted = step.results.first().filter(|_| rows_control);
        let rows_control = match counted {
            Some(y) => {
                let rows = y.ty.shape.static_dims()?.first().copied().unwrap_or(1);
                Some(RowsControl { state: self.states, rows })
            }
            None => None,
        };
        let tuning = Tuning::usual(wgsl);
        let cx = Context { plan: &self.plan, rows_control, wgsl, tuning };
        kernel(&step, &cx)?.ok_or_else(|| rlx_core::Error::internal("an empty step"))
    }
}

/// A chain of every function that has WGSL, of a tensor and a row.
fn every_step() -> Region {
    let mut steps = Vec::new();
    let mut push = |f, second: Option<StepOperand>| {
        let last = steps.len().checked_sub(1).map_or(StepOperand::Input(0), StepOperand::Step);
        let operands = core::iter::once(last).chain(second).collect();
        steps.push(RegionStep { f, operands });
    };
    for (f, _) in Binary::ALL.into_iter().filter(|row| scalar::binary(row.0).is_some()) {
        push(StepFn::Zip(f), Some(StepOperand::Input(1)));
    }
    for (f, _) in Unary::ALL.into_iter().filter(|row| scalar::unary(row.0).is_some()) {
        push(StepFn::Map(f), None);
    }
    Region { steps }
}

/// Every kernel, by a name fit for a file; those with subgroups say so where the compiler asks for it.
///
/// # Errors
/// Only where this crate is wrong about its own operators.
pub fn all(enable_subgroups: bool) -> Result<BTreeMap<String, Kernel>> {
    let mut out = BTreeMap::new();
    let mut types = vec![DType::F32, DType::F16, DType::BF16];
    types.extend(Target::every_format().into_iter().map(DType::Block));
    for &dtype in &types {
        matmuls(dtype, &mut out)?;
        for k in if dtype.is_block() { vec![256] } else { vec![64, 33] } {
            let made = Maker::new().weight(dtype, &[9, k], 0)?.arena(DType::U32, &[3])?;
            let few = dtype == DType::F32;
            out.insert(format!("gather_{dtype}_{k}"), made.kernel(Gather::default(), few, true)?);
        }
    }
    segments(&mut out)?;
    halves(&types, &mut out)?;
    quantising(enable_subgroups, &mut out)?;
    floats(enable_subgroups, &mut out)?;
    in_planes(&mut out)?;
    let made = Maker::new().arena(DType::F32, &[3, 65])?.weight(DType::F32, &[65], 0)?;
    out.insert("rms_norm".into(), made.kernel(RmsNorm { eps: 1e-5 }, false, true)?);
    let made = Maker::new().arena(DType::F32, &[3, 257])?.weight(DType::F32, &[257], 0)?;
    out.insert("rms_norm_257".into(), made.kernel(RmsNorm { eps: 1e-5 }, false, true)?);
    let made = Maker::new().arena(DType::F32, &[3, 65])?.weight(DType::F32, &[65], 0)?;
    out.insert("rms_norm_rows".into(), made.kernel(RmsNorm { eps: 1e-5 }, true, true)?);
    let made = Maker::new()
        .arena(DType::F32, &[3, 64])?
        .weight(DType::F32, &[64], 0)?
        .arena(DType::F32, &[3, 64])?;
    out.insert("rms_norm_add".into(), made.kernel(RmsNormAdd { eps: 1e-5 }, false, true)?);
    experts(&types, &mut out)?;
    for format in [BlockFormat::Q8_0, BlockFormat::Q15_0] {
        let made = Maker::new().arena(DType::F32, &[3, 256])?;
        let name = format!("quantize_rows_{}", format.name());
        out.insert(name, made.kernel(QuantizeRows::to(format), true, true)?);
    }
    for (f, name) in Unary::ALL.into_iter().filter(|row| scalar::unary(row.0).is_some()) {
        let made = Maker::new().arena(DType::F32, &[3, 65])?;
        out.insert(format!("map_{name}"), made.kernel(Map { f }, false, true)?);
    }
    for (f, name) in Binary::ALL.into_iter().filter(|row| scalar::binary(row.0).is_some()) {
        let made = Maker::new().arena(DType::F32, &[3, 65])?.arena(DType::F32, &[65])?;
        out.insert(format!("zip_{name}"), made.kernel(Zip { f }, false, true)?);
    }
    let made = Maker::new().arena(DType::F32, &[3, 65])?.arena(DType::F32, &[65])?;
    out.insert("elementwise_region".into(), made.kernel(every_step(), false, true)?);
    for (f, name) in Unary::ALL.into_iter().filter(|row| scalar::unary(row.0).is_some()) {
        for m in [1, 5] {
            let made = Maker::new().arena(DType::F32, &[m, 64])?;
            let made = made.weight(DType::F32, &[9, 64], 0)?.weight(DType::F32, &[9, 64], 0)?;
            let op = MatMul { segments: 2, epilogue: Epilogue::Glu(f), ..MatMul::plain() };
            out.insert(format!("matmul_{m}_glu_{name}"), made.kernel(op, true, true)?);
        }
    }
    let made = Maker::new().arena(DType::F32, &[7, 33])?.state(DType::U32, &[16])?;
    out.insert("take_rows".into(), made.kernel(TakeRows { rows: 1u64.into() }, false, true)?);
    let made = Maker::new()
        .arena(DType::F32, &[1, 1000])?
        .state(DType::U32, &[64])?
        .state(DType::U32, &[1000])?
        .state(DType::U32, &[16])?;
    out.insert("sample".into(), made.kernel(Sample, false, true)?);
    let made = Maker::new()
        .arena(DType::F32, &[8, 263])?
        .state(DType::U32, &[32])?
        .state(DType::U32, &[24])?;
    out.insert("predict".into(), made.kernel(Predict, false, true)?);
    let made = Maker::new().arena(DType::U32, &[8])?.arena(DType::U32, &[8])?;
    let made = made.state(DType::U32, &[24])?;
    out.insert("unmask".into(), made.kernel(Unmask, false, true)?);
    caches(enable_subgroups, &mut out)?;
    #[cfg(feature = "graphs")]
    graphs::all(&mut out)?;
    Ok(out)
}

/// Routes of every kind, and experts' products of every type and form.
fn experts(types: &[DType], out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    for (name, op) in [
        ("softmax", Route::softmax(2)),
        ("sigmoid", Route { sigmoid: true, normalise: true, ..Route::softmax(2) }),
        ("groups", Route { groups: 4, top_groups: 2, group_sum: 2, ..Route::softmax(3) }),
    ] {
        for (bias, counted) in [(false, false), (true, true)] {
            let op = Route { choice_bias: bias, ..op.clone() };
            let made = Maker::new().arena(DType::F32, &[5, 16])?;
            let made = if bias { made.weight(DType::F32, &[16], 0)? } else { made };
            let name = format!("route_{name}{}", if bias { "_bias" } else { "" });
            out.insert(name, made.kernel(op, counted, true)?);
        }
    }
    // x and ids of rows that have two of three experts each.
    let start = |m: u64, k: u64, own: bool, banks: &[DType], bias: bool| {
        let x: &[u64] = if own { &[m, 2, k] } else { &[m, k] };
        let mut made = Maker::new().arena(DType::F32, x)?;
        for (i, &dtype) in banks.iter().enumerate() {
            made = made.weight(dtype, &[3, 9, k], i as u32)?;
        }
        for _ in banks.iter().filter(|_| bias) {
            made = made.weight(DType::F32, &[3, 9], 2)?;
        }
        made.arena(DType::U32, &[m, 2])
    };
    let glu = GroupedMatMul::glu(Unary::Silu);
    let each = GroupedMatMul { bias: true, epilogue: GroupedEpilogue::None, ..glu.clone() };
    let (q4, q6) = (DType::Block(BlockFormat::Q4K), DType::Block(BlockFormat::Q6K));
    for m in [5, 33] {
        for &dtype in types {
            for k in if dtype.is_block() { vec![256] } else { vec![64, 33] } {
                let made = start(m, k, false, &[dtype, dtype], false)?;
                let name = format!("grouped_matmul_{m}_{dtype}_{k}_glu");
                out.insert(name, made.kernel(glu.clone(), true, true)?);
            }
        }
        for (own, bias) in [(false, true), (true, false)] {
            let made = start(m, 256, own, &[q4, q6], bias)?;
            let name = format!("grouped_matmul_{m}_two{}", if bias { "_bias" } else { "" });
            let op = GroupedMatMul { bias, ..each.clone() };
            out.insert(name, made.kernel(op, !own, true)?);
        }
    }
    // Of int8 blocks.
    let q8_0 = DType::Block(BlockFormat::Q8_0);
    for packed_dot in [true, false] {
        let made = Maker::new().arena(q8_0, &[5, 256])?;
        let made = made.weight(q4, &[3, 9, 256], 0)?.weight(q4, &[3, 9, 256], 1)?;
        let made = made.arena(DType::U32, &[5, 2])?;
        let name = format!("grouped_matmul_int8_{packed_dot}");
        out.insert(name, made.kernel(glu.clone(), true, packed_dot)?);
    }
    for (name, epilogue, bias) in
        [("sum", GroupedEpilogue::Sum, false), ("sum_add_bias", GroupedEpilogue::SumAdd, true)]
    {
        let made = start(5, 256, true, &[q6], bias)?.arena(DType::F32, &[5, 2])?;
        let made = if bias { made.arena(DType::F32, &[5, 9])? } else { made };
        let op = GroupedMatMul { segments: 1, bias, epilogue };
        out.insert(format!("grouped_matmul_{name}"), made.kernel(op, true, true)?);
    }
    recurrences(out)?;
    delta_nets(out)?;
    for counted in [false, true] {
        let made = Maker::new().arena(DType::F32, &[5, 2, 9])?.arena(DType::F32, &[5, 2])?;
        let name = if counted { "weighted_sum_rows" } else { "weighted_sum" };
        out.insert(name.into(), made.kernel(WeightedSum, counted, true)?);
    }
    Ok(())
}

/// Delta nets of one row, of several, and of enough for chunks.
fn delta_nets(out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    for rows in [1, 5, 64] {
        for (n, v, tiled) in [(128, 128, true), (5, 3, false)] {
            let made = Maker::new()
                .arena(DType::F32, &[rows, 2, n])?
                .arena(DType::F32, &[rows, 2, n])?
                .arena(DType::F32, &[rows, 4, v])?
                .arena(DType::F32, &[rows, 4])?
                .arena(DType::F32, &[rows, 4])?
                .state(DType::F32, &[4, n, v])?
                .state(DType::U32, &[16])?;
            let op = GatedDeltaNet { state_size: n as usize, carry: true, tiled };
            let name = format!("gated_delta_net_{rows}_{n}_{v}");
            out.insert(name, made.kernel(op, false, true)?);
            let made = Maker::new()
                .arena(DType::F32, &[rows, 4 * n + 4 * v])?
                .arena(DType::F32, &[rows, 4])?
                .arena(DType::F32, &[rows, 4])?
                .weight(DType::F32, &[4], 0)?
                .weight(DType::F32, &[4], 1)?
                .state(DType::F32, &[4, n, v])?
                .state(DType::U32, &[16])?;
            let op = DeltaNet { key_heads: 2, state_size: n as usize, eps: 1e-6, tiled };
            out.insert(format!("delta_net_{rows}_{n}_{v}"), made.kernel(op, false, true)?);
        }
    }
    Ok(())
}

/// Convolutions and gated norms of a delta net, each with a row and with several.
fn recurrences(out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    for rows in [1, 5] {
        for (name, act, gated) in [("silu", Some(Unary::Silu), false), ("gated", None, true)] {
            let made = Maker::new()
                .arena(DType::F32, &[rows, if gated { 210 } else { 70 }])?
                .weight(DType::F32, &[70, 4], 0)?
                .state(DType::F32, &[3, 70])?
                .state(DType::U32, &[16])?;
            let op = CausalConv1d { act, gated };
            out.insert(format!("causal_conv1d_{rows}_{name}"), made.kernel(op, false, true)?);
        }
        let made = Maker::new()
            .arena(DType::F32, &[rows, 4, 128])?
            .weight(DType::F32, &[128], 0)?
            .arena(DType::F32, &[rows, 4, 128])?;
        let op = GatedRmsNorm { eps: 1e-5, act: Unary::Silu };
        out.insert(format!("gated_rms_norm_{rows}"), made.kernel(op, false, true)?);
    }
    Ok(())
}

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);

/// Formats whose readers stand in every form of a kernel; the others' stand in a few.
const COMMON: [BlockFormat; 5] =
    [BlockFormat::Q4_0, BlockFormat::Q8_0, BlockFormat::Q4K, BlockFormat::Q5K, BlockFormat::Q6K];

fn matmuls(dtype: DType, out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    let int8: &[BlockFormat] = match dtype {
        DType::Block(_) => &[BlockFormat::Q8_0, BlockFormat::Q15_0],
        _ => &[],
    };
    let k = if dtype.is_block() { 256 } else { 64 };
    let few = matches!(dtype, DType::Block(b) if !COMMON.contains(&b));
    for m in [1, 5, 65] {
        let int8 = int8.iter().map(|&x| (DType::Block(x), k));
        for (x, k) in [(DType::F32, k), (DType::F32, 33)].into_iter().chain(int8) {
            if dtype.is_block() && k == 33 {
                continue;
            }
            for (name, epilogue) in [
                ("none", Epilogue::None),
                ("add", Epilogue::Add),
                ("map", Epilogue::Map(Unary::Gelu)),
                ("glu", Epilogue::Glu(Unary::Silu)),
            ] {
                if few && name != "glu" || m == 65 && (x == DType::F32 || name != "glu") {
                    continue;
                }
                // Without biases rows of int8 read weights by 16 bytes, of short blocks tiles alone do.
                let bias = x == DType::F32 || matches!(name, "add" | "map");
                // int8 x has no norm; only int8 x asks for integer dot products, and of its rows a few
                // are no tiles where subgroups are wide.
                let variants: &[(bool, bool, Option<u32>)] = if x == DType::F32 {
                    &[(false, true, None), (true, true, None)]
                } else {
                    &[(false, true, None), (false, false, None), (false, true, Some(32))]
                };
                for &(norm, packed_dot, subgroup) in variants {
                    {
                        let segments = if name == "glu" { 2 } else { 1 };
                        let mut made = Maker::new().arena(x, &[m, k])?;
                        if norm {
                            made = made.weight(DType::F32, &[k], 1)?;
                        }
                        for _ in 0..segments {
                            made = made.weight(dtype, &[9, k], 0)?;
                        }
                        for _ in 0..if bias { segments } else { 0 } {
                            made = made.weight(DType::F32, &[9], 1)?;
                        }
                        if name == "add" {
                            made = made.arena(DType::F32, &[m, 9])?;
                        }
                        let norm_eps = norm.then_some(1e-5);
                        let op =
                            MatMul { segments, bias, norm: norm_eps, epilogue, ..MatMul::plain() };
                        let key = format!(
                            "matmul_{m}_{dtype}_{k}_{x}_{name}_norm_{norm}_packed_{packed_dot}_wide_{}",
                            subgroup.is_some()
                        );
                        let wgsl = Wgsl { packed_dot, subgroup, ..Wgsl::default() };
                        out.insert(key, made.kernel_in(op, true, wgsl)?);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Products of 16-bit floats: by every type, rows of f32 and of blocks.
fn halves(types: &[DType], out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    let wgsl = Wgsl { f16: true, ..Wgsl::default() };
    for &dtype in types {
        for k in if dtype.is_block() { vec![256] } else { vec![64, 33] } {
            let made = Maker::new().arena(DType::F32, &[5, k])?;
            let made = made.weight(dtype, &[9, k], 0)?.weight(dtype, &[9, k], 0)?;
            let op =
                MatMul { segments: 2, epilogue: Epilogue::Glu(Unary::Silu), ..MatMul::plain() };
            out.insert(format!("matmul_half_{dtype}_{k}_glu"), made.kernel_in(op, true, wgsl)?);
        }
    }
    let (q4, q6) = (DType::Block(BlockFormat::Q4K), DType::Block(BlockFormat::Q6K));
    for x in [DType::F32, DType::Block(BlockFormat::Q8_0)] {
        let made = Maker::new().arena(x, &[5, 256])?;
        let made = made.weight(q4, &[9, 256], 0)?.weight(q6, &[9, 256], 0)?;
        let made = made.weight(DType::F32, &[9], 1)?.weight(DType::F32, &[9], 1)?;
        let op = MatMul { segments: 2, bias: true, ..MatMul::plain() };
        out.insert(format!("matmul_half_{x}_two"), made.kernel_in(op, true, wgsl)?);
    }
    Ok(())
}

/// Matmuls that make int8 blocks of their row: every epilogue, with and without subgroups and norms.
fn quantising(enable_subgroups: bool, out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    for block in Target::every_format() {
        let dtype = DType::Block(block);
        if matches!(block, BlockFormat::Q4K | BlockFormat::Q6K) {
            for lanes in [None, Some(32)] {
                let wgsl = Wgsl { packed_dot: true, subgroup: lanes, enable_subgroups, f16: false };
                rows(dtype, Some(BlockFormat::Q15_0), wgsl, false, out)?;
            }
        }
        let quantize = Some(BlockFormat::Q8_0);
        for lanes in [None, Some(4), Some(8), Some(32)] {
            let packed_dot = lanes != Some(8);
            let wgsl = Wgsl { packed_dot, subgroup: lanes, enable_subgroups, f16: false };
            rows(dtype, quantize, wgsl, COMMON.contains(&block), out)?;
        }
    }
    Ok(())
}

/// The kernel that brings weights into planes, and those that read them there; products of one row are among others.
fn in_planes(out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    let (dtype, k) = (DType::Block(BlockFormat::Q6K), 2048);
    out.insert("planes".into(), planes::kernel(k, 0, 9)?);
    let made = Maker::new().weight(dtype, &[9, k], 0)?.arena(DType::U32, &[3])?;
    out.insert(format!("gather_{dtype}_{k}"), made.kernel(Gather::default(), false, true)?);
    for (m, x) in [(5, DType::F32), (5, Q8_0), (65, Q8_0)] {
        let made = Maker::new().arena(x, &[m, k])?.weight(dtype, &[9, k], 0)?;
        out.insert(
            format!("matmul_{m}_{dtype}_{k}_{x}"),
            made.kernel(MatMul::plain(), true, true)?,
        );
    }
    Ok(())
}

/// Products of a row of floats with packed weights, and with others.
fn floats(enable_subgroups: bool, out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    let packed = Target::every_format().into_iter().map(DType::Block);
    for dtype in packed.chain([DType::F32, DType::F16, DType::BF16]) {
        let common = matches!(dtype, DType::Block(b) if COMMON.contains(&b));
        for lanes in [None, Some(4), Some(32)] {
            let wgsl = Wgsl { packed_dot: true, subgroup: lanes, enable_subgroups, f16: false };
            if common || lanes == Some(32) {
                rows(dtype, None, wgsl, common, out)?;
            }
        }
    }
    Ok(())
}

/// Products of one row by weights of a type: every epilogue and prologue with a full team, where `common` asks
/// for them; with other teams what differs there.
fn rows(
    dtype: DType,
    quantize: Option<BlockFormat>,
    wgsl: Wgsl,
    common: bool,
    out: &mut BTreeMap<String, Kernel>,
) -> Result<()> {
    for (name, epilogue) in [
        ("none", Epilogue::None),
        ("add", Epilogue::Add),
        ("map", Epilogue::Map(Unary::Gelu)),
        ("glu", Epilogue::Glu(Unary::Silu)),
    ] {
        let all: &[_] = &[(true, false, 512), (false, true, 8192), (true, true, 14_336)];
        let few = if name == "glu" { &all[..1] } else { &[] };
        let whole = wgsl.subgroup == Some(32) && common;
        for &(norm, bias, k) in if whole { all } else { few } {
            let segments = if name == "glu" { 2 } else { 1 };
            let mut made = Maker::new().arena(DType::F32, &[1, k])?;
            if norm {
                made = made.weight(DType::F32, &[k], 1)?;
            }
            for _ in 0..segments {
                made = made.weight(dtype, &[9, k], 0)?;
            }
            for _ in 0..if bias { segments } else { 0 } {
                made = made.weight(DType::F32, &[9], 1)?;
            }
            if name == "add" {
                made = made.arena(DType::F32, &[1, 9])?;
            }
            let norm_eps = norm.then_some(1e-5);
            let op =
                MatMul { segments, bias, norm: norm_eps, quantize, epilogue, ..MatMul::plain() };
            let lanes = wgsl.subgroup.unwrap_or(0);
            let kind = match quantize {
                None => "rows_floats",
                Some(BlockFormat::Q15_0) => "rows_int16",
                Some(_) => "rows",
            };
            let key = format!("matmul_{kind}_{dtype}_{k}_{name}_norm_{norm}_lanes_{lanes}");
            out.insert(key, made.kernel_in(op, false, wgsl)?);
        }
    }
    Ok(())
}

/// Segments of different types, in one buffer and in several.
fn segments(out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    let types = [BlockFormat::Q4K, BlockFormat::Q6K].map(DType::Block);
    for m in [1, 5] {
        for buffers in [1u32, 2] {
            let mut made = Maker::new().arena(DType::F32, &[m, 256])?;
            made = made.weight(DType::F32, &[256], 0)?;
            for i in 0..3u32 {
                made = made.weight(types[i as usize % 2], &[9, 256], i % buffers)?;
            }
            let op = MatMul { segments: 3, norm: Some(1e-5), ..MatMul::plain() };
            out.insert(format!("matmul_{m}_segments_{buffers}"), made.kernel(op, true, true)?);
        }
    }
    Ok(())
}

/// Splits by teams, and those that rotate and write: groups of a head and of eight, both styles.
fn splits(kv: DType, enable_subgroups: bool, out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    // Lanes are those of a team at least; without them each thread has a position.
    let lanes = |e: u64| e / if kv == DType::F32 { 4 } else { 8 };
    let odd = if kv.is_block() { 192 } else { 80 };
    for (e, group, lanes) in [
        (64, 4, lanes(64)),
        (64, 4, 32),
        (128, 8, 32),
        (128, 1, lanes(128)),
        (odd, 2, 0),
        (64, 4, 0),
    ] {
        let subgroup = (lanes > 0).then_some(lanes as u32);
        let wgsl = Wgsl { subgroup, enable_subgroups, ..Wgsl::default() };
        let causal = Attention::causal(e as usize, 0.125);
        let whole = Attention { softcap: (group == 1).then_some(50.0), ..causal };
        let split = AttentionSplit { whole, splits: 3, least: 64 };
        let made = Maker::new()
            .arena(DType::F32, &[1, 2 * group * e])?
            .state(kv, &[2, 512, e])?
            .state(kv, &[2, 512, e])?
            .state(DType::U32, &[16])?;
        let key = format!("attention_split_{kv}_{e}_{group}_lanes_{lanes}");
        out.insert(key, made.kernel_in(split.clone(), false, wgsl)?);
        for style in [RopeStyle::Adjacent, RopeStyle::Half] {
            let made = Maker::new()
                .arena(DType::F32, &[1, 2 * group * e])?
                .arena(DType::F32, &[1, 2 * e])?
                .arena(DType::F32, &[1, 2 * e])?
                .weight(DType::F32, &[48, 32, 2], 0)?
                .state(kv, &[2, 512, e])?
                .state(kv, &[2, 512, e])?
                .state(DType::U32, &[16])?;
            let name = style.name();
            let key = |normed| {
                format!("rope_attention_split_{kv}_{name}_{e}_{group}{normed}_lanes_{lanes}")
            };
            let op = RopeAttentionSplit { style, norm: None, split: split.clone() };
            out.insert(key(""), made.clone().kernel_in(op.clone(), false, wgsl)?);
            let made = made.weight(DType::F32, &[e], 0)?.weight(DType::F32, &[e], 0)?;
            let op = RopeAttentionSplit { norm: Some(1e-6), ..op };
            out.insert(key("_normed"), made.kernel_in(op, false, wgsl)?);
        }
    }
    Ok(())
}

fn caches(enable_subgroups: bool, out: &mut BTreeMap<String, Kernel>) -> Result<()> {
    for kv in
        [DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0), DType::Block(BlockFormat::Q4_0)]
    {
        // Heads of no power of two.
        let odd = if kv.is_block() { 192 } else { 80 };
        let made = Maker::new()
            .state(kv, &[2, 8, 64])?
            .arena(DType::F32, &[3, 128])?
            .state(DType::U32, &[16])?;
        out.insert(format!("kv_write_{kv}"), made.kernel(KvWrite::default(), false, true)?);
        for (e, kv_heads) in [(64, 1), (64, 4), (odd, 2), (256, 1)] {
            let made = Maker::new()
                .arena(DType::F32, &[1, 4 * e])?
                .state(kv, &[kv_heads, 512, e])?
                .state(kv, &[kv_heads, 512, e])?
                .state(DType::U32, &[16])?;
            let causal = Attention::causal(e as usize, 0.125);
            let whole = Attention { softcap: (e == odd).then_some(50.0), ..causal };
            let op = AttentionSplit { whole, splits: 3, least: 64 };
            let key = format!("attention_split_{kv}_{kv_heads}_{e}");
            out.insert(key, made.kernel(op, false, true)?);
        }
        splits(kv, enable_subgroups, out)?;
        let made = Maker::new().arena(DType::F32, &[6, 128])?.arena(DType::F32, &[6, 4])?;
        out.insert(
            "attention_join".into(),
            made.kernel(AttentionJoin { splits: 3, sinks: false }, false, true)?,
        );
        // Few rows in splits: a tile of two rows and one with places of nobody, in rings and capped.
        for (e, heads, ring) in [(64, 32, false), (odd, 6, true), (512, 4, false)] {
            let made = Maker::new()
                .arena(DType::F32, &[5, heads * e])?
                .state(kv, &[2, 512, e])?
                .state(kv, &[2, 512, e])?
                .state(DType::U32, &[16])?;
            let causal = Attention::causal(e as usize, 0.125);
            let (window, softcap) = if ring { (Some(99), Some(50.0)) } else { (None, None) };
            let op = AttentionSplit {
                whole: Attention { window, softcap, ring, ..causal },
                splits: 6,
                least: 128,
            };
            let key = format!("attention_split_{kv}_rows_{heads}_{e}");
            out.insert(key, made.kernel(op, false, true)?);
        }
        let made = Maker::new()
            .arena(DType::F32, &[96, 128])?
            .arena(DType::F32, &[96, 4])?
            .arena(DType::F32, &[5, 128])?
            .state(DType::U32, &[16])?;
        out.insert(
            "attention_join_rows".into(),
            made.kernel(AttentionJoin { splits: 6, sinks: false }, false, true)?,
        );
        for (rows, e) in [(1, 64), (5, 64), (1, odd), (5, odd), (5, 128), (5, 256), (5, 512)] {
            let made = Maker::new()
                .arena(DType::F32, &[rows, 4 * e])?
                .state(kv, &[2, 8, e])?
                .state(kv, &[2, 8, e])?
                .state(DType::U32, &[16])?;
            let op = Attention::causal(e as usize, 0.125);
            out.insert(format!("attention_{kv}_{rows}_{e}"), made.kernel(op, false, true)?);
        }
        for rows in [1, 5] {
            let made = Maker::new()
                .arena(DType::F32, &[rows, 256])?
                .state(kv, &[2, 8, 64])?
                .state(kv, &[2, 8, 64])?
                .state(DType::U32, &[16])?;
            let causal = Attention::causal(64, 0.125);
            let op = Attention { window: Some(3), softcap: Some(50.0), ..causal };
            out.insert(format!("attention_{kv}_{rows}_capped"), made.kernel(op, false, true)?);
        }
        for style in [RopeStyle::Adjacent, RopeStyle::Half] {
            let made = Maker::new()
                .arena(DType::F32, &[3, 256])?
                .arena(DType::F32, &[3, 128])?
                .arena(DType::F32, &[3, 128])?
                .weight(DType::F32, &[6, 32, 2], 0)?
                .state(kv, &[2, 8, 64])?
                .state(kv, &[2, 8, 64])?
                .state(DType::U32, &[16])?;
            let name = format!("rope_kv_write_{kv}_{}", style.name());
            out.insert(
                name,
                made.kernel(RopeKvWrite { style, head_dim: 64, ring: false }, false, true)?,
            );
        }
    }
    for style in [RopeStyle::Adjacent, RopeStyle::Half] {
        let made = Maker::new()
            .arena(DType::F32, &[3, 256])?
            .weight(DType::F32, &[6, 32, 2], 0)?
            .state(DType::U32, &[16])?;
        let name = format!("rope_{}", style.name());
        out.insert(name, made.kernel(Rope { style, head_dim: 64 }, false, true)?);
    }
    Ok(())
}
