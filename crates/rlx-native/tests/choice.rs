//! A GPU is timed for the activation types of a model once, and not where an option names them.

use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::{Activations, ProgramActivations};
use rlx_native::choice::{Chosen, choose_by};
use rlx_native::devices;
use rlx_native::load::{LoadOptions, load};
use rlx_native::network::CheckpointFiles;
use rlx_webgpu::WebGpuDevice;
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{Gpu, GpuInfo};
use std::path::Path;
use std::sync::Arc;

/// The adapter of these tests, which the processor simulates, under the name of hardware or as it is.
fn gpu(software: bool) -> Arc<dyn Device> {
    let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
    let info = GpuInfo { software, ..gpu.info() };
    Arc::new(WebGpuDevice::with_info(gpu, info))
}

fn source() -> CheckpointFiles {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    CheckpointFiles::open(&root.join("tests/fixtures/gguf/llama-q4_k_m.gguf")).unwrap()
}

#[test]
fn a_device_is_timed_once_and_again_where_the_file_of_times_is_none() {
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/times-of-forms.json");
    let _ = std::fs::remove_file(file);
    let (device, source) = (gpu(false), source());
    let recommended = device.target().policy.activations;
    let choose = || -> (Chosen, ProgramActivations, u64) {
        let mut options = ModelOptions::by(&device.target().policy);
        let before = device.counters().submits;
        let chosen = choose_by(file, &source.checkpoint(), &device, &mut options).unwrap();
        assert_eq!(device.counters().live_bytes, 0, "nothing is left on the device");
        (chosen, options.activations, device.counters().submits - before)
    };
    let (first, types, submits) = choose();
    assert!(submits > 0 && !first.remembered);
    assert_eq!((types, first.recommended), (first.times.choose(recommended), recommended));
    let whole = |times: Option<[f64; 2]>| times.is_some_and(|t| t.iter().all(|ms| *ms > 0.0));
    assert!(whole(first.times.decode) && whole(first.times.prompts), "{first:?}");

    let (again, same, submits) = choose();
    assert_eq!((again.remembered, same, submits), (true, types, 0));
    assert_eq!(again.to_string(), first.to_string());

    let kept = std::fs::read_to_string(file).unwrap();
    let text = first.times.to_string();
    for wrong in [kept.replace(&text, "1 2 3"), kept[..kept.len() / 2].into(), String::new()] {
        std::fs::write(file, wrong).unwrap();
        let (chosen, _, submits) = choose();
        assert!(submits > 0 && !chosen.remembered);
    }
    // Times decide, wherever they come from.
    let kept = std::fs::read_to_string(file).unwrap();
    let floats = Activations::F32;
    let first = ProgramActivations { prompts: floats, ..recommended };
    let second = ProgramActivations { decode: floats, ..recommended };
    for (text, want) in [("1 2 2 1", first), ("2 1 1 2", second)] {
        let times = kept.split('"').nth(3).unwrap();
        std::fs::write(file, kept.replace(times, text)).unwrap();
        let (chosen, types, submits) = choose();
        assert_eq!((chosen.remembered, types, submits), (true, want, 0));
    }
}

#[test]
fn an_option_wins_and_what_is_simulated_is_not_timed() {
    let (source, row) = (source(), devices::find("webgpu").unwrap());
    let loaded = |device, activations| {
        let options = LoadOptions { activations, ..LoadOptions::default() };
        let model = load(&source, row, device, &options, &mut |_, _| {}).unwrap();
        (model.activations, model.chosen)
    };
    let int8: ProgramActivations = Activations::Int8.into();
    assert_eq!(loaded(gpu(false), Some(int8)), (int8, None));
    let simulated = gpu(true);
    let recommended = simulated.target().policy.activations;
    assert_eq!(loaded(simulated, None), (recommended, None));
}
