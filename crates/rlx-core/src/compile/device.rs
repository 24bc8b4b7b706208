//! Compiling for a device by its name and a model family by its preset.

use super::{CompilePipeline, CompileResult, ModelExecutionConfig};
use crate::error::{Code, Error, Result};
use crate::ir::hir;
use crate::ir::mir::Graph;
use crate::profile::{CompileProfile, Preset};
use crate::target::{CompileOptions, FusionTarget, KernelDispatch, Target};
use alloc::format;

/// The description of a device: `cpu`, `reference`, `webgpu binding=134217728`, or any name of a
/// backend (`gpu`, `hip`, `mps`). `auto` is the CPU, the one device that is always there.
///
/// # Errors
/// `Usage` for an unknown device, with the known ones; `DeviceUnavailable` for a backend whose
/// target is not described yet.
pub fn target_of(device: &str) -> Result<Target> {
    let (name, limits) = device.split_once(' ').unwrap_or((device, ""));
    let backend = FusionTarget::of_device(name)?;
    let name = match (name, backend.target_name()) {
        ("reference", _) => name,
        (_, Some(own)) => own,
        (_, None) => "cpu",
    };
    let known = || Target::parse(name).is_ok();
    match Target::parse(&format!("{name} {limits}")) {
        Err(_) if !known() => Err(Error::new(
            Code::DeviceUnavailable,
            format!("the backend {} is not built in", backend.name()),
        )
        .hint("targets: reference, cpu, webgpu")),
        other => other,
    }
}

/// Compiles a graph for a device by a profile.
///
/// # Errors
/// As [`CompilePipeline::for_device`] and the stages.
pub fn compile_graph_with_profile(
    device: &str,
    g: Graph,
    profile: &CompileProfile,
) -> Result<CompileResult> {
    let options = CompileOptions::from_profile(profile, name(device), KernelDispatch::default())?;
    CompilePipeline::for_device(device, options)?.compile_graph(g)
}

/// [`compile_graph_with_profile`] by a preset: `Qwen35Decode`, `SamEncoder`, …
///
/// # Errors
/// As `compile_graph_with_profile`.
pub fn compile_graph_preset(device: &str, g: Graph, preset: Preset) -> Result<CompileResult> {
    compile_graph_with_profile(device, g, &preset.profile())
}

/// Compiles a graph for a device with default options and no profile.
///
/// # Errors
/// As [`CompilePipeline::for_device`] and the stages.
pub fn compile_graph_legacy(device: &str, g: Graph) -> Result<CompileResult> {
    CompilePipeline::for_device(device, CompileOptions::default())?.compile_graph(g)
}

/// Compiles a module for a device by a profile.
///
/// # Errors
/// As [`compile_graph_with_profile`]; a block that does not fit is named by its label.
pub fn compile_hir_with_profile(
    device: &str,
    module: &hir::Module,
    profile: &CompileProfile,
) -> Result<CompileResult> {
    let options = CompileOptions::from_profile(profile, name(device), KernelDispatch::default())?;
    CompilePipeline::for_device(device, options)?.compile_hir(module)
}

/// [`compile_hir_with_profile`] by a preset.
///
/// # Errors
/// As `compile_hir_with_profile`.
pub fn compile_hir_preset(
    device: &str,
    module: &hir::Module,
    preset: Preset,
) -> Result<CompileResult> {
    compile_hir_with_profile(device, module, &preset.profile())
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

    #[test]
    fn names_of_one_backend_have_one_target() {
        for device in ["gpu", "wgpu", "vulkan", "webgpu"] {
            assert_eq!(target_of(device), Target::parse("webgpu"));
        }
        assert_eq!(target_of("auto"), Ok(Target::cpu()));
        assert_eq!(target_of("reference"), Ok(Target::reference()));
        assert_eq!(target_of("webgpu binding=4096").map(|t| t.limits.binding), Ok(4096));
    }

    #[test]
    fn what_is_not_built_and_what_is_no_device_are_told_apart() {
        let e = target_of("mlx").expect_err("no such target yet");
        assert_eq!(e.code, Code::DeviceUnavailable);
        assert_eq!(e.what, "the backend mlx is not built in");
        let e = target_of("abacus").expect_err("no such device");
        assert_eq!(e.code, Code::Usage);
        let e = target_of("cpu speed=1").expect_err("no such limit");
        assert_eq!(e.what, "unknown limit `speed` of a target");
    }
}
