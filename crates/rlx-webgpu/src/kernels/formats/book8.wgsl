// Group i of a codebook of 8 values.
fn group_{{book}}(i: u32) -> vec2u { return vec2u({{book}}[2u * i], {{book}}[2u * i + 1u]); }
