//! Spectra.

mod complex_norm_sq;
mod conjugate;
mod fft;
mod log_mel;
