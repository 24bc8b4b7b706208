// x in blocks of integers, quantised by the workgroup: 64 elements are four pieces of 16.
alias Sum = i32;

{{dot4}}
fn dots_of_bytes(a: vec4u, b: vec4u) -> i32 {
    return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w);
}
{{piece}}
// 64 elements of x: their blocks' scales, and the sums of 32 and of 16 of them.
struct X { a: Piece, b: Piece, c: Piece, d: Piece, scale: vec2f, sums: vec2i, halves: vec4i }
fn dots_of_nibbles(a: vec4u, b: Piece) -> i32 { return dots(a, b); }
fn ones(x: Piece) -> i32 { return dots(vec4u(0x01010101u), x); }
fn piece_at(at: u32) -> Piece { return {{load_piece}}; }
fn load_x(share: u32) -> X {
    let a = piece_at(share);
    let b = piece_at(SPAN + share);
    let c = piece_at(2u * SPAN + share);
    let d = piece_at(3u * SPAN + share);
    return X(a, b, c, d, {{scale_of}}, {{sums_of}}, {{halves_of}});
}

// Where piece p of 16 elements of x stands: lanes side by side read words side by side.
fn place(p: u32) -> u32 { return (p % 4u) * SPAN + p / 4u; }
fn largest(a: vec4f, b: vec4f, c: vec4f, d: vec4f) -> f32 {
    let m = max(max(abs(a), abs(b)), max(abs(c), abs(d)));
    return max(max(m.x, m.y), max(m.z, m.w));
}
// `keep_piece` keeps the quants of 16 elements and gives their sum.
{{quants}}
// Brings the shares from `share` on.
fn keep_x(thread: u32, share: u32) {
    {{load}}
    {{norm}}
    {{quantise}}
    {{sum}}
}
{{scale}}
