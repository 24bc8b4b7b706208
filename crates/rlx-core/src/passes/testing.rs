//! Text goldens for passes.
