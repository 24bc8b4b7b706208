// Four floats beside each other, from a multiple of 16 bytes on.
struct Four {
    float of[4];

    __device__ __forceinline__ Four() : of{} {}
    __device__ __forceinline__ explicit Four(const float* at) {
        float4 v = *(const float4*)at;
        of[0] = v.x, of[1] = v.y, of[2] = v.z, of[3] = v.w;
    }
    __device__ __forceinline__ float& operator[](size_t j) { return of[j]; }
    __device__ __forceinline__ void put(float* at) const { *(float4*)at = make_float4(of[0], of[1], of[2], of[3]); }
};
