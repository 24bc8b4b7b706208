//! Which operators run on the device's own kernels, and which are decomposed.

use alloc::string::String;
use alloc::vec::Vec;

/// How an operator with a kernel and a decomposition runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DispatchPolicy {
    /// The kernel if the target claims it, else the decomposition.
    #[default]
    PreferNative,
    /// The decomposition if there is one.
    ForceCommon,
    /// The kernel; an operator without one is an error.
    ForceNative,
}

/// The policy, and its exceptions. A kind in both lists keeps its kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelDispatch {
    /// The policy.
    pub policy: DispatchPolicy,
    /// Names of operators that are decomposed.
    pub force_common: Vec<String>,
    /// Names of operators that keep their kernel.
    pub force_native: Vec<String>,
}
