// quantize_q8_0   d = max|x| / 127, q = round(x / d), ties away from 0, for every 32 elements
// shapes      x f32[n]    y blocks {d f16, q i8[32]}, 34 bytes each
// bytes       4*n in, 34*n/32 out
// launch      a workgroup of 64 threads makes 16 blocks, 136 whole words, four threads a block
// numerics    d is rounded to f16 after q is made
struct Step { blocks: u32, x: u32, y: u32, per_row: u32 }
{{bindings}}
{{rows_len}}var<workgroup> most: array<f32, 64>;
// The blocks' f16 scales, and their quants.
var<workgroup> scales: array<u32, 16>;
var<workgroup> quants: array<u32, 128>;

fn quad(x: u32) -> vec4f {
    return bitcast<vec4f>(vec4u({{x}}[x], {{x}}[x + 1u], {{x}}[x + 2u], {{x}}[x + 3u]));
}

fn word(x: vec4f, inverse: f32) -> u32 {
    let v = x * inverse;
    let b = bitcast<vec4u>(vec4i(sign(v) * floor(abs(v) + 0.5))) & vec4u(255u);
    return b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u);
}

// Word i of the 17 of blocks b and b + 1: the first one's quants lie two bytes off, the second one's do not.
fn pair(b: u32, i: u32) -> u32 {
    let q = b * 8u + i;
    if i > 8u { return quants[q - 1u]; }
    let low = select(quants[max(q, 1u) - 1u] >> 16u, scales[b], i == 0u);
    return low | (select(quants[min(q, 127u)], scales[b + 1u], i == 8u) << 16u);
}

@compute @workgroup_size(64)
fn quantize_q8_0(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (id.y * launched.x + id.x) * 16u;
    if first >= step.blocks { return; }
    {{skip}}
    var a = vec4f();
    var b = vec4f();
    if first + thread / 4u < step.blocks {
        let x = step.x + first * 32u + thread * 8u;
        a = quad(x);
        b = quad(x + 4u);
    }
    let m = max(abs(a), abs(b));
    most[thread] = max(max(m.x, m.y), max(m.z, m.w));
    workgroupBarrier();
    let at = thread / 4u * 4u;
    let d = max(max(most[at], most[at + 1u]), max(most[at + 2u], most[at + 3u])) / 127.0;
    let inverse = select(0.0, 1.0 / d, d > 0.0);
    quants[thread * 2u] = word(a, inverse);
    quants[thread * 2u + 1u] = word(b, inverse);
    if thread % 4u == 0u { scales[thread / 4u] = pack2x16float(vec2f(d, 0.0)) & 0xffffu; }
    workgroupBarrier();
    let words = (min(step.blocks - first, 16u) * 17u + 1u) / 2u;
    let y = step.y + first / 2u * 17u;
    for (var i = thread; i < words; i += 64u) { {{y}}[y + i] = pair(i / 17u * 2u, i % 17u); }
}
