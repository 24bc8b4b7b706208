// chain       y[i] = RESULT, a chain of scalar functions, conversions, tests and selections
// shapes      y TYPE[COUNT]; operands of any scalar types repeat to y's shape along any axes
// bytes       those of each element read and written
// launch      blocks of 256 threads; a thread is an element
// numerics    each step rounds or wraps to its type; halves are computed in f32. y may be where an operand is
KERNEL(chain)(INPUTS TYPE* y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= COUNT) return;
    STEPS
    y[i] = RESULT;
}
