//! Weights above a GPU's binding limit, in row parts: every kernel that reads them gives the bits that
//! it gives over the whole weight, and whole models give their tokens.

use crate::common;
use common::model::{FIXTURES, generate, load, numbers};
use common::*;
use rlx_core::Code;
use rlx_core::ir::lir::Space;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{Epilogue, Gather, MatMul, Op, Unary};
use rlx_core::plan::{WeightPlan, check, plan};
use rlx_core::reference::{self, View};
use rlx_core::runtime::device::{Device, Write, WriteTo};
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::{Activations, CompileOptions, Limits};
use rlx_core::types::{BlockFormat, DType, Shape, Type};
use rlx_webgpu::gpu::{GpuInfo, Wgsl};
use std::sync::Arc;

/// The GPU as it is, less what `mask` takes away.
fn masked(mask: impl Fn(GpuInfo) -> GpuInfo) -> Arc<TestDevice> {
    device_with(|info| *info = mask(info.clone()))
}

/// What the planner makes of one operator for a target that binds so many bytes.
fn planned(op: &Op, operands: &[Operand], binding: u64) -> Case {
    let mut target = rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS);
    target.limits.binding = binding;
    let mut g = Graph::new("test");
    let (mut file, mut starts, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    let mut values = Vec::new();
    for (i, o) in operands.iter().enumerate() {
        let kind = match o.space {
            Space::Weight => ParamKind::Weight,
            _ => ParamKind::Input,
        };
        values.push(g.param(kind, &format!("operand{i}"), o.ty.clone()));
        starts.push(file.len() as u64);
        match kind {
            ParamKind::Weight => file.extend_from_slice(&o.bytes),
            _ => {
                let to = WriteTo::Input(writes.len() as u32);
                writes.push(Write { to, offset: 0, bytes: o.bytes.clone() });
            }
        }
    }
    for (i, y) in g.push(op.clone(), &values, "test").unwrap().into_iter().enumerate() {
        g.output(&format!("y{i}"), y);
    }
    let mut program = plan(g, &[], &target, &CompileOptions::default()).unwrap();
    let find = |name: &str| {
        let i: usize = name.strip_prefix("operand")?.parse().ok()?;
        Some((0, starts[i], operands[i].bytes.len() as u64))
    };
    let plan = WeightPlan::new(&[&program], &target.limits, find).unwrap();
    plan.bind(&mut program).unwrap();
    check::check(&program, &plan, &target.limits).unwrap();
    Case { program, plan, file, writes }
}

/// Runs an operator over the whole weights and over parts of 64 rows, and compares with the reference.
fn check_parts(
    what: &str,
    d: &Arc<TestDevice>,
    op: impl Into<Op>,
    operands: &[Operand],
    tolerance: f64,
) {
    let op = op.into();
    let large = operands.iter().filter(|o| o.space == Space::Weight && o.ty.shape.rank() == 2);
    let large: Vec<&Operand> = large.collect();
    let rows = large[0].ty.shape.static_dims().unwrap()[0];
    let widest = large.iter().map(|o| o.bytes.len() as u64).max().unwrap();
    let whole = planned(&op, operands, 1 << 20);
    // A tile of rows and most of another.
    let parted = planned(&op, operands, widest / rows * 127);
    assert!(whole.program.steps.iter().all(|s| s.part.is_none()), "{what}");
    let parts: Vec<_> = parted.program.steps.iter().filter_map(|s| s.part).collect();
    assert_eq!(parts.len() as u64, rows.div_ceil(64), "{what}");
    assert!(parts.last().unwrap().rows < 64, "{what}: the last one is shorter");
    assert_eq!(
        parted.plan.entries.len() - whole.plan.entries.len(),
        large.len() * (parts.len() - 1)
    );

    let want = run(d, &whole).unwrap();
    assert!(run(d, &parted).unwrap() == want, "{what}: parts give other bits than the whole");
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    for (got, truth) in want.iter().zip(reference::run(&op, &views).unwrap()) {
        let truth: Vec<f64> = floats(&truth).into_iter().map(f64::from).collect();
        assert_close(what, &floats(got), &truth, tolerance);
    }
}

/// Operands of a matmul of `m` rows and the given weights, as its attributes ask for them.
fn operands(rng: &mut Rng, op: &MatMul, m: u64, n: u64, k: u64, types: &[DType]) -> Vec<Operand> {
    let mut out = vec![input(&[m, k], &rng.floats((m * k) as usize))];
    if op.norm.is_some() {
        out.push(weight(DType::F32, &[k], f32_bytes(&rng.floats(k as usize))));
    }
    for &dtype in types {
        out.push(weight(dtype, &[n, k], random_weights(rng, dtype, n as usize, k as usize)));
    }
    for _ in types.iter().filter(|_| op.bias) {
        out.push(weight(DType::F32, &[n], f32_bytes(&rng.floats(n as usize))));
    }
    if op.epilogue == Epilogue::Add {
        out.push(input(&[m, n], &rng.floats((m * n) as usize)));
    }
    out
}

const Q4K: DType = DType::Block(BlockFormat::Q4K);
const Q6K: DType = DType::Block(BlockFormat::Q6K);
const Q8_0: DType = DType::Block(BlockFormat::Q8_0);

/// Every epilogue, with what goes with it, and the types of its weights.
fn forms(dense: bool) -> Vec<(MatMul, Vec<DType>)> {
    let plain = MatMul::plain();
    let (a, b) = if dense { (DType::F16, DType::F32) } else { (Q4K, Q6K) };
    vec![
        (MatMul { segments: 3, norm: Some(1e-5), ..plain.clone() }, vec![a, b, a]),
        (MatMul { bias: true, epilogue: Epilogue::Add, ..plain.clone() }, vec![b]),
        (MatMul { bias: true, epilogue: Epilogue::Map(Unary::Gelu), ..plain.clone() }, vec![a]),
        (
            MatMul {
                segments: 2,
                bias: true,
                norm: Some(1e-5),
                epilogue: Epilogue::Glu(Unary::Silu),
                ..plain
            },
            vec![a, a],
        ),
    ]
}

#[test]
fn one_row_and_tiles_of_rows_over_parts() {
    let (d, mut rng) = (device(), Rng(1));
    for dense in [true, false] {
        // Each is a pipeline, which software drivers compile for most of a second.
        let few = match (is_wide(), dense) {
            (true, true) => 0..4,
            (true, false) => 2..4,
            (false, _) => 3..4,
        };
        for (op, types) in &forms(dense)[few] {
            // Inputs and results have to be within the limit too.
            for m in [1, 5, if dense { 33 } else { 13 }] {
                let operands = operands(&mut rng, op, m, 150, 256, types);
                let what = format!("{m} rows, {types:?} {:?}", op.epilogue);
                check_parts(&what, &d, op.clone(), &operands, 1e-5);
            }
        }
    }
}

#[test]
fn a_row_that_becomes_int8_over_parts() {
    let full = |i: GpuInfo| i;
    let alone = |i: GpuInfo| GpuInfo { wgsl: Wgsl { subgroup: None, ..i.wgsl }, ..i };
    let most = if is_wide() { 0..4 } else { 3..4 };
    for (d, few) in [(masked(full), most), (masked(alone), 3..4)] {
        let mut rng = Rng(2);
        for (op, types) in forms(false).drain(few) {
            let op = MatMul { quantize: Some(BlockFormat::Q8_0), ..op };
            let operands = operands(&mut rng, &op, 1, 150, 512, &types);
            check_parts(&format!("{:?}", op.epilogue), &d, op, &operands, 2e-3);
        }
        let op = MatMul { quantize: Some(BlockFormat::Q8_0), ..MatMul::plain() };
        let operands = operands(&mut rng, &op, 1, 150, 512, &[Q8_0]);
        check_parts("q8_0", &d, op, &operands, 2e-3);
    }
}

#[test]
fn rows_of_int8_over_parts() {
    let full = |i: GpuInfo| i;
    let wide = |i: GpuInfo| GpuInfo { wgsl: Wgsl { subgroup: Some(32), ..i.wgsl }, ..i };
    let alone = |i: GpuInfo| GpuInfo { wgsl: Wgsl { packed_dot: false, ..i.wgsl }, ..i };
    let most = if is_wide() { 0..4 } else { 3..4 };
    let less = [(masked(full), most.clone()), (masked(alone), 1..2), (masked(wide), most)];
    for (d, few) in first_of(1, less) {
        let mut rng = Rng(3);
        for (op, types) in forms(false).drain(few) {
            // Blocks have their norm behind them.
            let op = MatMul { norm: None, ..op };
            let one = matches!(op.epilogue, Epilogue::Glu(_));
            for m in if one { 1..=2 } else { 5..=5 } {
                let mut operands = operands(&mut rng, &op, m, 150, 512, &types);
                let blocks = DType::Block(BlockFormat::Q8_0);
                let mut bytes = rng.bytes(m as usize * 16 * 34);
                for block in bytes.chunks_exact_mut(34) {
                    let d = half::f16::from_f32(0.01 + rng.float().abs() * 0.02);
                    block[..2].copy_from_slice(&d.to_le_bytes());
                }
                operands[0] = Operand { space: Space::Input, ..weight(blocks, &[m, 512], bytes) };
                check_parts(
                    &format!("{m} rows {:?}", op.epilogue),
                    &d,
                    op.clone(),
                    &operands,
                    1e-5,
                );
            }
        }
    }
}

#[test]
fn a_table_in_parts_gives_the_rows_of_all_ids() {
    let (d, mut rng) = (device(), Rng(4));
    let ids = [0, 63, 64, 127, 128, 149, 150, u32::MAX, 64, 3];
    for dtype in [DType::F16, DType::F32, Q4K, Q6K, Q8_0] {
        let table = weight(dtype, &[150, 256], random_weights(&mut rng, dtype, 150, 256));
        let ty = Type::tensor(DType::U32, Shape::of(&[10]));
        let ids = Operand { space: Space::Input, ty, bytes: u32_bytes(&ids) };
        check_parts(&format!("{dtype}"), &d, Gather::default(), &[table, ids], 1e-6);
    }
}

/// Embedding, head and feed-forward matrices in two to seventeen parts, the last one short where a
/// limit is no divisor; the rest of the model is whole.
#[test]
fn a_model_in_parts_has_the_tokens_and_logits_of_a_whole_one() {
    let text = std::fs::read_to_string(format!("{FIXTURES}/rustdoc-2m/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let whole = device();
    let formats = [
        ("q4_k_m", Activations::Int8, 90_000),
        ("f16", Activations::F32, 300_000),
        ("q8_0", Activations::Int8, 150_000),
    ];
    for (format, activations, most) in first_of(1, formats) {
        let narrow = |i: GpuInfo| GpuInfo { max_buffer: most, max_binding: most, ..i };
        let parted = masked(narrow);
        let mut options = ModelOptions::chat(16).with_logits();
        options.activations = activations.into();
        options.context = Some(128);
        let path = format!("rustdoc-2m/rustdoc-2m-{format}.gguf");
        let question = &expected["questions"][0];
        let prompt = numbers(&question["prompt_ids"]);
        let mut answers = Vec::new();
        for d in [&whole, &parted] {
            let mut engine = load(d.clone(), &path, &options);
            answers.push(generate(&mut engine, prompt.clone(), 24, true));
            let compiled = engine.compiled();
            let parts = |name: &str| {
                let steps = &compiled.programs[compiled.program(name).unwrap()].steps;
                steps.iter().filter(|s| s.part.is_some()).map(|s| s.label.clone()).collect()
            };
            let (decode, prefill): (Vec<String>, Vec<String>) = (parts("decode"), parts("prefill"));
            assert_eq!(decode.is_empty(), Arc::ptr_eq(d, &whole), "{format}: {decode:?}");
            assert_eq!(prefill.is_empty(), Arc::ptr_eq(d, &whole), "{format}: {prefill:?}");
            if !decode.is_empty() {
                let limits = Limits { buffer: most, binding: most, ..d.target().limits };
                assert!(compiled.plan.buffers.iter().all(|b| b.bytes <= most));
                for p in &compiled.programs {
                    check::check(p, &compiled.plan, &limits).unwrap();
                }
                for part in ["token_embd", "ffn"] {
                    assert!(decode.iter().any(|l| l.contains(part)), "{format}: {decode:?}");
                }
            }
            drop(engine);
        }
        let (tokens, logits) = &answers[1];
        assert_eq!(tokens, &numbers(&question["formats"][format]["tokens"])[..tokens.len()]);
        assert_eq!(answers[0].0, *tokens, "{format}");
        assert!(answers[0].1 == *logits, "{format}: logits are other bits");
        assert!(logits.as_ref().is_some_and(|l| l.iter().any(|v| *v != 0.0)));
        assert_eq!(parted.gpu().counts().live_bytes, 0, "everything was freed");
    }
}

#[test]
fn a_gpu_that_binds_less_than_a_tile_of_rows_is_told_apart() {
    let op = Op::from(MatMul::plain());
    let mut target = rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS);
    target.limits.binding = 63 * 1024;
    let mut g = Graph::new("test");
    let f32s = |dims: &[u64]| Type::tensor(DType::F32, Shape::of(dims));
    let x = g.param(ParamKind::Input, "x", f32s(&[1, 256]));
    let w = g.param(ParamKind::Weight, "w", f32s(&[150, 256]));
    let y = g.push1(op, &[x, w], "here").unwrap();
    g.output("y", y);
    let e = plan(g, &[], &target, &CompileOptions::default()).unwrap_err();
    assert_eq!(e.code, Code::Unsupported);
    assert!(e.what.ends_with("binds at most 64512, less than 64 rows of 1024"), "{e}");
}
