//! Functions that follow a product, in MSL: the numbers are those of `rlx-webgpu`'s WGSL.

const SILU: &str = "\
inline float silu_of(float x) { return x < -80.0f ? 0.0f : x / (1.0f + metal::exp(-metal::max(x, -80.0f))); }
";

const QUICK_GELU: &str = "\
inline float quick_gelu_of(float x) {
    return x < -47.0f ? 0.0f : x / (1.0f + metal::exp(-1.702f * metal::max(x, -47.0f)));
}
";

/// `0.5 x (1 + tanh u) = x / (1 + e^-2u)`, which has no cancellation.
const GELU: &str = "\
inline float gelu_of(float x) {
    float m = metal::clamp(x, -10.0f, 10.0f);
    float u2 = 1.5957691216f * m * (1.0f + 0.044715f * m * m);
    return x < -10.0f ? 0.0f : x / (1.0f + metal::exp(-u2));
}
";

/// The functions that an expression over `x` calls, and the expression, of `map=` of a form: `x` is none. None for
/// functions without a text here.
pub(super) fn of(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "x" => ("", "x"),
        "silu" => (SILU, "silu_of(x)"),
        "gelu" => (GELU, "gelu_of(x)"),
        "quick_gelu" => (QUICK_GELU, "quick_gelu_of(x)"),
        "relu" => ("", "metal::max(x, 0.0f)"),
        "sigmoid" => ("", "1.0f / (1.0f + metal::exp(-metal::max(x, -80.0f)))"),
        "tanh" => ("", "metal::tanh(metal::clamp(x, -15.0f, 15.0f))"),
        _ => return None,
    })
}
