fn key(row: u32, n: u32) -> f32 {
    var x = 0.0;
    if n < N { x = bitcast<f32>({{k}}[step.k + row + n]); }
    return x;
}

fn query(row: u32, n: u32) -> f32 {
    var x = 0.0;
    if n < N { x = bitcast<f32>({{q}}[step.q + row + n]); }
    return x;
}

fn cell(matrix: u32, row: u32, inside: bool) -> f32 {
    var x = 0.0;
    if inside && row < N { x = bitcast<f32>({{state}}[matrix + row * WIDTH]); }
    return x;
}

fn keep(matrix: u32, row: u32, x: f32) {
    if row < N { {{state}}[matrix + row * WIDTH] = bitcast<u32>(x); }
}

fn quad_of_key(row: u32, n: u32) -> vec4f {
    return vec4f(key(row, n), key(row, n + 1u), key(row, n + 2u), key(row, n + 3u));
}

fn quad_of_query(row: u32, n: u32) -> vec4f {
    return vec4f(query(row, n), query(row, n + 1u), query(row, n + 2u), query(row, n + 3u));
}
