// 32 decoded weights.
alias Weights = array<vec4f, 8>;

// 32 packed weights: signed bytes, a scale and an offset for each half; weight = scale * byte + offset.
struct Quants { low: vec4u, high: vec4u, scale: vec2f, offset: vec2f }

// Each byte (0..128) less n, as signed bytes; the top bit keeps borrows within a byte.
fn less(bytes: vec4u, n: u32) -> vec4u {
    return ((bytes | vec4u(0x80808080u)) - vec4u(n * 0x01010101u)) ^ vec4u(0x80808080u);
}

fn signed(word: u32) -> vec4i {
    return bitcast<vec4i>(vec4u(word) << vec4u(24u, 16u, 8u, 0u)) >> vec4u(24u);
}
fn bytes_of(word: u32) -> vec4f { return vec4f(signed(word)); }

fn weights_of(q: Quants) -> Weights {
    let o = vec4f(q.offset.x);
    let p = vec4f(q.offset.y);
    return Weights(
        q.scale.x * bytes_of(q.low.x) + o, q.scale.x * bytes_of(q.low.y) + o,
        q.scale.x * bytes_of(q.low.z) + o, q.scale.x * bytes_of(q.low.w) + o,
        q.scale.y * bytes_of(q.high.x) + p, q.scale.y * bytes_of(q.high.y) + p,
        q.scale.y * bytes_of(q.high.z) + p, q.scale.y * bytes_of(q.high.w) + p);
}

fn pair_f16(words: vec2u) -> vec4f {
    return vec4f(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn pair_bf16(words: vec2u) -> vec4f {
    return bitcast<vec4f>(vec4u(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u));
}
