// apply       y[i] = f(y[i]), behind a product of the library
// shapes      y T[8 N]
// bytes       sizeof(T) * 8 * N read, as many written
// launch      a thread has 8 elements, which are 16 bytes; a block has 256 threads
// numerics    f32 between two roundings
KERNEL(apply_in_place)(T* y) {
    wait_for_previous();
    struct __align__(16) Eight {
        T of[8];
    };
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= N) return;
    Eight v = ((const Eight*)y)[i];
#pragma unroll
    for (u32 j = 0; j < 8; j++) v.of[j] = rounded_to<T>(apply(value_of(v.of[j])));
    ((Eight*)y)[i] = v;
}
