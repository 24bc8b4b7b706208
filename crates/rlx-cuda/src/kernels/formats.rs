//! The decoders of weights: which type in the texts decodes a type of weights, and the texts that a kernel needs.

use rlx_core::formats::codebook as book;
use rlx_core::types::{BlockFormat, DType, Scalar};
use std::fmt::Write;

/// The type that decodes weights of this type.
pub(super) fn decoder(dtype: DType) -> Option<&'static str> {
    use BlockFormat::*;
    let format = match dtype {
        DType::Scalar(Scalar::F32) => return Some("F32"),
        DType::Scalar(Scalar::F16) => return Some("F16"),
        DType::Scalar(Scalar::Bf16) => return Some("Bf16"),
        DType::Scalar(_) => return None,
        DType::Block(format) => format,
    };
    Some(match format {
        Q4_0 => "Q4_0",
        Q4_1 => "Q4_1",
        Q5_0 => "Q5_0",
        Q5_1 => "Q5_1",
        Q8_0 => "Q8_0",
        Q2K => "Q2K",
        Q3K => "Q3K",
        Q4K => "Q4K",
        Q5K => "Q5K",
        Q6K => "Q6K",
        Q1_0 => "Q1_0",
        Q2_0 => "Q2_0",
        Iq1S => "Iq1S",
        Iq1M => "Iq1M",
        Iq2Xxs => "Iq2Xxs",
        Iq2Xs => "Iq2Xs",
        Iq2S => "Iq2S",
        Iq3Xxs => "Iq3Xxs",
        Iq3S => "Iq3S",
        Iq4Nl => "Iq4Nl",
        Iq4Xs => "Iq4Xs",
        Mxfp4 => "Mxfp4",
        Nvfp4 => "Nvfp4",
        Tq1_0 => "Tq1_0",
        Tq2_0 => "Tq2_0",
        // Of activations alone.
        Q8_1 | Q8K | Q15_0 => return None,
    })
}

/// The book that a decoder's indices count in, and its groups.
fn book(decoder: &str) -> Option<(&'static str, &'static [u16])> {
    Some(match decoder {
        "Iq1S" | "Iq1M" => ("IQ1", &book::IQ1_S),
        "Iq2Xxs" => ("IQ2_XXS", &book::IQ2_XXS),
        "Iq2Xs" => ("IQ2_XS", &book::IQ2_XS),
        "Iq2S" => ("IQ2_S", &book::IQ2_S),
        "Iq3Xxs" => ("IQ3_XXS", &book::IQ3_XXS),
        "Iq3S" => ("IQ3_S", &book::IQ3_S),
        _ => return None,
    })
}

/// The texts behind which a kernel may name these decoders, with the books that they read.
pub(super) fn texts(decoders: &[&str]) -> String {
    let mut text = String::new();
    if decoders.is_empty() {
        return text;
    }
    text += include_str!("formats.cuh");
    text += include_str!("planes.cuh");
    text += include_str!("levels.cuh");
    let mut books: Vec<_> = decoders.iter().filter_map(|name| book(name)).collect();
    books.sort();
    books.dedup();
    for (name, groups) in &books {
        let groups: Vec<String> = groups.iter().map(u16::to_string).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "#define HAS_{name}");
        let _ = writeln!(
            text,
            "__device__ const u16 {name}[{}] = {{{}}};",
            groups.len(),
            groups.join(",")
        );
    }
    if !books.is_empty() {
        text += include_str!("codebooks.cuh");
    }
    text
}
