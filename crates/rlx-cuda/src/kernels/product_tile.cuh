// A tile of a product of two tensors of T, 64 rows by 64 columns (tile_sums.cuh): while a step of k is summed up, the
// next one is on its way from memory to registers. An operand is a type that says how a thread brings eight of its
// elements: `fetch(k0, e)` reads them, `put(tile, e)` stands them where products look.
struct F32;
#define IS_SHORT Significand<KIND>::is_short

// Eight elements that lie side by side, from a multiple of 16 bytes on.
__device__ __forceinline__ void load8(const T* at, float e[8]) {
    const u32 each = 16 / sizeof(T);
    struct __align__(16) Part {
        T of[each];
    };
#pragma unroll
    for (u32 i = 0; i < 8 / each; i++) {
        Part part = ((const Part*)at)[i];
#pragma unroll
        for (u32 j = 0; j < each; j++) e[i * each + j] = value_of(part.of[j]);
    }
}

// An operand in memory: element k of row r stands at O::row(r) + O::k(k). A thread brings eight elements of a row, or
// of a column where rows lie side by side (not ALONG_K). Zeros stand for what there is not.
template <class O>
struct Strided {
    const T* at;
    u32 row, k;
    __device__ __forceinline__ Strided(const T* at, u32 row0) : at(at) {
        row = row0 + (O::ALONG_K ? threadIdx.x / 4 : threadIdx.x % 8 * 8);
        k = O::ALONG_K ? threadIdx.x % 4 * 8 : threadIdx.x / 8;
    }
    __device__ __forceinline__ void fetch(u32 k0, float e[8]) const {
        if (O::IN_EIGHTS) {
            if (row < O::ROWS && k0 + k < K) return load8(at + O::row(row) + O::k(k0 + k), e);
#pragma unroll
            for (u32 j = 0; j < 8; j++) e[j] = 0.0f;
            return;
        }
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            u32 r = O::ALONG_K ? row : row + j, c = k0 + (O::ALONG_K ? k + j : k);
            e[j] = r < O::ROWS && c < K ? value_of(at[O::row(r) + O::k(c)]) : 0.0f;
        }
    }
    __device__ __forceinline__ void put(Tile& tile, const float e[8]) const {
        u32 column = O::ALONG_K ? threadIdx.x / 4 : threadIdx.x % 8 * 8;
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            if (O::ALONG_K) {
                tile[k + j][place(k, column)] = e[j];
            } else {
                tile[k][place(k, column) + j] = e[j];
            }
        }
    }
};

template <class A, class B>
__device__ __forceinline__ void product_tile(const A& a, const B& b, float sums[16]) {
    __shared__ __align__(16) Tile as, bs;
    float rows[8], columns[8];
    for (u32 k0 = 0; k0 < K + STEP; k0 += STEP) {
        if (k0 > 0) {
            __syncthreads();
            a.put(as, rows);
            b.put(bs, columns);
            __syncthreads();
        }
        if (k0 < K) {
            a.fetch(k0, rows);
            b.fetch(k0, columns);
        }
        if (k0 > 0) add_tile<KIND, IS_SHORT>(as, bs, sums);
    }
}
