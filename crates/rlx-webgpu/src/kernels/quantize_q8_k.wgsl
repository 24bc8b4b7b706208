// quantize_q8_k   with m the element of the largest magnitude: q = round(-127 x / m), d = -m / 127
// shapes      x f32[n]    y blocks {d f32, q i8[256], sums i16[16]}, 292 bytes each
// bytes       4*n in, 292*n/256 out
// launch      a workgroup of 64 threads is a block, a thread a word of quants
// numerics    ties to even; the first of equal magnitudes is m
struct Step { blocks: u32, x: u32, y: u32, per_row: u32 }
{{bindings}}
{{rows_len}}var<workgroup> extremes: array<f32, 64>;
var<workgroup> word_sums: array<i32, 64>;

// The one of larger magnitude, the first of equals.
fn extreme(a: f32, b: f32) -> f32 { return select(a, b, abs(b) > abs(a)); }

@compute @workgroup_size(64)
fn quantize_q8_k(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let block = id.y * launched.x + id.x;
    if block >= step.blocks { return; }
    {{skip}}
    let x = step.x + block * 256u + thread * 4u;
    let y = step.y + block * 73u;
    let v = bitcast<vec4f>(vec4u({{x}}[x], {{x}}[x + 1u], {{x}}[x + 2u], {{x}}[x + 3u]));
    extremes[thread] = extreme(extreme(v.x, v.y), extreme(v.z, v.w));
    workgroupBarrier();
    for (var n = 1u; n < 64u; n *= 2u) {
        if thread % (2u * n) == 0u { extremes[thread] = extreme(extremes[thread], extremes[thread + n]); }
        workgroupBarrier();
    }
    let m = extremes[0];
    let inverse = select(0.0, -127.0 / m, m != 0.0);
    let q = min(vec4i(round(v * inverse)), vec4i(127));
    let b = bitcast<vec4u>(q) & vec4u(255u);
    {{y}}[y + 1u + thread] = b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u);
    word_sums[thread] = q.x + q.y + q.z + q.w;
    workgroupBarrier();
    if thread == 0u { {{y}}[y] = bitcast<u32>(select(0.0, 1.0 / inverse, m != 0.0)); }
    if thread < 8u {
        let w = thread * 8u;
        let low = word_sums[w] + word_sums[w + 1u] + word_sums[w + 2u] + word_sums[w + 3u];
        let high = word_sums[w + 4u] + word_sums[w + 5u] + word_sums[w + 6u] + word_sums[w + 7u];
        {{y}}[y + 65u + thread] = (bitcast<u32>(low) & 0xffffu) | (bitcast<u32>(high) << 16u);
    }
}
