//! Which backend a compilation is for, by the names that profiles and command lines use.
//!
//! This is the only file of the core that lists devices by name. It is a vocabulary: profiles have hints for
//! backends that no build has yet, and an error about an unknown name lists the known ones. What a device can
//! do is in its executor's [`Target`](super::Target).

use crate::error::{Code, Error, Result};
use alloc::format;
use alloc::vec::Vec;

/// A backend that fusions and hints are chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FusionTarget {
    /// The backend of the device.
    #[default]
    Auto,
    /// The CPU executor; the reference executor counts as one.
    Cpu,
    /// Apple GPUs, through MSL.
    Metal,
    /// Apple GPUs, through MLX's lazy graphs.
    Mlx,
    /// Nvidia GPUs.
    Cuda,
    /// AMD GPUs.
    Rocm,
    /// WebGPU, in a page or natively.
    Wgpu,
    /// XLA devices, through PJRT.
    Tpu,
}

/// Names of devices on command lines, with their backend. The first name of a backend is its own.
const DEVICES: [(&str, FusionTarget); 16] = [
    ("cpu", FusionTarget::Cpu),
    ("reference", FusionTarget::Cpu),
    ("metal", FusionTarget::Metal),
    ("mps", FusionTarget::Metal),
    ("mlx", FusionTarget::Mlx),
    ("cuda", FusionTarget::Cuda),
    ("rocm", FusionTarget::Rocm),
    ("hip", FusionTarget::Rocm),
    ("wgpu", FusionTarget::Wgpu),
    ("gpu", FusionTarget::Wgpu),
    ("vulkan", FusionTarget::Wgpu),
    ("webgpu", FusionTarget::Wgpu),
    ("tpu", FusionTarget::Tpu),
    ("xla-cpu", FusionTarget::Tpu),
    ("xla-cuda", FusionTarget::Tpu),
    ("auto", FusionTarget::Auto),
];

impl FusionTarget {
    /// Every value, in the order documents list them.
    pub const ALL: [FusionTarget; 8] = [
        Self::Auto,
        Self::Cpu,
        Self::Metal,
        Self::Mlx,
        Self::Cuda,
        Self::Rocm,
        Self::Wgpu,
        Self::Tpu,
    ];

    /// The name in profiles and messages, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Metal => "metal",
            Self::Mlx => "mlx",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::Wgpu => "wgpu",
            Self::Tpu => "tpu",
        }
    }

    /// The value of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// The backend, or `None` for [`Auto`](Self::Auto).
    pub fn explicit(self) -> Option<Self> {
        (self != Self::Auto).then_some(self)
    }

    /// The name of the [`Target`](super::Target) that describes it; `auto` has none.
    pub fn target_name(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Wgpu => Some("webgpu"),
            other => Some(other.name()),
        }
    }

    /// The backend of a device string: `mps` is metal, `hip` is rocm, `gpu`, `vulkan` and `webgpu`
    /// are wgpu.
    ///
    /// # Errors
    /// `Usage` for an unknown string, with the known ones.
    pub fn of_device(device: &str) -> Result<Self> {
        DEVICES.iter().find(|row| row.0 == device).map(|row| row.1).ok_or_else(|| {
            let known: Vec<&str> = DEVICES.iter().map(|row| row.0).collect();
            Error::usage(format!("unknown device `{device}`"))
                .hint(format!("devices: {}", known.join(", ")))
        })
    }

    /// The first of `built` that is a device of this backend; `None` for `auto`, which leaves the choice to
    /// the caller.
    ///
    /// # Errors
    /// `DeviceUnavailable` if there is none, with the devices of this build.
    pub fn resolve<'a>(self, built: &[&'a str]) -> Result<Option<&'a str>> {
        if self == Self::Auto {
            return Ok(None);
        }
        // A backend's own device comes before one that merely counts as it (`reference`).
        let mine = || built.iter().copied().filter(|d| Self::of_device(d) == Ok(self));
        let own = mine().find(|d| self.target_name() == Some(*d));
        own.or_else(|| mine().next()).map(Some).ok_or_else(|| {
            Error::new(
                Code::DeviceUnavailable,
                format!("the backend {} is not built in", self.name()),
            )
            .hint(format!("this build has {}", built.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for target in FusionTarget::ALL {
            assert_eq!(FusionTarget::from_name(target.name()), Some(target));
            assert_eq!(FusionTarget::of_device(target.name()), Ok(target));
        }
        assert_eq!(FusionTarget::from_name("CPU"), None);
    }

    #[test]
    fn a_backend_resolves_to_its_own_device_among_those_built() {
        let built = ["reference", "cpu", "webgpu"];
        assert_eq!(FusionTarget::Auto.resolve(&built), Ok(None));
        assert_eq!(FusionTarget::Cpu.resolve(&built), Ok(Some("cpu")));
        assert_eq!(FusionTarget::Cpu.resolve(&["reference"]), Ok(Some("reference")));
        assert_eq!(FusionTarget::Wgpu.resolve(&built), Ok(Some("webgpu")));
        let e = FusionTarget::Cuda.resolve(&built).expect_err("not built");
        assert_eq!(e.code, Code::DeviceUnavailable);
        assert_eq!(e.what, "the backend cuda is not built in");
        assert_eq!(e.hint, "this build has reference, cpu, webgpu");
    }
}
