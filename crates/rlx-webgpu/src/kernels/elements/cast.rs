//! Conversions between scalar types in WGSL.

use super::element::Register;
use rlx_core::types::{DType, Scalar};

/// The expression of `x`, from one register to another that holds values of `to`: floats are cut off towards
/// 0, what is too large saturates, a NaN is 0; integers keep their low bits. Rounding and wrapping to types
/// of fewer bits is the caller's.
pub(in crate::kernels) fn cast(
    x: &str,
    from: Register,
    to: DType,
    register: Register,
    texts: &mut Vec<String>,
) -> String {
    match (from, register) {
        (Register::Bool, Register::F32) => format!("select(0.0, 1.0, {x})"),
        (Register::Bool, Register::I32) => format!("select(0, 1, {x})"),
        (Register::Bool, Register::U32) => format!("select(0u, 1u, {x})"),
        (Register::F32, Register::Bool) => format!("((bitcast<u32>({x}) & 0x7fffffffu) != 0u)"),
        (Register::I32, Register::Bool) => format!("({x} != 0)"),
        (Register::U32, Register::Bool) => format!("({x} != 0u)"),
        (Register::I32 | Register::U32, Register::F32) => format!("f32({x})"),
        (Register::I32, Register::U32) => format!("bitcast<u32>({x})"),
        (Register::U32, Register::I32) => format!("bitcast<i32>({x})"),
        (Register::F32, Register::I32 | Register::U32) => {
            let (name, text) = integer(to);
            texts.push(text);
            format!("{name}({x})")
        }
        _ => x.to_owned(),
    }
}

/// A function that cuts floats off to an integer type, and its name.
fn integer(to: DType) -> (String, String) {
    // The bounds as floats that are inside, the first float above, and the largest value.
    let (low, high, above, most) = match to {
        DType::Scalar(Scalar::I8) => ("-128.0", "127.0", "128.0", "127"),
        DType::Scalar(Scalar::I16) => ("-32768.0", "32767.0", "32768.0", "32767"),
        DType::Scalar(Scalar::U8) => ("0.0", "255.0", "256.0", "255u"),
        DType::Scalar(Scalar::U32) => ("0.0", "4294967040.0", "4294967296.0", "4294967295u"),
        _ => ("-2147483648.0", "2147483520.0", "2147483648.0", "2147483647"),
    };
    let ty = if most.ends_with('u') { "u32" } else { "i32" };
    let name = format!("{}_of", to.name());
    let text = format!(
        "fn {name}(x: f32) -> {ty} {{\n    \
         if (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u {{ return {ty}(0); }}\n    \
         return select({ty}(clamp(x, {low}, {high})), {most}, x >= {above});\n}}\n"
    );
    (name, text)
}
