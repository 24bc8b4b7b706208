const BLOCK = {{block}}u; // positions of a split are a multiple of it
// Four dimensions of a workgroup's query n, of which live ones are there.
fn store(n: u32, place: u32, live: u32, four: u32, y: vec4f) {
    if n >= live || four >= FOURS { return; }
    let at = step.y + (place * TILE * GROUP + n) * E + four * 4u;
    let bits = bitcast<vec4u>(y);
    {{y}}[at] = bits.x;
    {{y}}[at + 1u] = bits.y;
    {{y}}[at + 2u] = bits.z;
    {{y}}[at + 3u] = bits.w;
}
// Its maximum, minus infinity of no score, and its sum of weights.
fn keep(place: u32, n: u32, most: f32, total: f32) {
    let at = step.stats + (place * TILE * GROUP + n) * 2u;
    {{stats}}[at] = select(bitcast<u32>(most), 0xff800000u, most < -2.9e38);
    {{stats}}[at + 1u] = bitcast<u32>(total);
}
