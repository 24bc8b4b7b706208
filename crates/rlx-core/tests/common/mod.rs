//! What several modules of tests share.

pub mod execute;
pub mod random_graph;
