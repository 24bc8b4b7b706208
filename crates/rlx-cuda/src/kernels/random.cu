// random      uniform: a word's upper 24 bits * 2^-24; normal: r cos(t), r sin(t) of two words [Box and Muller 1958]
// shapes      key u32[4]: the seed, and the offset of counters    y f32[COUNT]
// bytes       4 * COUNT
// launch      blocks of 256 threads; a thread is the four numbers of a counter
// numerics    uniform: exact, as on every device; normal: f32, functions within 2 units in the last place
__device__ __forceinline__ float4 uniform(Words words) {
    auto number = [](u32 word) { return float(word >> 8) * 5.9604644775390625e-8f; };
    return make_float4(number(words.at[0]), number(words.at[1]), number(words.at[2]), number(words.at[3]));
}

__device__ __forceinline__ float2 pair(u32 first, u32 second) {
    // The angle is counted in half turns: the product with pi would round.
    float radius = sqrtf(-2.0f * logf(float((first >> 8) + 1u) * 5.9604644775390625e-8f));
    float halves = float(second >> 8) * 1.1920928955078125e-7f;
    return make_float2(radius * cospif(halves), radius * sinpif(halves));
}
__device__ __forceinline__ float4 normal(Words words) {
    float2 a = pair(words.at[0], words.at[1]), b = pair(words.at[2], words.at[3]);
    return make_float4(a.x, a.y, b.x, b.y);
}

KERNEL(random)(const u32* __restrict__ key, float* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 block = blockIdx.x * 256 + threadIdx.x;
    if (block > (COUNT - 1u) / 4) return;
    Words words = philox((u64(key[3]) << 32 | key[2]) + block, key[0], key[1]);
    float4 made = MADE;
    u32 first = block * 4, left = COUNT - first;
    if (IS_ALIGNED && left >= 4) {
        ((float4*)y)[block] = made;
        return;
    }
    y[first] = made.x;
    if (left > 1) y[first + 1] = made.y;
    if (left > 2) y[first + 2] = made.z;
    if (left > 3) y[first + 3] = made.w;
}
