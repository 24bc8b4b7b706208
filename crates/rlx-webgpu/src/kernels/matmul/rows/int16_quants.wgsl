fn packed(q: vec4i) -> u32 { return {{pack}}; }
fn quants(v: vec4f, inverse: f32) -> vec4i { return vec4i({{round}}); }
fn high_of(q: vec4i) -> vec4i { return (q + vec4i(64)) >> vec4u(7u); }
fn keep_piece(at: u32, a: vec4f, b: vec4f, c: vec4f, d: vec4f, inverse: f32) -> i32 {
    let qa = quants(a, inverse);
    let qb = quants(b, inverse);
    let qc = quants(c, inverse);
    let qd = quants(d, inverse);
    let ha = high_of(qa);
    let hb = high_of(qb);
    let hc = high_of(qc);
    let hd = high_of(qd);
    xs[at] = vec4u(packed(ha), packed(hb), packed(hc), packed(hd));
    x_lows[at] = vec4u(packed(qa - 128 * ha), packed(qb - 128 * hb), packed(qc - 128 * hc), packed(qd - 128 * hd));
    let sums = qa + qb + qc + qd;
    return sums.x + sums.y + sums.z + sums.w;
}
