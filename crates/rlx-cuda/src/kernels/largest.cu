// largest     most[n, p] = the largest |x| of part p of image n
// shapes      x T[N, COUNT]    most f32[N, PARTS]
// bytes       x once
// launch      a block of 256 threads is a part of an image
// numerics    exact; what is no number is left out
KERNEL(largest)(const T* __restrict__ x, float* __restrict__ most) {
    wait_for_previous();
    __shared__ float parts[256 / WARP];
    x += size_t(blockIdx.y) * COUNT;
    float own = 0.0f;
#pragma unroll 4
    for (u32 i = blockIdx.x * 256 + threadIdx.x; i < COUNT; i += PARTS * 256) own = fmaxf(own, fabsf(value_of(x[i])));
    own = warp_max(own);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = own;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (u32 i = 1; i < 256 / WARP; i++) own = fmaxf(own, parts[i]);
    most[blockIdx.y * PARTS + blockIdx.x] = own;
}
