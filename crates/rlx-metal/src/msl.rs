//! From WGSL to MSL, by naga.
//!
//! Buffer `n` of a kernel is binding `n` of its bind group. Behind them is the buffer of sizes: one `uint` for each
//! array whose length only its buffer knows.
//!
//! Options, and why:
//! - An index outside of a buffer or an array is clamped (`Restrict`): one `min`, no branch. WGSL promises that such
//!   an index harms no other memory, and wgpu does the same on Metal.
//! - A workgroup's memory is not cleared first. naga would let one thread clear all of it before each kernel. Our
//!   kernels write it before they read it; the emulator fills it with NaN to prove that.
//! - Loops have no counter beside them that ends them: it would cost two additions a turn, and all of our loops end.
//!   A step's constants bound them.
//! - A division by zero is guarded, as WGSL defines its result.

use naga::back::msl;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy, Layouter};
use naga::valid::{Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};
use rlx_core::{Error, Result};

/// The version of MSL that kernels are written in: that of macOS 13.
pub const LANGUAGE: Language = (3, 0);

/// The version that has tensor operations: that of macOS 26.
pub const TENSORS: Language = (4, 0);

/// A version of MSL.
pub type Language = (u8, u8);

/// Threads of a threadgroup that every GPU of Apple's has at most.
const MOST_THREADS: u32 = 1024;

/// A kernel in MSL, ready for a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text.
    pub text: String,
    /// The version of MSL that it is written in.
    pub language: Language,
    /// The name of its function: that of the entry, unless MSL has the word.
    pub entry: String,
    /// Threads of a threadgroup, which has one dimension.
    pub threads: u32,
    /// Bytes of a threadgroup's memory at `[[threadgroup(n)]]`, whole multiples of 16.
    pub memory: Vec<u32>,
    /// The bindings whose sizes in bytes the kernel reads, in the order in which the buffer behind all bindings has
    /// them.
    pub sizes: Vec<u32>,
}

fn refused(entry: &str, why: impl core::fmt::Display) -> Error {
    Error::internal(format!("naga does not take it: {why}")).at(format!("kernel {entry}"))
}

/// The entry point `entry` of a WGSL text whose bind group 0 has `bindings` bindings.
///
/// # Errors
/// `Internal` with naga's message.
pub fn translate(wgsl: &str, entry: &str, bindings: u32) -> Result<Text> {
    let module =
        naga::front::wgsl::parse_str(wgsl).map_err(|e| refused(entry, e.emit_to_string(wgsl)))?;
    // The first is naga's name for `unpack2x16float`, which every WebGPU has.
    let capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SUBGROUP;
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .subgroup_stages(ShaderStages::COMPUTE)
        .subgroup_operations(SubgroupOperationSet::all())
        .validate(&module)
        .map_err(|e| refused(entry, e.emit_to_string(wgsl)))?;
    let slot = |n: u32| u8::try_from(n).map_err(|_| refused(entry, "it has too many bindings"));
    let mut resources =
        msl::EntryPointResources { sizes_buffer: Some(slot(bindings)?), ..Default::default() };
    let mut sizes = Vec::new();
    for (_, variable) in module.global_variables.iter() {
        let Some(at) = variable.binding else { continue };
        if at.group != 0 || at.binding >= bindings {
            return Err(refused(entry, format!("binding {} of group {}", at.binding, at.group)));
        }
        let target = msl::BindTarget {
            buffer: Some(slot(at.binding)?),
            mutable: is_written(variable.space),
            ..Default::default()
        };
        resources.resources.insert(at, target);
        if has_open_end(&module, variable.ty) {
            sizes.push(at.binding);
        }
    }
    let options = msl::Options {
        lang_version: LANGUAGE,
        per_entry_point_map: [(entry.to_string(), resources)].into(),
        fake_missing_bindings: false,
        bounds_check_policies: BoundsCheckPolicies {
            index: BoundsCheckPolicy::Restrict,
            buffer: BoundsCheckPolicy::Restrict,
            image_load: BoundsCheckPolicy::Restrict,
            binding_array: BoundsCheckPolicy::Restrict,
        },
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        ..Default::default()
    };
    let pipeline = msl::PipelineOptions {
        entry_point: Some((naga::ShaderStage::Compute, entry.into())),
        ..Default::default()
    };
    let (text, about) =
        msl::write_string(&module, &info, &options, &pipeline).map_err(|e| refused(entry, e))?;
    let at = module.entry_points.iter().position(|e| e.name == entry);
    let at = at.ok_or_else(|| refused(entry, "it has no such entry"))?;
    // The kernels of rlx-webgpu have workgroups of one dimension.
    let threads = match module.entry_points[at].workgroup_size {
        [threads @ 1..=MOST_THREADS, 1, 1] => threads,
        other => return Err(refused(entry, format!("threadgroups of {other:?} threads"))),
    };
    let mut layouts = Layouter::default();
    layouts.update(module.to_ctx()).map_err(|e| refused(entry, e))?;
    let used = info.get_entry_point(at);
    let mut memory = Vec::new();
    // naga writes a parameter for each such variable that the entry uses, in this order.
    for (handle, variable) in module.global_variables.iter() {
        if variable.space == naga::AddressSpace::WorkGroup && !used[handle].is_empty() {
            let bytes = layouts[variable.ty].size.checked_next_multiple_of(16);
            memory
                .push(bytes.ok_or_else(|| refused(entry, "it has 4 GiB of a workgroup's memory"))?);
        }
    }
    let entry = match about.entry_point_names.first() {
        Some(Ok(name)) => name.clone(),
        Some(Err(e)) => return Err(refused(entry, e)),
        None => return Err(refused(entry, "it wrote no entry")),
    };
    Ok(Text { text, language: LANGUAGE, entry, threads, memory, sizes })
}

/// Whether kernels may write memory of this kind.
fn is_written(space: naga::AddressSpace) -> bool {
    matches!(space, naga::AddressSpace::Storage { access } if access.contains(naga::StorageAccess::STORE))
}

/// Whether a type is an array, or ends in one, whose length its buffer knows.
fn has_open_end(module: &naga::Module, ty: naga::Handle<naga::Type>) -> bool {
    match &module.types[ty].inner {
        naga::TypeInner::Array { size: naga::ArraySize::Dynamic, .. } => true,
        naga::TypeInner::Struct { members, .. } => {
            members.last().is_some_and(|last| has_open_end(module, last.ty))
        }
        _ => false,
    }
}
