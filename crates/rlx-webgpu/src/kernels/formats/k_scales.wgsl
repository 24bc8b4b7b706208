// 6-bit scale and minimum of group j of 8, from the 12 bytes at `byte`, times the block's d and
// dmin: groups 0..4 in the low 6 bits of bytes j and j + 4, groups 4..8 split over three bytes.
fn k_scales_{{b}}(block: u32, j: u32) -> vec2f {
    let dm = unpack2x16float(at_{{b}}(block >> 2u));
    let s = (block >> 2u) + 1u;
    let shift = (j & 3u) * 8u;
    let low = at_{{b}}(s) >> shift;
    let mid = at_{{b}}(s + 1u) >> shift;
    let high = at_{{b}}(s + 2u) >> shift;
    let early = j < 4u;
    let scale = select((high & 15u) | ((low >> 2u) & 48u), low & 63u, early);
    let least = select(((high >> 4u) & 15u) | ((mid >> 2u) & 48u), mid & 63u, early);
    return vec2f(dm.x * f32(scale), -dm.y * f32(least));
}
