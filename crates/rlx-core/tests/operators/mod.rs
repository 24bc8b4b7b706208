//! Norms, vision, spectra, solvers and quantisation against recorded values, and their
//! decompositions against their references. The records stand in tests/fixtures/operators with the
//! scripts that made them.

#![cfg(all(
    feature = "reference",
    feature = "vision",
    feature = "audio",
    feature = "linalg",
    feature = "quant"
))]

mod list;
mod recorded;
mod records;
mod support;
mod symbolic;
