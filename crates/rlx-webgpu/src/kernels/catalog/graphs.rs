//! Kernels of graphs, for validators: each text once in every form that it has.

use super::{Kernel, Maker};
use rlx_core::Result;
use rlx_core::ops::{
    ArgMax, ArgMin, BatchMatMul, Binary, Cast, Clamp, Compare, Comparison, Concat, Conv,
    ConvTranspose, DotGeneral, Epilogue, Expand, Gather, GatherElements, GroupNorm, HeadLayout,
    Im2Col, Interpolate, Interpolation, Iota, LayerNorm, Map, Mask, MatMul, Op, Pad, PadMode, Pool,
    PoolKind, RandomNormal, RandomUniform, Reduce, Reduction, Region, RegionStep, Reverse, Roll,
    ScatterAdd, Sdpa, Select, Slice, Softmax, Sort, StateWrite, StepFn, StepOperand, TopK,
    Transpose, Unary, Window, Zip,
};
use rlx_core::types::{DType, Scalar, Shape};
use std::collections::BTreeMap;

const SCALARS: [Scalar; 9] = [
    Scalar::F32,
    Scalar::F16,
    Scalar::Bf16,
    Scalar::I32,
    Scalar::I16,
    Scalar::I8,
    Scalar::U32,
    Scalar::U8,
    Scalar::Bool,
];

type Out = BTreeMap<String, Kernel>;

/// The kernel of an operator over tensors of the arena.
fn put(
    out: &mut Out,
    name: impl Into<String>,
    op: impl Into<Op>,
    operands: &[(DType, &[u64])],
) -> Result<()> {
    let mut made = Maker::new();
    for (dtype, dims) in operands {
        made = made.arena(*dtype, dims)?;
    }
    out.insert(format!("graphs_{}", name.into()), made.kernel(op, false, true)?);
    Ok(())
}

/// Every kernel of graphs, by a name fit for a file.
pub(super) fn all(out: &mut Out) -> Result<()> {
    elementwise(out)?;
    movement(out)?;
    reductions(out)?;
    products(out)?;
    images(out)?;
    attention(out)
}

fn elementwise(out: &mut Out) -> Result<()> {
    let (a, b): (&[u64], &[u64]) = (&[3, 1, 5], &[4, 1]);
    for scalar in SCALARS {
        let dtype = DType::Scalar(scalar);
        let name = scalar.name();
        for (f, test) in Comparison::ALL {
            put(out, format!("compare_{name}_{test}"), Compare { f }, &[(dtype, a), (dtype, b)])?;
        }
        let cond = (DType::BOOL, a);
        put(out, format!("select_{name}"), Select, &[cond, (dtype, a), (dtype, b)])?;
        for to in SCALARS.into_iter().filter(|to| *to != scalar) {
            let op = Cast { to: DType::Scalar(to) };
            put(out, format!("cast_{name}_{}", to.name()), op, &[(dtype, a)])?;
        }
        for (f, function) in Binary::ALL {
            if scalar != Scalar::Bool && (f != Binary::Pow || dtype.is_float()) {
                put(out, format!("zip_{name}_{function}"), Zip { f }, &[(dtype, a), (dtype, b)])?;
            }
        }
    }
    for (f, name) in Unary::ALL {
        put(out, format!("map_f16_{name}"), Map { f }, &[(DType::F16, a)])?;
    }
    put(out, "clamp", Clamp { min: 0.0, max: 1.0 }, &[(DType::BF16, a)])?;
    let step = |f, operands: &[StepOperand]| RegionStep { f, operands: operands.to_vec() };
    let (input, last) = (StepOperand::Input, StepOperand::Step);
    let region = Region {
        steps: vec![
            step(StepFn::Zip(Binary::Mul), &[input(0), input(1)]),
            step(StepFn::Cast(DType::F16), &[last(0)]),
            step(StepFn::Compare(Comparison::Gt), &[last(0), input(0)]),
            step(StepFn::Cast(DType::F32), &[last(1)]),
            step(StepFn::Clamp(-1.0, 1.0), &[last(3)]),
            step(StepFn::Select, &[last(2), last(4), input(0)]),
        ],
    };
    put(out, "region", region, &[(DType::F32, &[2, 3, 1, 5]), (DType::F32, &[3, 4, 1])])
}

fn movement(out: &mut Out) -> Result<()> {
    let sizes = [Scalar::F32, Scalar::F16, Scalar::I8, Scalar::I64];
    for scalar in sizes {
        let (dtype, name) = (DType::Scalar(scalar), scalar.name());
        let x: (DType, &[u64]) = (dtype, &[3, 5, 7]);
        let slice = Slice { axis: 1, start: 4u64.into(), len: 2u64.into(), step: -2 };
        put(out, format!("transpose_{name}"), Transpose { perm: vec![2, 0, 1] }, &[x])?;
        put(out, format!("reverse_{name}"), Reverse { axes: vec![0, 2] }, &[x])?;
        put(out, format!("slice_{name}"), slice, &[x])?;
        let roll = Roll { shifts: vec![1, -2], axes: vec![0, 2] };
        put(out, format!("roll_{name}"), roll, &[x])?;
        let expand = Expand { dims: Shape::of(&[2, 3, 5, 7]) };
        put(out, format!("expand_{name}"), expand, &[(dtype, &[3, 1, 7])])?;
        let parts = [x, (dtype, &[3, 2, 7])];
        put(out, format!("concat_{name}"), Concat { axis: 1 }, &parts)?;
        for ids in [DType::U32, DType::I32, DType::I64] {
            let ids = (ids, &[4u64][..]);
            put(out, format!("gather_{name}_{}", ids.0), Gather { axis: 1 }, &[x, ids])?;
        }
        if dtype.is_float() {
            let window = Window::new(2).stride(&[2, 1]).pad(&[1, 0], &[1, 2]);
            let op = Im2Col { kernel: vec![3, 2], window };
            put(out, format!("im2col_{name}"), op, &[(dtype, &[2, 3, 5, 7])])?;
        }
        let ids = (DType::I32, &[3u64, 2, 7][..]);
        put(out, format!("gather_elements_{name}"), GatherElements { axis: 1 }, &[x, ids])?;
        let pads =
            [PadMode::Constant(0.0), PadMode::Reflect, PadMode::Replicate, PadMode::Circular];
        for mode in pads {
            let op = Pad { low: vec![1, 0, 2], high: vec![2, 0, 1], mode };
            put(out, format!("pad_{name}_{}", mode.name()), op, &[x])?;
        }
    }
    for (x, name) in [(DType::F16, "f16"), (DType::BF16, "bf16")] {
        let ids = (DType::I32, &[2u64, 2][..]);
        put(out, format!("embedding_{name}"), Gather { axis: 0 }, &[(x, &[5, 7]), ids])?;
        let op = Pad { low: vec![1], high: vec![1], mode: PadMode::Constant(0.5) };
        put(out, format!("pad_{name}_half"), op, &[(x, &[5])])?;
    }
    for scalar in SCALARS.into_iter().filter(|s| *s != Scalar::Bool) {
        let (dtype, name) = (DType::Scalar(scalar), scalar.name());
        let dims = Shape::of(&[3, 5, 7]);
        put(out, format!("iota_{name}"), Iota { dtype, dims, axis: 1 }, &[])?;
        let x: (DType, &[u64]) = (dtype, &[3, 65]);
        put(out, format!("top_k_{name}"), TopK { k: 3 }, &[x])?;
        for (op, which) in [
            (Op::from(ArgMax { axis: 1, keep: false }), "argmax"),
            (ArgMin { axis: 1, keep: false }.into(), "argmin"),
        ] {
            put(out, format!("{which}_{name}"), op, &[x])?;
        }
        let operands = [x, (DType::I64, &[4]), (dtype, &[3, 4])];
        put(out, format!("scatter_add_{name}"), ScatterAdd { axis: 1 }, &operands)?;
    }
    for dtype in [DType::F32, DType::I32, DType::U32] {
        for descending in [false, true] {
            let name = format!("sort_{dtype}_{descending}");
            put(out, name, Sort { axis: 0, descending }, &[(dtype, &[65, 3])])?;
        }
    }
    for (state, x) in
        [(DType::F32, DType::F32), (DType::F16, DType::F32), (DType::F32, DType::BF16)]
    {
        let made =
            Maker::new().state(state, &[2, 5, 4])?.arena(x, &[2, 2, 4])?.arena(DType::U32, &[1])?;
        let name = format!("graphs_state_write_{state}_{x}");
        out.insert(name, made.kernel(StateWrite { axis: 1 }, false, true)?);
    }
    Ok(())
}

fn reductions(out: &mut Out) -> Result<()> {
    let scalars = [Scalar::F32, Scalar::I32, Scalar::I16, Scalar::I8, Scalar::U32, Scalar::U8];
    for (f, name) in Reduction::ALL {
        for scalar in scalars {
            if f == Reduction::Mean && scalar != Scalar::F32 {
                continue;
            }
            let dtype = DType::Scalar(scalar);
            for (length, n) in [("short", 5), ("long", 300), ("longer", 2000)] {
                let op = Reduce { f, axes: vec![0, 2], keep: false };
                let key = format!("reduce_{name}_{}_{length}", scalar.name());
                put(out, key, op, &[(dtype, &[2, 3, n])])?;
            }
        }
    }
    for n in [5, 300] {
        put(out, format!("softmax_{n}"), Softmax { axis: 1 }, &[(DType::F32, &[2, n, 3])])?;
        let row = (DType::F32, &[n][..]);
        let x = (DType::F32, &[2u64, 3, n][..]);
        put(out, format!("layer_norm_{n}"), LayerNorm { eps: 1e-5, bias: false }, &[x, row])?;
        let biased = LayerNorm { eps: 1e-5, bias: true };
        put(out, format!("layer_norm_bias_{n}"), biased, &[x, row, row])?;
        let c = (DType::F32, &[6u64][..]);
        let operands = [(DType::F32, &[2u64, 6, n][..]), c, c];
        put(out, format!("group_norm_{n}"), GroupNorm { groups: 3, eps: 1e-5 }, &operands)?;
    }
    let made = Maker::new().arena(DType::F32, &[1, 2, 64, 64])?;
    let made = made.weight(DType::F32, &[2], 0)?.weight(DType::F32, &[2], 1)?;
    let long = made.kernel(GroupNorm { groups: 1, eps: 1e-5 }, false, true)?;
    out.insert("graphs_group_norm_long".into(), long);
    Ok(())
}

fn products(out: &mut Out) -> Result<()> {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (m, transpose_b) in [(5, false), (5, true), (70, false), (70, true)] {
            let b: &[u64] = if transpose_b { &[2, 1, 6, 9] } else { &[2, 1, 9, 6] };
            let operands = [(dtype, &[3u64, m, 9][..]), (dtype, b)];
            let name = format!("batch_matmul_{dtype}_{m}_{transpose_b}");
            put(out, name, BatchMatMul { transpose_b }, &operands)?;
        }
        let op = DotGeneral {
            lhs_batch: vec![1],
            rhs_batch: vec![2],
            lhs_contract: vec![0, 3],
            rhs_contract: vec![1, 0],
        };
        let operands = [(dtype, &[5u64, 2, 3, 7][..]), (dtype, &[7, 5, 2, 4])];
        put(out, format!("dot_general_{dtype}"), op, &operands)?;
        for (tile, m) in [("large", 1700), ("small", 130)] {
            let made = Maker::new()
                .arena(DType::F32, &[m, 36])?
                .weight(dtype, &[1796, 36], 0)?
                .weight(dtype, &[1796, 36], 1)?;
            let forms = [
                ("two", MatMul { segments: 2, ..MatMul::plain() }),
                (
                    "glu",
                    MatMul { segments: 2, epilogue: Epilogue::Glu(Unary::Silu), ..MatMul::plain() },
                ),
            ];
            for (form, op) in forms {
                let name = format!("graphs_matmul_{tile}_{dtype}_{form}");
                out.insert(name, made.clone().kernel(op, false, true)?);
            }
        }
    }
    Ok(())
}

/// Both forms of a convolution, and every tile of the one with tiles.
fn images(out: &mut Out) -> Result<()> {
    let window = || Window::new(2).stride(&[2, 1]).pad(&[1, 0], &[1, 2]);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (name, channels, filters, groups, image) in [
            ("each", 6u64, 6u64, 6u64, 8u64),
            ("16", 3, 5, 1, 8),
            ("32", 4, 40, 2, 8),
            ("64", 3, 65, 1, 8),
            ("64_128", 2, 64, 1, 180),
            ("128", 2, 128, 1, 180),
        ] {
            for bias in [false, true] {
                let op = Conv { window: window(), groups, bias };
                let mut operands = vec![
                    (dtype, vec![1, channels, image, image]),
                    (dtype, vec![filters, channels / groups, 3, 2]),
                ];
                operands.extend(bias.then(|| (dtype, vec![filters])));
                let operands: Vec<(DType, &[u64])> =
                    operands.iter().map(|(dtype, dims)| (*dtype, dims.as_slice())).collect();
                put(out, format!("conv_{dtype}_{name}_{bias}"), op, &operands)?;
            }
        }
        let x = (dtype, &[2u64, 4, 5, 7][..]);
        let op = ConvTranspose { window: window(), extra: vec![1, 0], groups: 2, bias: true };
        let operands = [x, (dtype, &[4, 3, 3, 2]), (dtype, &[6])];
        put(out, format!("conv_transpose_{dtype}"), op, &operands)?;
        for (kind, count_padding) in
            [(PoolKind::Max, false), (PoolKind::Average, false), (PoolKind::Average, true)]
        {
            let name = format!("pool_{dtype}_{}_{count_padding}", kind.name());
            let op = Pool { kind, kernel: vec![3, 2], window: window(), count_padding };
            put(out, name, op, &[x])?;
        }
        for (mode, align_corners, antialias) in [
            (Interpolation::Nearest, false, false),
            (Interpolation::Linear, false, false),
            (Interpolation::Linear, true, false),
            (Interpolation::Linear, false, true),
            (Interpolation::Cubic, false, false),
            (Interpolation::Cubic, true, false),
            (Interpolation::Cubic, false, true),
        ] {
            let name = format!("interpolate_{dtype}_{}_{align_corners}_{antialias}", mode.name());
            let op = Interpolate { size: vec![3, 9], mode, align_corners, antialias };
            put(out, name, op, &[x])?;
        }
    }
    let key = (DType::U32, &[4u64][..]);
    put(out, "random_uniform", RandomUniform { dims: Shape::of(&[5]) }, &[key])?;
    put(out, "random_normal", RandomNormal { dims: Shape::of(&[5]) }, &[key])
}

fn attention(out: &mut Out) -> Result<()> {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (name, mask) in [
            ("none", Mask::None),
            ("causal", Mask::Causal),
            ("window", Mask::Window(3)),
            ("custom", Mask::Custom),
            ("bias", Mask::Bias),
            ("grid", Mask::Grid),
        ] {
            let softcap = (mask == Mask::Bias).then_some(30.0);
            let op = Sdpa { mask, softcap, layout: HeadLayout::Bhsd, ..Sdpa::new(4, 40) };
            // Few queries a workgroup, and many.
            for (form, batch) in [("", 2), ("_tile", 32)] {
                let x = (dtype, &[batch, 4, 9, 40][..]);
                let mut operands = vec![x, x, x];
                let (seen, of_grid) = ([batch, 9], [batch, 4, 9, 3]);
                match mask {
                    Mask::Custom => operands.push((DType::BOOL, &seen)),
                    Mask::Bias => operands.push((dtype, &[1, 4, 9, 9])),
                    Mask::Grid => operands.extend([(dtype, &of_grid[..]); 2]),
                    _ => {}
                }
                put(out, format!("sdpa{form}_{dtype}_{name}"), op.clone(), &operands)?;
            }
        }
        // A grid whose columns are whole fours.
        let (x, r, c) = ((dtype, &[1u64, 2, 8, 4][..]), [1, 2, 8, 2], [1, 2, 8, 4]);
        let op = Sdpa { mask: Mask::Grid, layout: HeadLayout::Bhsd, ..Sdpa::new(2, 4) };
        put(out, format!("sdpa_fours_{dtype}_grid"), op, &[x, x, x, (dtype, &r), (dtype, &c)])?;
        // Columns of values in two fours of a thread, and in two workgroups.
        let x = (dtype, &[1u64, 9, 2, 132][..]);
        put(out, format!("sdpa_wide_{dtype}"), Sdpa::new(2, 132), &[x, x, x])?;
    }
    Ok(())
}
