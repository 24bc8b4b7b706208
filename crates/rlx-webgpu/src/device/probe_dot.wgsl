// dot         got[t] = sum_i x[t]_i y[t]_i over four signed bytes; packed[t] holds those of clamp(z[t] + (0, 1, 2, 3))
// shapes      x, y u32[64]    z i32[64]    got i32[64], packed u32[64], behind them
// bytes       each once
// launch      one workgroup of 64
// numerics    integers
@group(0) @binding(0) var<storage, read_write> b: array<u32>;
@compute @workgroup_size(64)
fn probe_dot(@builtin(local_invocation_index) thread: u32) {
    b[192u + thread] = bitcast<u32>(dot4I8Packed(b[thread], b[64u + thread]));
    let z = vec4i(bitcast<i32>(b[128u + thread])) + vec4i(0, 1, 2, 3);
    b[256u + thread] = pack4xI8(clamp(z, vec4i(-127), vec4i(127)));
}
