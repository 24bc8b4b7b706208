//! Float functions from `libm`, so that folding, RoPE tables and the reference executor give the
//! same bits on every target.

pub use libm::{
    cos, exp, exp2, expf, floor, log, log2, log10, pow, powf, rint, round, sin, sqrt, sqrtf, tanh,
    tanhf,
};
