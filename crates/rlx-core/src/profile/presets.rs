//! One preset a family and phase; each stands as `profiles/<name>.rlx.toml` too, equal by test.
//!
//! `sam2_memory_attention` and `llada2_diffusion` leave out fusions because the presets they follow
//! do; here the unskipped programs give the same numbers, so a profile may turn them on again.

use super::{CompileProfile, FusionPolicy, FusionProfile, PassProfile, PrecisionProfile};
use crate::error::{Error, Result};
use crate::nearest::did_you_mean;
use alloc::format;

/// A preset by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// Llama 3.2, many rows.
    #[default]
    Llama32Prefill,
    /// Llama 3.2, one row.
    Llama32Decode,
    /// Qwen3, many rows.
    Qwen3Prefill,
    /// Qwen3, one row.
    Qwen3Decode,
    /// Qwen3.5, many rows.
    Qwen35Prefill,
    /// Qwen3.5, one row.
    Qwen35Decode,
    /// Gemma, many rows.
    GemmaPrefill,
    /// Gemma, one row.
    GemmaDecode,
    /// An encoder.
    Encoder,
    /// FLUX.2.
    Flux2,
    /// SAM's image encoder.
    SamEncoder,
    /// SAM 2.
    Sam2,
    /// SAM 3.
    Sam3,
    /// SAM 2's memory attention.
    Sam2MemoryAttention,
    /// LLaDA2's diffusion step.
    Llada2Diffusion,
}

/// The presets of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presets {
    /// Of programs of one row: each token of an answer runs one.
    pub one_row: Preset,
    /// Of all others.
    pub rows: Preset,
}

impl Presets {
    /// One preset for everything.
    pub const fn of(preset: Preset) -> Self {
        Presets { one_row: preset, rows: preset }
    }

    /// The profile of a program of so many rows.
    pub fn profile(&self, rows: u64) -> CompileProfile {
        if rows == 1 { self.one_row.profile() } else { self.rows.profile() }
    }
}

/// A preset with its name and the maker of its profile.
pub type PresetRow = (Preset, &'static str, fn() -> CompileProfile);

impl Preset {
    /// Every preset with its name and its profile.
    pub const ALL: [PresetRow; 15] = [
        (Self::Llama32Prefill, "llama32_prefill", CompileProfile::llama32_prefill),
        (Self::Llama32Decode, "llama32_decode", CompileProfile::llama32_decode),
        (Self::Qwen3Prefill, "qwen3_prefill", CompileProfile::qwen3_prefill),
        (Self::Qwen3Decode, "qwen3_decode", CompileProfile::qwen3_decode),
        (Self::Qwen35Prefill, "qwen35_prefill", CompileProfile::qwen35_prefill),
        (Self::Qwen35Decode, "qwen35_decode", CompileProfile::qwen35_decode),
        (Self::GemmaPrefill, "gemma_prefill", CompileProfile::gemma_prefill),
        (Self::GemmaDecode, "gemma_decode", CompileProfile::gemma_decode),
        (Self::Encoder, "encoder", CompileProfile::encoder),
        (Self::Flux2, "flux2", CompileProfile::flux2),
        (Self::SamEncoder, "sam_encoder", CompileProfile::sam_encoder),
        (Self::Sam2, "sam2", CompileProfile::sam2),
        (Self::Sam3, "sam3", CompileProfile::sam3),
        (Self::Sam2MemoryAttention, "sam2_memory_attention", CompileProfile::sam2_memory_attention),
        (Self::Llada2Diffusion, "llada2_diffusion", CompileProfile::llada2_diffusion),
    ];

    /// The name, which is also that of its file, `profiles/<name>.rlx.toml`.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The profile.
    pub fn profile(self) -> CompileProfile {
        Self::ALL[self as usize].2()
    }

    /// The preset of that name.
    ///
    /// # Errors
    /// `Usage` for another name, with the nearest.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL.iter().find(|p| p.1 == name).map(|p| p.0).ok_or_else(|| {
            let known = Self::ALL.map(|p| p.1);
            Error::usage(format!("unknown preset `{name}`"))
                .hint(did_you_mean(name, "presets", &known))
        })
    }
}

impl CompileProfile {
    fn of(policy: FusionPolicy, skip: bool) -> Self {
        CompileProfile {
            fusion: FusionProfile { policy, skip, ..FusionProfile::default() },
            passes: PassProfile::default(),
            precision: PrecisionProfile::default(),
            backend: super::BackendOverrides::default(),
        }
    }

    /// Llama 3.2, many rows: fused operators at once.
    pub fn llama32_prefill() -> Self {
        Self::of(FusionPolicy::Direct, false)
    }

    /// Llama 3.2, one row: chains that passes fuse.
    pub fn llama32_decode() -> Self {
        Self::of(FusionPolicy::Fusable, false)
    }

    /// Qwen3, many rows.
    pub fn qwen3_prefill() -> Self {
        Self::llama32_prefill()
    }

    /// Qwen3, one row.
    pub fn qwen3_decode() -> Self {
        Self::llama32_decode()
    }

    /// Qwen3.5, many rows.
    pub fn qwen35_prefill() -> Self {
        Self::llama32_prefill()
    }

    /// Qwen3.5, one row.
    pub fn qwen35_decode() -> Self {
        Self::llama32_decode()
    }

    /// Gemma, many rows.
    pub fn gemma_prefill() -> Self {
        Self::llama32_prefill()
    }

    /// Gemma, one row.
    pub fn gemma_decode() -> Self {
        Self::llama32_decode()
    }

    /// Encoders: the whole input at once, no cache.
    pub fn encoder() -> Self {
        Self::of(FusionPolicy::Direct, false)
    }

    /// FLUX.2.
    pub fn flux2() -> Self {
        Self::encoder()
    }

    /// SAM's image encoder.
    pub fn sam_encoder() -> Self {
        Self::encoder()
    }

    /// SAM 2.
    pub fn sam2() -> Self {
        Self::encoder()
    }

    /// SAM 3.
    pub fn sam3() -> Self {
        Self::encoder()
    }

    /// SAM 2's memory attention: an encoder without fusions.
    pub fn sam2_memory_attention() -> Self {
        Self::of(FusionPolicy::Direct, true)
    }

    /// LLaDA2's diffusion step: an encoder without fusions.
    pub fn llada2_diffusion() -> Self {
        Self::of(FusionPolicy::Direct, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_the_enum_and_names_read_back() {
        for (i, (preset, name, _)) in Preset::ALL.into_iter().enumerate() {
            assert_eq!(preset as usize, i);
            assert_eq!(Preset::from_name(name), Ok(preset));
        }
    }

    #[test]
    fn an_unknown_preset_is_told_the_nearest() {
        let e = Preset::from_name("llama32_prefil").expect_err("no such preset");
        assert_eq!(e.what, "unknown preset `llama32_prefil`");
        assert_eq!(e.hint, "did you mean `llama32_prefill`?");
    }
}
