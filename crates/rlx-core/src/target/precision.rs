//! Element types for classes of operators.

use crate::ops::Class;
use crate::types::DType;
use alloc::collections::BTreeMap;

/// A floating type that a policy may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// 32-bit IEEE float.
    #[default]
    F32,
    /// 16-bit IEEE float.
    F16,
    /// The upper half of an f32.
    Bf16,
}

impl Precision {
    /// The element type of that name.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }
}

/// Which precision each class of operators has. Reductions accumulate in f32 in every policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrecisionPolicy {
    /// f32 throughout.
    #[default]
    AlwaysF32,
    /// f16 but for the boundary.
    AlwaysF16,
    /// f16 but for reductions and the boundary.
    AutoMixedConservative,
    /// f16 but for the boundary; kernels accumulate in f32.
    AutoMixed,
    /// bf16 but for the boundary; kernels accumulate in f32.
    AutoMixedBf16,
    /// As listed; f32 for classes that are not listed.
    Custom(BTreeMap<Class, Precision>),
}

impl PrecisionPolicy {
    /// The precision of a class.
    pub fn of(&self, class: Class) -> Precision {
        match self {
            Self::Custom(map) => map.get(&class).copied().unwrap_or_default(),
            Self::AlwaysF32 => Precision::F32,
            _ if class == Class::Boundary => Precision::F32,
            Self::AutoMixedConservative if class == Class::Reduction => Precision::F32,
            Self::AlwaysF16 | Self::AutoMixedConservative | Self::AutoMixed => Precision::F16,
            Self::AutoMixedBf16 => Precision::Bf16,
        }
    }
}

/// A cast with block scales, as FP8 and FP4 tensors have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastConfig {
    /// The type to cast to.
    pub out_dtype: DType,
    /// Rows and columns that share a scale; `None` for no scales.
    pub sf_block: Option<(u32, u32)>,
    /// Whether scales are rounded to powers of two.
    pub round_sf: bool,
}

impl CastConfig {
    /// A cast without scales.
    pub fn plain(out_dtype: DType) -> Self {
        CastConfig { out_dtype, sf_block: None, round_sf: false }
    }

    /// True when nothing changes: the types are equal and there are no scales.
    pub fn is_noop(&self, input: DType) -> bool {
        self.sf_block.is_none() && self.out_dtype == input
    }
}
