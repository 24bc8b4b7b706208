// A weight of the step: its first workgroup (or tile column), its rows, where its bytes, bias and
// result start, which code reads it, and how long a row of its result is.
struct Segment { first: u32, rows: u32, weight: u32, row_bytes: u32, bias: u32, y: u32, kind: u32, stride: u32 }

struct Step {
    k: u32, chunks: u32, m: u32, groups: u32, x: u32, norm: u32, eps: f32, residual: u32,
    segments: u32, repeat: u32, pad1: u32, pad2: u32,
    seg: array<Segment, 4>,
}
