//! Something that a model can be asked.

use crate::ir::GraphModule;
use crate::profile::CompileProfile;
use alloc::string::String;

/// Something that a model can be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name: `encode`.
    pub name: String,
    /// Blocks or operators; symbols are bound by the inputs of each run.
    pub module: GraphModule,
    /// What it asks of the compiler: the preset of a model's family, nothing for a graph of none.
    pub profile: Option<CompileProfile>,
}
