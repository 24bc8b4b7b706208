// A format's `dot` multiplies 32 weights of a row, two runs of 16 that lie `GAP` elements apart, so that one load of 16
// bytes of nibbles serves both; `first` is the first run's first element, and both are of its `order`. It has `SUMS`
// where its weights have offsets, which meet sums of x. weight = scale * byte + offset, of signed bytes. `exact` gives
// 16 bytes in order, those of half `h` of the row's run `c` of 32, and their scale and offset, which `GROUP` weights in
// order share. Numbers have no `GROUP`, and scale 1. `sixteen` gives the weights.
//
// Loads are of packed vectors, which need the alignment of one element only: blocks of 18, 22, 34 and 210 bytes start
// at any two bytes.
struct Runs {
    metal::uint4 low, high;
    metal::float2 scale, offset;
};
// x at both runs, and their sums.
struct X {
    metal::float4 low[4], high[4];
    metal::float2 sums;
};

inline float half_at(device const uchar* at) { return float(*(device const half*)at); }
inline uint short_at(device const uchar* at) { return uint(*(device const ushort*)at); }
inline metal::float2 halves_of(uint word) { return metal::float2(as_type<metal::half2>(word)); }
inline metal::uint4 quad_at(device const uchar* at) { return metal::uint4(*(device const metal::packed_uint4*)at); }
inline metal::uint4 shorts_at(device const uchar* at) {
    metal::ushort4 a = metal::ushort4(*(device const metal::packed_ushort4*)at);
    metal::ushort4 b = metal::ushort4(*(device const metal::packed_ushort4*)(at + 8u));
    return metal::uint4(as_type<metal::uint2>(a), as_type<metal::uint2>(b));
}
inline metal::uint4 nibbles(metal::uint4 q, uint shift) {
    return (q >> metal::uint4(shift)) & metal::uint4(0x0f0f0f0fu);
}
// Each byte (0..128) less n, as signed bytes; the top bit keeps borrows within a byte.
inline metal::uint4 less(metal::uint4 bytes, uint n) {
    metal::uint4 top = metal::uint4(0x80808080u);
    return ((bytes | top) - metal::uint4(n * 0x01010101u)) ^ top;
}
// Sixteen bits, one to a byte, as the fifth of it.
inline metal::uint4 fifths(uint bits) {
    metal::uint4 four = (metal::uint4(bits) >> metal::uint4(0u, 4u, 8u, 12u)) & metal::uint4(15u);
    return ((four * metal::uint4(0x00204081u)) & metal::uint4(0x01010101u)) << metal::uint4(4u);
}
inline metal::float4 bytes_of(uint word) { return metal::float4(as_type<metal::char4>(word)); }
inline float sum_of(metal::float4 v) { return (v.x + v.y) + (v.z + v.w); }

inline metal::float4 of_run(metal::uint4 q, metal::float4 a, metal::float4 b, metal::float4 c, metal::float4 d) {
    metal::float4 y = bytes_of(q.x) * a;
    y = metal::fma(bytes_of(q.y), b, y);
    y = metal::fma(bytes_of(q.z), c, y);
    return metal::fma(bytes_of(q.w), d, y);
}
inline float product(Runs w, thread const X& x) {
    float low = sum_of(of_run(w.low, x.low[0], x.low[1], x.low[2], x.low[3]));
    float high = sum_of(of_run(w.high, x.high[0], x.high[1], x.high[2], x.high[3]));
    return w.scale.x * low + w.scale.y * high;
}
inline float product_and_offset(Runs w, thread const X& x) {
    return product(w, x) + (w.offset.x * x.sums.x + w.offset.y * x.sums.y);
}

inline metal::float2 exactly(metal::uint4 q, float scale, float offset, thread metal::float4* w) {
    for (uint i = 0u; i < 4u; i++) w[i] = bytes_of(q[i]);
    return metal::float2(scale, offset);
}
// The weights themselves.
template <class F>
inline void sixteen(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
    metal::float2 by = F::exact(row, k, c, h, w);
    if (F::GROUP == 0) return;
    for (uint i = 0u; i < 4u; i++) w[i] = metal::fma(metal::float4(by.x), w[i], metal::float4(by.y));
}
// Four elements of a row of k numbers from e on; those past its end are 0.
template <class T>
inline metal::float4 four_of(device const uchar* row, uint e, uint k) {
    if (e + 4u <= k) return T::floats(row + ulong(e) * T::BYTES, 0u);
    metal::float4 v = metal::float4(0.0f);
    for (uint i = 0u; i < 4u; i++) {
        if (e + i < k) v[i] = T::one(row + ulong(e + i) * T::BYTES);
    }
    return v;
}

// Numbers, of which the last piece of a row may not be whole.
template <class T>
struct scalars {
    typedef scalars<T> order;
    enum { GAP = 16, SUMS = 0, GROUP = 0 };
    static uint first(uint p) { return p * 32u; }
    static float dot(device const uchar* row, uint k, uint p, thread const X& x) {
        device const uchar* at = row + ulong(p) * (32u * T::BYTES);
        metal::float4 y = T::floats(at, 0u) * x.low[0];
        for (uint i = 1u; i < 4u; i++) y = metal::fma(T::floats(at, i), x.low[i], y);
        for (uint i = 0u; i < 4u; i++) y = metal::fma(T::floats(at, i + 4u), x.high[i], y);
        return sum_of(y);
    }
    static float element(device const uchar* row, uint e) { return T::one(row + ulong(e) * T::BYTES); }
    static metal::float2 exact(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
        for (uint i = 0u; i < 4u; i++) w[i] = four_of<T>(row, c * 32u + h * 16u + i * 4u, k);
        return metal::float2(1.0f, 0.0f);
    }
};
struct f32_number {
    enum { BYTES = 4 };
    static metal::float4 floats(device const uchar* at, uint i) {
        return metal::float4(*(device const metal::packed_float4*)(at + i * 16u));
    }
    static float one(device const uchar* at) { return *(device const float*)at; }
};
struct f16_number {
    enum { BYTES = 2 };
    static metal::float4 floats(device const uchar* at, uint i) {
        return metal::float4(metal::half4(*(device const metal::packed_half4*)(at + i * 8u)));
    }
    static float one(device const uchar* at) { return half_at(at); }
};
struct bf16_number {
    enum { BYTES = 2 };
    static metal::float4 floats(device const uchar* at, uint i) {
        metal::uint4 bits = metal::uint4(metal::ushort4(*(device const metal::packed_ushort4*)(at + i * 8u)));
        return as_type<metal::float4>(bits << metal::uint4(16u));
    }
    static float one(device const uchar* at) { return as_type<float>(short_at(at) << 16u); }
};
typedef scalars<f32_number> f32;
typedef scalars<f16_number> f16;
typedef scalars<bf16_number> bf16;

// Blocks of 32, of which rows have whole ones.
struct blocks_of_32 {
    enum { GAP = 16 };
    static uint first(uint p) { return p * 32u; }
    static float element(device const uchar*, uint) { return 0.0f; }
};
// {d, q[32]}
struct q8_0 {
    typedef blocks_of_32 order;
    enum { SUMS = 0, GROUP = 32 };
    static float dot(device const uchar* row, uint k, uint p, thread const X& x) {
        device const uchar* block = row + p * 34u;
        Runs w = {shorts_at(block + 2u), shorts_at(block + 18u), metal::float2(half_at(block)), metal::float2(0.0f)};
        return product(w, x);
    }
    static metal::float2 exact(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
        device const uchar* block = row + c * 34u;
        return exactly(shorts_at(block + 2u + 16u * h), half_at(block), 0.0f, w);
    }
};
// {d, q[16]}: low nibbles are elements 0..16, high ones 16..32
struct q4_0 {
    typedef blocks_of_32 order;
    enum { SUMS = 0, GROUP = 32 };
    static float dot(device const uchar* row, uint k, uint p, thread const X& x) {
        device const uchar* block = row + p * 18u;
        metal::uint4 q = shorts_at(block + 2u);
        metal::uint4 low = less(nibbles(q, 0u), 8u), high = less(nibbles(q, 4u), 8u);
        Runs w = {low, high, metal::float2(half_at(block)), metal::float2(0.0f)};
        return product(w, x);
    }
    static metal::float2 exact(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
        device const uchar* block = row + c * 18u;
        return exactly(less(nibbles(shorts_at(block + 2u), 4u * h), 8u), half_at(block), 0.0f, w);
    }
};
// {d, h[4], q[16]}: bit i of h is the fifth of element i
struct q5_0 {
    typedef blocks_of_32 order;
    enum { SUMS = 0, GROUP = 32 };
    static float dot(device const uchar* row, uint k, uint p, thread const X& x) {
        device const uchar* block = row + p * 22u;
        metal::uint4 q = shorts_at(block + 6u);
        metal::uint4 low = nibbles(q, 0u) | fifths(short_at(block + 2u));
        metal::uint4 high = nibbles(q, 4u) | fifths(short_at(block + 4u));
        Runs w = {less(low, 16u), less(high, 16u), metal::float2(half_at(block)), metal::float2(0.0f)};
        return product(w, x);
    }
    static metal::float2 exact(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
        device const uchar* block = row + c * 22u;
        metal::uint4 q = nibbles(shorts_at(block + 6u), 4u * h) | fifths(short_at(block + 2u + 2u * h));
        return exactly(less(q, 16u), half_at(block), 0.0f, w);
    }
};
// {d, m, q[16]}
struct q4_1 {
    typedef blocks_of_32 order;
    enum { SUMS = 1, GROUP = 32 };
    static float dot(device const uchar* row, uint k, uint p, thread const X& x) {
        device const uchar* block = row + p * 20u;
        metal::uint4 q = quad_at(block + 4u);
        metal::float2 dm = halves_of(*(device const uint*)block);
        Runs w = {nibbles(q, 0u), nibbles(q, 4u), metal::float2(dm.x), metal::float2(dm.y)};
        return product_and_offset(w, x);
    }
    static metal::float2 exact(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
        device const uchar* block = row + c * 20u;
        metal::float2 dm = halves_of(*(device const uint*)block);
        return exactly(nibbles(quad_at(block + 4u), 4u * h), dm.x, dm.y, w);
    }
};
// {d, m, h[4], q[16]}
struct q5_1 {
    typedef blocks_of_32 order;
    enum { SUMS = 1, GROUP = 32 };
    static float dot(device const uchar* row, uint k, uint p, thread const X& x) {
        device const uchar* block = row + p * 24u;
        metal::uint4 q = quad_at(block + 8u);
        metal::float2 dm = halves_of(*(device const uint*)block);
        uint h = *(device const uint*)(block + 4u);
        metal::uint4 low = nibbles(q, 0u) | fifths(h), high = nibbles(q, 4u) | fifths(h >> 16u);
        Runs w = {low, high, metal::float2(dm.x), metal::float2(dm.y)};
        return product_and_offset(w, x);
    }
    static metal::float2 exact(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
        device const uchar* block = row + c * 24u;
        metal::float2 dm = halves_of(*(device const uint*)block);
        uint bits = *(device const uint*)(block + 4u) >> (16u * h);
        return exactly(nibbles(quad_at(block + 8u), 4u * h) | fifths(bits), dm.x, dm.y, w);
    }
};

// Blocks of 256: two groups of 32 share 32 bytes of nibbles, of which a lane has half.
struct blocks_of_256 {
    enum { GAP = 32 };
    static uint first(uint p) { return p / 8u * 256u + p % 8u / 2u * 64u + p % 2u * 16u; }
    static float element(device const uchar*, uint) { return 0.0f; }
};
// Scale and minimum of group g, of six bits each: {d, dmin, s[12]}, groups 0..4 in the low six bits of bytes g and
// g + 4, groups 4..8 in three bytes.
inline metal::float2 k_scale(metal::uint4 head, metal::float2 d, uint g) {
    uint by = (g & 3u) * 8u, a = head.y >> by, b = head.z >> by, c = head.w >> by;
    uint scale = g < 4u ? a & 63u : (c & 15u) | (a >> 2u & 48u);
    uint least = g < 4u ? b & 63u : (c >> 4u & 15u) | (b >> 2u & 48u);
    return metal::float2(d.x * float(scale), -d.y * float(least));
}
inline float k_product(metal::uint4 head, uint j, metal::uint4 low, metal::uint4 high, thread const X& x) {
    metal::float2 d = halves_of(head.x), a = k_scale(head, d, 2u * j), b = k_scale(head, d, 2u * j + 1u);
    Runs w = {low, high, metal::float2(a.x, b.x), metal::float2(a.y, b.y)};
    return product_and_offset(w, x);
}
// {d, dmin, s[12], q[128]}
struct q4_k {
    typedef blocks_of_256 order;
    enum { SUMS = 1, GROUP = 32 };
    static float dot(device const uchar* row, uint k, uint p, thread const X& x) {
        device const uchar* block = row + p / 8u * 144u;
        metal::uint4 q = quad_at(block + 16u + p % 8u * 16u);
        return k_product(quad_at(block), p % 8u / 2u, nibbles(q, 0u), nibbles(q, 4u), x);
    }
    static metal::float2 exact(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
        device const uchar* block = row + c / 8u * 144u;
        metal::uint4 head = quad_at(block), q = quad_at(block + 16u + c % 8u / 2u * 32u + h * 16u);
        metal::float2 scale = k_scale(head, halves_of(head.x), c % 8u);
        return exactly(nibbles(q, 4u * (c % 2u)), scale.x, scale.y, w);
    }
};
// {d, dmin, s[12], h[32], q[128]}: bit g of h[i] is the fifth of element i of group g
struct q5_k {
    typedef blocks_of_256 order;
    enum { SUMS = 1, GROUP = 32 };
    static float dot(device const uchar* row, uint k, uint p, thread const X& x) {
        device const uchar* block = row + p / 8u * 176u;
        metal::uint4 q = quad_at(block + 48u + p % 8u * 16u), h = quad_at(block + 16u + p % 2u * 16u);
        uint j = p % 8u / 2u;
        metal::uint4 bit = metal::uint4(0x01010101u), four = metal::uint4(4u);
        metal::uint4 low = nibbles(q, 0u) | ((h >> metal::uint4(2u * j)) & bit) << four;
        metal::uint4 high = nibbles(q, 4u) | ((h >> metal::uint4(2u * j + 1u)) & bit) << four;
        return k_product(quad_at(block), j, low, high, x);
    }
    static metal::float2 exact(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
        device const uchar* block = row + c / 8u * 176u;
        uint g = c % 8u;
        metal::uint4 head = quad_at(block), q = nibbles(quad_at(block + 48u + g / 2u * 32u + h * 16u), 4u * (g % 2u));
        metal::uint4 fifth = (quad_at(block + 16u + h * 16u) >> metal::uint4(g)) & metal::uint4(0x01010101u);
        metal::float2 scale = k_scale(head, halves_of(head.x), g);
        return exactly(q | fifth << metal::uint4(4u), scale.x, scale.y, w);
    }
};
// {ql[128], qh[64], s[16], d}; or rows in planes: ql of all blocks, then qh, s and d
template <bool PLANES>
struct q6_k {
    typedef q6_k<PLANES> order;
    enum { GAP = 64, SUMS = 0, GROUP = 16 };
    static uint first(uint p) { return p / 8u * 256u + p % 8u / 4u * 128u + p % 4u / 2u * 32u + p % 2u * 16u; }
    static float element(device const uchar*, uint) { return 0.0f; }
    static metal::uint4 load(device const uchar* at) { return PLANES ? quad_at(at) : shorts_at(at); }
    // Where block i has its four parts, of n in a row.
    static device const uchar* low_of(device const uchar* row, uint i) { return row + i * (PLANES ? 128u : 210u); }
    static device const uchar* high_of(device const uchar* row, uint i, uint n) {
        return PLANES ? row + n * 128u + i * 64u : row + i * 210u + 128u;
    }
    static device const signed char* scales_of(device const uchar* row, uint i, uint n) {
        return (device const signed char*)(PLANES ? row + n * 192u + i * 16u : row + i * 210u + 192u);
    }
    static float d_of(device const uchar* row, uint i, uint n) {
        return half_at(PLANES ? row + n * 208u + i * 2u : row + i * 210u + 208u);
    }
    static float dot(device const uchar* row, uint k, uint p, thread const X& x) {
        uint i = p / 8u, n = k / 256u, part = p % 8u / 4u, j = p % 4u / 2u, h = p % 2u;
        device const uchar* ql = low_of(row, i);
        device const uchar* qh = high_of(row, i, n);
        metal::uint4 q = load(ql + p % 8u * 16u), high = load(qh + part * 32u + h * 16u) >> metal::uint4(2u * j);
        metal::uint4 two = metal::uint4(0x03030303u), four = metal::uint4(4u);
        device const signed char* scales = scales_of(row, i, n) + part * 8u + j * 2u + h;
        Runs w = {
            less(nibbles(q, 0u) | (high & two) << four, 32u),
            less(nibbles(q, 4u) | ((high >> four) & two) << four, 32u),
            metal::float2(float(scales[0]), float(scales[4])) * metal::float2(d_of(row, i, n)),
            metal::float2(0.0f)
        };
        return product(w, x);
    }
    static metal::float2 exact(device const uchar* row, uint k, uint c, uint h, thread metal::float4* w) {
        uint i = c / 8u, n = k / 256u, part = c % 8u / 4u, j = c % 4u;
        metal::uint4 q = nibbles(load(low_of(row, i) + part * 64u + j % 2u * 32u + h * 16u), 4u * (j / 2u));
        metal::uint4 high = load(high_of(row, i, n) + part * 32u + h * 16u) >> metal::uint4(2u * j);
        q = q | (high & metal::uint4(0x03030303u)) << metal::uint4(4u);
        float scale = d_of(row, i, n) * float(scales_of(row, i, n)[part * 8u + j * 2u + h]);
        return exactly(less(q, 32u), scale, 0.0f, w);
    }
};
