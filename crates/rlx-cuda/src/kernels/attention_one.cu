// attention   y[h] = softmax(cap(scale q[h] k^T)) v over the positions that the one row sees            arXiv:2205.14135
// shapes      q, y f32[1, HEADS * HEAD]    caches CACHE[KV, CAPACITY, HEAD]    ctl u32[16]    sinks f32[HEADS]
//             parts f32[KV * SHARES, SPLITS, QUERIES * (HEAD + 2)] and counts u32[KV * SHARES], which are scratch
// bytes       the positions that are seen, once for QUERIES query heads; parts twice, out of the second cache
// launch      a block of 4 warps is a split of the positions of QUERIES heads; the last of a head's blocks joins them
// numerics    f32; each few lanes of a warp have an online softmax, which are joined at the end, splits in order
#define WIDTH (QUERIES * HEAD)
// Positions that a warp has at a time: LANES lanes have one, PER numbers each.
#define AT_ONCE (WARP / LANES)

// PER numbers of a cache's row from `first` on; zeros behind its end.
__device__ __forceinline__ void cells(const u8* __restrict__ row, u32 first, float* x) {
#if CACHE_TYPE == 1 && PER == 8 && HEAD % 8 == 0
    uint4 words = {0, 0, 0, 0};
    if (first < HEAD) words = *(const uint4*)(row + first * 2);
    u32 word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        x[2 * j] = float_of_half(u16(word[j]));
        x[2 * j + 1] = float_of_half(u16(word[j] >> 16));
    }
#else
#pragma unroll
    for (u32 j = 0; j < PER; j++) x[j] = first + j < HEAD ? cached(row, first + j) : 0.0f;
#endif
}

// How much what had this maximum weighs beside a higher one; nothing where it has seen nothing.
__device__ __forceinline__ float faded(float most, float highest) {
    return most == MINUS_INFINITY ? 0.0f : expf(most - highest);
}

KERNEL(attention_one)(const float* __restrict__ q, const u8* __restrict__ keys, const u8* __restrict__ values,
                      const u32* __restrict__ ctl SINKS_PARAMETER, float* __restrict__ y, float* parts, u32* counts) {
    __shared__ float most_of[WARPS][QUERIES], total_of[WARPS][QUERIES];
    __shared__ float sums_of[WARPS][WIDTH];
    __shared__ u32 is_last;
    wait_for_previous();
    u32 split = blockIdx.x, share = blockIdx.y, kv = share / SHARES;
    u32 thread = threadIdx.x, warp = thread / WARP, lane = thread % WARP;
    if (ctl[1] == 0) return;
    u32 start, last;
    seen_by(0, ctl[0], 1, start, last);
    // Whole steps of a block, as long as there are any.
    u32 step = WARPS * AT_ONCE * AHEAD;
    u32 each = max(((last - start + SPLITS - 1) / SPLITS + step - 1) / step * step, step);
    u32 used = max((last - start + each - 1) / each, 1u);
    if (split >= used) return;
    u32 from = start + split * each, end = min(from + each, last);
    q += size_t(share) * WIDTH;
    y += size_t(share) * WIDTH;
    u32 first = lane % LANES * PER, group = lane / LANES;
    float query[QUERIES][PER], sums[QUERIES][PER], most[QUERIES], total[QUERIES];
#pragma unroll
    for (u32 g = 0; g < QUERIES; g++) {
        most[g] = MINUS_INFINITY;
        total[g] = 0.0f;
#pragma unroll
        for (u32 j = 0; j < PER; j++) {
            query[g][j] = first + j < HEAD ? q[g * HEAD + first + j] * SCALE : 0.0f;
            sums[g][j] = 0.0f;
        }
    }
    for (u32 p = from + warp * AT_ONCE; p < end; p += step) {
        float key[AHEAD][PER], value[AHEAD][PER];
#pragma unroll
        for (u32 a = 0; a < AHEAD; a++) {
            // A position behind the end is read as the first one, and weighs nothing.
            u32 mine = p + a * WARPS * AT_ONCE + group;
            size_t at = (size_t(kv) * CAPACITY + (mine < end ? mine : from) % CAPACITY) * ROW_BYTES;
            cells(keys + at, first, key[a]);
            cells(values + at, first, value[a]);
        }
#pragma unroll
        for (u32 g = 0; g < QUERIES; g++) {
            float score[AHEAD], higher = most[g];
#pragma unroll
            for (u32 a = 0; a < AHEAD; a++) {
                float s = 0.0f;
#pragma unroll
                for (u32 j = 0; j < PER; j++) s = fmaf(query[g][j], key[a][j], s);
#pragma unroll
                for (u32 by = LANES / 2; by > 0; by /= 2) s += __shfl_xor_sync(ALL_LANES, s, by);
                score[a] = p + a * WARPS * AT_ONCE + group < end ? capped(s) : MINUS_INFINITY;
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
                for (u32 j = 0; j < PER; j++) sums[g][j] = fmaf(weight, value[a][j], sums[g][j]);
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
    for (u32 i = thread; i < WIDTH; i += 128) {
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
    if (used == 1) return;
    // Who counts last finds what the others have written.
    __threadfence();
    __syncthreads();
    if (thread == 0) is_last = atomicAdd(counts + share, 1u) == used - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    parts += size_t(share) * SPLITS * QUERIES * (HEAD + 2);
    for (u32 i = thread; i < WIDTH; i += 128) {
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
    // The next launch counts from zero.
    if (thread == 0) counts[share] = 0;
}
