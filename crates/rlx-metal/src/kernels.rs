//! Kernels of our own, which stand in for WGSL's of the same form: same bindings, step constants and workgroups.

mod matmul_tile;

use crate::msl::Text;
use rlx_webgpu::gpu::Form;

/// Our text of a form; none where WGSL's is used.
pub(crate) fn text(form: &Form) -> Option<Text> {
    match form.name {
        "matmul_tile_half" => matmul_tile::text(form),
        _ => None,
    }
}

/// The number of a binding such as `b3`.
fn binding(name: &str) -> Option<u32> {
    name.strip_prefix('b')?.parse().ok()
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
