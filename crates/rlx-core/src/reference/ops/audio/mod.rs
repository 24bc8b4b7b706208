//! Spectra.

pub(in crate::reference) mod complex_norm_sq;
pub(in crate::reference) mod conjugate;
pub(in crate::reference) mod fft;
pub(in crate::reference) mod log_mel;
