//! Measures a device for its report.

use super::{FORMAT, Forms, Host, Report, VERSION};
use crate::block_on::block_on;
use crate::devices::{OpenOptions, webgpu};
use crate::load::milliseconds;
use crate::tools::mix::Quant;
use crate::tools::synth::{Shape, header};
use core::pin::pin;
use jiff::Timestamp;
use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::models::Checkpoint;
use rlx_core::runtime::choice;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::runtime::trial::Excerpt;
use rlx_core::{Code, Error, Result};
use rlx_webgpu::device::{Tried, Tuned, tune};
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{Gpu, copy_rate};
use rlx_webgpu::tuning::KERNELS;
use std::collections::BTreeMap;
use std::env::consts::{ARCH, OS};
use std::sync::Arc;

/// The models whose layers forms are timed with, in the shapes of `rlx synth`.
pub const MODELS: [&str; 2] = ["llama-125m", "llama-3.2-1b"];
/// Their format.
const QUANT: &str = "q4_k_m";
/// Shares of the progress: the copy's, and that of all before the forms.
const COPIED: f64 = 0.05;
const TUNED: f64 = 0.7;

/// Measures the GPU: its rate of copies, its tuning and the forms of products. `progress` is told how much is done,
/// from 0 to 1.
///
/// # Errors
/// `DeviceUnavailable`, and what the device meets. A model that it cannot run is no error: the report says why.
pub fn measure(options: &OpenOptions, progress: &dyn Fn(f64)) -> Result<Report> {
    progress(0.0);
    let copy_bytes_per_second = copy_rate(&NativeGpu::new(options.adapter.as_deref())?)?;
    progress(COPIED);
    let (device, _) = webgpu(options, false)?;
    let Tuned { tuning, tried } = {
        let share = |done: f64| progress(COPIED + (TUNED - COPIED) * done);
        let mut run = pin!(tune(&device, &milliseconds, &share));
        block_on(|cx| run.as_mut().poll(cx))?
    };
    let gpu = device.gpu().info();
    let device: Arc<dyn Device> = Arc::new(device.with_tuning(tuning));
    let mut forms = Vec::new();
    if !gpu.software {
        for (i, model) in MODELS.into_iter().enumerate() {
            forms.push(forms_of(model, &device)?);
            let share = (i + 1) as f64 / MODELS.len() as f64;
            progress(TUNED + (1.0 - TUNED) * share);
        }
    }
    progress(1.0);
    let mut choices = BTreeMap::<String, BTreeMap<String, f64>>::new();
    for Tried { choice, tuning, ms } in tried {
        let text = tuning.to_string();
        let mut words = text.split(' ');
        let word = words.find_map(|word| word.strip_prefix(choice)?.strip_prefix('='));
        choices.entry(choice.into()).or_default().insert(word.unwrap_or_default().into(), ms);
    }
    let info = device.info();
    Ok(Report {
        format: FORMAT.into(),
        version: VERSION,
        rlx: env!("CARGO_PKG_VERSION").into(),
        kernels: KERNELS,
        date: Timestamp::now().to_string().chars().take(10).collect(),
        from: Host::Terminal,
        system: format!("{OS} {ARCH}"),
        adapter: gpu.adapter,
        driver: gpu.driver,
        software: gpu.software,
        features: info.features,
        demoted: info.demoted,
        subgroups: info.subgroups,
        target: device.target().describe(),
        copy_bytes_per_second,
        tuning: tuning.to_string(),
        choices,
        forms,
    })
}

/// The headers of a model of this shape.
fn headers(model: &str) -> Result<ModelFiles> {
    let shape = Shape::find(model).ok_or_else(|| Error::internal("a shape without a name"))?;
    let writer = header(shape, Quant::parse(QUANT, false)?)?;
    let mut reader = HeaderReader::new(model, Some(writer.file_bytes()));
    reader.push(writer.header())?;
    let header = reader.into_header();
    ModelFiles::new(vec![header.ok_or_else(|| Error::internal("half a header was written"))?])
}

/// What the forms of products take on layers of a model.
///
/// # Errors
/// `DeviceLost`: nothing after it can be measured.
fn forms_of(model: &str, device: &Arc<dyn Device>) -> Result<Forms> {
    let options = ModelOptions::by(&device.target().policy);
    let usual = options.activations;
    let timed = headers(model).and_then(|files| {
        let excerpt = Excerpt::new(&Checkpoint::gguf(&files), &options)?;
        let mut run = pin!(choice::measure(&excerpt, device, &options, &milliseconds));
        block_on(|cx| run.as_mut().poll(cx))
    });
    let model = format!("{model} {QUANT}");
    match timed {
        Ok(times) => Ok(Forms {
            model,
            recommended: Some(usual.to_string()),
            chosen: Some(times.choose(usual).to_string()),
            decode_ms: times.decode,
            prompt_ms: times.prompts,
            failed: None,
        }),
        Err(e) if e.code == Code::DeviceLost => Err(e),
        Err(e) => Ok(Forms {
            model,
            recommended: None,
            chosen: None,
            decode_ms: None,
            prompt_ms: None,
            failed: Some(e.what.chars().filter(|c| !c.is_control()).take(300).collect()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlx_core::gguf::Progress;

    /// The page makes headers of its own, of one layer and without a vocabulary's texts.
    #[test]
    fn a_page_times_the_same_layers() -> Result<()> {
        const PAGE: [&[u8]; MODELS.len()] = [
            include_bytes!("../../../../tests/fixtures/devices/llama-125m.gguf-header"),
            include_bytes!("../../../../tests/fixtures/devices/llama-3.2-1b.gguf-header"),
        ];
        let target = rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS);
        let options = ModelOptions::by(&target.policy);
        for (model, page) in MODELS.into_iter().zip(PAGE) {
            let mut reader = HeaderReader::new(model, None);
            assert_eq!(reader.push(page)?, Progress::Done);
            let page = ModelFiles::new(vec![reader.into_header().expect("a header")])?;
            let own = headers(model)?;
            let layer = |name: &str| !name.starts_with("blk.") || name.starts_with("blk.0.");
            let of_it = own.tensors.iter().filter(|t| layer(t.0)).map(|(name, t)| (name, &t.1));
            for (name, tensor) in of_it {
                let (_, same) = page.tensor(name).expect(name);
                assert_eq!((same.dtype, &same.dims), (tensor.dtype, &tensor.dims), "{name}");
            }
            assert_eq!(page.tensors.len(), own.tensors.keys().filter(|name| layer(name)).count());
            let excerpt = |files: &ModelFiles| Excerpt::new(&Checkpoint::gguf(files), &options);
            assert_eq!(excerpt(&page)?.bytes(), excerpt(&own)?.bytes());
        }
        Ok(())
    }
}
