var<workgroup> largest: array<f32, {{threads}}>;
// A scale and 16 times two bytes of every 16 threads.
var<workgroup> halves: array<u32, {{halves}}>;

// x / d to the nearest integer, ties away from 0.
fn quant(x: f32, inverse: f32) -> u32 {
    let v = x * inverse;
    let down = floor(abs(v));
    return bitcast<u32>(i32(sign(v) * select(down, down + 1.0, abs(v) - down >= 0.5))) & 255u;
}

// 32 threads have two blocks' elements, a pair each; the first 17 are given a word of them each.
fn word_of_blocks(pair: vec2f, thread: u32) -> u32 {
    largest[thread] = max(abs(pair.x), abs(pair.y));
    workgroupBarrier();
    var most = 0.0;
    for (var i = 0u; i < 16u; i++) { most = max(most, largest[thread / 16u * 16u + i]); }
    let d = most / 127.0;
    let inverse = select(0.0, 1.0 / d, d > 0.0);
    let block = thread / 16u * 17u;
    if thread % 16u == 0u { halves[block] = pack2x16float(vec2f(d, 0.0)) & 0xffffu; }
    halves[block + 1u + thread % 16u] = quant(pair.x, inverse) | (quant(pair.y, inverse) << 8u);
    workgroupBarrier();
    let word = thread / 32u * 34u + 2u * min(thread % 32u, 16u);
    return halves[word] | (halves[word + 1u] << 16u);
}
