//! What the rows of the tests' own targets take: goldens and plans of the core depend on it.

use crate::targets::{self, GPU, HOST};
use rlx_core::ops::{Attrs, Binary, Map, MatMul, Op, RmsNorm, Unary, Zip};
use rlx_core::target::{Path, Target};
use rlx_core::types::{BlockFormat, DType, Shape, Type};

fn t(dtype: DType, dims: &[u64]) -> Type {
    Type::tensor(dtype, Shape::of(dims))
}

fn why(op: impl Into<Op>, operands: &[&Type]) -> String {
    targets::host().claims(&op.into(), operands).unwrap_err()
}

#[test]
fn every_row_names_an_operator() {
    for row in HOST.iter().chain(GPU) {
        assert!(Op::NAMES.contains(&row.op), "{}", row.op);
    }
}

#[test]
fn a_kernel_takes_its_types_and_no_others() {
    let host = targets::host();
    let (f32s, f16s) = (t(DType::F32, &[2, 8]), t(DType::F16, &[2, 8]));
    let silu = Op::from(Map { f: Unary::Silu });
    assert_eq!(host.path(&silu, &[&f32s]), Ok(Path::Native));
    assert_eq!(why(silu, &[&f16s]), "its kernel takes no f16 as operand 0");
    assert_eq!(
        why(RmsNorm { eps: 1e-5 }, &[&t(DType::F32, &[1, 2, 8]), &t(DType::F32, &[8])]),
        "its kernel takes a matrix"
    );
}

#[test]
fn a_zip_repeats_a_trailing_row_and_nothing_else() {
    let add = Op::from(Zip { f: Binary::Add });
    let a = t(DType::F32, &[2, 8]);
    assert!(targets::host().claims(&add, &[&a, &a]).is_ok());
    assert!(targets::host().claims(&add, &[&a, &t(DType::F32, &[8])]).is_ok());
    let column = t(DType::F32, &[2, 1]);
    assert_eq!(why(add, &[&a, &column]), "its kernel takes two operands of one shape, or a row");
}

#[test]
fn a_region_is_claimed_where_its_steps_are_and_its_operands_repeat_rows() {
    let gpu = targets::gpu();
    let (x, row) = (t(DType::F32, &[2, 8]), t(DType::F32, &[8]));
    let region = |steps: &str, operands: &[&Type]| {
        let inputs: Vec<String> =
            (0..operands.len()).map(|i| format!("  input %x{i} : {}\n", operands[i])).collect();
        let names: Vec<String> = (0..operands.len()).map(|i| format!("%x{i}")).collect();
        let (inputs, names) = (inputs.concat(), names.join(", "));
        let text = format!(
            "func @f {{\n{inputs}  %0 = elementwise_region {names} {{steps = {steps}}} -> \
             tensor<2x8xf32>\n  return y = %0\n}}\n"
        );
        let g = rlx_core::ir::parse::parse(&text).expect("a graph");
        gpu.claims(&g.nodes[0].op, operands)
    };
    let steps = "[[mul, i0, i1], [silu, s0]]";
    assert_eq!(region(steps, &[&x, &row]), Ok(()));
    assert_eq!(region("[[silu, i0], [mul, s0, i0]]", &[&x]), Ok(()));
    for (steps, operands, why) in [
        (
            steps,
            [&x, &t(DType::F32, &[2, 1])],
            "its kernel takes operands of the result's shape, or rows",
        ),
        ("[[sin, i0], [mul, s0, i1]]", [&x, &row], "its kernel has no function sin"),
        ("[[clamp, i0, 0.0, 1.0], [mul, s0, i1]]", [&x, &row], "its kernel has no clamp"),
    ] {
        assert_eq!(region(steps, &operands), Err(why.into()));
    }
}

#[test]
fn packed_weights_are_claimed_where_the_target_reads_them() {
    let (x, ids) = (t(DType::F32, &[1, 256]), t(DType::U32, &[1]));
    let mut host = targets::host();
    let packed = t(DType::Block(BlockFormat::Q4K), &[8, 256]);
    let matmul = Op::from(MatMul::plain());
    assert!(host.claims(&matmul, &[&x, &packed]).is_ok());
    let gather = Op::from_text("gather", &Attrs::none()).expect("gather");
    assert!(host.claims(&gather, &[&packed, &ids]).is_ok());
    let blocks = t(DType::Block(BlockFormat::Q8K), &[1, 256]);
    assert!(host.claims(&matmul, &[&blocks, &packed]).is_ok());
    host.int8 = false;
    assert!(host.claims(&matmul, &[&blocks, &packed]).is_err());
    host.formats.clear();
    assert_eq!(host.claims(&matmul, &[&x, &packed]), Err("it reads no q4_k".into()));
}

#[test]
fn caches_of_q8_0_are_everywhere_and_on_the_gpu_of_heads_of_whole_words() {
    use rlx_core::ops::{Attention, AttentionSplit, KvWrite, RopeKvWrite, RopeStyle};
    let q8_0 = DType::Block(BlockFormat::Q8_0);
    let ctl = Type::state(DType::U32, Shape::of(&[16]));
    let gpu = targets::gpu();
    for e in [32, 64, 96, 128] {
        let cache = Type::state(q8_0, Shape::of(&[1, 8, e]));
        let (x, table) = (t(DType::F32, &[1, e]), t(DType::F32, &[8, e / 2, 2]));
        let rope = RopeKvWrite { style: RopeStyle::Half, head_dim: e as usize, ring: false };
        let whole = Attention::causal(e as usize, 1.0);
        let split = AttentionSplit { whole: whole.clone(), splits: 2, least: 64 };
        for (op, operands) in [
            (Op::from(KvWrite::default()), vec![&cache, &x, &ctl]),
            (rope.into(), vec![&x, &x, &x, &table, &cache, &cache, &ctl]),
            (whole.into(), vec![&x, &cache, &cache, &ctl]),
            (split.into(), vec![&x, &cache, &cache, &ctl]),
        ] {
            assert_eq!(targets::host().path(&op, &operands), Ok(Path::Native));
            let why = "its caches of q8_0 have heads of whole 64".into();
            let want = if e % 64 == 0 { Ok(Path::Native) } else { Err(why) };
            assert_eq!(gpu.path(&op, &operands), want, "{} heads of {e}", op.name());
        }
    }
    for target in [&gpu, &targets::host()] {
        assert!(target.caches.is_some_and(|c| c.types.contains(&q8_0)));
    }
    assert_eq!([gpu.cache_heads(q8_0), gpu.cache_heads(DType::F16)], [64, 1]);
    assert_eq!(targets::host().cache_heads(q8_0), 1);
    assert_eq!(Target::reference().caches, None);
    assert_eq!(Target::reference().cache_heads(q8_0), 1);
}

#[test]
fn functions_that_a_row_lacks_are_refused_and_exist() {
    let x = t(DType::F32, &[2, 8]);
    let (host, gpu) = (targets::host(), targets::gpu());
    let mut lacking = Vec::new();
    for (f, name) in Unary::ALL {
        let op = Op::from(Map { f });
        assert!(host.claims(&op, &[&x]).is_ok(), "{name}");
        if let Err(why) = gpu.claims(&op, &[&x]) {
            assert_eq!(why, format!("its kernel has no function {name}"));
            lacking.push(name);
        }
    }
    for (f, name) in Binary::ALL {
        let op = Op::from(Zip { f });
        assert!(host.claims(&op, &[&x, &x]).is_ok(), "{name}");
        if gpu.claims(&op, &[&x, &x]).is_err() {
            lacking.push(name);
        }
    }
    assert_eq!(lacking, targets::GPU_LACKS);
}
