//! Spectra.

mod complex_norm_sq;
mod conjugate;
mod fft;
mod log_mel;

pub use complex_norm_sq::ComplexNormSq;
pub use conjugate::Conjugate;
pub use fft::{Fft, FftNorm};
pub use log_mel::{Log, LogMel};
