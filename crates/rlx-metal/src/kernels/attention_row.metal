// attention   of one row: y[h] = sum_p softmax_p(scale q[h] . K[p]) V[p] over the positions p that it sees; a sink is
//             one more score                                                                          arXiv:2205.14135
//   split     undivided, over the positions of a split: acc[k S + j, h] = sum exp(s - m) V[p], stats = m, sum of
//             exp(s - m); with rope, heads of q and k are normed and rotated here, and k and v written
// shapes      q f32[1, H*E]    K, V [kv heads, C, E] of f16 or f32    y f32[1, H*E]    acc f32[kv heads S, G*E]
// bytes       rows of K and V once from memory for all heads of a group, of which a SIMD group has {{heads}} of
//             {{group}}; a lane loads 8 elements at a time: 16 bytes of f16
// operations  a position and head: E products for the score, E for its sum, log2({{team}}) exchanges, two exponentials
// launch      a threadgroup of 128 is a split of a key and value head (whole: a head); a team of {{team}} lanes has a
//             position, two are on their way at a time. Only the beginning and the end wait for other SIMD groups
// numerics    f32; a running maximum for each team, joined at the end
{{step}}
typedef {{cache}} cache_t;
constexpr constant uint E = {{e}}u;
constexpr constant uint GROUP = {{group}}u;          // heads of the threadgroup
constexpr constant uint HEADS = {{heads}}u;          // of a SIMD group
constexpr constant uint PARTS = GROUP / HEADS;       // SIMD groups that share positions
constexpr constant uint SIMDS = 4u / PARTS;          // SIMD groups of the same heads
constexpr constant uint TEAM = {{team}}u;            // lanes of a position
constexpr constant uint TEAMS = 32u / TEAM;          // of a SIMD group
constexpr constant uint ALL = SIMDS * TEAMS;         // positions at a time

struct Eight {
    metal::float4 low, high;
};
inline Eight eight_at(device const half* at) {
    metal::uint4 bits = metal::uint4(*(device const metal::packed_uint4*)at);
    metal::float2 a = metal::float2(as_type<metal::half2>(bits.x)), b = metal::float2(as_type<metal::half2>(bits.y));
    metal::float2 c = metal::float2(as_type<metal::half2>(bits.z)), d = metal::float2(as_type<metal::half2>(bits.w));
    Eight all = {metal::float4(a.x, a.y, b.x, b.y), metal::float4(c.x, c.y, d.x, d.y)};
    return all;
}
inline Eight eight_at(device const float* at) {
    device const metal::packed_float4* four = (device const metal::packed_float4*)at;
    Eight all = {metal::float4(four[0]), metal::float4(four[1])};
    return all;
}
inline float sum_of(metal::float4 v) { return (v.x + v.y) + (v.z + v.w); }
inline float capped(float score, float cap) {
    float u = metal::clamp(score / cap, -15.0f, 15.0f);
    return cap * (1.0f - 2.0f / (metal::exp(2.0f * u) + 1.0f));
}
{{functions}}
kernel void own_{{entry}}(
  constant Step& step [[buffer(0)]]
{{buffers}}
, threadgroup float* query [[threadgroup(0)]]
, threadgroup float* joined [[threadgroup(1)]]
, threadgroup float* tops [[threadgroup(2)]]
, metal::uint3 id [[threadgroup_position_in_grid]]
, metal::uint3 launched [[threadgroups_per_grid]]
, uint index [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint simd [[simdgroup_index_in_threadgroup]]
) {
    uint at = id.y * launched.x + id.x;
    device const uint* ctl = (device const uint*){{ctl}} + step.ctl;
    uint past = ctl[0], len = ctl[1];
{{start}}
    metal::threadgroup_barrier(metal::mem_flags::mem_device | metal::mem_flags::mem_threadgroup);

    uint part = simd % PARTS, piece = lane % TEAM, team = simd / PARTS * TEAMS + lane / TEAM;
    bool there = piece * 8u < E;
    uint d = there ? piece * 8u : 0u;
    Eight q[HEADS], acc[HEADS];
    float most[HEADS], total[HEADS];
    for (uint h = 0u; h < HEADS; h++) {
        threadgroup float* own = query + (part * HEADS + h) * E + d;
        q[h].low = there ? metal::float4(own[0], own[1], own[2], own[3]) : metal::float4(0.0f);
        q[h].high = there ? metal::float4(own[4], own[5], own[6], own[7]) : metal::float4(0.0f);
        acc[h].low = metal::float4(0.0f);
        acc[h].high = metal::float4(0.0f);
        most[h] = -3.0e38f;
        total[h] = 0.0f;
    }
    {{sink}}
    for (uint first = start; first < end; first += 2u * ALL) {
        Eight k[2], v[2];
        bool seen[2];
        for (uint u = 0u; u < 2u; u++) {
            uint p = first + u * ALL + team, position = metal::min(p, end - 1u);
            seen[u] = p < end;
            ulong from = ulong({{row}}) * E + d;
            k[u] = eight_at(keys + from);
            v[u] = eight_at(values + from);
        }
        for (uint h = 0u; h < HEADS; h++) {
            float s[2], w[2], top = most[h];
            for (uint u = 0u; u < 2u; u++) {
                float dot = sum_of(metal::fma(q[h].high, k[u].high, q[h].low * k[u].low));
                s[u] = there ? dot : 0.0f;
                for (uint mask = 1u; mask < TEAM; mask *= 2u) s[u] += metal::simd_shuffle_xor(s[u], mask);
                {{cap}}
                if (!seen[u]) s[u] = -3.0e38f;
                top = metal::max(top, s[u]);
            }
            float fade = metal::exp(most[h] - top);
            for (uint u = 0u; u < 2u; u++) w[u] = seen[u] ? metal::exp(s[u] - top) : 0.0f;
            total[h] = total[h] * fade + w[0] + w[1];
            metal::float4 w0 = metal::float4(w[0]), w1 = metal::float4(w[1]), by = metal::float4(fade);
            acc[h].low = metal::fma(w1, v[1].low, metal::fma(w0, v[0].low, acc[h].low * by));
            acc[h].high = metal::fma(w1, v[1].high, metal::fma(w0, v[0].high, acc[h].high * by));
            most[h] = top;
        }
    }

    // The teams of a SIMD group, then the SIMD groups.
    for (uint h = 0u; h < HEADS; h++) {
        float top = most[h];
        for (uint mask = TEAM; mask < 32u; mask *= 2u) top = metal::max(top, metal::simd_shuffle_xor(top, mask));
        if (lane == 0u) tops[simd * HEADS + h] = top;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    for (uint h = 0u; h < HEADS; h++) {
        float top = -3.0e38f;
        for (uint i = 0u; i < SIMDS; i++) top = metal::max(top, tops[(i * PARTS + part) * HEADS + h]);
        float fade = metal::exp(most[h] - top);
        most[h] = top;
        total[h] *= fade;
        acc[h].low *= metal::float4(fade);
        acc[h].high *= metal::float4(fade);
        for (uint mask = TEAM; mask < 32u; mask *= 2u) {
            total[h] += metal::simd_shuffle_xor(total[h], mask);
            acc[h].low += metal::simd_shuffle_xor(acc[h].low, mask);
            acc[h].high += metal::simd_shuffle_xor(acc[h].high, mask);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    for (uint h = 0u; h < HEADS; h++) {
        if (lane == 0u) tops[simd] = total[h];
        if (lane < TEAM && there) {
            for (uint i = 0u; i < 4u; i++) {
                joined[simd * E + d + i] = acc[h].low[i];
                joined[simd * E + d + 4u + i] = acc[h].high[i];
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        // A head of each part.
        for (uint i = index; i < PARTS * E; i += 128u) {
            uint g = i / E * HEADS + h;
            float sum = 0.0f, all = 0.0f;
            for (uint n = 0u; n < SIMDS; n++) {
                sum += joined[(n * PARTS + i / E) * E + i % E];
                all += tops[n * PARTS + i / E];
            }
            {{store}}
        }
        {{keep}}
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
}
