//! Solvers.

mod cholesky;
mod dense_solve;

pub use cholesky::Cholesky;
pub use dense_solve::DenseSolve;
