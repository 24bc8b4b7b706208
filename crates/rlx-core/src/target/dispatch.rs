//! Which operators run as kernels of the device's own.

use alloc::string::String;
use alloc::vec::Vec;

/// What happens to an operator that has both a kernel and a decomposition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DispatchPolicy {
    /// The kernel where the target claims it, else the decomposition.
    #[default]
    PreferNative,
    /// The decomposition wherever there is one.
    ForceCommon,
    /// The kernel; an operator without one is an error.
    ForceNative,
}

/// The policy, and the kinds that differ from it. A kind in both lists is native.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelDispatch {
    /// The policy.
    pub policy: DispatchPolicy,
    /// Names of operators that are decomposed.
    pub force_common: Vec<String>,
    /// Names of operators that keep their kernel.
    pub force_native: Vec<String>,
}
