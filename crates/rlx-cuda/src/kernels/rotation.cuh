// Cosine and sine of pair d at a position, of a table with HIGH rows of HALF pairs behind LOW ones: the angles of both
// are added by the addition theorems.
__device__ __forceinline__ float2 angle(const float* __restrict__ table, u32 position, u32 d) {
    position = min(position, LOW * HIGH - 1u);
    const float* a = table + (size_t(LOW + position / LOW) * HALF + d) * 2;
    const float* b = table + (size_t(position % LOW) * HALF + d) * 2;
    return make_float2(a[0] * b[0] - a[1] * b[1], a[1] * b[0] + a[0] * b[1]);
}

#ifdef ADJACENT
#define FIRST_OF(d) (2 * (d))
#define SECOND_OF(d) (2 * (d) + 1)
#else
#define FIRST_OF(d) (d)
#define SECOND_OF(d) ((d) + HALF)
#endif

// Threads of a head whose pairs turn in place: one for each pair, and for each dimension that does not turn.
#define TURNS (HEAD - HALF)

// The work of one of them. A pair is read and written by one thread: y may be where x is.
__device__ __forceinline__ void turn(const float* x, float* y, const float* __restrict__ table, u32 position, u32 d) {
    if (d >= HALF) {
        y[d + HALF] = x[d + HALF];
        return;
    }
    float2 by = angle(table, position, d);
    float p = x[FIRST_OF(d)], q = x[SECOND_OF(d)];
    y[FIRST_OF(d)] = p * by.x - q * by.y;
    y[SECOND_OF(d)] = p * by.y + q * by.x;
}

// The pair of element e of a head, and whether it is the first of the two.
#ifdef ADJACENT
#define PAIR_OF(e) ((e) / 2)
#define IS_FIRST(e) ((e) % 2 == 0)
#else
#define PAIR_OF(e) ((e) % HALF)
#define IS_FIRST(e) ((e) < HALF)
#endif

// The angle of element e of a head at a position; nothing for one that does not turn.
__device__ __forceinline__ float2 angle_of(const float* __restrict__ table, u32 position, u32 e) {
    return e < 2 * HALF ? angle(table, position, PAIR_OF(e)) : make_float2(1.0f, 0.0f);
}

// Element e of a head, turned by its angle.
__device__ __forceinline__ float turned_by(const float* x, float2 by, u32 e) {
    if (e >= 2 * HALF) return x[e];
    float p = x[FIRST_OF(PAIR_OF(e))], q = x[SECOND_OF(PAIR_OF(e))];
    return IS_FIRST(e) ? p * by.x - q * by.y : p * by.y + q * by.x;
}

__device__ __forceinline__ float turned(const float* x, const float* __restrict__ table, u32 position, u32 e) {
    return turned_by(x, angle_of(table, position, e), e);
}
