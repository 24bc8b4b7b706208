// 32 elements of x, times the norm's weights; the sum of each half; the squares before the norm.
struct X {
    v0: vec4f, v1: vec4f, v2: vec4f, v3: vec4f, v4: vec4f, v5: vec4f, v6: vec4f, v7: vec4f,
    sums: vec2f, squares: f32,
}

fn load_x(chunk: u32) -> X {
    let e = chunk * 32u;
    let at = {{start}} + e;
    let left = step.k - e;
    let r0 = raw_x(at, left);
    let r1 = raw_x(at + 4u, max(left, 4u) - 4u);
    let r2 = raw_x(at + 8u, max(left, 8u) - 8u);
    let r3 = raw_x(at + 12u, max(left, 12u) - 12u);
    let r4 = raw_x(at + 16u, max(left, 16u) - 16u);
    let r5 = raw_x(at + 20u, max(left, 20u) - 20u);
    let r6 = raw_x(at + 24u, max(left, 24u) - 24u);
    let r7 = raw_x(at + 28u, max(left, 28u) - 28u);
    let squares = dot(r0, r0) + dot(r1, r1) + dot(r2, r2) + dot(r3, r3)
        + dot(r4, r4) + dot(r5, r5) + dot(r6, r6) + dot(r7, r7);
    let v0 = r0 * norm_at(e);
    let v1 = r1 * norm_at(e + 4u);
    let v2 = r2 * norm_at(e + 8u);
    let v3 = r3 * norm_at(e + 12u);
    let v4 = r4 * norm_at(e + 16u);
    let v5 = r5 * norm_at(e + 20u);
    let v6 = r6 * norm_at(e + 24u);
    let v7 = r7 * norm_at(e + 28u);
    let sums = vec2f(dot(v0 + v1 + v2 + v3, vec4f(1.0)), dot(v4 + v5 + v6 + v7, vec4f(1.0)));
    return X(v0, v1, v2, v3, v4, v5, v6, v7, sums, squares);
}

fn dot_weights(w: Weights, x: X) -> f32 {
    return dot(w[0], x.v0) + dot(w[1], x.v1) + dot(w[2], x.v2) + dot(w[3], x.v3)
        + dot(w[4], x.v4) + dot(w[5], x.v5) + dot(w[6], x.v6) + dot(w[7], x.v7);
}

fn dot_quants(w: Quants, x: X) -> f32 {
    let low = dot(bytes_of(w.low.x), x.v0) + dot(bytes_of(w.low.y), x.v1)
        + dot(bytes_of(w.low.z), x.v2) + dot(bytes_of(w.low.w), x.v3);
    let high = dot(bytes_of(w.high.x), x.v4) + dot(bytes_of(w.high.y), x.v5)
        + dot(bytes_of(w.high.z), x.v6) + dot(bytes_of(w.high.w), x.v7);
    return w.scale.x * low + w.scale.y * high + dot(w.offset, x.sums);
}
