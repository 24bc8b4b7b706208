//! The devices of this build: one row each. Another executor is one more row. How models run on a device where
//! nobody says more is its target's [`Policy`](rlx_core::target::Policy), the same here and in a page.

use crate::block_on::block_on;
use crate::load::milliseconds;
use crate::remembered::{TUNINGS, file, remember, remembered};
use crate::report::{Report, first_guess, measure};
use crate::tools::copies;
use core::fmt;
use core::future::Future;
use core::pin::pin;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::target::{FusionTarget, Target};
use rlx_core::{Code, Error, Result};
use rlx_cpu::{CpuDevice, CpuOptions};
use rlx_cuda::CudaDevice;
use rlx_cuda::driver::copy_rate as copy_rates;
use rlx_cuda::driver::cuda::Cuda;
use rlx_cuda::driver::cuda::texts::Folders;
use rlx_cuda::driver::hip::Hip;
use rlx_webgpu::device::{Probes, tune};
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{Gpu, copy_rate};
use rlx_webgpu::tuning::{key, key_of};
use rlx_webgpu::{Tuning, WebGpuDevice};
use std::path::PathBuf;
use std::sync::Arc;

/// What a device is opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Worker threads of the CPU executor; `None`: as many as it thinks best.
    pub threads: Option<usize>,
    /// Part of the name of the GPU to take; `None`: the fastest.
    pub adapter: Option<String>,
    /// The PJRT plugin of an XLA device; `None`: the one that `PJRT_PLUGIN` names, else libtpu.
    pub plugin: Option<PathBuf>,
    /// Numbers of the cards to take, from 0 on; several run a model together. None: the first.
    pub cards: Vec<usize>,
}

/// Measures, and tells of progress from 0 to 1.
pub type Measure<T> = fn(&OpenOptions, &dyn Fn(f64)) -> Result<T>;

/// Why a device has its tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuningFrom {
    /// Nothing is known of the device: it has the usual one.
    Usual,
    /// A report of a device like it, of this name in `profiles/devices/`.
    Report(&'static str),
    /// It was measured on this machine.
    Measured,
}

impl fmt::Display for TuningFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => f.write_str("the usual ones: this device was not measured"),
            Self::Report(name) => write!(f, "a first guess from profiles/devices/{name}"),
            Self::Measured => f.write_str("as measured here"),
        }
    }
}

/// A device as the command line knows it.
pub struct DeviceRow {
    /// `reference`, `cpu`, `webgpu`, `cuda`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// The backend, as profiles name it.
    pub backend: FusionTarget,
    /// Whether weights are read where the file is mapped, instead of being copied.
    pub keeps_maps: bool,
    /// Whether a machine may have several, which are numbered, and of which several run a model together.
    pub cards: bool,
    /// What programs are planned for where no device is opened.
    pub target: fn() -> Target,
    /// Bytes a second that it copies, reads and writes counted, where it can be asked.
    pub copy_rate: Option<fn(&OpenOptions) -> Result<f64>>,
    /// Measures which shapes of kernels are fastest on it, where there is a choice, and keeps the answer
    /// for `open`. The answer is the tuning's text.
    pub tune: Option<Measure<String>>,
    /// Measures all that a report says, and keeps its tuning.
    pub report: Option<Measure<Report>>,
    /// Why its kernels have the shapes that they have.
    pub tuning_from: Option<fn(&OpenOptions) -> Result<TuningFrom>>,
    /// Opens it.
    pub open: fn(&OpenOptions) -> Result<Arc<dyn Device>>,
}

/// The device that every machine has.
pub const CPU: &str = "cpu";

/// Every device.
pub const DEVICES: &[DeviceRow] = &[
    DeviceRow {
        name: "reference",
        about: "plain loops, the truth for every operator; slow",
        backend: FusionTarget::Cpu,
        keeps_maps: true,
        cards: false,
        target: Target::reference,
        copy_rate: None,
        tune: None,
        report: None,
        tuning_from: None,
        open: |_| Ok(Arc::new(ReferenceDevice::new())),
    },
    DeviceRow {
        name: CPU,
        about: "SIMD kernels over packed weights, on hot threads",
        backend: FusionTarget::Cpu,
        keeps_maps: true,
        cards: false,
        target: kernels_of_the_cpu,
        copy_rate: Some(|options| copies::copy_rate(options.threads)),
        tune: None,
        report: None,
        tuning_from: None,
        open: |options| {
            let options = CpuOptions { threads: options.threads, ..CpuOptions::default() };
            Ok(Arc::new(CpuDevice::new(options)?))
        },
    },
    DeviceRow {
        name: "webgpu",
        about: "any adapter with a Vulkan, Metal or DirectX 12 driver",
        backend: FusionTarget::Wgpu,
        keeps_maps: false,
        cards: false,
        target: || rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS),
        copy_rate: Some(|options| copy_rate(&NativeGpu::new(options.adapter.as_deref())?)),
        tune: Some(|options, progress| {
            let (device, _) = webgpu(options, false)?;
            let mut run = pin!(tune(&device, &milliseconds, progress));
            let tuning = block_on(|cx| run.as_mut().poll(cx))?.tuning;
            remember(TUNINGS, key(&device.gpu().info()), tuning.to_string())?;
            Ok(tuning.to_string())
        }),
        report: Some(|options, progress| {
            let report = measure(options, progress)?;
            let key = key_of(&report.adapter, &report.driver);
            remember(TUNINGS, key, report.tuning.clone())?;
            Ok(report)
        }),
        tuning_from: Some(|options| Ok(webgpu(options, true)?.1)),
        open: |options| Ok(Arc::new(webgpu(options, true)?.0)),
    },
    DeviceRow {
        name: "cuda",
        about: "an NVIDIA card, by its own driver",
        backend: FusionTarget::Cuda,
        keeps_maps: false,
        cards: true,
        target: rlx_cuda::target,
        copy_rate: Some(|options| copy_rates::copy_rate(&nvidia(options)?, copy_rates::BYTES)),
        tune: None,
        report: None,
        tuning_from: None,
        open: |options| match options.cards.as_slice() {
            [] | [_] => Ok(Arc::new(CudaDevice::new(nvidia(options)?))),
            cards => {
                let cards = Cuda::group(cards, &folders_of_cuda())?;
                Ok(Arc::new(rlx_cuda::group::group(cards, &rlx_cuda::target())?))
            }
        },
    },
    DeviceRow {
        name: "rocm",
        about: "an AMD card, by ROCm; no card has run it yet",
        backend: FusionTarget::Rocm,
        keeps_maps: false,
        cards: false,
        target: rlx_cuda::rocm_target,
        copy_rate: Some(|_| copy_rates::copy_rate(&amd()?, copy_rates::BYTES)),
        tune: None,
        report: None,
        tuning_from: None,
        open: |_| Ok(Arc::new(CudaDevice::with_target(amd()?, rlx_cuda::rocm_target()))),
    },
    DeviceRow {
        name: "metal",
        about: "an Apple GPU from the M1 on, by Metal itself; no Mac has run it yet",
        backend: FusionTarget::Metal,
        keeps_maps: false,
        cards: false,
        target: rlx_metal::target,
        copy_rate: None,
        tune: None,
        report: None,
        tuning_from: None,
        open: |options| rlx_metal::open(options.adapter.as_deref()),
    },
    DeviceRow {
        name: "mlx",
        about: "MLX of Apple, on its GPU, or on the CPU where it has none",
        backend: FusionTarget::Mlx,
        keeps_maps: false,
        cards: false,
        target: rlx_mlx::target,
        copy_rate: None,
        tune: None,
        report: None,
        tuning_from: None,
        open: |_| Ok(Arc::new(rlx_mlx::open()?)),
    },
    DeviceRow {
        name: "tpu",
        about: "a TPU of Google's, through XLA; no TPU has run it yet",
        backend: FusionTarget::Tpu,
        keeps_maps: false,
        cards: false,
        target: rlx_pjrt::target,
        copy_rate: None,
        tune: None,
        report: None,
        tuning_from: None,
        open: |options| xla("tpu", options),
    },
    DeviceRow {
        name: "xla-cpu",
        about: "the CPU through XLA, which runs the programs of a TPU",
        backend: FusionTarget::Tpu,
        keeps_maps: false,
        cards: false,
        target: rlx_pjrt::cpu_target,
        copy_rate: None,
        tune: None,
        report: None,
        tuning_from: None,
        open: |options| xla("xla-cpu", options),
    },
    DeviceRow {
        name: "xla-cuda",
        about: "an NVIDIA card through XLA",
        backend: FusionTarget::Tpu,
        keeps_maps: false,
        cards: false,
        target: rlx_pjrt::cuda_target,
        copy_rate: None,
        tune: None,
        report: None,
        tuning_from: None,
        open: |options| xla("xla-cuda", options),
    },
];

/// What to give for an XLA device: a plugin is a library of its own.
const PLUGINS: &str = "name its PJRT plugin with --plugin or PJRT_PLUGIN: libtpu.so of PyPI's libtpu for tpu, \
    xla_cpu_pjrt.so of xla-cpu-pjrt for xla-cpu, xla_cuda_plugin.so of jax-cuda13-pjrt for xla-cuda";

/// The XLA device of that name, by a plugin.
fn xla(name: &str, options: &OpenOptions) -> Result<Arc<dyn Device>> {
    let named = options.plugin.is_some() || std::env::var_os("PJRT_PLUGIN").is_some();
    if name != "tpu" && !named {
        return Err(Error::new(Code::DeviceUnavailable, "no PJRT plugin is named").hint(PLUGINS));
    }
    let device = rlx_pjrt::open(options.plugin.as_deref()).map_err(|e| e.hint(PLUGINS))?;
    let found = &device.target().name;
    if found != name {
        let what = format!("the PJRT plugin is of the device {found}, not of {name}");
        return Err(Error::new(Code::DeviceUnavailable, what).hint(PLUGINS));
    }
    Ok(Arc::new(device))
}

/// The NVIDIA card that is named first, or the first of all.
fn nvidia(options: &OpenOptions) -> Result<Cuda> {
    Cuda::new(options.cards.first().copied().unwrap_or(0), folders_of_cuda())
}

/// Where kernels are kept. Without a folder for caches they are compiled each time.
fn folders_of_cuda() -> Folders {
    let kernels = std::env::var_os("RLX_KERNELS").map(PathBuf::from);
    Folders { cache: file("cuda").ok(), kernels }
}

/// The first AMD card, likewise.
fn amd() -> Result<Hip> {
    Hip::new(0, file("rocm").ok())
}

/// A WebGPU device with the features that work. If that is asked for it is tuned as it was last on this machine, or
/// else by a report of a device like it.
pub(crate) fn webgpu(
    options: &OpenOptions,
    tuned: bool,
) -> Result<(WebGpuDevice<NativeGpu>, TuningFrom)> {
    let gpu = NativeGpu::new(options.adapter.as_deref())?;
    let info = gpu.info();
    let kept = if tuned { remembered(TUNINGS, &key(&info)) } else { None };
    let kept = kept.and_then(|text| Tuning::parse(&text, info.wgsl).ok());
    let mut device = WebGpuDevice::new(gpu);
    if let Some(tuning) = kept {
        device = device.with_tuning(tuning);
    }
    let mut probes = Probes::new(&device);
    block_on(|cx| probes.poll(&device, cx))?;
    let guess = if tuned && kept.is_none() { first_guess(&info, &device.info()) } else { None };
    Ok(match (kept, guess) {
        (Some(_), _) => (device, TuningFrom::Measured),
        (None, Some((name, tuning))) => (device.with_tuning(tuning), TuningFrom::Report(name)),
        (None, None) => (device, TuningFrom::Usual),
    })
}

/// The CPU executor's kernels, without the reference's loops: what a page has too.
fn kernels_of_the_cpu() -> Target {
    let mut target = rlx_cpu::target();
    target.claims.loops = false;
    target
}

/// The target of a description, as [`Target::describe`] writes it: `webgpu binding=134217728`.
///
/// # Errors
/// `Usage` for an unknown name or limit.
pub fn target_of(text: &str) -> Result<Target> {
    let usual: Vec<Target> = DEVICES.iter().map(|row| (row.target)()).collect();
    Target::parse_among(text, &usual)
}

/// The row of that name.
///
/// # Errors
/// `Usage` for a name that no row has.
pub fn find(name: &str) -> Result<&'static DeviceRow> {
    DEVICES.iter().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<&str> = DEVICES.iter().map(|row| row.name).collect();
        Error::usage(format!("unknown device `{name}`"))
            .hint(format!("devices: {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_and_its_target_has_its_name() {
        for row in DEVICES {
            assert_eq!(find(row.name).map(|r| r.name), Ok(row.name));
            assert_eq!((row.target)().name, row.name);
            assert_eq!(FusionTarget::of_device(row.name), Ok(row.backend));
        }
        assert!(find(CPU).is_ok());
    }

    #[test]
    fn another_name_is_a_usage_error_that_lists_them() {
        let e = find("gpu").map(|row| row.name).expect_err("no such row");
        assert_eq!(e.what, "unknown device `gpu`");
        assert_eq!(
            e.hint,
            "devices: reference, cpu, webgpu, cuda, rocm, metal, mlx, tpu, xla-cpu, xla-cuda"
        );
    }
}
