var<workgroup> largest: array<f32, {{threads}}>;
// Two codes of each thread, a byte each.
var<workgroup> codes: array<u32, {{threads}}>;
// Of every 16 threads.
var<workgroup> scales: array<u32, {{threads}} / 16>;

// The whole part of x / d + 8.5, 15 at most.
fn code(x: f32, inverse: f32) -> u32 { return u32(clamp(x * inverse + 8.5, 0.0, 15.0)); }

// Half i of the word run of two blocks, 9 halves each, of which thread `first` has the first pair.
fn half_of_blocks(first: u32, i: u32) -> u32 {
    let block = first / 16u + i / 9u;
    if i % 9u == 0u { return scales[block]; }
    let pair = block * 16u + i % 9u - 1u;
    return codes[pair] | (codes[pair + 8u] << 4u);
}

// 32 threads have two blocks' elements, a pair each; the first 9 are given a word of them each.
fn word_of_blocks(pair: vec2f, thread: u32) -> u32 {
    largest[thread] = select(pair.x, pair.y, abs(pair.y) > abs(pair.x));
    workgroupBarrier();
    var most = 0.0;
    for (var i = 0u; i < 16u; i++) {
        let x = largest[thread / 16u * 16u + i];
        if abs(x) > abs(most) { most = x; }
    }
    let d = select(0.0, most / -8.0, most != 0.0);
    let inverse = select(0.0, 1.0 / d, d != 0.0);
    if thread % 16u == 0u { scales[thread / 16u] = pack2x16float(vec2f(d, 0.0)) & 0xffffu; }
    codes[thread] = code(pair.x, inverse) | (code(pair.y, inverse) << 8u);
    workgroupBarrier();
    let first = thread / 32u * 32u;
    let i = 2u * min(thread % 32u, 8u);
    return half_of_blocks(first, i) | (half_of_blocks(first, i + 1u) << 16u);
}
