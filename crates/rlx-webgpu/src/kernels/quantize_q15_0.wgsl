// quantize_q15_0  d = max|x| / 16319, q = round(x / d), ties to even, for every 32 elements
// shapes      x f32[n]    y blocks {d f32, high i8[32], low i8[32]}, 68 bytes each; q = 128 high + low
// bytes       4*n in, 68*n/32 out
// launch      a workgroup of 64 threads makes 16 blocks, four threads a block
// numerics    blocks of less than a normal number are 0; low is in -64..64
struct Step { blocks: u32, x: u32, y: u32, per_row: u32 }
{{bindings}}
{{rows_len}}var<workgroup> most: array<f32, 64>;

fn quad(x: u32) -> vec4f {
    return bitcast<vec4f>(vec4u({{x}}[x], {{x}}[x + 1u], {{x}}[x + 2u], {{x}}[x + 3u]));
}

fn word(q: vec4i) -> u32 {
    let b = bitcast<vec4u>(q) & vec4u(255u);
    return b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u);
}

// The words of four elements' high and low parts, 8 words apart.
fn store(y: u32, x: vec4f, inverse: f32) {
    let q = vec4i(round(clamp(x * inverse, vec4f(-16319.0), vec4f(16319.0))));
    let high = (q + vec4i(64)) >> vec4u(7u);
    {{y}}[y] = word(high);
    {{y}}[y + 8u] = word(q - 128 * high);
}

@compute @workgroup_size(64)
fn quantize_q15_0(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (id.y * launched.x + id.x) * 16u;
    if first >= step.blocks { return; }
    {{skip}}
    let block = first + thread / 4u;
    var a = vec4f();
    var b = vec4f();
    if block < step.blocks {
        let x = step.x + first * 32u + thread * 8u;
        a = quad(x);
        b = quad(x + 4u);
    }
    let m = max(abs(a), abs(b));
    most[thread] = max(max(m.x, m.y), max(m.z, m.w));
    workgroupBarrier();
    if block >= step.blocks { return; }
    let at = thread / 4u * 4u;
    let d = max(max(most[at], most[at + 1u]), max(most[at + 2u], most[at + 3u])) / 16319.0;
    // The inverse of a smaller scale is infinite.
    let normal = d >= 1.17549435e-38;
    let inverse = select(0.0, 1.0 / d, normal);
    let y = step.y + block * 17u;
    if thread % 4u == 0u { {{y}}[y] = bitcast<u32>(select(0.0, d, normal)); }
    store(y + 1u + thread % 4u * 2u, a, inverse);
    store(y + 2u + thread % 4u * 2u, b, inverse);
}
