// A bank of the step: its first workgroup column, the rows of one of its matrices, where its bytes, biases and
// result start, how long a row is, and which code reads it.
struct Segment { first: u32, rows: u32, weight: u32, row_bytes: u32, bias: u32, y: u32, kind: u32, pad: u32 }

struct Step {
    k: u32, chunks: u32, m: u32, groups: u32, x: u32, residual: u32, segments: u32, top_k: u32,
    experts: u32, ids: u32, shares: u32, pad: u32,
    seg: array<Segment, 2>,
}
