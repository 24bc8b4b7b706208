//! ggml's element and block types: one row of facts a type, read by readers, kernels and docs.
//!
//! Sizes and ids are facts of the GGUF format (`ggml.h`, enum `ggml_type`).

use super::{DType, Scalar};

macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident $name:literal $id:tt $elements:literal / $bytes:literal;)*) => {
        /// A packed block format. The discriminant is the row in [`BlockFormat::ALL`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum BlockFormat { $($(#[$doc])* $variant,)* }

        impl BlockFormat {
            /// Every format, in ggml's order of ids, and at the end what ggml has not.
            pub const ALL: &'static [BlockFormat] = &[$(BlockFormat::$variant,)*];
            const ROWS: &'static [(&'static str, u32, usize, usize)] = &[$(($name, $id, $elements, $bytes),)*];
        }
    };
}

formats! {
    /// 4 bits, one scale.
    Q4_0 "q4_0" 2 32/18;
    /// 4 bits, scale and minimum.
    Q4_1 "q4_1" 3 32/20;
    /// 5 bits, one scale.
    Q5_0 "q5_0" 6 32/22;
    /// 5 bits, scale and minimum.
    Q5_1 "q5_1" 7 32/24;
    /// 8 bits, one scale.
    Q8_0 "q8_0" 8 32/34;
    /// 8 bits, scale and scaled sum: activations only.
    Q8_1 "q8_1" 9 32/36;
    /// 2 bits in super-blocks.
    Q2K "q2_k" 10 256/84;
    /// 3 bits in super-blocks.
    Q3K "q3_k" 11 256/110;
    /// 4 bits in super-blocks.
    Q4K "q4_k" 12 256/144;
    /// 5 bits in super-blocks.
    Q5K "q5_k" 13 256/176;
    /// 6 bits in super-blocks.
    Q6K "q6_k" 14 256/210;
    /// 8 bits, f32 scale, sums of 16: activations only.
    Q8K "q8_k" 15 256/292;
    /// 2.06 bits, codebook.
    Iq2Xxs "iq2_xxs" 16 256/66;
    /// 2.31 bits, codebook.
    Iq2Xs "iq2_xs" 17 256/74;
    /// 3.06 bits, codebook.
    Iq3Xxs "iq3_xxs" 18 256/98;
    /// 1.56 bits, codebook.
    Iq1S "iq1_s" 19 256/50;
    /// 4 bits, non-linear levels.
    Iq4Nl "iq4_nl" 20 32/18;
    /// 3.44 bits, codebook.
    Iq3S "iq3_s" 21 256/110;
    /// 2.5 bits, codebook.
    Iq2S "iq2_s" 22 256/82;
    /// 4 bits, non-linear levels, super-blocks.
    Iq4Xs "iq4_xs" 23 256/136;
    /// 1.75 bits, codebook.
    Iq1M "iq1_m" 29 256/56;
    /// Ternary, base 3.
    Tq1_0 "tq1_0" 34 256/54;
    /// Ternary, 2 bits.
    Tq2_0 "tq2_0" 35 256/66;
    /// OCP microscaling FP4.
    Mxfp4 "mxfp4" 39 32/17;
    /// NVIDIA FP4.
    Nvfp4 "nvfp4" 40 64/36;
    /// 1 bit.
    Q1_0 "q1_0" 41 128/18;
    /// 2 bits.
    Q2_0 "q2_0" 42 64/18;
    /// 15 bits in two parts of 8, f32 scale: activations only, and no type of ggml's.
    Q15_0 "q15_0" NO_ID 32/68;
}

/// Stands for an id where ggml has none.
const NO_ID: u32 = u32::MAX;

impl BlockFormat {
    /// The name in text IR and on the command line: `q4_k`.
    pub fn name(self) -> &'static str {
        Self::ROWS[self as usize].0
    }

    /// ggml's id of the type, if ggml has it.
    pub fn ggml_id(self) -> Option<u32> {
        Some(Self::ROWS[self as usize].1).filter(|id| *id != NO_ID)
    }

    /// Whether it is made for activations: no file's weights have it.
    pub fn is_for_activations(self) -> bool {
        matches!(self, Self::Q8_1 | Self::Q8K | Self::Q15_0)
    }

    /// Elements in a block.
    pub fn elements(self) -> usize {
        Self::ROWS[self as usize].2
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        Self::ROWS[self as usize].3
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|f| f.name() == name)
    }
}

/// ggml's scalar types: id and type.
const GGML_SCALARS: [(u32, Scalar); 8] = [
    (0, Scalar::F32),
    (1, Scalar::F16),
    (24, Scalar::I8),
    (25, Scalar::I16),
    (26, Scalar::I32),
    (27, Scalar::I64),
    (28, Scalar::F64),
    (30, Scalar::Bf16),
];

/// Types that ggml has removed: id and name. Old files may hold them; readers refuse them by name.
pub const GGML_REMOVED: [(u32, &str); 8] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

/// The element type of a ggml id, if ggml still has it.
pub fn from_ggml_id(id: u32) -> Option<DType> {
    GGML_SCALARS.iter().find(|row| row.0 == id).map(|row| DType::Scalar(row.1)).or_else(|| {
        BlockFormat::ALL.iter().copied().find(|f| f.ggml_id() == Some(id)).map(DType::Block)
    })
}

/// The ggml id of an element type, if ggml has it.
pub fn to_ggml_id(dtype: DType) -> Option<u32> {
    match dtype {
        DType::Scalar(scalar) => GGML_SCALARS.iter().find(|row| row.1 == scalar).map(|row| row.0),
        DType::Block(format) => format.ggml_id(),
    }
}
