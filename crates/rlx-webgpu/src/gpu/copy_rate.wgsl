// copy        to[i] = from[i]
// shapes      from, to u32[n], n a multiple of 4
// bytes       4*n in, 4*n out
// launch      a workgroup of 256 threads is 256 quads; what is past the end does nothing
// numerics    none: bits are bits
@group(0) @binding(0) var<storage, read> from_quads: array<vec4u>;
@group(0) @binding(1) var<storage, read_write> to_quads: array<vec4u>;

@compute @workgroup_size(256)
fn copy(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) launched: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = (id.y * launched.x + id.x) * 256u + thread;
    if i < arrayLength(&to_quads) { to_quads[i] = from_quads[i]; }
}
