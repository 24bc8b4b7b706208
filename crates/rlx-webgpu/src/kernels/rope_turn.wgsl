fn angle(position: u32, i: u32) -> vec2f {
    let low = step.table + ((position % step.low_rows) * step.half + i) * 2u;
    let high = step.table + ((step.low_rows + position / step.low_rows) * step.half + i) * 2u;
    let a = bitcast<vec2f>(vec2u({{table}}[high], {{table}}[high + 1u]));
    let b = bitcast<vec2f>(vec2u({{table}}[low], {{table}}[low + 1u]));
    return vec2f(a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y);
}
