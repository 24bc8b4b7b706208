//! Element types of weights: the classes of `formats.metal`.

/// The classes.
pub(super) const TEXT: &str = include_str!("formats.metal");

/// The class that reads a type, which has ` planes` behind it where rows lie in planes. Those without one, left to
/// WGSL, are q1_0, q2_0, q2_k, q3_k, tq1_0, tq2_0, mxfp4, nvfp4 and all that begin with iq.
pub(super) fn class(dtype: &str) -> Option<&'static str> {
    Some(match dtype {
        "f32" => "f32",
        "f16" => "f16",
        "bf16" => "bf16",
        "q4_0" => "q4_0",
        "q4_1" => "q4_1",
        "q5_0" => "q5_0",
        "q5_1" => "q5_1",
        "q8_0" => "q8_0",
        "q4_k" => "q4_k",
        "q5_k" => "q5_k",
        "q6_k" => "q6_k<false>",
        "q6_k planes" => "q6_k<true>",
        _ => return None,
    })
}
