alias Piece = vec4u;
fn dots(a: vec4u, b: Piece) -> i32 { return dots_of_bytes(a, b); }
