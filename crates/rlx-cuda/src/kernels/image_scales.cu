// image_scales scales[n] = the power of two by which an image's numbers are divided to be none too large for a half
// shapes      most f32[N, PARTS]    scales f32[N]
// bytes       4*N*PARTS
// launch      a thread is an image
// numerics    exact
KERNEL(image_scales)(const float* __restrict__ most, float* __restrict__ scales) {
    wait_for_previous();
    u32 image = blockIdx.x * 128 + threadIdx.x;
    if (image >= IMAGES) return;
    float all = 0.0f;
#pragma unroll 8
    for (u32 i = 0; i < PARTS; i++) all = fmaxf(all, most[image * PARTS + i]);
    // As in halves.cu.
    u32 exponent = __float_as_uint(all) >> 23;
    u32 field = exponent == 255u || exponent < 16u ? 127u : exponent - 14u;
    scales[image] = __uint_as_float(field << 23);
}
