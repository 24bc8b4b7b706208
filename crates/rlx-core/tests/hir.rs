//! HIR and its lowering. Facts of file `004_c3fff6d76437c1e6.txt` are told by their numbers.

use crate::targets;
use rlx_core::ir::GraphModule;
use rlx_core::ir::hir::{
    AttentionSpec, DecoderWeights, FfnWeights, FusionPolicy, KeyValues, Linear, LinearWeights,
    Module, Tensor, Weight,
};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::verify::verify;
use rlx_core::lower::{LowerError, ProgramSpec, lower, lower_module, states};
use rlx_core::ops::{Epilogue, Op, RopeScaling, RopeStyle, RopeTable, Unary};
use rlx_core::passes::optimise;
use rlx_core::plan::plan;
use rlx_core::target::CompileOptions;
use rlx_core::types::{BATCH, Binding, DType, Dim, SEQ, Shape, Type};
use rlx_core::{Code, Error};

fn f32s(dims: &[u64]) -> Type {
    Type::tensor(DType::F32, Shape::of(dims))
}

fn weight(name: &str, dims: &[u64]) -> Weight {
    Weight { name: name.into(), ty: f32s(dims) }
}

fn linear(name: &str, out: u64, input: u64) -> LinearWeights {
    LinearWeights { weight: weight(name, &[out, input]), bias: None }
}

fn lowered(m: &Module) -> Graph {
    let g = lower_module(m, DType::F32).unwrap();
    verify(&g).unwrap();
    g
}

fn error(m: &Module) -> Error {
    lower_module(m, DType::F32).unwrap_err()
}

fn swiglu(policy: FusionPolicy) -> Module {
    let mut m = Module::graph("ffn").with_policy(policy);
    let x = m.input("x", f32s(&[4, 768]));
    let ffn = FfnWeights {
        gate: linear("gate", 2048, 768),
        up: linear("up", 2048, 768),
        down: linear("down", 768, 2048),
    };
    let y = m.swiglu_ffn(x, ffn, "ffn");
    m.output("y", y);
    m
}

/// Nodes as fact 23 counts them, parameters among them.
fn nodes(g: &Graph) -> usize {
    g.params.len() + g.nodes.len()
}

#[test]
fn fact_004_20_a_linear_layer_with_bias_has_five_nodes_at_most_and_an_arena() {
    for policy in [FusionPolicy::Direct, FusionPolicy::Fusable] {
        let mut m = Module::graph("linear").with_policy(policy);
        let x = m.input("x", f32s(&[2, 128]));
        let w = LinearWeights { weight: weight("w", &[128, 128]), bias: Some(weight("b", &[128])) };
        let y = m.linear(x, w, "fc");
        m.output("y", y);
        let g = lowered(&m);
        assert!(nodes(&g) <= 5, "{g}");
        let options = CompileOptions::default();
        let (g, _) = optimise(g, &targets::host(), &options).unwrap();
        let program = plan(g, &[], &targets::host(), &options).unwrap();
        assert!(program.arena_bytes > 0);
        assert!(
            program.unshared_bytes >= program.arena_bytes,
            "saved bytes are no negative number"
        );
    }
}

#[test]
fn fact_004_21_a_direct_swiglu_has_the_glu_matmul_and_no_miss() {
    let g = lowered(&swiglu(FusionPolicy::Direct));
    let glu = Epilogue::Glu(Unary::Silu);
    let is_glu = |op: &Op| matches!(op, Op::MatMul(m) if m.segments == 2 && m.epilogue == glu);
    assert_eq!(g.nodes.iter().filter(|n| is_glu(&n.op)).count(), 1, "{g}");
    assert_eq!(g.nodes.len(), 2, "{g}");
    let (_, report) = optimise(g, &targets::host(), &CompileOptions::default()).unwrap();
    assert_eq!(report.missed, []);
}

#[test]
fn fact_004_22_a_defined_module_is_hir_and_compiles_to_an_arena() {
    let module = GraphModule::define("f", |m| {
        let x = m.input("x", f32s(&[2, 8]));
        m.linear(x, linear("w", 4, 8), "fc")
    });
    assert_eq!(module.stage().name(), "hir");
    let g = module.lower().unwrap().into_mir().unwrap();
    let options = CompileOptions::default();
    assert!(plan(g, &[], &targets::host(), &options).unwrap().arena_bytes > 0);
}

#[test]
fn fact_004_23_a_fusable_swiglu_lowers_to_nine_nodes_and_fuses() {
    let g = lowered(&swiglu(FusionPolicy::Fusable));
    assert_eq!(nodes(&g), 9, "{g}");
    assert_eq!(g.nodes.iter().filter(|n| matches!(n.op, Op::MatMul(_))).count(), 3);
    let (g, report) = optimise(g, &targets::host(), &CompileOptions::default()).unwrap();
    assert!(report.count("glu") >= 1);
    assert_eq!(g.nodes.len(), 2, "{g}");
}

#[test]
fn fact_004_25_symbols_are_listed_and_a_binding_that_contradicts_a_weight_is_an_error() {
    let dims = Shape(vec![Dim::symbol(BATCH), Dim::symbol(SEQ)]);
    let module = |columns: u64| {
        let mut m = Module::graph("dynamic");
        let x = m.input("x", Type::tensor(DType::F32, dims.clone()));
        let y = m.linear(x, linear("w", 8, columns), "fc");
        m.output("y", y);
        m
    };
    assert_eq!(module(4).symbols(), [BATCH, SEQ]);
    // Whether SEQ is 4 is asked when it is bound.
    let bound = |batch, seq| Binding::from([(BATCH.into(), batch), (SEQ.into(), seq)]);
    let e = lowered(&module(4)).specialize("static", &bound(2, 16)).unwrap_err();
    assert_eq!((e.code, e.at.as_str()), (Code::BadGraph, "fc"), "{e}");
    assert!(lowered(&module(16)).specialize("static", &bound(2, 16)).is_ok());
    let mut m = Module::graph("dynamic");
    let x = m.input("x", Type::tensor(DType::F32, dims));
    let w = Type::tensor(DType::F32, Shape(vec![Dim::from(8u64), Dim::symbol(SEQ)]));
    let w = LinearWeights { weight: Weight { name: "w".into(), ty: w }, bias: None };
    let y = m.linear(x, w, "fc");
    m.output("y", y);
    let binding = Binding::from([(BATCH.into(), 2), (SEQ.into(), 16)]);
    let g = lowered(&m).specialize("static", &binding).unwrap();
    assert_eq!(*g.ty(g.outputs[0].value), f32s(&[2, 8]));
}

/// Sizes of a small LLaMA.
const DIM: u64 = 12;
const FFN: u64 = 20;
const HEADS: [u64; 3] = [4, 2, 6]; // query, key and value, width

fn spec(layer: usize) -> AttentionSpec {
    AttentionSpec {
        layer,
        heads: HEADS[0] as usize,
        kv_heads: HEADS[1] as usize,
        head_dim: HEADS[2] as usize,
        scale: 0.4,
        window: None,
        softcap: None,
        block: None,
        rope_style: RopeStyle::Half,
        rope: Some(RopeTable { base: 500.0, dims: 4, context: 16, scaling: RopeScaling::None }),
        rope_factors: Some(weight("rope_freqs", &[2])),
        qk_norm: None,
        sinks: None,
    }
}

fn layer_weights(i: usize) -> DecoderWeights {
    let w = |part: &str, dims: &[u64]| weight(&format!("blk.{i}.{part}.weight"), dims);
    let (q, kv) = (HEADS[0] * HEADS[2], HEADS[1] * HEADS[2]);
    DecoderWeights {
        attn_norm: w("attn_norm", &[DIM]),
        q: w("q", &[q, DIM]),
        k: w("k", &[kv, DIM]),
        v: w("v", &[kv, DIM]),
        o: w("o", &[DIM, q]),
        ffn_norm: w("ffn_norm", &[DIM]),
        gate: w("gate", &[FFN, DIM]),
        up: w("up", &[FFN, DIM]),
        down: w("down", &[DIM, FFN]),
    }
}

fn llama(policy: FusionPolicy, layer: impl Fn(&mut Module, Tensor, usize) -> Tensor) -> Module {
    let mut m = Module::new("llama", 16, 30).with_policy(policy);
    let ids = m.ids();
    let mut x = m.embedding(ids, weight("embd", &[30, DIM]));
    for i in 0..2 {
        x = layer(&mut m, x, i);
    }
    let x = m.out_rows(x);
    m.lm_head(x, linear("head", 30, DIM));
    m
}

fn by_blocks(m: &mut Module, x: Tensor, i: usize) -> Tensor {
    let w = layer_weights(i);
    let plain = |weight| LinearWeights { weight, bias: None };
    m.named(&format!("blk.{i}"), |m| {
        let h = m.rms_norm(x, w.attn_norm, 1e-5, "attn_norm");
        let q = m.linear(h, plain(w.q), "attn_q");
        let k = m.linear(h, plain(w.k), "attn_k");
        let v = m.linear(h, plain(w.v), "attn_v");
        let a = m.attention(q, KeyValues::Both(k, v), spec(i));
        let a = m.linear(a, plain(w.o), "attn_output");
        let x = m.add(x, a, "attn_residual");
        let h = m.rms_norm(x, w.ffn_norm, 1e-5, "ffn_norm");
        let ffn = FfnWeights { gate: plain(w.gate), up: plain(w.up), down: plain(w.down) };
        let f = m.swiglu_ffn(h, ffn, "ffn");
        m.add(x, f, "ffn_residual")
    })
}

#[test]
fn a_decoder_block_is_its_blocks() {
    let whole =
        llama(FusionPolicy::Fusable, |m, x, i| m.decoder_block(x, layer_weights(i), spec(i), 1e-5));
    let parts = llama(FusionPolicy::Fusable, by_blocks);
    for program in [ProgramSpec::decode(), ProgramSpec::prefill(8), ProgramSpec::verify(8, true)] {
        let [a, b] = [&whole, &parts].map(|m| lower(m, &program, DType::F16).unwrap());
        // Parameters come in the order of their first use, which for a whole block is its own.
        assert_eq!(a.nodes.len(), b.nodes.len());
        for (a, b) in a.nodes.iter().zip(&b.nodes) {
            assert_eq!(
                (&a.op, a.label.rsplit("blk.").next()),
                (&b.op, b.label.rsplit("blk.").next())
            );
        }
    }
    assert_eq!(states(&whole, DType::F16), states(&parts, DType::F16));
}

#[test]
fn caches_of_an_earlier_layer_are_read_and_those_of_no_layer_refused() {
    // The second layer has only queries, and reads the caches of the layer of that number.
    let sharing = |of: usize| {
        llama(FusionPolicy::Fusable, move |m, x, i| match i {
            0 => by_blocks(m, x, i),
            _ => {
                let q = LinearWeights { weight: layer_weights(i).q, bias: None };
                let q = m.linear(x, q, "attn_q");
                let a = m.attention(q, KeyValues::Of(of), spec(i));
                let o = LinearWeights { weight: layer_weights(i).o, bias: None };
                m.linear(a, o, "attn_output")
            }
        })
    };
    let states = states(&sharing(0), DType::F16).unwrap();
    let names: Vec<String> = states.into_iter().map(|state| state.name).collect();
    assert!(names.contains(&"blk.0.k".into()) && names.iter().all(|n| !n.starts_with("blk.1.")));
    lower(&sharing(0), &ProgramSpec::decode(), DType::F16).unwrap();
    let e = lower(&sharing(7), &ProgramSpec::decode(), DType::F16).unwrap_err();
    assert!(e.what.starts_with("layer 1 shares the caches of layer 7, and no layer"), "{e}");
}

#[test]
fn a_direct_decoder_block_has_what_passes_would_have_fused() {
    let layer = |m: &mut Module, x, i| m.decoder_block(x, layer_weights(i), spec(i), 1e-5);
    let target = targets::host();
    let nodes = |policy| {
        let g = lower(&llama(policy, layer), &ProgramSpec::decode(), DType::F16).unwrap();
        let lowered = g.nodes.len();
        let (g, report) = optimise(g, &target, &CompileOptions::default()).unwrap();
        assert_eq!(report.missed, []);
        (lowered, g.nodes.iter().map(|n| n.op.clone()).collect::<Vec<_>>())
    };
    let (direct, fusable) = (nodes(FusionPolicy::Direct), nodes(FusionPolicy::Fusable));
    assert!(direct.0 < fusable.0);
    assert_eq!(direct.1, fusable.1);
}

#[test]
fn a_template_keeps_its_symbols() {
    let m = llama(FusionPolicy::Direct, by_blocks);
    let g = lowered(&m);
    let logits = g.ty(g.outputs[0].value);
    assert_eq!(
        (g.outputs[0].name.as_str(), logits.to_string().as_str()),
        ("logits", "tensor<OUT_ROWSx30xf32>")
    );
    let ids = g.params.iter().find(|p| p.kind == ParamKind::Input).unwrap();
    assert_eq!(g.ty(ids.value).to_string(), "tensor<SEQxu32>");
}

#[test]
fn a_wrong_number_of_inputs_names_the_block_and_its_label() {
    let mut m = Module::graph("f");
    let x = m.input("x", f32s(&[2, 4]));
    let w = m.weight(weight("w", &[4, 4]));
    m.push(Linear { bias: false, act: None }, &[x, w, w], "blk.0.fc");
    assert_eq!(error(&m).to_string(), "linear takes 2 inputs, got 3 (blk.0.fc)");
    let block = &m.nodes[0].block;
    let e = LowerError::of(block, 3).unwrap();
    assert_eq!(e, LowerError::WrongInputCount { op: "linear".into(), expected: 2, got: 3 });
    assert_eq!(LowerError::of(block, 2), None);
}

#[test]
fn a_missing_bias_says_so() {
    let mut m = Module::graph("f");
    let x = m.input("x", f32s(&[2, 4]));
    let w = m.weight(weight("w", &[4, 4]));
    m.push(Linear { bias: true, act: None }, &[x, w], "fc");
    assert_eq!(
        error(&m).to_string(),
        "linear is told to have a bias, but no input is one (fc); give it the bias, or leave the attribute out"
    );
    let e = LowerError::of(&m.nodes[0].block, 2).unwrap();
    assert_eq!(e, LowerError::MissingBias { op: "linear".into() });
}

#[test]
fn a_shape_that_does_not_fit_comes_out_of_lowering_with_both_shapes() {
    let mut m = Module::graph("f");
    let x = m.input("x", f32s(&[2, 4]));
    m.linear(x, linear("w", 8, 5), "fc");
    let e = error(&m).to_string();
    assert!(e.contains("8x5xf32") && e.contains("2x4xf32") && e.contains("(fc)"), "{e}");
}

#[test]
fn a_name_with_two_types_and_a_result_not_built_yet_are_errors() {
    let mut m = Module::graph("f");
    let x = m.input("x", f32s(&[2, 4]));
    let y = m.linear(x, linear("w", 4, 4), "first");
    m.linear(y, linear("w", 8, 4), "second");
    assert_eq!(
        error(&m).to_string(),
        "w is used as tensor<8x4xf32> and as tensor<4x4xf32> (second)"
    );
    let mut m = Module::graph("f");
    m.add(Tensor::Result(0), Tensor::Result(7), "sum");
    assert_eq!(error(&m).to_string(), "input %0 is not built yet (sum)");
}

#[test]
fn inputs_are_parameters_even_where_nothing_reads_them() {
    let mut m = Module::graph("f");
    let _mask = m.input("mask", f32s(&[3]));
    let x = m.input("x", f32s(&[2, 4]));
    m.output("y", x);
    m.weight(weight("unused", &[7]));
    let g = lowered(&m);
    let names: Vec<&str> = g.params.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["mask", "x"]);
}
