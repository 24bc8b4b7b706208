fn quants(v: vec4f, inverse: f32) -> u32 {
    let q = vec4i({{round}});
    return {{pack}};
}
fn keep_piece(at: u32, a: vec4f, b: vec4f, c: vec4f, d: vec4f, inverse: f32) -> i32 {
    let q = vec4u(quants(a, inverse), quants(b, inverse), quants(c, inverse), quants(d, inverse));
    xs[at] = q;
    return ones(q);
}
