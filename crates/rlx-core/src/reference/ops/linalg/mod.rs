//! Solvers.

mod cholesky;
mod dense_solve;
