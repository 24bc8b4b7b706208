//! Element types by policy. Tests are named by the facts they stand for.
#![cfg(all(feature = "reference", feature = "parse"))]

use rlx_core::compare::difference;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::parse::parse;
use rlx_core::ir::verify::verify;
use rlx_core::ops::Class;
use rlx_core::passes::{FusionReport, Watch, optimise, optimise_watched};
use rlx_core::reference::interpret;
use rlx_core::target::{
    CastConfig, CompileOptions, Precision, PrecisionPolicy, Target, class_of_kind,
};
use rlx_core::types::{DType, Kind};
use std::collections::BTreeMap;

const CLASSES: [Class; 5] =
    [Class::Compute, Class::Reduction, Class::Elementwise, Class::Movement, Class::Boundary];

/// A product of an input and a parameter.
const LINEAR: &str = "func @f {
  weight %w : tensor<7x5xf32>
  input %x : tensor<2x5xf32>
  %0 = matmul %x, %w -> tensor<2x7xf32> // y
  return y = %0
}
";

/// A feed-forward block with its norm, over packed and dense weights.
const BLOCK: &str = "func @f {
  weight %table : tensor<9x32xq8_0>
  weight %norm : tensor<32xf32>
  weight %gate : tensor<64x32xq8_0>
  weight %up : tensor<64x32xf16>
  weight %down : tensor<32x64xf32>
  input %ids : tensor<2xu32>
  %0 = gather %table, %ids -> tensor<2x32xf32> // embed
  %1 = rms_norm %0, %norm {eps = 1e-5} -> tensor<2x32xf32> // norm
  %2 = matmul %1, %gate -> tensor<2x64xf32> // gate
  %3 = matmul %1, %up -> tensor<2x64xf32> // up
  %4 = map %2 {f = silu} -> tensor<2x64xf32> // act
  %5 = zip %4, %3 {f = mul} -> tensor<2x64xf32> // product
  %6 = matmul %5, %down -> tensor<2x32xf32> // down
  %7 = zip %0, %6 {f = add} -> tensor<2x32xf32> // sum
  return y = %7
}
";

fn policies() -> Vec<PrecisionPolicy> {
    vec![
        PrecisionPolicy::AlwaysF32,
        PrecisionPolicy::AlwaysF16,
        PrecisionPolicy::AutoMixedConservative,
        PrecisionPolicy::AutoMixed,
        PrecisionPolicy::AutoMixedBf16,
        PrecisionPolicy::Custom([(Class::Compute, Precision::Bf16)].into()),
    ]
}

/// The graph after the precision pass alone: the reference fuses nothing and claims everything.
fn retyped(text: &str, precision: PrecisionPolicy) -> (Graph, FusionReport) {
    let without = ["simplify", "fold", "cse", "elementwise_region"];
    let known = rlx_core::passes::pass_names();
    let without = without.iter().filter(|n| known.contains(n)).map(|n| n.to_string()).collect();
    let options = CompileOptions { precision, without, ..CompileOptions::default() };
    let (g, report) = optimise(parse(text).unwrap(), &Target::reference(), &options).unwrap();
    verify(&g).unwrap();
    (g, report)
}

fn node<'a>(g: &'a Graph, label: &str) -> &'a rlx_core::ir::mir::Node {
    g.nodes.iter().find(|n| n.label == label).unwrap_or_else(|| panic!("no {label}:\n{g}"))
}

fn dtype_of(g: &Graph, label: &str) -> DType {
    g.ty(node(g, label).outputs[0]).dtype
}

#[test]
fn fact_003_01_a_precision_is_the_element_type_of_its_name() {
    assert_eq!(Precision::F32.dtype(), DType::F32);
    assert_eq!(Precision::F16.dtype(), DType::F16);
    assert_eq!(Precision::Bf16.dtype(), DType::BF16);
}

#[test]
fn fact_003_02_a_plain_cast_has_no_block_and_no_rounding() {
    let plain = CastConfig::plain(DType::F16);
    assert_eq!(plain, CastConfig { out_dtype: DType::F16, sf_block: None, round_sf: false });
}

#[test]
fn fact_003_03_a_cast_is_no_operation_for_equal_types_without_scales() {
    assert!(CastConfig::plain(DType::F16).is_noop(DType::F16));
    assert!(!CastConfig::plain(DType::F16).is_noop(DType::F32));
    let scaled = CastConfig { sf_block: Some((1, 128)), ..CastConfig::plain(DType::F16) };
    assert!(!scaled.is_noop(DType::F16));
}

#[test]
fn fact_003_04_there_are_five_categories() {
    for (i, a) in CLASSES.iter().enumerate() {
        assert!(CLASSES[..i].iter().all(|b| a != b));
    }
}

fn all_are(class: Class, names: &str) {
    for name in names.split_whitespace() {
        assert_eq!(class_of_kind(name), class, "{name}");
    }
}

#[test]
fn fact_003_05_compute_kinds_and_whatever_is_not_listed() {
    all_are(
        Class::Compute,
        "MatMul FusedMatMulBiasAct Conv DotGeneral DenseSolve BatchedDenseSolve Attention
         FusedTransformerLayer GroupedMatMul DequantGroupedMatMul DequantMoEWeights LoraMatMul
         DequantMatMul QMatMul QConv2d Conv2dBackwardInput Conv2dBackwardWeight AttentionBackward
         Custom CustomFn Scan ScanBackward ScanBackwardXs Fft NoSuchKind",
    );
}

#[test]
fn fact_003_06_reduction_kinds() {
    all_are(
        Class::Reduction,
        "LayerNorm RmsNorm GroupNorm Softmax FusedResidualLN FusedResidualRmsNorm Reduce Cumsum
         Sample SelectiveScan GatedDeltaNet SoftmaxCrossEntropy SoftmaxCrossEntropyWithLogits
         SoftmaxCrossEntropyBackward LayerNormBackwardInput LayerNormBackwardGamma",
    );
}

#[test]
fn fact_003_07_elementwise_kinds() {
    all_are(
        Class::Elementwise,
        "Activation Binary FusedSwiGLU Compare Where ElementwiseRegion Quantize Dequantize
         FakeQuantize FakeQuantizeBackward FakeQuantizeLSQ FakeQuantizeLSQBackwardX
         FakeQuantizeLSQBackwardScale ReluBackward ActivationBackward ComplexNormSq
         ComplexNormSqBackward Conjugate",
    );
}

#[test]
fn fact_003_08_movement_kinds_and_an_attention_block_is_compute() {
    all_are(
        Class::Movement,
        "Gather Narrow Reshape Transpose Concat Expand Cast Rope AxialRope2d Pool TopK ScatterAdd
         MaxPool2dBackward ResizeNearest2x If While",
    );
    all_are(Class::Compute, "FusedAttentionBlock");
}

#[test]
fn fact_003_09_inputs_parameters_and_constants_are_the_boundary() {
    all_are(Class::Boundary, "Input Param Constant");
}

#[test]
fn fact_003_10_the_default_is_f32_throughout() {
    assert_eq!(PrecisionPolicy::default(), PrecisionPolicy::AlwaysF32);
    assert_eq!(CompileOptions::default().precision, PrecisionPolicy::AlwaysF32);
}

#[test]
fn fact_003_11_always_f16_spares_the_boundary() {
    for class in CLASSES {
        let want = if class == Class::Boundary { Precision::F32 } else { Precision::F16 };
        assert_eq!(PrecisionPolicy::AlwaysF16.of(class), want);
    }
}

#[test]
fn fact_003_12_the_conservative_policy_keeps_reductions_in_f32() {
    for class in CLASSES {
        let wide = matches!(class, Class::Boundary | Class::Reduction);
        let want = if wide { Precision::F32 } else { Precision::F16 };
        assert_eq!(PrecisionPolicy::AutoMixedConservative.of(class), want);
    }
    let (g, _) = retyped(BLOCK, PrecisionPolicy::AutoMixedConservative);
    assert_eq!(dtype_of(&g, "norm"), DType::F32, "{g}");
    assert_eq!(dtype_of(&g, "down"), DType::F16, "{g}");
}

#[test]
fn fact_003_13_auto_mixed_is_f16_but_for_the_boundary() {
    for class in CLASSES {
        let want = if class == Class::Boundary { Precision::F32 } else { Precision::F16 };
        assert_eq!(PrecisionPolicy::AutoMixed.of(class), want);
    }
    let (g, _) = retyped(BLOCK, PrecisionPolicy::AutoMixed);
    for label in ["norm", "gate", "up", "act", "product", "down", "sum"] {
        assert_eq!(dtype_of(&g, label), DType::F16, "{label}\n{g}");
    }
}

/// A sum of 4,096 ones and a tiny number: in f16 steps it would stop at 2,048.
#[test]
fn fact_003_13_sums_are_made_in_f32_and_stored_in_f16() {
    let text = "func @f {
  weight %w : tensor<1x4096xf32>
  input %x : tensor<1x4096xf32>
  %0 = matmul %x, %w -> tensor<1x1xf32> // y
  return y = %0
}
";
    let (g, _) = retyped(text, PrecisionPolicy::AutoMixed);
    let ones: Vec<u8> = (0..4096).flat_map(|_| 1.0f32.to_le_bytes()).collect();
    let y = interpret(&g, &[&ones, &ones]).unwrap().outputs.remove(0);
    assert_eq!(y, 4096.0f32.to_le_bytes());
}

#[test]
fn fact_003_14_bf16_is_bf16() {
    let (g, _) = retyped(BLOCK, PrecisionPolicy::AutoMixedBf16);
    for label in ["norm", "gate", "act", "down", "sum"] {
        assert_eq!(dtype_of(&g, label), DType::BF16, "{label}\n{g}");
    }
    assert!(g.types.iter().all(|t| t.dtype != DType::F16 || t.shape.rank() == 2), "{g}");
}

#[test]
fn fact_003_15_classes_that_a_custom_policy_does_not_list_are_f32() {
    let policy = PrecisionPolicy::Custom(BTreeMap::from([(Class::Compute, Precision::Bf16)]));
    assert_eq!(policy.of(Class::Elementwise), Precision::F32);
    let (g, _) = retyped(BLOCK, policy);
    assert_eq!(dtype_of(&g, "down"), DType::BF16, "{g}");
    assert_eq!(dtype_of(&g, "act"), DType::F32, "{g}");
    let empty = PrecisionPolicy::Custom(BTreeMap::new());
    assert_eq!(retyped(LINEAR, empty).0, parse(LINEAR).unwrap());
}

#[test]
fn fact_003_16_the_pass_is_auto_mixed_precision_and_f32_leaves_the_graph() {
    assert!(rlx_core::passes::pass_names().contains(&"auto_mixed_precision"));
    for text in [LINEAR, BLOCK] {
        let (g, report) = retyped(text, PrecisionPolicy::AlwaysF32);
        assert_eq!(g, parse(text).unwrap());
        assert_eq!(report.count("auto_mixed_precision"), 0);
    }
}

#[test]
fn fact_003_17_parameters_integers_and_packed_weights_keep_their_types() {
    let written = parse(BLOCK).unwrap();
    for policy in policies() {
        let (g, _) = retyped(BLOCK, policy.clone());
        for p in &written.params {
            let same = g.params.iter().find(|q| q.name == p.name).unwrap();
            assert_eq!(g.ty(same.value), written.ty(p.value), "{policy:?}, {}", p.name);
        }
        for ty in &g.types {
            let kept = ty.dtype.is_float() || ty.dtype.is_block() || ty.dtype == DType::U32;
            assert!(kept && ty.kind == Kind::Tensor, "{policy:?}: {ty}");
        }
        let down = node(&g, "down");
        assert_eq!(g.ty(node(&g, "gate").inputs[1]).dtype.name(), "q8_0");
        assert_eq!(g.ty(node(&g, "up").inputs[1]).dtype, DType::F16, "as the file has it");
        assert_eq!(down.op.name(), "matmul");
    }
}

#[test]
fn fact_003_18_an_operand_of_another_type_is_cast_first() {
    let (g, _) = retyped(LINEAR, PrecisionPolicy::AutoMixed);
    let matmul = node(&g, "y");
    for &v in &matmul.inputs {
        let made = g.nodes.iter().find(|n| n.outputs.contains(&v)).unwrap();
        assert_eq!(made.op.name(), "cast", "{g}");
        assert_eq!(g.ty(v).dtype, DType::F16, "{g}");
    }
    assert_eq!(dtype_of(&g, "y"), DType::F16, "{g}");
}

#[test]
fn fact_003_19_a_value_is_cast_to_a_type_once() {
    for policy in policies() {
        let (g, _) = retyped(BLOCK, policy);
        let casts = g.nodes.iter().filter(|n| n.op.name() == "cast");
        let mut seen: Vec<_> = casts.map(|n| (n.inputs[0], g.ty(n.outputs[0]).dtype)).collect();
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all, "{g}");
    }
}

#[test]
fn fact_003_20_results_end_in_f32() {
    for policy in policies() {
        for text in [LINEAR, BLOCK] {
            let (g, _) = retyped(text, policy.clone());
            assert_eq!(g.ty(g.outputs[0].value).dtype, DType::F32, "{policy:?}\n{g}");
        }
    }
}

#[test]
fn fact_003_21_bodies_of_control_flow_have_the_policy_of_their_own() {
    let text = "func @f {
  input %flag : tensor<bool>
  input %x : tensor<2x4xf32>
  %0 = if %flag, %x -> tensor<2x4xf32> [ // clip
    func @then {
      input %a : tensor<2x4xf32>
      %0 = map %a {f = exp} -> tensor<2x4xf32> // inner
      return y = %0
    }
    func @else {
      input %a : tensor<2x4xf32>
      %0 = map %a {f = tanh} -> tensor<2x4xf32>
      return y = %0
    }
  ]
  return y = %0
}
";
    let (_, report) = retyped(text, PrecisionPolicy::AutoMixed);
    assert!(report.count("auto_mixed_precision") >= 2, "{report}");
    // As the pass leaves them, before control flow is lowered where the target cannot branch.
    let g = parse(text).unwrap();
    let options =
        CompileOptions { precision: PrecisionPolicy::AutoMixed, ..CompileOptions::default() };
    let mut watch = Watch { stop_after: Some("auto_mixed_precision"), ..Watch::default() };
    let g = optimise_watched(g, &Target::reference(), &options, &mut watch).unwrap().graph;
    verify(&g).unwrap();
    for body in g.nodes.iter().flat_map(|n| &n.regions) {
        assert_eq!(body.ty(body.params[0].value).dtype, DType::F32, "{g}");
        assert_eq!(body.ty(body.outputs[0].value).dtype, DType::F32, "{g}");
        assert!(body.types.iter().any(|t| t.dtype == DType::F16), "{g}");
    }
}

#[test]
fn fact_003_22_a_product_in_f32_stays_three_nodes() {
    let (g, _) = retyped(LINEAR, PrecisionPolicy::AlwaysF32);
    assert_eq!(g.params.len() + g.nodes.len(), 3);
}

#[test]
fn fact_003_23_a_product_in_auto_mixed_has_six_and_ends_in_a_cast() {
    let (g, _) = retyped(LINEAR, PrecisionPolicy::AutoMixed);
    assert!(g.params.len() + g.nodes.len() >= 6, "{g}");
    let last = g.nodes.last().unwrap();
    assert_eq!((last.op.name(), dtype_of(&g, &last.label)), ("cast", DType::F32), "{g}");
    assert_eq!(last.outputs[0], g.outputs[0].value);
}

#[test]
fn states_are_never_retyped() {
    let text = "func @f {
  state %ctl : state<16xu32>
  state %k : state<2x8x4xf32>
  input %x : tensor<1x8xf32>
  %0 = map %x {f = exp} -> tensor<1x8xf32> // act
  %1 = kv_write %k, %0, %ctl -> state<2x8x4xf32> // write
  return y = %0
}
";
    for policy in policies() {
        let (g, _) = retyped(text, policy.clone());
        for p in g.params.iter().filter(|p| p.kind == ParamKind::State) {
            assert_ne!(g.ty(p.value).dtype, DType::F16, "{policy:?}");
        }
        assert_eq!(dtype_of(&g, "write"), DType::F32, "{policy:?}\n{g}");
    }
}

#[test]
fn every_policy_gives_the_numbers_of_f32_to_its_precision() {
    let written = parse(BLOCK).unwrap();
    let mut seed = 7u64;
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let data: Vec<Vec<u8>> = written
        .params
        .iter()
        .map(|p| {
            let ty = written.ty(p.value);
            let n = ty.shape.elements().unwrap() as usize;
            match ty.dtype {
                DType::F32 => (0..n).flat_map(|_| next().to_le_bytes()).collect(),
                DType::F16 => {
                    (0..n).flat_map(|_| half::f16::from_f32(next()).to_le_bytes()).collect()
                }
                DType::U32 => (0..n as u32).flat_map(|i| (i * 3).to_le_bytes()).collect(),
                _ => {
                    let block = |_| {
                        let mut b = half::f16::from_f32(0.004).to_le_bytes().to_vec();
                        b.extend((0..32).map(|_| (next() * 200.0) as i8 as u8));
                        b
                    };
                    (0..n / 32).flat_map(block).collect()
                }
            }
        })
        .collect();
    let f32s = |bytes: &[u8]| -> Vec<f32> {
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let run = |g: &Graph| {
        let data: Vec<&[u8]> = g
            .params
            .iter()
            .map(|p| {
                let at = written.params.iter().position(|q| q.name == p.name).unwrap();
                data[at].as_slice()
            })
            .collect();
        f32s(&interpret(g, &data).unwrap().outputs[0])
    };
    let expected = run(&written);
    for policy in policies() {
        let tolerance = match policy {
            PrecisionPolicy::AlwaysF32 => 0.0,
            PrecisionPolicy::AutoMixedBf16 | PrecisionPolicy::Custom(_) => 3e-2,
            _ => 4e-3,
        };
        let got = run(&retyped(BLOCK, policy.clone()).0);
        let worst = difference(&got, &expected).relative();
        println!("{policy:?}: {worst:.2e} of the largest");
        assert!(worst <= tolerance, "{policy:?}: {worst:e}");
        assert!(policy == PrecisionPolicy::AlwaysF32 || worst > 0.0, "{policy:?} does something");
    }
}
