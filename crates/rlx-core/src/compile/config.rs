//! A component with the preset it is compiled by.

use super::component::{CompilationMode, ModelComponent, ModelVariant, profile_key};
use crate::profile::{CompileProfile, Preset};
use crate::target::{CompileOptions, KernelDispatch};
use crate::types::Binding;
use alloc::string::String;

/// How a program of a model is compiled and run: a component and a family's preset.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelExecutionConfig {
    component: ModelComponent,
    preset: Preset,
}

impl ModelExecutionConfig {
    /// A program of this size, by this preset, on no device of its own until one is named.
    pub fn new(variant: ModelVariant, preset: Preset) -> Self {
        let component = ModelComponent::new(variant, "auto", &preset.profile());
        ModelExecutionConfig { component, preset }
    }

    /// A prompt of a Llama.
    pub fn prefill(batch: u64, seq: u64) -> Self {
        Self::new(ModelVariant::prefill(batch, seq), Preset::Llama32Prefill)
    }

    /// The next tokens of a Llama.
    pub fn decode(batch: u64, past: u64, new: u64) -> Self {
        Self::new(ModelVariant::decode(batch, past, new), Preset::Llama32Decode)
    }

    /// A prompt of a Qwen3.5.
    pub fn qwen35_prefill(batch: u64, seq: u64) -> Self {
        Self::new(ModelVariant::prefill(batch, seq), Preset::Qwen35Prefill)
    }

    /// The next tokens of a Qwen3.5.
    pub fn qwen35_decode(batch: u64, past: u64, new: u64) -> Self {
        Self::new(ModelVariant::decode(batch, past, new), Preset::Qwen35Decode)
    }

    /// A whole input of an encoder.
    pub fn encoder(batch: u64, seq: u64) -> Self {
        Self::new(ModelVariant::encoder(batch, seq), Preset::Encoder)
    }

    /// Another preset.
    #[must_use]
    pub fn with_preset(mut self, preset: Preset) -> Self {
        self.preset = preset;
        self.component.profile_key = profile_key(&preset.profile());
        self
    }

    /// On this device, as command lines name it.
    #[must_use]
    pub fn with_device(mut self, device: &str) -> Self {
        self.component.device = device.into();
        self
    }

    /// With this dispatch.
    #[must_use]
    pub fn with_kernel_dispatch(mut self, dispatch: KernelDispatch) -> Self {
        self.component.kernel_dispatch = dispatch;
        self
    }

    /// Compiled then.
    #[must_use]
    pub fn with_compilation_mode(mut self, mode: CompilationMode) -> Self {
        self.component.compilation_mode = mode;
        self
    }

    /// With weights packed so.
    #[must_use]
    pub fn with_quant(mut self, quant: impl Into<String>) -> Self {
        self.component.quant = Some(quant.into());
        self
    }

    /// With layers made of this.
    #[must_use]
    pub fn with_layer_composition(mut self, key: impl Into<String>) -> Self {
        self.component.layer_composition_key = Some(key.into());
        self
    }

    /// With these options where the profile says nothing.
    #[must_use]
    pub fn with_options(mut self, options: CompileOptions) -> Self {
        self.component.options = options;
        self
    }

    /// The preset.
    pub fn preset(&self) -> Preset {
        self.preset
    }

    /// The preset's profile.
    pub fn compile_profile(&self) -> CompileProfile {
        self.preset.profile()
    }

    /// The component.
    pub fn component(&self) -> &ModelComponent {
        &self.component
    }

    /// The sizes.
    pub fn variant(&self) -> &ModelVariant {
        &self.component.variant
    }

    /// The symbols it binds.
    pub fn dim_binding(&self) -> Binding {
        self.component.variant.binding()
    }

    /// The component's key.
    pub fn cache_key(&self) -> u64 {
        self.component.cache_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{BATCH, SEQ};

    #[test]
    fn a_decode_config_binds_its_new_rows_and_not_its_past() {
        let config = ModelExecutionConfig::decode(2, 100, 1);
        assert_eq!(config.dim_binding(), [(BATCH.into(), 2), (SEQ.into(), 1)].into());
        assert_eq!(config.variant().past_seq, Some(100));
        assert_eq!(config.cache_key(), ModelExecutionConfig::decode(2, 101, 1).cache_key());
        assert_eq!(config.compile_profile(), CompileProfile::llama32_decode());
    }

    #[test]
    fn every_builder_changes_the_key() {
        let base = ModelExecutionConfig::prefill(1, 8);
        let forced =
            KernelDispatch { force_native: ["matmul".into()].into(), ..Default::default() };
        let others = [
            base.clone().with_preset(Preset::Encoder),
            base.clone().with_device("gpu"),
            base.clone().with_kernel_dispatch(forced),
            base.clone().with_compilation_mode(CompilationMode::Lazy),
            base.clone().with_quant("q4_k"),
            base.clone().with_layer_composition("attention"),
            base.clone().with_options(CompileOptions { dce: false, ..Default::default() }),
        ];
        // Presets of one content are one key: encoder's is prefill's.
        assert_eq!(others[0].cache_key(), base.cache_key());
        for other in &others[1..] {
            assert_ne!(other.cache_key(), base.cache_key(), "{other:?}");
        }
        let decode = base.clone().with_preset(Preset::GemmaDecode);
        assert_ne!(decode.cache_key(), base.cache_key());
    }
}
