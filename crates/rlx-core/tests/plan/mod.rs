//! The planner on random graphs and on real models: what is optimised, planned and replayed gives
//! the bits of what was written, in little memory; and text IR round-trips.
#![cfg(all(feature = "reference", feature = "parse"))]

mod arena;
mod dims;
use crate::common::execute;
pub mod graphs;
mod memory;
mod model;
mod random;
