// Which element of an axis of n an id stands for: a negative one counts from the end.
__device__ __forceinline__ i64 counted(i64 id, u32 n) { return id < 0 ? id + i64(n) : id; }

// What is outside reads the nearest element.
__device__ __forceinline__ u32 nearest(u32 id, u32 n) { return min(id, n - 1u); }
__device__ __forceinline__ u32 nearest(i64 id, u32 n) {
    id = counted(id, n);
    return id < 0 ? 0u : id < i64(n) ? u32(id) : n - 1u;
}
__device__ __forceinline__ u32 nearest(i32 id, u32 n) { return nearest(i64(id), n); }

// What is outside is n.
__device__ __forceinline__ u32 inside(u32 id, u32 n) { return min(id, n); }
__device__ __forceinline__ u32 inside(i64 id, u32 n) {
    id = counted(id, n);
    return id >= 0 && id < i64(n) ? u32(id) : n;
}
__device__ __forceinline__ u32 inside(i32 id, u32 n) { return inside(i64(id), n); }
