// The largest number and the sum of four lanes beside each other, which have a row of a tensor core's result.
__device__ __forceinline__ float most_of_four(float x) {
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

__device__ __forceinline__ float sum_of_four(float x) {
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}
