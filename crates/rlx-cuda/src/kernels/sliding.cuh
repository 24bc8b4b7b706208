// Where a window of place `rest` of the result begins, and whether there is an element under a tap, and which: for
// kernels that have sizes in their text.
__device__ __forceinline__ Place place_of(u32 rest) {
    Place p;
    BEGIN
    return p;
}

__device__ __forceinline__ bool is_inside(const Place& p, u32 tap, u32& at) {
    bool inside = true;
    at = 0;
    REACH
    return inside;
}
