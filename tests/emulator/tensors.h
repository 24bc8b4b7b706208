// Metal 4's tensors and `matmul2d`, as far as our kernels use them, on top of `metal.h`.
//
// What Apple's headers refuse is refused here: types of elements, sizes of tiles, a destination that was made for
// operands of other types, constant elements. What they leave open is made hard: elements of a cooperative tensor lie
// in a strange order, one of each thread is not valid, and all are NaN until they are set. They say two things of
// `mode::multiply`, that it overwrites and that it adds: it is refused.
#pragma once

namespace metal {

template <class T, size_t N>
struct array {
    T at[N];
    T& operator[](size_t i) { return at[i]; }
    const T& operator[](size_t i) const { return at[i]; }
};

/// Sizes of a tensor, of which the first is that of elements side by side.
template <class I, size_t N>
struct dextents {
    I at[N];
    template <class... A>
    explicit dextents(A... sizes) : at{I(sizes)...} {
        static_assert(sizeof...(A) == N, "a size of each dimension");
    }
    I extent(size_t i) const { return at[i]; }
};

struct tensor_inline {};

template <class T, class E, class How>
struct tensor;

/// A view of memory, which the text makes.
template <class T, class I>
struct tensor<T, dextents<I, 2>, tensor_inline> {
    static_assert(!std::is_const<T>::value, "operands have elements that are not constant");
    using element_type = T;
    T* data;
    dextents<I, 2> sizes;
    array<I, 2> strides;

    tensor(T* data, dextents<I, 2> sizes, array<I, 2> strides) : data(data), sizes(sizes), strides(strides) {
        if (strides[0] != 1 || strides[1] < sizes.at[0]) emulator::fail("rows of a tensor have elements side by side");
        if (uintptr_t(data) % 16 != 0) emulator::fail("a tensor begins at 16 bytes");
    }
    tensor(T* data, dextents<I, 2> sizes) : tensor(data, sizes, array<I, 2>{1, sizes.at[0]}) {}
    T at(I side, I below) const { return data[long(below) * strides[1] + side]; }
};

template <class T>
constexpr bool is_tensor = false;
template <class T, class E, class How>
constexpr bool is_tensor<tensor<T, E, How>> = true;

template <size_t N>
struct execution_simdgroups {
    static_assert(N != 0, "a scope has SIMD groups");
    static constexpr size_t threads = N * RLX_WARP;
};
typedef execution_simdgroups<1> execution_simdgroup;

/// The elements that a thread has of an M x N tensor, whose operands are L and R.
template <class T, class L, class R, int M, int N, class Scope>
struct cooperative_tensor {
    using element_type = T;
    using left = L;
    using right = R;
    static_assert(M * N % Scope::threads == 0, "all threads have as many");
    static constexpr int REAL = M * N / int(Scope::threads), CAPACITY = REAL + 1;
    T at[CAPACITY];

    cooperative_tensor() {
        for (T& element : at) element = T(__builtin_nanf(""));
    }
    static int thread() { return int(emulator::block->now->number % Scope::threads); }
    static int missing() { return thread() % CAPACITY; }
    /// Which element of the rows side by side it is; of this scope's threads no two have the same.
    static int number(int i) {
        int j = i - (i > missing() ? 1 : 0), threads = int(Scope::threads);
        return j * threads + (thread() * 37 + j * 11) % threads;
    }
    static constexpr ushort get_capacity() { return CAPACITY; }
    bool is_valid_element(ushort i) const {
        if (i >= CAPACITY) emulator::fail("a cooperative tensor has no such element");
        return i != missing();
    }
    T& operator[](ushort i) {
        if (!is_valid_element(i)) emulator::fail("an element of a cooperative tensor is not valid");
        return at[i];
    }
    /// Column and row.
    array<int, 2> get_multidimensional_index(ushort i) const {
        if (!is_valid_element(i)) return {N * M * 64, N * M * 64};
        return {number(i) % N, number(i) / N};
    }
};

}  // namespace metal

namespace mpp::tensor_ops {

struct matmul2d_descriptor {
    enum class mode { multiply, multiply_accumulate };
    int m, n, k;
    bool transpose_left, transpose_right, relaxed_precision;
    mode matmul_mode;
    constexpr matmul2d_descriptor(int m, int n, int k, bool left = false, bool right = false, bool relaxed = false,
                                  mode how = mode::multiply)
        : m(m), n(n), k(k), transpose_left(left), transpose_right(right), relaxed_precision(relaxed),
          matmul_mode(how) {}
};

/// Types of operands and sums together that macOS 26.0 has, of floats.
template <class A, class B, class C>
constexpr bool has_types = (std::is_same<A, half>::value || std::is_same<A, float>::value) &&
                           (std::is_same<B, half>::value || std::is_same<B, float>::value) &&
                           (std::is_same<C, float>::value ||
                            (sizeof(A) == 2 && sizeof(B) == 2 && std::is_same<C, half>::value));

/// A product of matrices, which all threads of a scope make together.
template <matmul2d_descriptor D, class Scope>
struct matmul2d {
    static_assert(D.m % 16 == 0 || D.n % 16 == 0, "M or N is a multiple of 16");
    static_assert(D.n % 8 == 0, "N is a multiple of 8");
    static_assert(D.k > 0 && D.k % 16 == 0, "K is a multiple of 16");
    static_assert(D.matmul_mode == matmul2d_descriptor::mode::multiply_accumulate, "`mode::multiply` is not clear");
    int line;
    mutable int runs = 0;

    explicit matmul2d(int line = __builtin_LINE()) : line(line) {
        auto b = emulator::block->launch.block;
        if (b.x * b.y * b.z != Scope::threads && Scope::threads != RLX_WARP) {
            emulator::fail("the scope of an operation is a SIMD group, or all of the threadgroup");
        }
    }
    matmul2d(const matmul2d&) = delete;
    /// All threads have made as many products: a barrier looks at lines. Nothing stands behind it that it could put in
    /// order.
    ~matmul2d() {
        if (Scope::threads != RLX_WARP) emulator::barrier(line + 10000 * (runs + 1));
    }

    template <class L, class R, class T>
    metal::cooperative_tensor<T, L, R, D.m, D.n, Scope> get_destination_cooperative_tensor() const {
        return {};
    }

    /// No barrier: a kernel must not count on one that an operation may have.
    template <class L, class R, class C>
    void run(L& left, R& right, C& to, int line = __builtin_LINE()) const {
        static_assert(metal::is_tensor<L> && metal::is_tensor<R>, "operands are tensors");
        using A = typename L::element_type;
        using B = typename R::element_type;
        static_assert(has_types<A, B, typename C::element_type>, "no product has these types");
        static_assert(std::is_same<L, typename C::left>::value && std::is_same<R, typename C::right>::value,
                      "a destination is made for the types of its operands");
        static_assert(!D.relaxed_precision || (sizeof(A) == 2 && sizeof(B) == 2), "floats would lose digits");
        static_assert(!D.transpose_left && D.transpose_right, "our kernels have rows of both");
        using Own = metal::cooperative_tensor<typename C::element_type, L, R, D.m, D.n, Scope>;
        static_assert(std::is_same<C, Own>::value, "a destination is made by its operation");
        if (left.sizes.extent(0) != D.k || left.sizes.extent(1) != D.m || right.sizes.extent(0) != D.k ||
            right.sizes.extent(1) != D.n) {
            emulator::fail("operands have the sizes of their operation");
        }
        metal::emulated_group_barrier(metal::mem_flags::mem_none, line);
        runs++;
        for (ushort i = 0; i < C::CAPACITY; i++) {
            if (!to.is_valid_element(i)) continue;
            int n = C::number(i) % D.n, m = C::number(i) / D.n;
            float sum = to.at[i];
            for (int k = 0; k < D.k; k++) sum += float(left.at(k, m)) * float(right.at(k, n));
            to.at[i] = typename C::element_type(sum);
        }
    }
};

}  // namespace mpp::tensor_ops
