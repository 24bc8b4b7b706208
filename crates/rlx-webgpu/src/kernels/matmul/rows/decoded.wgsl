// 64 weights of a type that is not packed: where they are, and their products.
struct Place_{{reader}} { row: u32, share: u32 }
fn take_{{reader}}(row: u32, share: u32) -> Place_{{reader}} { return Place_{{reader}}(row, share); }
fn dot_{{reader}}(w: Place_{{reader}}, x: X) -> f32 {
    let p = decode_{{reader}}(w.row, 2u * w.share);
    let q = decode_{{reader}}(w.row, 2u * w.share + 1u);
    return dots_of_floats(mat4x4f(p[0], p[1], p[2], p[3]), x.a)
        + dots_of_floats(mat4x4f(p[4], p[5], p[6], p[7]), x.b)
        + dots_of_floats(mat4x4f(q[0], q[1], q[2], q[3]), x.c)
        + dots_of_floats(mat4x4f(q[4], q[5], q[6], q[7]), x.d);
}
