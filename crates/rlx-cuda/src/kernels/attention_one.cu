// attention   y[h] = softmax(cap(scale q[h] k^T)) v over the positions that the one row sees            arXiv:2205.14135
//             with ROPE, q turns first, and k and v go to the caches, as in rope_kv_write
// shapes      q, y f32[1, HEADS * HEAD]    caches CACHE[KV, CAPACITY, HEAD]    ctl u32[16]    sinks f32[HEADS]
//             with ROPE, k, v f32[1, KV * HEAD]    table f32[LOW + HIGH, HALF, 2]    turned f32[1, HEADS * HEAD]
//             parts f32[KV * SHARES, SPLITS, QUERIES * (HEAD + 2)] and counts u32[KV * SHARES], which are scratch
// bytes       the positions that are seen, once for QUERIES query heads; parts twice, out of the second cache
// launch      a block of THREADS is a split of the positions of QUERIES heads; the last of a head's blocks joins them
//             with ROPE, the block that has the row's own position writes it to the caches; blocks that share a head of
//             the caches write the same bytes
// numerics    f32; each few lanes of a warp have an online softmax, which are joined at the end, splits in order
#define WIDTH (QUERIES * HEAD)
// Positions that a warp has at a time: LANES lanes have one, PER numbers each.
#define AT_ONCE (WARP / LANES)

// PER numbers of a cache's row from `first` on, as they were read; zeros behind its end.
#if CACHE_TYPE == 1 && PER == 8 && HEAD % 8 == 0
typedef uint4 Cells;
__device__ __forceinline__ Cells cells(const u8* row, u32 first) {
    uint4 words = {0, 0, 0, 0};
    if (first < HEAD) words = *(const uint4*)(row + first * 2);
    return words;
}
__device__ __forceinline__ void numbers(const Cells& cells, float* x) {
    u32 word[4] = {cells.x, cells.y, cells.z, cells.w};
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        x[2 * j] = float_of_half(u16(word[j]));
        x[2 * j + 1] = float_of_half(u16(word[j] >> 16));
    }
}
#else
struct Cells {
    float x[PER];
};
__device__ __forceinline__ Cells cells(const u8* row, u32 first) {
    Cells y;
#pragma unroll
    for (u32 j = 0; j < PER; j++) y.x[j] = first + j < HEAD ? cached(row, first + j) : 0.0f;
    return y;
}
__device__ __forceinline__ void numbers(const Cells& cells, float* x) {
#pragma unroll
    for (u32 j = 0; j < PER; j++) x[j] = cells.x[j];
}
#endif

// How much what had this maximum weighs beside a higher one; nothing where it has seen nothing.
__device__ __forceinline__ float faded(float most, float highest) {
    return most == MINUS_INFINITY ? 0.0f : expf(most - highest);
}

// Turned queries go where the others were, once no block reads these: they may be in one place.
#ifdef ROPE
#define ROTATION_PARAMETERS const float* k, const float* v, const float *__restrict__ table, u8 *keys, u8 *values
#define TURNED_PARAMETER float* queries,
#define PUT_TURNED                                                                             \
    for (u32 i = thread; i < QUERIES * TURNS; i += THREADS) {                                  \
        u32 head = share * QUERIES + i / TURNS;                                                \
        turn(q + i / TURNS * HEAD, queries + size_t(head) * HEAD, table, position, i % TURNS); \
    }
#else
#define ROTATION_PARAMETERS const u8 *__restrict__ keys, const u8 *__restrict__ values
#define TURNED_PARAMETER
#define PUT_TURNED
#endif

KERNEL(attention_one)(const float* q, ROTATION_PARAMETERS, const u32* __restrict__ ctl SINKS_PARAMETER,
                      TURNED_PARAMETER float* y, float* parts, u32* counts) {
    __shared__ float most_of[WARPS][QUERIES], total_of[WARPS][QUERIES];
    __shared__ float sums_of[WARPS][WIDTH];
    __shared__ u32 is_last;
    // No kernel of this list writes the control block before sampling, or a cache's row of another position than the
    // token's own: these are read while the kernel before this one runs.
    u32 split = blockIdx.x, share = blockIdx.y, kv = share / SHARES;
    u32 thread = threadIdx.x, warp = thread / WARP, lane = thread % WARP;
    u32 position = ctl[0], start, last;
    seen_by(0, position, 1, start, last);
    // Whole steps of a block, as long as there are any.
    u32 step = WARPS * AT_ONCE * AHEAD;
    u32 each = max(((last - start + SPLITS - 1) / SPLITS + step - 1) / step * step, step * STEPS);
    u32 used = max((last - start + each - 1) / each, 1u);
    if (split >= used || ctl[1] == 0) {
        wait_for_previous();
        return;
    }
    u32 from = start + split * each, end = min(from + each, last);
    u32 first = lane % LANES * PER, group = lane / LANES;
    const u8* key_rows = keys + size_t(kv) * CAPACITY * ROW_BYTES;
    const u8* value_rows = values + size_t(kv) * CAPACITY * ROW_BYTES;
#define MINE(p, a) ((p) + (a) * WARPS * AT_ONCE + group)
#define ROW_OF(mine) (size_t((mine) % CAPACITY) * ROW_BYTES)
    u32 p = from + warp * AT_ONCE;
    Cells key[AHEAD] = {}, value[AHEAD] = {};
#pragma unroll
    for (u32 a = 0; a < AHEAD; a++) {
        u32 mine = MINE(p, a);
        if (mine >= end || mine == position) continue;
        key[a] = cells(key_rows + ROW_OF(mine), first);
        value[a] = cells(value_rows + ROW_OF(mine), first);
    }
#ifdef ROPE
    float2 by[PER], own_by = angle_of(table, position, thread % HEAD);
#pragma unroll
    for (u32 j = 0; j < PER; j++) by[j] = angle_of(table, position, min(first + j, HEAD - 1u));
#endif
    wait_for_previous();
    q += size_t(share) * WIDTH;
    y += size_t(share) * WIDTH;
    float query[QUERIES][PER], sums[QUERIES][PER], most[QUERIES], total[QUERIES];
#ifdef ROPE
    if (from <= position && position < end && IS_CACHED(position) && ctl[4] == 0) {
        for (u32 i = thread; i < 2 * HEAD; i += THREADS) {
            u32 e = i % HEAD;
            float2 turns = i == thread ? own_by : angle_of(table, position, e);
            float x = i < HEAD ? turned_by(k + kv * HEAD, turns, e) : v[kv * HEAD + e];
            store(i < HEAD ? keys : values, kv, CACHED_AT(position), e, x);
        }
    }
#endif
#pragma unroll
    for (u32 g = 0; g < QUERIES; g++) {
        most[g] = MINUS_INFINITY;
        total[g] = 0.0f;
#pragma unroll
        for (u32 j = 0; j < PER; j++) {
#ifdef ROPE
            float x = first + j < HEAD ? turned_by(q + g * HEAD, by[j], first + j) : 0.0f;
#else
            float x = first + j < HEAD ? q[g * HEAD + first + j] : 0.0f;
#endif
            query[g][j] = x * SCALE;
            sums[g][j] = 0.0f;
        }
    }
#ifdef ROPE
    // What is written here is read here.
    __syncthreads();
#endif
#pragma unroll
    for (u32 a = 0; a < AHEAD; a++) {
        if (MINE(p, a) != position || position >= end) continue;
        key[a] = cells(key_rows + ROW_OF(position), first);
        value[a] = cells(value_rows + ROW_OF(position), first);
    }
    while (p < end) {
        float x[AHEAD][PER], w[AHEAD][PER];
#pragma unroll
        for (u32 a = 0; a < AHEAD; a++) {
            numbers(key[a], x[a]);
            numbers(value[a], w[a]);
        }
        // The next step is on its way while this one is computed. What is behind the end weighs nothing.
        u32 now = p;
        p += step;
#pragma unroll
        for (u32 a = 0; a < AHEAD; a++) {
            u32 mine = MINE(p, a);
            if (mine >= end) continue;
            key[a] = cells(key_rows + ROW_OF(mine), first);
            value[a] = cells(value_rows + ROW_OF(mine), first);
        }
#pragma unroll
        for (u32 g = 0; g < QUERIES; g++) {
            float score[AHEAD], higher = most[g];
#pragma unroll
            for (u32 a = 0; a < AHEAD; a++) {
                float s = 0.0f;
#pragma unroll
                for (u32 j = 0; j < PER; j++) s = fmaf(query[g][j], x[a][j], s);
#pragma unroll
                for (u32 by = LANES / 2; by > 0; by /= 2) s += __shfl_xor_sync(ALL_LANES, s, by);
                score[a] = MINE(now, a) < end ? capped(s) : MINUS_INFINITY;
                higher = fmaxf(higher, score[a]);
            }
            float fade = faded(most[g], higher);
            most[g] = higher;
            total[g] *= fade;
#pragma unroll
            for (u32 j = 0; j < PER; j++) sums[g][j] *= fade;
#pragma unroll
            for (u32 a = 0; a < AHEAD; a++) {
                float weight = faded(score[a], higher);
                total[g] += weight;
#pragma unroll
                for (u32 j = 0; j < PER; j++) sums[g][j] = fmaf(weight, w[a][j], sums[g][j]);
            }
        }
    }
    // Lanes that have other positions, then warps.
#pragma unroll
    for (u32 g = 0; g < QUERIES; g++) {
#pragma unroll
        for (u32 by = LANES; by < WARP; by *= 2) {
            float other = __shfl_xor_sync(ALL_LANES, most[g], by), highest = fmaxf(most[g], other);
            float mine = faded(most[g], highest), theirs = faded(other, highest);
            most[g] = highest;
            total[g] = total[g] * mine + __shfl_xor_sync(ALL_LANES, total[g], by) * theirs;
#pragma unroll
            for (u32 j = 0; j < PER; j++) {
                float sum = __shfl_xor_sync(ALL_LANES, sums[g][j], by);
                sums[g][j] = sums[g][j] * mine + sum * theirs;
            }
        }
        if (lane == 0) {
            most_of[warp][g] = most[g];
            total_of[warp][g] = total[g];
        }
#pragma unroll
        for (u32 j = 0; j < PER; j++) {
            if (group == 0 && first + j < HEAD) sums_of[warp][g * HEAD + first + j] = sums[g][j];
        }
    }
    __syncthreads();
    float* part = parts + (size_t(share) * SPLITS + split) * QUERIES * (HEAD + 2);
    for (u32 i = thread; i < WIDTH; i += THREADS) {
        u32 g = i / HEAD;
        float highest = most_of[0][g], all = 0.0f, sum = 0.0f;
        for (u32 w = 1; w < WARPS; w++) highest = fmaxf(highest, most_of[w][g]);
        for (u32 w = 0; w < WARPS; w++) {
            float weight = faded(most_of[w][g], highest);
            all += total_of[w][g] * weight;
            sum += sums_of[w][i] * weight;
        }
        if (used > 1) {
            part[i] = sum;
            if (i % HEAD == 0) {
                part[WIDTH + 2 * g] = highest;
                part[WIDTH + 2 * g + 1] = all;
            }
            continue;
        }
#ifdef SINKS
        float sink = sinks[share * QUERIES + g], above = fmaxf(highest, sink);
        sum *= faded(highest, above);
        all = all * faded(highest, above) + expf(sink - above);
#endif
        y[i] = all > 0.0f ? sum / all : 0.0f;
    }
    if (used == 1) {
        PUT_TURNED
        return;
    }
    // Who counts last finds what the others have written.
    __threadfence();
    __syncthreads();
    if (thread == 0) is_last = atomicAdd(counts + share, 1u) == used - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    parts += size_t(share) * SPLITS * QUERIES * (HEAD + 2);
    for (u32 i = thread; i < WIDTH; i += THREADS) {
        u32 g = i / HEAD;
        float highest = MINUS_INFINITY, all = 0.0f, sum = 0.0f;
#ifdef SINKS
        highest = sinks[share * QUERIES + g];
#endif
#pragma unroll 8
        for (u32 s = 0; s < used; s++) highest = fmaxf(highest, __ldcg(parts + s * QUERIES * (HEAD + 2) + WIDTH + 2 * g));
#ifdef SINKS
        all = expf(sinks[share * QUERIES + g] - highest);
#endif
#pragma unroll 8
        for (u32 s = 0; s < used; s++) {
            const float* of = parts + s * QUERIES * (HEAD + 2);
            float weight = faded(__ldcg(of + WIDTH + 2 * g), highest);
            all += __ldcg(of + WIDTH + 2 * g + 1) * weight;
            sum += __ldcg(of + i) * weight;
        }
        y[i] = all > 0.0f ? sum / all : 0.0f;
    }
    PUT_TURNED
    // The next launch counts from zero.
    if (thread == 0) counts[share] = 0;
}
