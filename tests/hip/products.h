// hipBLASLt in the library that stands for AMD's; `fake.cpp` includes it. It notes handles that are unknown or freed,
// matrices that do not fit each other or lie outside of memory, a way that was found for another product or needs more
// memory than there is, and a first product of its kind in the middle of a recording, where the real one may load code.
// Products are computed by their definition when the queue comes to them, long after their descriptions were freed.

namespace {

/// Of a matrix, column by column.
struct Matrix {
    int type;
    uint64_t rows, columns;
    int64_t step;
    uint64_t bytes() const { return (uint64_t(step) * (columns - 1) + rows) * (type == 0 ? 4 : 2); }
};
struct Multiplication {
    int turned_a = 111, turned_b = 111, bias_type = -1;
    unsigned epilogue = 1;
    char* bias = nullptr;
};
struct Preference {
    uint64_t workspace = 0;
};
struct Multiplier {
    int device;
};

/// `hipblasLtMatmulHeuristicResult_t`.
struct Way {
    unsigned char data[16];
    size_t allowed, workspace;
    int state;
    float waves;
    int reserved[4];
};

enum Failure { WRONG_VALUE = 3, NOT_SUPPORTED = 7 };
constexpr size_t WORKSPACE_OF_A_WAY = 4096;

std::set<Matrix*> matrices;
std::set<Multiplication*> multiplications;
std::set<Preference*> preferences;
std::set<Multiplier*> multipliers;
/// Products of these were made.
std::set<std::string> made_before;
uint64_t multiplied = 0;
/// What is wrong with it: 1: no bf16; 2: results of nothing but zeros; 3: an older version; 4: no products;
/// 5: what is added to sums of f16 has to be f16.
int lacking = 0;

float widened(const char* at, int type, uint64_t i) {
    if (type == 0) return ((const float*)at)[i];
    uint16_t bits = ((const uint16_t*)at)[i];
    if (type == 2) {
        _Float16 half;
        memcpy(&half, &bits, 2);
        return float(half);
    }
    uint32_t wide = uint32_t(bits) << 16;
    float y;
    memcpy(&y, &wide, 4);
    return y;
}

void narrowed(char* at, int type, uint64_t i, float x) {
    if (type == 0) {
        ((float*)at)[i] = x;
    } else if (type == 2) {
        _Float16 y = _Float16(x);
        memcpy(at + 2 * i, &y, 2);
    } else {
        uint32_t bits;
        memcpy(&bits, &x, 4);
        ((uint16_t*)at)[i] = uint16_t(x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

/// What a way depends on, or nothing where the library has no such product.
std::string kind_of(const Multiplication& m, const Matrix& a, const Matrix& b, const Matrix& c, const Matrix& d) {
    if (m.turned_a != 112 || m.turned_b != 111) return fault("a product of matrices that are turned otherwise"), "";
    bool fits = a.rows == b.rows && a.columns == d.rows && b.columns == d.columns;
    if (!fits || c.rows != d.rows || c.columns != d.columns) {
        return fault("a product of matrices that do not fit"), "";
    }
    if (a.type != b.type || (d.type == 0 ? a.type != 2 : d.type != a.type)) return "";
    if (c.type != (lacking == 5 && d.type == 0 ? 2 : d.type)) return "";
    if ((lacking == 1 && a.type == 14) || lacking == 4) return "";
    if (m.epilogue == 4 && m.bias_type != d.type) return fault("a bias of another type"), "";
    char text[160];
    snprintf(text, sizeof text, "%d %d %d %d x %d + %d, %d %d %d %d", a.type, d.type, int(a.rows), int(a.columns),
             int(b.columns), int(m.epilogue), int(a.step), int(b.step), int(c.step), int(d.step));
    return text;
}

/// 16 bytes that know a product.
void mark(unsigned char data[16], const std::string& kind) {
    uint64_t one = 14695981039346656037u, two = 1;
    for (char c : kind) {
        one = (one ^ (unsigned char)c) * 1099511628211u;
        two = two * 31 + (unsigned char)c;
    }
    memcpy(data, &one, 8);
    memcpy(data + 8, &two, 8);
}

template <class T>
int freed(std::set<T*>& all, void* handle, const char* what) {
    Guard guard(mutex);
    if (!all.erase((T*)handle)) return fault(std::string(what) + " is freed that is not there"), WRONG_VALUE;
    delete (T*)handle;
    return SUCCESS;
}

}  // namespace

/// What is wrong with the library of products from now on.
extern "C" void fake_products_lack(int what) {
    Guard guard(mutex);
    lacking = what;
    made_before.clear();
}
extern "C" uint64_t fake_products() { return multiplied; }

HIP hipblasLtCreate(void** handle) {
    Guard guard(mutex);
    *handle = *multipliers.insert(new Multiplier{current}).first;
    return SUCCESS;
}
HIP hipblasLtDestroy(void* handle) { return freed(multipliers, handle, "a library's handle"); }
HIP hipblasLtGetVersion(void* handle, int* version) {
    Guard guard(mutex);
    if (!multipliers.count((Multiplier*)handle)) return fault("a library's handle that is not there"), WRONG_VALUE;
    return *version = lacking == 3 ? 600 : 100000, SUCCESS;
}
HIP hipblasLtMatrixLayoutCreate(void** matrix, int type, uint64_t rows, uint64_t columns, int64_t step) {
    Guard guard(mutex);
    if (type != 0 && type != 2 && type != 14) return fault("a matrix of an unknown type"), WRONG_VALUE;
    if (!rows || !columns || step < int64_t(rows)) return fault("a matrix whose columns overlap"), WRONG_VALUE;
    *matrix = *matrices.insert(new Matrix{type, rows, columns, step}).first;
    return SUCCESS;
}
HIP hipblasLtMatrixLayoutDestroy(void* matrix) { return freed(matrices, matrix, "a matrix"); }
HIP hipblasLtMatmulDescCreate(void** product, int sums, int scale) {
    Guard guard(mutex);
    if (sums != 2 || scale != 0) return fault("a product with other sums than f32"), WRONG_VALUE;
    *product = *multiplications.insert(new Multiplication).first;
    return SUCCESS;
}
HIP hipblasLtMatmulDescDestroy(void* product) { return freed(multiplications, product, "a product"); }
HIP hipblasLtMatmulDescSetAttribute(void* product, int attribute, const void* value, size_t bytes) {
    Guard guard(mutex);
    Multiplication* m = (Multiplication*)product;
    if (!multiplications.count(m)) return fault("a product that is not there"), WRONG_VALUE;
    void* to = attribute == 0   ? (void*)&m->turned_a
               : attribute == 1 ? (void*)&m->turned_b
               : attribute == 2 ? (void*)&m->epilogue
               : attribute == 3 ? (void*)&m->bias
               : attribute == 4 ? (void*)&m->bias_type
                                : nullptr;
    if (!to || bytes != (attribute == 3 ? 8 : 4)) return fault("an attribute that no product has"), WRONG_VALUE;
    memcpy(to, value, bytes);
    return SUCCESS;
}
HIP hipblasLtMatmulPreferenceCreate(void** preference) {
    Guard guard(mutex);
    *preference = *preferences.insert(new Preference).first;
    return SUCCESS;
}
HIP hipblasLtMatmulPreferenceDestroy(void* preference) { return freed(preferences, preference, "a preference"); }
HIP hipblasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, size_t bytes) {
    Guard guard(mutex);
    Preference* p = (Preference*)preference;
    if (!preferences.count(p)) return fault("a preference that is not there"), WRONG_VALUE;
    if (attribute != 1 || bytes != 8) return fault("an attribute that no preference has"), WRONG_VALUE;
    memcpy(&p->workspace, value, bytes);
    return SUCCESS;
}
HIP hipblasLtMatmulAlgoGetHeuristic(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference,
                                    int asked, Way* ways, int* found) {
    Guard guard(mutex);
    auto is_matrix = [](void* m) { return matrices.count((Matrix*)m) == 1; };
    if (!multipliers.count((Multiplier*)handle) || !multiplications.count((Multiplication*)product) || !is_matrix(a) ||
        !is_matrix(b) || !is_matrix(c) || !is_matrix(d) || !preferences.count((Preference*)preference) || asked < 1) {
        return fault("a way is looked for with what is not there"), WRONG_VALUE;
    }
    std::string kind = kind_of(*(Multiplication*)product, *(Matrix*)a, *(Matrix*)b, *(Matrix*)c, *(Matrix*)d);
    uint64_t allowed = ((Preference*)preference)->workspace;
    if (kind.empty() || allowed < WORKSPACE_OF_A_WAY) return *found = 0, NOT_SUPPORTED;
    *ways = Way{{}, allowed, WORKSPACE_OF_A_WAY, SUCCESS, 1.0f, {}};
    mark(ways->data, kind);
    return *found = 1, SUCCESS;
}
HIP hipblasLtMatmul(void* handle, void* product, const float* alpha, char* a, void* a_is, char* b, void* b_is,
                    const float* beta, char* c, void* c_is, char* d, void* d_is, const Way* way, char* workspace,
                    size_t workspace_bytes, void* stream) {
    Guard guard(mutex);
    Multiplier* own = (Multiplier*)handle;
    if (!multipliers.count(own) || own->device != current) {
        return fault("a library's handle that is not there, or of another device"), WRONG_VALUE;
    }
    for (void* m : {a_is, b_is, c_is, d_is}) {
        if (!matrices.count((Matrix*)m)) return fault("a product of a matrix that is not there"), WRONG_VALUE;
    }
    if (!multiplications.count((Multiplication*)product)) return fault("a product that is not there"), WRONG_VALUE;
    Multiplication m = *(Multiplication*)product;
    Matrix A = *(Matrix*)a_is, B = *(Matrix*)b_is, C = *(Matrix*)c_is, D = *(Matrix*)d_is;
    float scale = *alpha, more = *beta;
    if (scale != 1.0f || (more != 0.0f && more != 1.0f)) fault("a product with other factors");
    std::string kind = kind_of(m, A, B, C, D);
    if (kind.empty()) return NOT_SUPPORTED;
    unsigned char known[16];
    mark(known, kind);
    if (memcmp(way->data, known, 16)) return fault("a product by the way of another"), WRONG_VALUE;
    if (workspace_bytes < WORKSPACE_OF_A_WAY) {
        return fault("a product with less memory than its way needs"), WRONG_VALUE;
    }
    if (is_recording() && !made_before.count(kind)) fault("a first product of its kind in the middle of a recording");
    made_before.insert(kind);
    if (m.epilogue != 1 && m.epilogue != 4) return fault("a product that ends otherwise"), WRONG_VALUE;
    char* bias = m.epilogue == 4 ? m.bias : nullptr;
    if (m.epilogue == 4 && !bias) return fault("a product without its bias"), WRONG_VALUE;
    if (!is_within(a, A.bytes(), false, "a product reads") || !is_within(b, B.bytes(), false, "a product reads") ||
        !is_within(d, D.bytes(), false, "a product writes") ||
        (more != 0.0f && !is_within(c, C.bytes(), false, "a product reads")) ||
        !is_within(workspace, workspace_bytes, false, "a product's workspace") ||
        (bias && !is_within(bias, D.rows * (D.type == 0 ? 4 : 2), false, "a bias"))) {
        return WRONG_VALUE;
    }
    for (const char* at : {a, b, d, workspace}) {
        if (uintptr_t(at) % 16) return fault("a product of a matrix that begins at no 16 bytes"), WRONG_VALUE;
    }
    auto meet = [](const char* x, uint64_t n, const char* y, uint64_t k) { return x < y + k && y < x + n; };
    if (meet(d, D.bytes(), a, A.bytes()) || meet(d, D.bytes(), b, B.bytes()) ||
        meet(workspace, workspace_bytes, d, D.bytes()) ||
        (more != 0.0f && c != d && meet(d, D.bytes(), c, C.bytes()))) {
        return fault("a product over what it reads"), WRONG_VALUE;
    }
    bool is_wrong = lacking == 2;
    auto run = [=] {
        multiplied++;
        memset(workspace, 0xff, WORKSPACE_OF_A_WAY);
        std::vector<float> other(A.rows);
        for (uint64_t j = 0; j < D.columns; j++) {
            for (uint64_t k = 0; k < A.rows; k++) other[k] = widened(b, B.type, j * uint64_t(B.step) + k);
            for (uint64_t i = 0; i < D.rows; i++) {
                float sum = 0.0f;
                for (uint64_t k = 0; k < A.rows; k++) {
                    sum = fmaf(widened(a, A.type, i * uint64_t(A.step) + k), other[k], sum);
                }
                if (bias) sum += widened(bias, D.type, i);
                if (more != 0.0f) sum += widened(c, C.type, j * uint64_t(C.step) + i);
                narrowed(d, D.type, j * uint64_t(D.step) + i, is_wrong ? 0.0f : sum);
            }
        }
    };
    std::vector<char*> places = {a, b, d, workspace};
    if (more != 0.0f) places.push_back(c);
    if (bias) places.push_back(bias);
    return queue(stream, {run, places});
}
