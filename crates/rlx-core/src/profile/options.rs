//! From a profile to compile options.

use super::{CompileProfile, Mixed, PrecisionProfile};
use crate::error::Result;
use crate::ops::Class;
use crate::target::{CompileOptions, FusionTarget, KernelDispatch, Precision, PrecisionPolicy};
use crate::types::Binding;
use alloc::format;
use alloc::string::String;

impl PrecisionProfile {
    /// The policy these keys mean. What is asked for is given: `bf16` is never f16.
    pub fn policy(&self) -> PrecisionPolicy {
        match (self.compute, self.mixed) {
            (Precision::F32, Mixed::None) => PrecisionPolicy::AlwaysF32,
            (Precision::F16, Mixed::None) => PrecisionPolicy::AlwaysF16,
            (Precision::Bf16, Mixed::None) => PrecisionPolicy::Custom(
                [Class::Compute, Class::Reduction, Class::Elementwise, Class::Movement]
                    .map(|class| (class, Precision::Bf16))
                    .into(),
            ),
            (Precision::Bf16, Mixed::Auto) => PrecisionPolicy::AutoMixedBf16,
            (Precision::F32 | Precision::F16, Mixed::Auto) => PrecisionPolicy::AutoMixed,
        }
    }
}

impl CompileProfile {
    /// Sets what a profile says and leaves every other option. A target other than `auto` replaces
    /// the one in `options`; of the backends' hints only those of the target that stands then are
    /// read, none for `auto`.
    pub fn apply(&self, options: &mut CompileOptions) {
        options.fusion_policy = Some(self.fusion.policy);
        if let Some(target) = self.fusion.target.explicit() {
            options.fusion_target = target;
        }
        let hints = self.backend.of(options.fusion_target);
        options.skip_fusion = self.fusion.skip || hints.skip_fusion;
        options.unfuse_regions = hints.unfuse_regions;
        options.assert_clean = self.fusion.assert_clean;
        options.dce = self.passes.dce;
        options.constant_folding = self.passes.constant_folding;
        options.verbose = self.passes.verbose;
        options.precision = self.precision.policy();
    }
}

impl CompileOptions {
    /// The options of a profile on a device: the profile's keys, the device's backend where the
    /// profile says `auto`, this dispatch.
    ///
    /// # Errors
    /// `Usage` for an unknown device, with the known ones.
    pub fn from_profile(
        profile: &CompileProfile,
        device: &str,
        dispatch: KernelDispatch,
    ) -> Result<Self> {
        let mut options = CompileOptions {
            fusion_target: FusionTarget::of_device(device)?,
            dispatch,
            ..CompileOptions::default()
        };
        profile.apply(&mut options);
        Ok(options)
    }

    /// Default options with symbols bound.
    pub fn dynamic(binding: Binding) -> Self {
        CompileOptions { binding, ..CompileOptions::default() }
    }

    /// Options for packed weights: the profile's, with its fusions. Packed is a data type here, so
    /// nothing is turned off, and nothing of the process is changed while compiling.
    ///
    /// # Errors
    /// As [`from_profile`](Self::from_profile).
    pub fn packed(profile: &CompileProfile, device: &str) -> Result<Self> {
        Self::from_profile(profile, device, KernelDispatch::default())
    }

    /// One line of what a profile says, in its own words: `target=auto policy=direct dce=true …`.
    pub fn describe(&self) -> String {
        let policy = self.fusion_policy.map_or("module", |p| p.name());
        format!(
            "target={} policy={policy} fusions={} regions={} assert_clean={} dce={} \
             constant_folding={} verbose={} precision={:?}",
            self.fusion_target.name(),
            !self.skip_fusion,
            !self.unfuse_regions,
            self.assert_clean,
            self.dce,
            self.constant_folding,
            self.verbose,
            self.precision
        )
    }

    /// A copy that takes these operators for the device's claim.
    #[must_use]
    pub fn with_supported_ops<'a>(&self, ops: impl IntoIterator<Item = &'a str>) -> Self {
        CompileOptions {
            supported_ops: Some(ops.into_iter().map(Into::into).collect()),
            ..self.clone()
        }
    }
}
