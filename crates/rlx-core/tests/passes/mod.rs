//! Passes on random graphs and on a model's: what they change, and that results stay.

mod loops;
mod models;
use crate::common::random_graph;
mod rewrites;
