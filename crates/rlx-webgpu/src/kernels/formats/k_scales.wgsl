// 6-bit scale and minimum of group j of 8, from the 12 bytes at `byte`, times the block's d and
// dmin: groups 0..4 in the low 6 bits of bytes j and j + 4, groups 4..8 split over three bytes.
fn k_scales_{{b}}(block: u32, j: u32) -> vec2f {
    let head = quad_{{b}}(block);
    let dm = unpack2x16float(head.x);
    let s = head.yzw >> vec3u((j & 3u) * 8u);
    let early = j < 4u;
    let scale = select((s.z & 15u) | ((s.x >> 2u) & 48u), s.x & 63u, early);
    let least = select(((s.z >> 4u) & 15u) | ((s.y >> 2u) & 48u), s.y & 63u, early);
    return vec2f(dm.x * f32(scale), -dm.y * f32(least));
}
