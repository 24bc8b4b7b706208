//! The oracle: plain loops that say what an operator or a format means.

pub mod dequantize;
pub mod quantize_rows;
