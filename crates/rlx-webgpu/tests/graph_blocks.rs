//! The block graphs of the presets' families (`tests/fixtures/graphs`): lowered, optimised and planned for
//! WebGPU, executed, and compared with the graph as it was written on the reference.

use crate::common::{Case, Rng, TestDevice, device, device_with, first_of, run};
use crate::graphs::*;
use rlx_core::compare::difference_of_any;
use rlx_core::ir::hir::{FusionPolicy, Module};
use rlx_core::ir::lir::StateDecl;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::parse::parse_hir;
use rlx_core::lower::{ProgramSpec, lower, lower_module};
use rlx_core::ops::Class;
use rlx_core::passes::optimise;
use rlx_core::plan::{WeightPlan, check as check_plan, plan};
use rlx_core::reference::interpret;
use rlx_core::runtime::device::{Device, Write, WriteTo};
use rlx_core::sample::Control;
use rlx_core::target::{CompileOptions, Precision, PrecisionPolicy};
use rlx_core::types::{BATCH, Binding, DType, SEQ};
use std::collections::BTreeMap;
use std::sync::Arc;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/graphs");

/// Ids that every table of the fixtures has.
const IDS: u64 = 2;

/// Bytes by the names of parameters.
type Data = BTreeMap<String, Vec<u8>>;

/// The graphs of a module, symbols bound.
fn lowered(m: &Module) -> Vec<Graph> {
    if m.is_language_model() {
        let specs = [
            ProgramSpec::decode().with_logits(),
            ProgramSpec::prefill(4),
            ProgramSpec::prefill_last(3).with_logits(),
            ProgramSpec::verify(5, true),
        ];
        return specs.iter().map(|spec| lower(m, spec, DType::F32).unwrap()).collect();
    }
    let g = lower_module(m, DType::F32).unwrap_or_else(|e| panic!("{}: {e}", m.name));
    let sizes = [(BATCH, 2), (SEQ, 5), ("T", 13)];
    let binding: Binding = sizes.into_iter().map(|(s, n)| (s.into(), n)).collect();
    vec![g.specialize(&m.name, &binding).unwrap_or_else(|e| panic!("{}: {e}", m.name))]
}

/// Bytes of every parameter: small floats by name, few ids, a control block in the middle.
fn data(g: &Graph) -> Data {
    let mut out = Data::new();
    for p in &g.params {
        let ty = g.ty(p.value);
        let seed = p.name.bytes().fold(17u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
        let mut rng = Rng(seed | 1);
        let n = ty.shape.elements().unwrap();
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let bytes: Vec<u8> = match p.name.as_str() {
            "ctl" => {
                let len = match g.name.as_str() {
                    "decode_logits" => 1,
                    "verify" => 5,
                    "prefill_last" => 3,
                    _ => 4,
                };
                words(&Control { past: 6, len, capacity: 24, ..Control::default() }.to_words())
            }
            _ if p.kind == ParamKind::State && ty.dtype == DType::U32 => vec![0; 4 * n as usize],
            _ if ty.dtype == DType::U32 => {
                (0..n).flat_map(|_| ((rng.next() % IDS) as u32).to_le_bytes()).collect()
            }
            _ => {
                assert_eq!(ty.dtype, DType::F32, "{}", p.name);
                // Norms and masks are positive: an eighth to one.
                let low = if p.name.contains("norm") || p.name == "mask" { 0.125 } else { -1.0 };
                let float = |x: u64| low + (1.0 - low) * (x % 4096) as f32 / 4096.0;
                (0..n).flat_map(|_| float(rng.next() >> 20).to_le_bytes()).collect()
            }
        };
        out.insert(p.name.clone(), bytes);
    }
    out
}

/// What the device gives: outputs in their order.
fn executed(d: &Arc<TestDevice>, g: Graph, options: &CompileOptions, data: &Data) -> Vec<Vec<u8>> {
    let case = compiled(d, g, options, data);
    run(d, &case).unwrap_or_else(|e| panic!("{e}"))
}

/// A graph as the device's program, with what is written to it.
fn compiled(d: &Arc<TestDevice>, g: Graph, options: &CompileOptions, data: &Data) -> Case {
    let target = d.target().clone();
    let (g, _) = optimise(g, &target, options).unwrap_or_else(|e| panic!("{e}"));
    let states: Vec<StateDecl> = g
        .params
        .iter()
        .filter(|p| p.kind == ParamKind::State)
        .map(|p| {
            let ty = g.ty(p.value).clone();
            StateDecl { name: p.name.clone(), bytes: ty.bytes().unwrap(), ty }
        })
        .collect();
    let mut program = plan(g, &states, &target, options).unwrap();
    let mut file = Vec::new();
    let plan = WeightPlan::new(&[&program], &target.limits, |name| {
        let bytes = data.get(name)?;
        file.extend_from_slice(bytes);
        Some((0, (file.len() - bytes.len()) as u64, bytes.len() as u64))
    })
    .unwrap();
    plan.bind(&mut program).unwrap();
    check_plan::check(&program, &plan, &target.limits).unwrap();
    let inputs = program.inputs.iter().enumerate();
    let inputs = inputs.map(|(i, x)| (WriteTo::Input(i as u32), &x.name));
    let states = program.states.iter().enumerate();
    let states = states.map(|(i, s)| (WriteTo::State(i as u32), &s.name));
    let writes = inputs
        .chain(states)
        .map(|(to, name)| Write { to, offset: 0, bytes: data[name].clone() })
        .collect();
    Case { program, plan, file, writes }
}

/// The module of a file.
fn module(name: &str) -> Module {
    let text = std::fs::read_to_string(format!("{FOLDER}/{name}.hir")).unwrap();
    parse_hir(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Executes every graph of a family, and compares outputs within `tolerance` of the largest number.
fn family(name: &str, policy: FusionPolicy, precision: PrecisionPolicy, tolerance: f64) {
    let d = device();
    let module = module(name).with_policy(policy);
    for g in lowered(&module) {
        let data = data(&g);
        let at = format!("{name}, {}, {}", g.name, policy.name());
        let params: Vec<&[u8]> = g.params.iter().map(|p| data[&p.name].as_slice()).collect();
        let want = interpret(&g, &params).unwrap_or_else(|e| panic!("{at}: {e}")).outputs;
        let options = CompileOptions { precision: precision.clone(), ..CompileOptions::default() };
        let got = executed(&d, g.clone(), &options, &data);
        assert_eq!(got.len(), want.len(), "{at}");
        for ((got, want), o) in got.iter().zip(&want).zip(&g.outputs) {
            let dtype = g.ty(o.value).dtype;
            let (got, want) = (decode(dtype, got), decode(dtype, want));
            let found = difference_of_any(&got, &want);
            let same = got == want;
            assert!(same || found.relative() <= tolerance, "{at}: {}: {found:?}", o.name);
        }
    }
}

macro_rules! families {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            for policy in [FusionPolicy::Direct, FusionPolicy::Fusable] {
                family(stringify!($name), policy, PrecisionPolicy::AlwaysF32, 2e-4);
            }
        }
    )*
        /// The families above: a file that none of them names is not left out in silence.
        const NAMED: &[&str] = &[$(stringify!($name)),*];
    };
}

families! { bert dit gemma hiera llama moe nomic_bert qwen3 qwen35 sam2_memory sam_vit vae_decoder }

/// Halves between the operators, f32 within: results are the f32 graph's within some of their roundoff, 2^-11
/// for f16 and 2^-8 for bf16, of two layers.
#[test]
fn every_precision_policy_runs() {
    let custom = [(Class::Compute, Precision::Bf16), (Class::Reduction, Precision::F16)];
    for (policy, tolerance) in [
        (PrecisionPolicy::Custom(custom.into()), 6e-2),
        (PrecisionPolicy::AlwaysF16, 1e-2),
        (PrecisionPolicy::AutoMixedConservative, 1e-2),
        (PrecisionPolicy::AutoMixed, 1e-2),
        (PrecisionPolicy::AutoMixedBf16, 6e-2),
    ] {
        for name in first_of(1, ["bert", "sam_vit"]) {
            family(name, FusionPolicy::Direct, policy.clone(), tolerance);
        }
    }
}

#[test]
fn an_arena_above_the_binding_limit_is_several_buffers_with_the_same_bits() {
    let (whole, options) = (device(), CompileOptions::default());
    for name in ["vae_decoder", "sam_vit"] {
        for g in lowered(&module(name)) {
            let data = data(&g);
            let want = compiled(&whole, g.clone(), &options, &data);
            let [bytes] = want.program.arena_segments[..] else { panic!("{name}: one buffer") };
            eprintln!(
                "{name}: {bytes} {:?} {:?}",
                want.plan.buffers.iter().map(|b| b.bytes).max(),
                want.program.steps.iter().flat_map(|s| s.results.iter()).map(|r| r.bytes).max()
            );
            let most = bytes * 2 / 3;
            let narrow = device_with(|info| (info.max_buffer, info.max_binding) = (most, most));
            let got = compiled(&narrow, g.clone(), &options, &data);
            assert!(got.program.arena_segments.len() > 1, "{name}: {bytes} bytes in one buffer");
            let bits = |d, case| run(d, case).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(bits(&narrow, &got) == bits(&whole, &want), "{name}: other bits");
            assert_eq!(narrow.gpu().counts().live_bytes, 0, "{name}: everything was freed");
        }
    }
}

#[test]
fn every_block_graph_is_executed() {
    let mut files: Vec<String> = std::fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "hir"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    assert_eq!(files, NAMED);
}
