struct Piece { high: vec4u, low: vec4u }
fn dots(a: vec4u, b: Piece) -> i32 { return 128 * dots_of_bytes(a, b.high) + dots_of_bytes(a, b.low); }
