// shuffle     got[m][t] = x[t ^ 2^m], for 2^m below the lanes that kernels shuffle among
// shapes      x f32[{{threads}}]    got f32[masks, {{threads}}], behind x
// bytes       each once
// launch      one workgroup, of one dimension, as matmul/rows.wgsl has it
// numerics    bits are moved
{{enable}}
@group(0) @binding(0) var<storage, read_write> b: array<f32>;
@compute @workgroup_size({{threads}})
fn probe_shuffle(@builtin(local_invocation_index) thread: u32) {
    let x = b[thread];
    {{shuffles}}
}
