//! Text IR in.
