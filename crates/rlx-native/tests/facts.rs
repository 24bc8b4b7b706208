//! Facts of docs/facts.md that need executors: the same programs on every device of this build.

use crate::load::{Hand, run_once};
use crate::opened::opened;
use rlx_core::compare::difference;
use rlx_core::compile::CompilePipeline;
use rlx_core::formats::decode_row;
use rlx_core::ir::parse::parse;
use rlx_core::plan::WeightPlan;
use rlx_core::profile::CompileProfile;
use rlx_core::runtime::device::{Device, Write, WriteTo};
use rlx_core::safetensors;
use rlx_core::target::{Activations, CompileOptions, KernelDispatch, Target};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

/// `silu(gate(x)) * up(x)` with weights of one type.
fn layer(dtype: DType) -> String {
    format!(
        "func @layer {{
  input %x : tensor<3x256xf32>
  weight %gate : tensor<24x256x{dtype}>
  weight %up : tensor<24x256x{dtype}>
  %0 = matmul %x, %gate -> tensor<3x24xf32> // gate
  %1 = matmul %x, %up -> tensor<3x24xf32> // up
  %2 = map %0 {{f = silu}} -> tensor<3x24xf32> // act
  %3 = zip %2, %1 {{f = mul}} -> tensor<3x24xf32> // product
  return y = %3
}}
"
    )
}

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// How a layer is compiled.
struct How {
    fused: bool,
    activations: Activations,
}

/// Compiles the layer for the device as opened, checks that it fused or did not, and runs it once.
fn run(
    device: &Arc<dyn Device>,
    hand: Hand,
    text: &str,
    how: &How,
    weights: &[(&str, &[u8])],
    x: &[u8],
) -> Vec<f32> {
    let mut profile = CompileProfile::llama32_prefill();
    profile.fusion.skip = !how.fused;
    let name = &device.info().kind;
    let mut options =
        CompileOptions::from_profile(&profile, name, KernelDispatch::default()).unwrap();
    options.activations = how.activations;
    let pipeline = CompilePipeline::new(device.target().clone()).with_options(options);
    let result = pipeline.compile_graph(parse(text).unwrap()).unwrap();
    let mut program = (*result.lir).clone();
    let products = program.steps.iter().filter(|s| s.op.name() == "matmul").count();
    let fuses = how.fused && device.target().fusions.glu;
    assert_eq!(products == 1, fuses, "{name}: {program}");

    let mut file = Vec::new();
    let plan = WeightPlan::new(&[&program], &device.target().limits, |name| {
        let bytes = weights.iter().find(|w| w.0 == name)?.1;
        file.extend_from_slice(bytes);
        Some((0, (file.len() - bytes.len()) as u64, bytes.len() as u64))
    })
    .unwrap();
    plan.bind(&mut program).unwrap();
    let write = Write { to: WriteTo::Input(0), offset: 0, bytes: x.to_vec() };
    let y = run_once(device.clone(), plan, program, Arc::new(file), hand, &[write]).unwrap();
    let y = &y[0];
    y.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Recorded blocks of a format whose numbers are ordinary: the record has infinities and NaN too.
fn usable(file: &[u8], header: &safetensors::Header, format: BlockFormat) -> Vec<u8> {
    let dtype = DType::Block(format);
    let name = format!("{}.bytes", dtype.name().to_uppercase());
    let recorded = header.tensors.get(&name).unwrap_or_else(|| panic!("no record of {name}"));
    let blocks = &file[recorded.offset as usize..][..recorded.bytes as usize];
    let mut out = vec![0.0f32; format.elements()];
    let mut ordinary = |block: &&[u8]| {
        decode_row(dtype, block, &mut out).unwrap();
        out.iter().all(|v| v.is_finite() && v.abs() < 1e3)
    };
    blocks.chunks_exact(format.bytes()).filter(|b| ordinary(b)).flatten().copied().collect()
}

/// The largest difference that is allowed, as a part of the largest number. By f32 activations there was
/// none on any executor, and the order of a GPU's sums may make 1e-6. Activations in int8 round each to
/// one of 127 parts of the largest of its block; q8_0 was off by 1.5e-2 on every executor alike.
const F32: f64 = 1e-5;
const INT8: f64 = 3e-2;

#[test]
fn fact_001_14_on_every_executor_packed_and_fused_equals_dequantised_and_plain() {
    let file = crate::gunzip::gunzip("ggml_quants.safetensors");
    let mut reader = safetensors::HeaderReader::new("ggml_quants", Some(file.len() as u64));
    assert!(reader.push(&file).unwrap());
    let header = reader.into_header().unwrap();
    let mut state = 5u64;
    let mut number = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let x = bytes(&(0..3 * 256).map(|_| number()).collect::<Vec<f32>>());
    for (row, device) in opened("facts") {
        let hand = if row.keeps_maps { Hand::Kept } else { Hand::Pieces(usize::MAX) };
        // The reference reads working formats too, which no file holds.
        let mut formats = Target::every_format();
        formats.retain(|f| device.target().formats.contains(f));
        assert!(formats.len() >= 5, "{}: {formats:?}", row.name);
        for format in formats {
            let dtype = DType::Block(format);
            let usable = usable(&file, &header, format);
            let wanted = 24 * 256 / format.elements() * format.bytes();
            let packed = |skip: usize| -> Vec<u8> {
                usable.iter().cycle().skip(skip * format.bytes()).take(wanted).copied().collect()
            };
            let (gate, up) = (packed(0), packed(3));
            let plain = |w: &[u8]| {
                let mut out = vec![0.0f32; 24 * 256];
                decode_row(dtype, w, &mut out).unwrap();
                bytes(&out)
            };
            let plain_how = How { fused: false, activations: Activations::F32 };
            let dense: [(&str, &[u8]); 2] = [("gate", &plain(&gate)), ("up", &plain(&up))];
            let want = run(&device, hand, &layer(DType::F32), &plain_how, &dense, &x);
            assert!(want.iter().any(|y| *y != 0.0) && want.iter().all(|y| y.is_finite()));
            for activations in [Activations::F32, Activations::Int8] {
                let how = How { fused: true, activations };
                let weights: [(&str, &[u8]); 2] = [("gate", &gate), ("up", &up)];
                let got = run(&device, hand, &layer(dtype), &how, &weights, &x);
                let off = difference(&got, &want).relative();
                let what = format!("{dtype} by {} on {}", activations.name(), row.name);
                println!("{what}: {off:.2e} of the largest");
                let most = if activations == Activations::F32 { F32 } else { INT8 };
                assert!(off <= most, "{what}: {off:e} of the largest");
            }
        }
    }
}
