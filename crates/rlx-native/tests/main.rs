//! Every integration test of the native half in one binary: one link, and tests beside each other.
//! `allocations.rs` is a binary of its own, for it counts what the whole process allocates.

#[path = "../../../tests/support/bless.rs"]
mod bless;
mod choice;
#[path = "../../../tests/cli/mod.rs"]
mod cli;
mod conversations;
mod convert;
mod drift;
mod facts;
#[path = "../../../tests/support/gunzip.rs"]
mod gunzip;
mod limits;
#[path = "../../../tests/support/load.rs"]
mod load;
mod lost;
mod mxfp4;
mod opened;
mod operators;
#[path = "../../../tests/parity/mod.rs"]
mod parity;
mod proof;
mod recurrences;
mod rings;
#[path = "../../../tests/support/skip.rs"]
mod skip;
mod slide;
mod threads;
#[path = "../../../tests/support/wide.rs"]
mod wide;
