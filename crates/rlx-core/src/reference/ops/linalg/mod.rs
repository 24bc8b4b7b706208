//! Solvers.

pub(in crate::reference) mod cholesky;
pub(in crate::reference) mod dense_solve;
