// x as it is, in f32: 64 elements are four matrices of 16.
alias Sum = f32;

// 64 elements of x, the sums of 32 and of 16 of them.
struct X { a: mat4x4f, b: mat4x4f, c: mat4x4f, d: mat4x4f, scale: vec2f, sums: vec2f, halves: vec4f }

// 16 weights as signed bytes times 16 elements.
fn dots(w: vec4u, x: mat4x4f) -> f32 {
    let y = bytes_of(w.x) * x[0] + bytes_of(w.y) * x[1] + bytes_of(w.z) * x[2] + bytes_of(w.w) * x[3];
    return (y.x + y.y) + (y.z + y.w);
}
// The same of bytes that are not negative, which takes no shift of their signs.
fn positive(word: u32) -> vec4f { return vec4f((vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(255u)); }
fn dots_of_nibbles(w: vec4u, x: mat4x4f) -> f32 {
    let y = positive(w.x) * x[0] + positive(w.y) * x[1] + positive(w.z) * x[2] + positive(w.w) * x[3];
    return (y.x + y.y) + (y.z + y.w);
}
fn dots_of_floats(w: mat4x4f, x: mat4x4f) -> f32 {
    let y = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
    return (y.x + y.y) + (y.z + y.w);
}

// The element's quad i of a share stands in row i of a table whose rows are STRIDE long: lanes side by side
// read vectors side by side, and threads that write a share reach different banks.
fn sixteen(share: u32, i: u32) -> mat4x4f {
    let at = share + i * STRIDE;
    return mat4x4f(xs[at], xs[at + STRIDE], xs[at + 2u * STRIDE], xs[at + 3u * STRIDE]);
}
fn sum_of(x: mat4x4f) -> f32 { return dot(x[0] + x[1] + x[2] + x[3], vec4f(1.0)); }
fn load_x(share: u32) -> X {
    let a = sixteen(share, 0u);
    let b = sixteen(share, 4u);
    let c = sixteen(share, 8u);
    let d = sixteen(share, 12u);
    let halves = {{halves}};
    return X(a, b, c, d, vec2f(1.0), halves.xz + halves.yw, halves);
}

{{squares}}
// Brings the shares from `share` on, times the norm's weights; its scale meets the results.
fn keep_x(thread: u32, share: u32) {
    {{begin}}
    for (var i = 0u; i < {{each}}u; i++) {
        let q = thread + i * THREADS;
        let e = share * 16u + q;
        {{guard}}{
            let v = quad(step.x / 4u + e);
            {{keep}}
        }
    }
    {{end}}
}
{{scale}}
