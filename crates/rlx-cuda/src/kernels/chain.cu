// chain       y[i] = RESULT, a chain of scalar functions, conversions, tests and selections
// shapes      y TYPE[COUNT * WIDTH]; operands of any scalar types repeat to y's shape along any axes
// bytes       those of each element read and written
// launch      blocks of 256 threads; a thread is WIDTH elements side by side, of up to 16 bytes
// numerics    each step rounds or wraps to its type; halves are computed in f32. y may be where an operand is
template <class T>
struct alignas(sizeof(T) * WIDTH) Lanes {
    T at[WIDTH];
};
KERNEL(chain)(INPUTS Lanes<TYPE>* y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= COUNT) return;
    LOADS
    Lanes<TYPE> made;
#pragma unroll
    for (u32 lane = 0; lane < WIDTH; lane++) {
        STEPS
        made.at[lane] = RESULT;
    }
    y[i] = made;
}
