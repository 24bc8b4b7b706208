// A weight of a product, what its products are added to, and where they go. What is not there is null.
struct Segment {
    const u8* w;
    u32 row_bytes, n;
    const u8* up;
    const float *bias, *up_bias, *residual;
    float* y;
};

// What `SEGMENTS` lists for each weight: its type, how many blocks it has, and the Segment. A kernel says with COMPUTE
// what a block of one does.
#define SEGMENT(F, BLOCKS, ...)  \
    if (block < BLOCKS) {        \
        COMPUTE(F, __VA_ARGS__); \
        return;                  \
    }                            \
    block -= BLOCKS;

// A type as an argument of a lambda.
template <class F>
struct Named {
    typedef F Type;
};
