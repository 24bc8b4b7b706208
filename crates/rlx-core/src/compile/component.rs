//! What distinguishes one compiled program of a model from another, and the key made of it.

use crate::plan::Hasher;
use crate::profile::CompileProfile;
use crate::target::{CompileOptions, KernelDispatch};
use crate::types::{BATCH, Binding, SEQ};
use alloc::format;
use alloc::string::String;

/// What a program of a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelPhase {
    /// Many rows of a prompt.
    Prefill,
    /// The next rows, on top of a cache.
    Decode,
    /// A whole input at once, without a cache.
    Encoder,
    /// Anything else.
    Inference,
}

/// The sizes and purpose of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelVariant {
    /// Sequences.
    pub batch: u64,
    /// New rows of each sequence.
    pub seq: u64,
    /// Rows in the cache when the program first runs. It is read at run time: one decode program
    /// serves every position, so it is neither bound nor part of the key.
    pub past_seq: Option<u64>,
    /// What it is for.
    pub phase: ModelPhase,
    /// Sizes of the model's other symbols.
    pub extra: Binding,
}

impl ModelVariant {
    fn new(batch: u64, seq: u64, past_seq: Option<u64>, phase: ModelPhase) -> Self {
        ModelVariant { batch, seq, past_seq, phase, extra: Binding::new() }
    }

    /// A prompt of `seq` rows.
    pub fn prefill(batch: u64, seq: u64) -> Self {
        Self::new(batch, seq, None, ModelPhase::Prefill)
    }

    /// `new` rows on top of `past`.
    pub fn decode(batch: u64, past: u64, new: u64) -> Self {
        Self::new(batch, new, Some(past), ModelPhase::Decode)
    }

    /// A whole input of `seq` rows.
    pub fn encoder(batch: u64, seq: u64) -> Self {
        Self::new(batch, seq, None, ModelPhase::Encoder)
    }

    /// `BATCH`, `SEQ` and the other symbols.
    pub fn binding(&self) -> Binding {
        let mut binding = self.extra.clone();
        binding.insert(BATCH.into(), self.batch);
        binding.insert(SEQ.into(), self.seq);
        binding
    }
}

/// When a component is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompilationMode {
    /// Before its first run.
    #[default]
    Eager,
    /// At its first run.
    Lazy,
    /// Ahead of time, kept on disk under [`ModelComponent::aot_disk_base`].
    Aot,
}

/// Everything that decides what a program of a model is compiled to.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelComponent {
    /// Sizes and purpose.
    pub variant: ModelVariant,
    /// The device, as command lines name it.
    pub device: String,
    /// Kernels of the device's own, or what they stand for.
    pub kernel_dispatch: KernelDispatch,
    /// When it is compiled.
    pub compilation_mode: CompilationMode,
    /// Hash of the profile.
    pub profile_key: u64,
    /// How weights are packed; `None` as the file has them.
    pub quant: Option<String>,
    /// What the model's layers are made of, where families share a graph.
    pub layer_composition_key: Option<String>,
    /// The options a profile does not say: activations, cache type, alignment and the like.
    pub options: CompileOptions,
}

impl ModelComponent {
    /// A component on a device; the rest as it is usually.
    pub fn new(variant: ModelVariant, device: &str, profile: &CompileProfile) -> Self {
        ModelComponent {
            variant,
            device: device.into(),
            kernel_dispatch: KernelDispatch::default(),
            compilation_mode: CompilationMode::default(),
            profile_key: profile_key(profile),
            quant: None,
            layer_composition_key: None,
            options: CompileOptions::default(),
        }
    }

    /// A hash over every field but `past_seq`; the same in every process and on every platform.
    pub fn cache_key(&self) -> u64 {
        let ModelVariant { batch, seq, past_seq: _, phase: _, extra } = &self.variant;
        let mut hasher = self.hasher();
        hasher.text(&format!("{batch} {seq} {extra:?}"));
        hasher.finish()
    }

    /// [`cache_key`](Self::cache_key) without the sizes: one template serves them all.
    pub fn template_key(&self) -> u64 {
        self.hasher().finish()
    }

    fn hasher(&self) -> Hasher {
        // Every field, so that a new one does not compile until it is here.
        let ModelComponent {
            variant: ModelVariant { batch: _, seq: _, past_seq: _, phase, extra: _ },
            device,
            kernel_dispatch,
            compilation_mode,
            profile_key,
            quant,
            layer_composition_key,
            options,
        } = self;
        let mut hasher = Hasher::new();
        hasher.text(device);
        hasher.text(&format!(
            "{phase:?} {kernel_dispatch:?} {compilation_mode:?} {profile_key:016x}"
        ));
        hasher.text(&format!("{quant:?}"));
        hasher.text(&format!("{layer_composition_key:?}"));
        hasher.text(&format!("{options:?}"));
        hasher
    }

    /// The name that files of this component begin with: `rlx_` and 16 hex digits.
    pub fn aot_disk_base(&self) -> String {
        format!("rlx_{:016x}", self.cache_key())
    }
}

/// Hash of a profile's content.
pub(super) fn profile_key(profile: &CompileProfile) -> u64 {
    let mut hasher = Hasher::new();
    hasher.text(&format!("{profile:?}"));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::DispatchPolicy;
    use crate::types::DType;
    use alloc::vec::Vec;

    fn component() -> ModelComponent {
        let profile = CompileProfile::default();
        ModelComponent::new(ModelVariant::decode(1, 7, 1), "auto", &profile)
    }

    #[test]
    fn every_field_but_the_past_changes_the_key() {
        type Change = fn(&mut ModelComponent);
        let changes: [Change; 12] = [
            |c| c.variant.batch = 2,
            |c| c.variant.seq = 2,
            |c| c.variant.phase = ModelPhase::Prefill,
            |c| c.variant.extra = Binding::from([("IMAGE".into(), 2)]),
            |c| c.device = "gpu".into(),
            |c| c.kernel_dispatch.policy = DispatchPolicy::ForceCommon,
            |c| c.compilation_mode = CompilationMode::Aot,
            |c| c.profile_key = profile_key(&CompileProfile::llama32_decode()),
            |c| c.quant = Some("q4_k".into()),
            |c| c.layer_composition_key = Some("delta,attention".into()),
            |c| c.options.kv = DType::F16,
            |c| c.options.alignment = 256,
        ];
        let mut keys = Vec::from([component().cache_key()]);
        for change in changes {
            let mut c = component();
            change(&mut c);
            keys.push(c.cache_key());
        }
        let n = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), n, "two components share a key");
        let mut later = component();
        later.variant.past_seq = Some(8);
        assert_eq!(later.cache_key(), component().cache_key());
    }

    #[test]
    fn the_disk_name_is_the_key_in_hex() {
        let base = component().aot_disk_base();
        let hex = base.strip_prefix("rlx_").expect("a prefix");
        assert_eq!(hex.len(), 16);
        assert_eq!(u64::from_str_radix(hex, 16), Ok(component().cache_key()));
    }
}
