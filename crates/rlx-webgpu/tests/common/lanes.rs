//! Subgroups of any width, of a GPU with others or none: shuffles become functions over the workgroup's memory.
//!
//! Kernels may then shuffle only where all threads of the workgroup do, which is stricter than what subgroups need.

use super::changed::Changed;
use rlx_webgpu::WebGpuDevice;
use rlx_webgpu::gpu::Width;
use rlx_webgpu::gpu::native::NativeGpu;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Widths that GPUs have.
pub const WIDTHS: [u32; 5] = [4, 8, 16, 32, 64];

/// A device whose subgroups have so many lanes, and how many of its shaders have shuffled.
pub struct Emulated {
    pub device: Arc<WebGpuDevice<Changed>>,
    shuffled: Arc<AtomicUsize>,
}

impl Emulated {
    /// A GPU that says that it has this width.
    pub fn new(lanes: u32) -> Emulated {
        Self::with_width(lanes, Width::Fixed(lanes))
    }

    /// One that says something else of it.
    pub fn with_width(lanes: u32, width: Width) -> Emulated {
        let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
        let shuffled = Arc::new(AtomicUsize::new(0));
        let count = shuffled.clone();
        let mut gpu = Changed::new(gpu, move |text| {
            let changed = emulate(text, lanes);
            let module = naga::front::wgsl::parse_str(text).expect("naga reads it");
            let bytes = crate::wgsl::workgroup_bytes(&module);
            assert!(bytes <= 16_384, "{bytes} bytes of a workgroup's memory:\n{text}");
            count.fetch_add(usize::from(changed != text), Ordering::Relaxed);
            changed
        });
        gpu.info.wgsl.subgroup = width.lanes();
        gpu.info.width = width;
        Emulated { device: Arc::new(WebGpuDevice::new(gpu)), shuffled }
    }

    /// Shaders that have shuffled since the last call.
    pub fn shuffled(&self) -> usize {
        self.shuffled.swap(0, Ordering::Relaxed)
    }
}

/// The shader as it would be with subgroups of so many lanes.
pub fn emulate(wgsl: &str, lanes: u32) -> String {
    // The probe that asks for the width.
    let told = wgsl.replace("@builtin(subgroup_size) lanes: u32,", "");
    let asks = told != wgsl;
    if !asks && !wgsl.contains("subgroupShuffleXor(") {
        assert!(!calls_subgroups(wgsl), "shuffles that nothing emulates:\n{wgsl}");
        return wgsl.into();
    }
    let mut text = String::new();
    let mut rest = told.as_str();
    let mut kinds = BTreeSet::new();
    while let Some((before, after)) = rest.split_once("subgroupShuffleXor(") {
        let (arguments, after) = after.split_once(')').expect("a call ends");
        let (value, mask) = arguments.split_once(", ").expect("two arguments");
        let number: u32 = mask.strip_suffix('u').and_then(|m| m.parse().ok()).expect("a number");
        assert!(number < lanes, "a kernel shuffles {number} lanes away, of {lanes}:\n{wgsl}");
        let begins = |with: &str| wgsl.contains(&format!("var {value} = {with};"));
        let kind = if begins("vec4f()") {
            "vec4f"
        } else if begins("0") {
            "i32"
        } else {
            "f32"
        };
        kinds.insert(kind);
        text += &format!("{before}shuffled_{kind}({value}, {mask})");
        rest = after;
    }
    text += rest;
    assert!(!calls_subgroups(&text), "shuffles that nothing emulates:\n{text}");
    let (_, size) = text.split_once("@workgroup_size(").expect("an entry");
    let threads = size.split([')', ',']).next().expect("a size").to_string();
    let mut helpers = String::from("\nvar<private> emulated_thread: u32;\n");
    for kind in kinds {
        helpers += &format!(
            "var<workgroup> emulated_{kind}: array<{kind}, {threads}>;\n\
             fn shuffled_{kind}(value: {kind}, mask: u32) -> {kind} {{\n    \
             workgroupBarrier();\n    emulated_{kind}[emulated_thread] = value;\n    \
             workgroupBarrier();\n    return emulated_{kind}[emulated_thread ^ mask];\n}}\n"
        );
    }
    let (before, entry) = text.split_once("@compute").expect("an entry");
    let (head, body) = entry.split_once(") {").expect("an entry has a body");
    let lanes = if asks { format!("let lanes = {lanes}u;") } else { String::new() };
    format!("{before}{helpers}@compute{head}) {{\n    emulated_thread = thread;\n    {lanes}{body}")
}

/// Whether a text calls a function of subgroups.
fn calls_subgroups(text: &str) -> bool {
    text.match_indices("subgroup").any(|(at, word)| {
        let after = &text[at + word.len()..];
        after.starts_with(|c: char| c.is_ascii_uppercase()) || after.starts_with("_size)")
    })
}
