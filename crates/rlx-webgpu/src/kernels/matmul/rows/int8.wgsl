// x as int8 blocks, quantised by the workgroup: 64 elements are four vectors of bytes.
alias Sum = i32;

// 64 elements of x: their blocks' scales, and the sums of 32 and of 16 of them.
struct X { a: vec4u, b: vec4u, c: vec4u, d: vec4u, scale: vec2f, sums: vec2i, halves: vec4i }
{{dot4}}
fn dots(a: vec4u, b: vec4u) -> i32 {
    return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w);
}
fn dots_of_nibbles(a: vec4u, b: vec4u) -> i32 { return dots(a, b); }
fn load_x(share: u32) -> X {
    return X(xs[share], xs[SHARES + share], xs[2u * SHARES + share], xs[3u * SHARES + share],
        {{scale_of}}, {{sums_of}}, {{halves_of}});
}

// Where piece p of 16 elements of x stands: lanes side by side read words side by side.
fn place(p: u32) -> u32 { return (p % 4u) * SHARES + p / 4u; }
fn largest(a: vec4f, b: vec4f, c: vec4f, d: vec4f) -> f32 {
    let m = max(max(abs(a), abs(b)), max(abs(c), abs(d)));
    return max(max(m.x, m.y), max(m.z, m.w));
}
fn quants(v: vec4f, inverse: f32) -> u32 {
    let q = vec4i({{round}});
    return {{pack}};
}
fn piece(a: vec4f, b: vec4f, c: vec4f, d: vec4f, inverse: f32) -> vec4u {
    return vec4u(quants(a, inverse), quants(b, inverse), quants(c, inverse), quants(d, inverse));
}

fn keep_x(thread: u32, share: u32) {
    {{load}}
    {{norm}}
    {{quantise}}
    {{sum}}
}
