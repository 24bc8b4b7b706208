//! Where ranks meet: programs that run side by side on several devices exchange tensors here.
//!
//! Every rank of a group runs the same operators in the same order, each on tensors of its own. These two are the only
//! ones whose results depend on the tensors of other ranks.

mod all_gather;
mod all_reduce;

pub use all_gather::AllGather;
pub use all_reduce::AllReduce;

use super::{Alias, Class, Operator, RowUse, arity, attributes, rules};
