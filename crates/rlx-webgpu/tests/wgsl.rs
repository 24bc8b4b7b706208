//! Every kernel's text is what naga takes, and has the header that readers expect.

use naga::valid::{Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};
use rlx_core::plan::hash;
use rlx_webgpu::kernels::{Kernel, catalog};
use std::path::Path;

#[test]
fn naga_accepts_every_kernel() {
    let all = catalog::all(false).expect("every operator has a kernel");
    assert!(all.len() > 100, "{} kernels", all.len());
    for (name, kernel) in &all {
        let module = naga::front::wgsl::parse_str(&kernel.wgsl)
            .unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(&kernel.wgsl)));
        // The first is naga's name for `unpack2x16float`, which every WebGPU has; the others are for
        // kernels that are printed where there are subgroups.
        let capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32
            | Capabilities::SHADER_FLOAT16
            | Capabilities::SUBGROUP;
        Validator::new(ValidationFlags::all(), capabilities)
            .subgroup_stages(ShaderStages::COMPUTE)
            .subgroup_operations(SubgroupOperationSet::all())
            .validate(&module)
            .unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(&kernel.wgsl)));
        assert!(module.entry_points.iter().any(|e| e.name == kernel.entry), "{name}");
        let bytes = workgroup_bytes(&module);
        assert!(bytes <= 16_384, "{name} has {bytes} bytes in a workgroup's memory");
    }
}

/// Bytes of a workgroup's memory, as WebGPU counts them: each variable in whole runs of 16.
pub fn workgroup_bytes(module: &naga::Module) -> u32 {
    let mut layouts = naga::proc::Layouter::default();
    layouts.update(module.to_ctx()).expect("every type has a size");
    let shared = module.global_variables.iter().map(|(_, variable)| variable);
    let shared = shared.filter(|v| v.space == naga::AddressSpace::WorkGroup);
    shared.map(|v| layouts[v.ty].size.next_multiple_of(16)).sum()
}

#[test]
fn kernels_stay_within_default_limits() {
    for (name, kernel) in catalog::all(false).expect("every operator has a kernel") {
        assert!(kernel.memory.len() <= 8, "{name} binds {} buffers", kernel.memory.len());
        assert!(kernel.words.len() <= 64, "{name} has {} step constants", kernel.words.len());
        assert!(kernel.groups.iter().all(|&n| n > 0 && n <= 65_535), "{name}");
        let half = name.starts_with("matmul_half_");
        assert_eq!(kernel.wgsl.contains("enable f16;"), half, "{name}");
        assert_eq!(kernel.wgsl.matches("enable ").count(), usize::from(half), "{name}");
        assert!(!kernel.wgsl.contains("requires "), "{name} asks for a feature");
        let shuffles = kernel.wgsl.contains("subgroup");
        assert_eq!(shuffles, name.contains("_lanes_") && !name.ends_with("_lanes_0"), "{name}");
    }
}

/// Files of the folder and of those in it that have a kernel's entry.
fn entries(folder: &Path, out: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            entries(&path, out);
        } else if path.extension().is_some_and(|e| e == "wgsl") {
            let text = std::fs::read_to_string(&path).expect("a text");
            if text.contains("@compute") {
                out.push((path.display().to_string(), text));
            }
        }
    }
}

#[test]
fn headers_say_formula_shapes_bytes_launch_and_numerics() {
    let mut files = Vec::new();
    entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernels"), &mut files);
    assert!(files.len() > 30, "{} files", files.len());
    for (name, text) in files {
        let lines = text.lines().take_while(|l| l.starts_with("//"));
        let words: Vec<&str> = lines
            .filter(|l| l.len() > 3 && !l[3..].starts_with(' '))
            .filter_map(|l| l[3..].split(' ').next())
            .collect();
        let after = words.get(1..5);
        assert_eq!(
            after,
            Some(&["shapes", "bytes", "launch", "numerics"][..]),
            "{name}: {words:?}"
        );
    }
}

#[test]
fn no_text_has_a_comment() {
    for (name, kernel) in catalog::all(false).expect("every operator has a kernel") {
        assert!(!kernel.wgsl.contains("//"), "{name}");
    }
}

/// Which texts a change of this crate changes, for whoever reads the change: a hash of each, in
/// `kernels.txt`. `BLESS=1` rewrites it.
#[test]
fn texts_are_the_recorded_ones() {
    let all = catalog::all(false).expect("every operator has a kernel");
    let line = |(name, kernel): (&String, &Kernel)| {
        format!("{:016x} {name}\n", hash(core::iter::once(kernel.wgsl.as_str())))
    };
    let now: String = all.iter().map(line).collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels.txt");
    if crate::bless::bless() {
        std::fs::write(file, &now).expect("it is written");
    }
    let recorded = std::fs::read_to_string(file).expect("it is there");
    let changed: Vec<&str> = now.lines().filter(|l| !recorded.lines().any(|r| r == *l)).collect();
    assert!(changed.is_empty(), "changed or new (BLESS=1 records them):\n{}", changed.join("\n"));
    assert_eq!(now.lines().count(), recorded.lines().count(), "some are gone: BLESS=1");
}
