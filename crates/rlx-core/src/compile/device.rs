//! Compiling for a device by a model family's preset, and devices by the names that command lines use.

use super::{CompilePipeline, CompileResult, ModelExecutionConfig};
use crate::error::{Code, Error, Result};
use crate::ir::hir;
use crate::ir::mir::Graph;
use crate::profile::{CompileProfile, Preset};
use crate::target::{CompileOptions, FusionTarget, KernelDispatch, Target};
use alloc::format;
use alloc::vec::Vec;

/// The target of a device's description, among those that are `built`: a target's own name or any name of its
/// backend ([`FusionTarget::of_device`]), with limits as in [`Target::parse_among`]. `auto` is the first.
///
/// # Errors
/// `Usage` for an unknown device, with the known ones; `DeviceUnavailable` for a backend that no target
/// is of.
pub fn target_among(device: &str, built: &[Target]) -> Result<Target> {
    let (name, limits) = device.split_once(' ').unwrap_or((device, ""));
    let own = |name: &str| built.iter().find(|t| t.name == name);
    let target = match own(name) {
        Some(target) => target,
        None => {
            let names: Vec<&str> = built.iter().map(|t| t.name.as_str()).collect();
            let found = FusionTarget::of_device(name)?.resolve(&names)?;
            found
                .and_then(own)
                .or(built.first())
                .ok_or_else(|| Error::new(Code::DeviceUnavailable, "no target is built in"))?
        }
    };
    Target::parse_among(&format!("{} {limits}", target.name), core::slice::from_ref(target))
}

/// The stages for a target, by a profile.
fn pipeline(target: &Target, profile: &CompileProfile) -> Result<CompilePipeline> {
    let options = CompileOptions::from_profile(profile, &target.name, KernelDispatch::default())?;
    CompilePipeline::for_device(&target.name, options, core::slice::from_ref(target))
}

/// Compiles a graph for a target by a profile.
///
/// # Errors
/// `Usage` for a target that profiles have no backend for; `DeviceUnavailable` for a profile that asks for
/// another backend than the target's; else from the stages.
pub fn compile_graph_with_profile(
    target: &Target,
    g: Graph,
    profile: &CompileProfile,
) -> Result<CompileResult> {
    pipeline(target, profile)?.compile_graph(g)
}

/// [`compile_graph_with_profile`] by a preset: `Qwen35Decode`, `SamEncoder`, …
///
/// # Errors
/// As `compile_graph_with_profile`.
pub fn compile_graph_preset(target: &Target, g: Graph, preset: Preset) -> Result<CompileResult> {
    compile_graph_with_profile(target, g, &preset.profile())
}

/// Compiles a graph for a target with default options and no profile.
///
/// # Errors
/// From the stages.
pub fn compile_graph_legacy(target: &Target, g: Graph) -> Result<CompileResult> {
    CompilePipeline::new(target.clone()).compile_graph(g)
}

/// Compiles a module for a target by a profile.
///
/// # Errors
/// As [`compile_graph_with_profile`]; a block that does not fit is named by its label.
pub fn compile_hir_with_profile(
    target: &Target,
    module: &hir::Module,
    profile: &CompileProfile,
) -> Result<CompileResult> {
    pipeline(target, profile)?.compile_hir(module)
}

/// [`compile_hir_with_profile`] by a preset.
///
/// # Errors
/// As `compile_hir_with_profile`.
pub fn compile_hir_preset(
    target: &Target,
    module: &hir::Module,
    preset: Preset,
) -> Result<CompileResult> {
    compile_hir_with_profile(target, module, &preset.profile())
}

/// The options of a config on its own device: the preset's profile over the component's options,
/// the component's dispatch, the variant's binding.
///
/// # Errors
/// `Usage` for an unknown device.
pub fn options_for(config: &ModelExecutionConfig) -> Result<CompileOptions> {
    options_for_device(config, &config.component().device)
}

/// [`options_for`] on another device.
///
/// # Errors
/// `Usage` for an unknown device.
pub fn options_for_device(config: &ModelExecutionConfig, device: &str) -> Result<CompileOptions> {
    let component = config.component();
    let mut options = component.options.clone();
    options.fusion_target = FusionTarget::of_device(name(device))?;
    options.dispatch = component.kernel_dispatch.clone();
    config.compile_profile().apply(&mut options);
    options.binding = config.dim_binding();
    Ok(options)
}

/// The device that runs a packed model asked for on `device`: that device.
///
/// # Errors
/// `Usage` for an unknown device. What a device cannot read is an error of compiling, which names
/// the tensors.
pub fn packed_device(device: &str) -> Result<&str> {
    FusionTarget::of_device(name(device)).map(|_| device)
}

/// Calls `f` with the options that packed weights are compiled with, by a profile, and returns what
/// it returns. Nothing outside the options changes meanwhile, so nothing has to be put back.
///
/// # Errors
/// `Usage` for an unknown device.
pub fn with_packed_options<T>(
    device: &str,
    profile: &CompileProfile,
    f: impl FnOnce(&CompileOptions) -> T,
) -> Result<T> {
    CompileOptions::packed(profile, name(device)).map(|options| f(&options))
}

/// A device's name without its limits.
fn name(device: &str) -> &str {
    device.split_once(' ').map_or(device, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets;

    fn target_of(device: &str) -> Result<Target> {
        target_among(device, &[targets::host(), Target::reference(), targets::gpu()])
    }

    #[test]
    fn names_of_one_backend_have_one_target() {
        for device in ["gpu", &targets::gpu().name] {
            assert_eq!(target_of(device), Ok(targets::gpu()));
        }
        assert_eq!(target_of("auto"), Ok(targets::host()));
        assert_eq!(target_of("reference"), Ok(Target::reference()));
        assert_eq!(target_of("gpu binding=4096").map(|t| t.limits.binding), Ok(4096));
        let host = targets::host().name;
        assert_eq!(target_among(&host, &[Target::reference()]), Ok(Target::reference()));
    }

    #[test]
    fn what_is_not_built_and_what_is_no_device_are_told_apart() {
        let e = target_of("mps").expect_err("no such target");
        assert_eq!(e.code, Code::DeviceUnavailable);
        assert!(e.what.ends_with("is not built in"), "{e}");
        let e = target_of("abacus").expect_err("no such device");
        assert_eq!(e.code, Code::Usage);
        let e = target_of("reference speed=1").expect_err("no such limit");
        assert_eq!(e.what, "unknown limit `speed` of a target");
        let e = target_among("auto", &[]).expect_err("nothing is built");
        assert_eq!(e.code, Code::DeviceUnavailable);
    }

    #[test]
    fn a_profile_for_another_backend_than_the_targets_is_refused() {
        let mut profile = CompileProfile::default();
        profile.fusion.target = FusionTarget::of_device("gpu").expect("a backend");
        let compile = |target| compile_graph_with_profile(&target, Graph::new("f"), &profile);
        assert!(compile(targets::gpu()).is_ok());
        assert_eq!(compile(targets::host()).unwrap_err().code, Code::DeviceUnavailable);
    }
}
