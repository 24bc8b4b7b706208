//! Kernels of our own, which stand in for WGSL's of the same form: same bindings, step constants and workgroups.

mod attention_row;
mod attention_tile;
mod experts;
mod formats;
mod maps;
mod matmul_tensors;
mod matmul_tile;
mod matmul_vec;
mod product;
mod rows;

use crate::msl::Text;
use rlx_webgpu::gpu::Form;
use std::collections::BTreeMap;

/// What every text begins with.
const HEAD: &str =
    "#include <metal_stdlib>\n#include <metal_simdgroup_matrix>\nusing metal::uint;\n\n";

/// Our text of a form; none where WGSL's is used.
pub(crate) fn text(form: &Form) -> Option<Text> {
    match form.name {
        "matmul_tile" | "matmul_tile_half" => matmul_tile::text(form),
        "matmul_rows" | "matmul_vector" => matmul_vec::text(form),
        "experts" | "experts_sum" => experts::text(form),
        "attention" | "attention_split" | "rope_attention_split" => attention_row::text(form),
        "attention_tile" | "attention_split_tile" => attention_tile::text(form),
        _ => None,
    }
}

/// The same by Metal 4's tensor operations.
pub(crate) fn with_tensors(form: &Form) -> Option<Text> {
    matmul_tensors::text(form)
}

/// The buffers that a text names: `b3` is the one at index 3.
#[derive(Default)]
struct Buffers {
    /// By index, how it is declared.
    declared: BTreeMap<u32, &'static str>,
}

impl Buffers {
    fn bind(&mut self, name: &str, kind: &'static str) -> Option<String> {
        let index: u32 = name.strip_prefix('b')?.parse().ok()?;
        // One that is written and read is written.
        let declared = self.declared.entry(index).or_insert(kind);
        if kind == "device" {
            *declared = kind;
        }
        Some(format!("b{index}"))
    }

    /// The name of a buffer that is read; none for what is no binding.
    fn read(&mut self, name: &str) -> Option<String> {
        self.bind(name, "device const")
    }

    /// The same of one that is written.
    fn written(&mut self, name: &str) -> Option<String> {
        self.bind(name, "device")
    }

    /// The same of one that is read, if there is one.
    fn maybe(&mut self, name: &str) -> Option<Option<String>> {
        if name.is_empty() { Some(None) } else { self.read(name).map(Some) }
    }

    /// Their parameters.
    fn parameters(&self) -> String {
        let one = |(n, kind): (&u32, &&str)| format!(", {kind} uint* b{n} [[buffer({n})]]");
        self.declared.iter().map(one).collect::<Vec<_>>().join("\n")
    }
}

/// Replaces every `{{name}}` of a template; none where a name is not there.
fn fill(template: &str, values: &[(&str, &str)]) -> Option<String> {
    let mut out = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out += before;
        let (name, tail) = after.split_once("}}")?;
        out += values.iter().find(|value| value.0 == name)?.1;
        rest = tail;
    }
    Some(out + rest)
}
