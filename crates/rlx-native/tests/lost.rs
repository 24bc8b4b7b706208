//! A device that is lost in the middle of an answer: the model goes on another one.

use rlx_core::runtime::device::Device;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::{Code, Result};
use rlx_native::devices;
use rlx_native::generate::generate;
use rlx_native::load::{LoadOptions, Model, load};
use rlx_native::lost::generate_again;
use rlx_native::network::CheckpointFiles;
use rlx_webgpu::WebGpuDevice;
use rlx_webgpu::gpu::CountingGpu;
use rlx_webgpu::gpu::native::NativeGpu;
use std::path::Path;
use std::sync::Arc;

type TestDevice = WebGpuDevice<CountingGpu<NativeGpu>>;

const MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf");

/// The model on a device of its own.
fn fresh() -> (Arc<TestDevice>, Model) {
    let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
    let device = Arc::new(WebGpuDevice::new(CountingGpu::new(gpu)));
    let source = CheckpointFiles::open(Path::new(MODEL)).unwrap();
    let row = devices::find("webgpu").unwrap();
    let options = LoadOptions { context: Some(128), ..LoadOptions::default() };
    let model = load(&source, row, device.clone(), &options, &mut |_, _| {}).unwrap();
    (device, model)
}

fn greedy(tokens: usize) -> GenerateOptions {
    GenerateOptions { max_tokens: Some(tokens), ignore_stops: true, ..GenerateOptions::default() }
}

/// An answer during which `device` is lost once `after` texts have come.
fn answer(
    model: &mut Model,
    prompt: &[u32],
    device: &TestDevice,
    after: usize,
    reopen: &mut dyn FnMut() -> Result<Model>,
) -> (Result<rlx_native::generate::Answer>, String) {
    let (mut texts, mut shown) = (0, String::new());
    let mut show = |text: &str| {
        texts += 1;
        shown += text;
        if texts == after {
            device.gpu().inner().lose();
        }
        Ok(())
    };
    let answer = generate_again(model, prompt.to_vec(), &greedy(16), reopen, &|| false, &mut show);
    (answer, shown)
}

#[test]
fn a_chat_goes_on_after_the_device_was_lost_in_the_middle_of_an_answer() {
    let first: Vec<u32> = vec![2044, 2045, 100, 7, 9];
    let (_, mut model) = fresh();
    let before =
        generate(&mut model, first.clone(), &greedy(8), &|| false, &mut |_| Ok(())).unwrap();
    let second: Vec<u32> = first.iter().chain(&before.tokens).copied().chain([300, 301]).collect();
    let want =
        generate(&mut model, second.clone(), &greedy(16), &|| false, &mut |_| Ok(())).unwrap();

    let (device, mut model) = fresh();
    generate(&mut model, first.clone(), &greedy(8), &|| false, &mut |_| Ok(())).unwrap();
    let mut opened = 0;
    let mut reopen = || {
        opened += 1;
        Ok(fresh().1)
    };
    let (got, shown) = answer(&mut model, &second, &device, 3, &mut reopen);
    let got = got.unwrap();
    assert_eq!(opened, 1);
    assert_eq!(got.tokens, want.tokens);
    assert!(shown.ends_with(&want.text) && shown.len() > want.text.len(), "{shown:?}");
    // The whole prompt was read again before the answer began anew: only its last row is left.
    assert_eq!(got.reused_tokens, second.len() - 1);
    assert_eq!(device.counters().live_bytes, 0, "the lost device is empty by the ledger");
    assert_eq!(device.gpu().counts().live_bytes, 0, "and from outside");
}

#[test]
fn a_device_that_is_lost_while_nobody_asks_leaves_what_the_next_turn_shares() {
    let first: Vec<u32> = vec![2044, 2045, 100, 7, 9];
    let (device, mut model) = fresh();
    let before =
        generate(&mut model, first.clone(), &greedy(8), &|| false, &mut |_| Ok(())).unwrap();
    device.gpu().inner().lose();
    let second: Vec<u32> = first.iter().chain(&before.tokens).copied().chain([300, 301]).collect();
    let (got, _) = answer(&mut model, &second, &device, usize::MAX, &mut || Ok(fresh().1));
    assert_eq!(got.unwrap().reused_tokens, first.len() + before.tokens.len() - 1);
}

#[test]
fn a_second_loss_in_a_row_is_the_error() {
    let (device, mut model) = fresh();
    device.gpu().inner().lose();
    let mut opened = 0;
    let mut reopen = || {
        opened += 1;
        let (device, model) = fresh();
        device.gpu().inner().lose();
        Ok(model)
    };
    let (got, shown) = answer(&mut model, &[2044, 2045, 100], &device, usize::MAX, &mut reopen);
    assert_eq!(got.unwrap_err().code, Code::DeviceLost);
    assert_eq!((opened, shown.as_str()), (1, ""));
    // The engine knows: no further call begins.
    let again = generate(&mut model, vec![2044], &greedy(1), &|| false, &mut |_| Ok(()));
    assert_eq!(again.unwrap_err().code, Code::DeviceLost);
}
