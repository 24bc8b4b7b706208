// Four dimensions of a workgroup's query n.
fn store(n: u32, row0: u32, kv_head: u32, four: u32, y: vec4f) {
    let row = row0 + n / GROUP;
    if n >= TILE * GROUP || row >= step.rows || four >= FOURS { return; }
    let at = step.y + (row * step.heads + kv_head * GROUP + n % GROUP) * E + four * 4u;
    let bits = bitcast<vec4u>(y);
    {{y}}[at] = bits.x;
    {{y}}[at + 1u] = bits.y;
    {{y}}[at + 2u] = bits.z;
    {{y}}[at + 3u] = bits.w;
}
