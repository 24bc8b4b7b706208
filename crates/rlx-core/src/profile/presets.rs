//! One preset a family and phase; each stands as `profiles/<name>.rlx.toml` too, equal by test.
//!
//! `sam2_memory_attention` and `llada2_diffusion` leave out fusions because the presets they follow
//! do; here the unskipped programs give the same numbers, so a profile may turn them on again.

use super::{CompileProfile, FusionPolicy, FusionProfile, PassProfile, PrecisionProfile};
use crate::error::{Error, Result};
use crate::nearest::did_you_mean;
use alloc::format;
use alloc::vec::Vec;

/// A preset's name and maker.
pub type Preset = (&'static str, fn() -> CompileProfile);

/// Every preset.
pub const PRESETS: [Preset; 15] = [
    ("llama32_prefill", CompileProfile::llama32_prefill),
    ("llama32_decode", CompileProfile::llama32_decode),
    ("qwen3_prefill", CompileProfile::qwen3_prefill),
    ("qwen3_decode", CompileProfile::qwen3_decode),
    ("qwen35_prefill", CompileProfile::qwen35_prefill),
    ("qwen35_decode", CompileProfile::qwen35_decode),
    ("gemma_prefill", CompileProfile::gemma_prefill),
    ("gemma_decode", CompileProfile::gemma_decode),
    ("encoder", CompileProfile::encoder),
    ("flux2", CompileProfile::flux2),
    ("sam_encoder", CompileProfile::sam_encoder),
    ("sam2", CompileProfile::sam2),
    ("sam3", CompileProfile::sam3),
    ("sam2_memory_attention", CompileProfile::sam2_memory_attention),
    ("llada2_diffusion", CompileProfile::llada2_diffusion),
];

impl CompileProfile {
    fn of(policy: FusionPolicy, skip: bool) -> Self {
        CompileProfile {
            fusion: FusionProfile { policy, skip, ..FusionProfile::default() },
            passes: PassProfile::default(),
            precision: PrecisionProfile::default(),
            backend: super::BackendOverrides::default(),
        }
    }

    /// The preset of that name.
    ///
    /// # Errors
    /// `Usage` for another name, with the nearest.
    pub fn preset(name: &str) -> Result<Self> {
        PRESETS.iter().find(|p| p.0 == name).map(|p| p.1()).ok_or_else(|| {
            let known: Vec<&str> = PRESETS.iter().map(|p| p.0).collect();
            Error::usage(format!("unknown preset `{name}`"))
                .hint(did_you_mean(name, "presets", &known))
        })
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
    fn an_unknown_preset_is_told_the_nearest() {
        let e = CompileProfile::preset("llama32_prefil").expect_err("no such preset");
        assert_eq!(e.what, "unknown preset `llama32_prefil`");
        assert_eq!(e.hint, "did you mean `llama32_prefill`?");
    }
}
