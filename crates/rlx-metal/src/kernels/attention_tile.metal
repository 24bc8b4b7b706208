// attention   y[s, h, :] = sum_j softmax_j(scale q[s, h, :] . k[j, :]) v[j, :], several rows; j from past + s - window
//             to past + s, or to the end of its block; a sink is one more score                       arXiv:2205.14135
//   split     of those j that a split has: y = sum_j exp(s_j - m) v_j undivided, stats = m, sum_j exp(s_j - m), with
//             scores s_j and their maximum m
// shapes      q f32[S, H*E]    k, v caches [K, C, E] of f16 or f32, heads of a group share one    y f32[S, H*E]
// bytes       keys and values of what a tile's rows see once; q and y once. From the threadgroup's memory a SIMD group
//             has 8 keys and values of 8 elements for 8 queries: 128 bytes (f16) for 512 products
// operations  4 E / 8 products of matrices for the scores of 32 positions, as many for their sums, E / 8 where a
//             maximum has grown
// launch      a threadgroup of 128 has 32 queries, a SIMD group 8 of them: its queries and sums are matrices in
//             registers. A step takes 32 positions, whose keys and then values are in memory
// numerics    f32, products too: f16 of a cache is multiplied as it is; online softmax; what a row does not see weighs
//             nothing
struct Step {
    uint heads, rows, places, capacity, q, k, v, y, ctl;
    float scale;
    uint window;
    float softcap;
    uint sinks, stats, least;
};

typedef {{cache}} cache_t;
typedef metal::{{cache}}4 cache4_t;
typedef metal::simdgroup_{{cache}}8x8 cache8x8_t;
constexpr constant uint E = {{e}}u;
constexpr constant uint GROUP = {{group}}u;       // query heads that share keys and values
constexpr constant uint TILE = {{tile}}u;         // rows of a threadgroup
constexpr constant uint POSITIONS = 32u;          // of a step
constexpr constant uint PITCH = E + 8u;           // of a position's key or value: rows in different banks
constexpr constant uint SCORES = POSITIONS + 4u;  // of a query's scores

inline float capped(float score, float cap) {
    float u = metal::clamp(score / cap, -15.0f, 15.0f);
    return cap * (1.0f - 2.0f / (metal::exp(2.0f * u) + 1.0f));
}

// Brings the positions of a step from `block` on. Those from `end` on are zeros.
inline void bring(device const cache_t* from, threadgroup cache_t* tile, uint block, uint end, uint capacity,
                  uint index) {
    for (uint i = index; i < POSITIONS * (E / 4u); i += 128u) {
        uint n = i / (E / 4u), d = i % (E / 4u) * 4u, position = block + n;
        cache4_t four = cache4_t(0.0f);
        if (position < end) four = *(device const cache4_t*)(from + ulong({{row}}) * E + d);
        *(threadgroup cache4_t*)(tile + n * PITCH + d) = four;
    }
}

kernel void own_{{entry}}(
  constant Step& step [[buffer(0)]]
{{buffers}}
, threadgroup float* memory [[threadgroup(0)]]
, threadgroup float* own_memory [[threadgroup(1)]]
, metal::uint3 id [[threadgroup_position_in_grid]]
, metal::uint3 launched [[threadgroups_per_grid]]
, uint index [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint simd [[simdgroup_index_in_threadgroup]]
) {
    uint at = id.y * launched.x + id.x;
    uint kv_head = at / step.places;
    if (kv_head * GROUP >= step.heads) return;
    device const uint* ctl = (device const uint*){{ctl}} + step.ctl;
    uint past = ctl[0], len = metal::min(ctl[1], step.rows), place = at % step.places;
{{start}}
    // Queries of rows that are there.
    uint live = metal::min(TILE, len - row0) * GROUP;
    threadgroup cache_t* tile = (threadgroup cache_t*)memory;
    // This SIMD group's: scores, or a part of its queries or sums; and a diagonal matrix.
    threadgroup float* scores = own_memory + simd * (8u * SCORES + 64u);
    threadgroup float* diagonal = scores + 8u * SCORES;
    ulong head_at = ulong(kv_head) * step.capacity * E;
    device const cache_t* keys = (device const cache_t*){{k}} + ulong(step.k) * 4u + head_at;
    device const cache_t* values = (device const cache_t*){{v}} + ulong(step.v) * 4u + head_at;
    device const float* query = (device const float*){{q}} + step.q;

    // Queries that are not there are zeros: what stands in their place may be no number.
    metal::simdgroup_float8x8 q[E / 8u], sums[E / 8u];
    for (uint c = 0u; c < E; c += 32u) {
        for (uint r = 0u; r < 8u; r++) {
            uint n = simd * 8u + r, d = c + lane;
            float x = 0.0f;
            if (n < live && d < E) {
                ulong row = row0 + n / GROUP;
                x = step.scale * query[(row * step.heads + kv_head * GROUP + n % GROUP) * E + d];
            }
            scores[r * SCORES + lane] = x;
        }
        metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (uint j = 0u; j < 4u; j++) {
            if (c + 8u * j < E) metal::simdgroup_load(q[c / 8u + j], scores + 8u * j, SCORES);
        }
        metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
    for (uint i = 0u; i < E / 8u; i++) sums[i] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    diagonal[lane] = 0.0f;
    diagonal[lane + 32u] = 0.0f;

    // Four lanes have a query's scores, each every fourth.
    uint own_query = simd * 8u + lane / 4u, part = lane % 4u;
    uint own = past + row0 + own_query / GROUP;
    uint own_end = metal::min({{block_end}}, end), own_start = own - metal::min(own, step.window);
    threadgroup float* own_scores = scores + lane / 4u * SCORES + part;
    float most = -3.0e38f, total = 0.0f;
    {{sink}}
    for (uint block = first; block < end; block += POSITIONS) {
        // Everybody has summed the values before.
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        bring(keys, tile, block, end, step.capacity, index);
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        metal::simdgroup_float8x8 s[4];
        for (uint j = 0u; j < 4u; j++) s[j] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        for (uint i = 0u; i < E / 8u; i++) {
            for (uint j = 0u; j < 4u; j++) {
                cache8x8_t k;
                metal::simdgroup_load(k, tile + 8u * j * PITCH + 8u * i, PITCH, 0, true);
                metal::simdgroup_multiply_accumulate(s[j], q[i], k, s[j]);
            }
        }
        for (uint j = 0u; j < 4u; j++) metal::simdgroup_store(s[j], scores + 8u * j, SCORES);
        metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);

        float score[8], top = most;
        for (uint i = 0u; i < 8u; i++) {
            uint position = block + part + 4u * i;
            float x = own_scores[4u * i];
            {{cap}}
            score[i] = position >= own_start && position < own_end ? x : -3.0e38f;
            top = metal::max(top, score[i]);
        }
        top = metal::max(top, metal::simd_shuffle_xor(top, 1u));
        top = metal::max(top, metal::simd_shuffle_xor(top, 2u));
        float fade = metal::exp(most - top), sum = 0.0f;
        for (uint i = 0u; i < 8u; i++) {
            float weight = score[i] <= -2.9e38f ? 0.0f : metal::exp(score[i] - top);
            own_scores[4u * i] = weight;
            sum += weight;
        }
        total = total * fade + sum;
        most = top;
        if (part == 0u) diagonal[lane / 4u * 9u] = fade;
        bool grown = metal::simd_max(fade < 1.0f ? 1.0f : 0.0f) > 0.0f;

        // Everybody has multiplied the keys.
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        bring(values, tile, block, end, step.capacity, index);
        if (grown) {
            metal::simdgroup_float8x8 fades;
            metal::simdgroup_load(fades, diagonal, 8u);
            for (uint i = 0u; i < E / 8u; i++) metal::simdgroup_multiply(sums[i], fades, sums[i]);
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (uint j = 0u; j < 4u; j++) {
            metal::simdgroup_float8x8 p;
            metal::simdgroup_load(p, scores + 8u * j, SCORES);
            for (uint i = 0u; i < E / 8u; i++) {
                cache8x8_t v;
                metal::simdgroup_load(v, tile + 8u * j * PITCH + 8u * i, PITCH);
                metal::simdgroup_multiply_accumulate(sums[i], p, v, sums[i]);
            }
        }
    }

    total += metal::simd_shuffle_xor(total, 1u);
    total += metal::simd_shuffle_xor(total, 2u);
    metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (part == 0u) diagonal[lane / 4u] = total;
    {{keep}}
    device float* y = (device float*){{y}} + step.y;
    for (uint c = 0u; c < E; c += 32u) {
        for (uint j = 0u; j < 4u; j++) {
            if (c + 8u * j < E) metal::simdgroup_store(sums[c / 8u + j], scores + 8u * j, SCORES);
        }
        metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (uint r = 0u; r < 8u; r++) {
            uint n = simd * 8u + r, d = c + lane;
            if (n < live && d < E) {
                {{store}}
            }
        }
        metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
}
