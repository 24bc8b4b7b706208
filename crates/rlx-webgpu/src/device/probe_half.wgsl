// half        got[t]_j = x[i] y[i] + z[i] of i = (63 - t + 16 j) mod 64, in f16, through a workgroup's memory
// shapes      x, y, z f32[64]    got f32[64, 4], behind them
// bytes       each once
// launch      one workgroup of 64
// numerics    f16; the host's numbers have 11 bits
enable f16;
@group(0) @binding(0) var<storage, read_write> b: array<u32>;
var<workgroup> made: array<vec4h, 64>;
fn four(at: u32, thread: u32) -> vec4h {
    let i = (vec4u(thread) + vec4u(0u, 16u, 32u, 48u)) % 64u + vec4u(at);
    return vec4h(bitcast<vec4f>(vec4u(b[i.x], b[i.y], b[i.z], b[i.w])));
}
@compute @workgroup_size(64)
fn probe_half(@builtin(local_invocation_index) thread: u32) {
    made[thread] = four(0u, thread) * four(64u, thread) + four(128u, thread);
    workgroupBarrier();
    let got = bitcast<vec4u>(vec4f(made[63u - thread]));
    let at = 192u + thread * 4u;
    b[at] = got.x;
    b[at + 1u] = got.y;
    b[at + 2u] = got.z;
    b[at + 3u] = got.w;
}
