// elementwise y[i] = FORMULA, a chain of scalar functions
// shapes      f32[N]; operands have y's shape, or repeat to it: a row, a column or a number
// bytes       4 for each element read and written
// launch      blocks of 256 threads; a thread is an element
// numerics    f32; functions within 2 units in the last place. y may be where an operand is
KERNEL(elementwise)(INPUTS float* y) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= N) return;
    STEPS
    y[i] = RESULT;
}
