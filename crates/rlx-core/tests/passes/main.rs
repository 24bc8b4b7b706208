//! Passes on random graphs and on a model's: what they change, and that results stay.

mod loops;
mod models;
#[path = "../common/random_graph.rs"]
mod random_graph;
mod rewrites;
