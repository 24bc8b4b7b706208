//! Group 000: compile profiles.

use crate::facts::{LAYER, difference, graph, run};
use crate::targets;
use rlx_core::Code;
use rlx_core::compile::compile_graph_with_profile;
use rlx_core::profile::{
    BackendHints, BackendOverrides, CompileProfile, FusionPolicy, FusionProfile, FusionTarget,
    Mixed, PassProfile, PrecisionProfile, Preset,
};
use rlx_core::target::Precision;

fn read(text: &str) -> CompileProfile {
    CompileProfile::from_toml_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The repository's file of a preset.
fn file(name: &str) -> String {
    let path = format!("{}/../../profiles/{name}.rlx.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn fact_000_01_a_profile_has_four_tables_and_missing_ones_are_default() {
    let CompileProfile { fusion, passes, precision, backend } = read("");
    assert_eq!(fusion, FusionProfile::default());
    assert_eq!(passes, PassProfile::default());
    assert_eq!(precision, PrecisionProfile::default());
    assert_eq!(backend, BackendOverrides::default());
    for table in ["[fusion]", "[passes]", "[precision]", "[backend]", "[backend.cpu]"] {
        assert_eq!(read(table), CompileProfile::default(), "{table}");
    }
}

#[test]
fn fact_000_02_text_gives_a_profile_or_an_error() {
    assert!(read("[fusion]\nskip = true").fusion.skip);
    let e = CompileProfile::from_toml_str("[fusion\n").expect_err("no TOML");
    assert_eq!((e.code, e.at.as_str()), (Code::BadFile, "line 1"));
}

#[test]
fn fact_000_03_default_equals_llama32_prefill() {
    assert_eq!(CompileProfile::default(), CompileProfile::llama32_prefill());
}

#[test]
fn fact_000_04_llama32_prefill_is_direct_and_otherwise_default() {
    let p = CompileProfile::llama32_prefill();
    let fusion = FusionProfile {
        policy: FusionPolicy::Direct,
        target: FusionTarget::Auto,
        assert_clean: false,
        skip: false,
    };
    assert_eq!(p.fusion, fusion);
    assert_eq!(p.passes, PassProfile::default());
    assert_eq!(p.precision, PrecisionProfile::default());
    assert_eq!(p.backend, BackendOverrides::default());
}

#[test]
fn fact_000_05_llama32_decode_is_prefill_with_policy_fusable() {
    let mut p = CompileProfile::llama32_prefill();
    p.fusion.policy = FusionPolicy::Fusable;
    assert_eq!(CompileProfile::llama32_decode(), p);
}

#[test]
fn fact_000_06_prefill_presets_equal_llama32_prefill() {
    for p in [Preset::Qwen35Prefill, Preset::Qwen3Prefill, Preset::GemmaPrefill] {
        assert_eq!(p.profile(), CompileProfile::llama32_prefill(), "{}", p.name());
    }
}

#[test]
fn fact_000_07_decode_presets_equal_llama32_decode() {
    for p in [Preset::Qwen35Decode, Preset::Qwen3Decode, Preset::GemmaDecode] {
        assert_eq!(p.profile(), CompileProfile::llama32_decode(), "{}", p.name());
    }
}

#[test]
fn fact_000_08_encoder_is_direct_with_both_cleaning_passes() {
    let p = CompileProfile::encoder();
    assert_eq!(p.fusion_policy(), FusionPolicy::Direct);
    assert_eq!(p.passes, PassProfile { dce: true, constant_folding: true, verbose: false });
    assert_eq!(p.precision, PrecisionProfile::default());
    assert_eq!(p.backend, BackendOverrides::default());
}

#[test]
fn fact_000_09_vision_presets_equal_encoder() {
    for p in [Preset::Flux2, Preset::SamEncoder, Preset::Sam2, Preset::Sam3] {
        assert_eq!(p.profile(), CompileProfile::encoder(), "{}", p.name());
    }
}

/// The program of a preset and the same without `skip` give the same numbers.
fn unskipped_agrees(preset: Preset, text: &str) {
    let skipped = preset.profile();
    assert!(skipped.fusion.skip);
    let mut unskipped = skipped.clone();
    unskipped.fusion.skip = false;
    assert_eq!(unskipped, CompileProfile::encoder());
    for target in [targets::host(), targets::gpu()] {
        let device = &target.name;
        let compile = |p| compile_graph_with_profile(&target, graph(text), p).unwrap();
        let (a, b) = (compile(&skipped), compile(&unskipped));
        assert!(b.lir.steps.len() < a.lir.steps.len(), "{device}: skip leaves fusions out");
        let difference = difference(&run(&a), &run(&b));
        assert!(difference < 1e-5, "{device}: {difference}");
    }
}

/// Queries and keys that rotate on the device, as SAM 2's memory attention has them.
const ROTARY: &str = "func @memory_attention {
  input %x : tensor<4x64xf32>
  weight %q : tensor<64x64xf32>
  weight %k : tensor<64x64xf32>
  weight %o : tensor<64x64xf32>
  state %ctl : state<16xu32>
  %0 = matmul %x, %q -> tensor<4x64xf32> // q
  %1 = matmul %x, %k -> tensor<4x64xf32> // k
  %2 = rope_table {base = 10000.0, dims = 16, context = 9} -> tensor<7x8x2xf32> // table
  %3 = rope %0, %2, %ctl {style = half, head_dim = 16} -> tensor<4x64xf32> // q_rope
  %4 = rope %1, %2, %ctl {style = half, head_dim = 16} -> tensor<4x64xf32> // k_rope
  %5 = zip %3, %4 {f = mul} -> tensor<4x64xf32> // scores
  %6 = matmul %5, %o -> tensor<4x64xf32> // o
  %7 = zip %6, %x {f = add} -> tensor<4x64xf32> // out
  return y = %7
}
";

#[test]
fn fact_000_10_sam2_memory_attention_is_encoder_with_skip() {
    unskipped_agrees(Preset::Sam2MemoryAttention, ROTARY);
}

#[test]
fn fact_000_11_llada2_diffusion_is_encoder_with_skip() {
    unskipped_agrees(Preset::Llada2Diffusion, LAYER);
}

#[test]
fn fact_000_12_fusion_policy_is_the_lowerings() {
    let policy = |text| read(&format!("[fusion]\npolicy = \"{text}\"")).fusion_policy();
    assert_eq!(policy("direct"), FusionPolicy::Direct);
    assert_eq!(policy("fusable"), FusionPolicy::Fusable);
}

#[test]
fn fact_000_13_fusion_profile_default() {
    let d = FusionProfile::default();
    assert_eq!((d.policy, d.target), (FusionPolicy::Direct, FusionTarget::Auto));
    assert_eq!((d.assert_clean, d.skip), (false, false));
}

#[test]
fn fact_000_14_policies_are_lower_case() {
    for wrong in ["Direct", "FUSABLE", "fused", ""] {
        let text = format!("[fusion]\npolicy = \"{wrong}\"");
        let e = CompileProfile::from_toml_str(&text).expect_err(wrong);
        assert_eq!(e.hint, "allowed: \"direct\", \"fusable\"");
    }
}

#[test]
fn fact_000_15_targets_are_lower_case_and_default_to_auto() {
    let names = ["auto", "cpu", "metal", "mlx", "cuda", "rocm", "wgpu", "tpu"];
    assert_eq!(FusionTarget::ALL.map(FusionTarget::name), names);
    for (target, name) in FusionTarget::ALL.into_iter().zip(names) {
        assert_eq!(read(&format!("[fusion]\ntarget = \"{name}\"")).fusion.target, target);
        let upper = format!("[fusion]\ntarget = \"{}\"", name.to_uppercase());
        assert!(CompileProfile::from_toml_str(&upper).is_err(), "{upper}");
    }
    assert_eq!(read("[fusion]").fusion.target, FusionTarget::Auto);
}

#[test]
fn fact_000_16_pass_profile_default() {
    let d = PassProfile::default();
    assert_eq!((d.dce, d.constant_folding, d.verbose), (true, true, false));
}

#[test]
fn fact_000_17_precision_profile_default_and_values() {
    let d = PrecisionProfile::default();
    assert_eq!((d.compute, d.mixed), (Precision::F32, Mixed::None));
    let compute = |v| read(&format!("[precision]\ncompute = \"{v}\"")).precision.compute;
    assert_eq!(
        ["f32", "f16", "bf16"].map(compute),
        [Precision::F32, Precision::F16, Precision::Bf16]
    );
    let mixed = |v| read(&format!("[precision]\nmixed = \"{v}\"")).precision.mixed;
    assert_eq!(["none", "auto"].map(mixed), [Mixed::None, Mixed::Auto]);
    for wrong in ["compute = \"f64\"", "mixed = \"f16\"", "mixed = true"] {
        assert!(
            CompileProfile::from_toml_str(&format!("[precision]\n{wrong}")).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn fact_000_18_every_backend_has_a_table_of_optional_keys() {
    for target in FusionTarget::ALL.into_iter().filter_map(FusionTarget::explicit) {
        let table = format!("[backend.{}]\n", target.name());
        let skip = read(&format!("{table}skip_fusion = true")).backend;
        let unfuse = read(&format!("{table}unfuse_regions = true")).backend;
        for other in FusionTarget::ALL {
            let mine = other == target;
            let hints = BackendHints { skip_fusion: mine, unfuse_regions: false };
            assert_eq!(skip.of(other), hints, "{} of {}", other.name(), target.name());
            let hints = BackendHints { skip_fusion: false, unfuse_regions: mine };
            assert_eq!(unfuse.of(other), hints, "{} of {}", other.name(), target.name());
        }
    }
    assert_eq!(BackendHints::default(), BackendHints { skip_fusion: false, unfuse_regions: false });
}

#[test]
fn fact_000_19_profiles_round_trip_through_toml() {
    let mut odd = CompileProfile::llama32_decode();
    odd.fusion.assert_clean = true;
    odd.passes.verbose = true;
    odd.precision = PrecisionProfile { compute: Precision::Bf16, mixed: Mixed::Auto };
    odd.backend.of_mut(FusionTarget::Rocm).unwrap().skip_fusion = true;
    *odd.backend.of_mut(FusionTarget::Tpu).unwrap() =
        BackendHints { skip_fusion: true, unfuse_regions: true };
    assert_eq!(read(&odd.to_toml_string()), odd.clone());
    for (preset, name, make) in Preset::ALL {
        assert_eq!(read(&make().to_toml_string()), make(), "{name}");
        assert_eq!(read(&file(name)), preset.profile(), "profiles/{name}.rlx.toml");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let files = files.filter(|name| name.to_string_lossy().ends_with(".rlx.toml"));
    assert_eq!(files.count(), Preset::ALL.len(), "one file a preset");
}

#[test]
fn fact_000_20_a_whole_file_parses_to_its_values() {
    let p = read(
        "[fusion]\npolicy = \"direct\"\ntarget = \"metal\"\nassert_clean = true\n\n\
         [passes]\ndce = true\nconstant_folding = false\n\n\
         [precision]\ncompute = \"f16\"\nmixed = \"auto\"\n",
    );
    assert_eq!((p.fusion.policy, p.fusion.target), (FusionPolicy::Direct, FusionTarget::Metal));
    assert_eq!((p.fusion.assert_clean, p.fusion.skip), (true, false));
    assert_eq!((p.passes.dce, p.passes.constant_folding, p.passes.verbose), (true, false, false));
    assert_eq!((p.precision.compute, p.precision.mixed), (Precision::F16, Mixed::Auto));
}
