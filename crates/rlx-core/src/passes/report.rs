//! What fused, and what nearly did.

use alloc::string::String;
use alloc::vec::Vec;

/// A pattern that nearly matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The pass.
    pub pattern: &'static str,
    /// Label of the node.
    pub node: String,
    /// Why not.
    pub reason: &'static str,
    /// What would change that.
    pub hint: &'static str,
}

/// What fusions did to one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FusionReport {
    /// `(pass, changes)` in the order they ran.
    pub fused: Vec<(&'static str, usize)>,
    /// Near misses.
    pub missed: Vec<Miss>,
    /// Nodes before the first pass and after the last.
    pub nodes: (usize, usize),
}

impl FusionReport {
    /// Notes a near miss.
    pub fn miss(
        &mut self,
        pattern: &'static str,
        node: &str,
        reason: &'static str,
        hint: &'static str,
    ) {
        self.missed.push(Miss { pattern, node: node.into(), reason, hint });
    }

    /// Changes of a pass, 0 if it did not run.
    pub fn count(&self, pass: &str) -> usize {
        self.fused.iter().find(|f| f.0 == pass).map_or(0, |f| f.1)
    }
}
