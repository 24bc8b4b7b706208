//! Resizing of images [ONNX Resize, PyTorch interpolate].
//!
//! Every mode is separable: along each axis a result is a weighted sum of neighbours, [`taps`].

use crate::error::{Error, Result};
use crate::math;
use crate::ops::def::writing::tables::LARGEST;
use crate::ops::{Class, Emit, Operator, arity, attributes, float_tensor, named};
use crate::types::{DType, Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// How a result is made of its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interpolation {
    /// The element at `floor(i * in / out)`: by a whole factor f, every element f times.
    Nearest,
    /// Two neighbours an axis: bilinear on images.
    Linear,
    /// Four neighbours an axis, Keys' kernel with a = -0.75 (-0.5 with antialiasing): bicubic on
    /// images.
    Cubic,
}

impl Interpolation {
    const ALL: [(Interpolation, &'static str); 3] = [
        (Interpolation::Nearest, "nearest"),
        (Interpolation::Linear, "linear"),
        (Interpolation::Cubic, "cubic"),
    ];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

named!(Interpolation, "mode");

/// `interpolate x [N, C, ..] -> [N, C, size..]` over one to three spatial axes.
///
/// Result i reads around `(i + 0.5) * in / out - 0.5`, or `i * (in - 1) / (out - 1)` with aligned
/// corners. Neighbours past an end are the end; a linear place before the first is the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Interpolate {
    /// Elements along each spatial axis of the result.
    pub size: Vec<u64>,
    /// Nearest, linear or cubic.
    pub mode: Interpolation,
    /// Whether first and last elements stay in place. Not with nearest or antialiasing.
    pub align_corners: bool,
    /// Whether a kernel widens by `in / out` when it shrinks an axis. Not with nearest.
    pub antialias: bool,
}

attributes! { Interpolate { size, mode, align_corners, antialias } }

impl Operator for Interpolate {
    const NAME: &'static str = "interpolate";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("interpolate", operands, 1)?;
        let x = operands[0];
        float_tensor("interpolate", "x", x)?;
        let nearest = self.mode == Interpolation::Nearest && (self.align_corners || self.antialias);
        if nearest || self.align_corners && self.antialias {
            return Err(Error::bad_graph(format!(
                "interpolate: mode {} with align_corners {} and antialias {} has no meaning",
                self.mode.name(),
                self.align_corners,
                self.antialias
            )));
        }
        let empty = x.shape.0.iter().skip(2).any(|d| d.as_static() == Some(0));
        let axes = self.size.len();
        let axes_fit = (1..=3).contains(&axes) && x.shape.rank() == axes + 2;
        if !axes_fit || empty || self.size.contains(&0) {
            return Err(Error::bad_graph(format!(
                "interpolate: x is {x}, it cannot become {:?} in its spatial axes",
                self.size
            )));
        }
        let dims = x.shape.0.iter().take(2).cloned().chain(self.size.iter().map(|&n| Dim::from(n)));
        Ok(vec![Type::tensor(x.dtype, Shape(dims.collect()))])
    }

    /// Nearest elements are gathered; other modes are a product with a matrix of weights for each
    /// axis. `None` for symbolic images and for very large ones.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Ok(None) };
        let (dtype, dims) = (e.ty(x).dtype, e.dims(x));
        let Ok(mut input) = Shape(dims[2..].to_vec()).static_dims() else { return Ok(None) };
        if input.iter().zip(&self.size).any(|(a, b)| a.saturating_mul(*b) > LARGEST) {
            return Ok(None);
        }
        let mut y = if self.mode == Interpolation::Nearest { x } else { e.wide(x)? };
        for (i, &size) in self.size.iter().enumerate() {
            let taps = self.taps(input[i], size);
            if self.mode == Interpolation::Nearest {
                let ids: Vec<f64> = taps.iter().map(|t| t.0 as f64).collect();
                let ids = e.constant(DType::U32, &[size], &ids)?;
                y = e.gather(y, 2 + i, ids)?;
                continue;
            }
            let mut matrix = vec![0.0; taps.len() * input[i] as usize];
            for (row, (first, weights)) in matrix.chunks_exact_mut(input[i] as usize).zip(&taps) {
                row[*first..][..weights.len()].copy_from_slice(weights);
            }
            let wide = e.ty(y).dtype;
            let matrix = e.constant(wide, &[size, input[i]], &matrix)?;
            let (outer, inner) =
                (input[..i].iter().product::<u64>(), input[i + 1..].iter().product::<u64>());
            let flat = [outer, input[i], inner].map(Dim::from);
            y = e.reshape(y, &dims[..2].iter().chain(&flat).cloned().collect::<Vec<_>>())?;
            y = e.matmul(matrix, y, false)?;
            input[i] = size;
            let whole = input.iter().map(|&n| Dim::from(n));
            y = e.reshape(y, &dims[..2].iter().cloned().chain(whole).collect::<Vec<_>>())?;
        }
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}

impl Interpolate {
    /// What each result of an axis is made of: the first neighbour and the weights from it on.
    /// `input` is 1 or more; all neighbours are within it.
    pub fn taps(&self, input: u64, output: u64) -> Vec<(usize, Vec<f64>)> {
        let last = input.saturating_sub(1) as i64;
        let scale = input as f64 / output as f64;
        let corners = if output > 1 { last as f64 / (output - 1) as f64 } else { 0.0 };
        let place = |i: u64| match self.align_corners {
            true => i as f64 * corners,
            false => (i as f64 + 0.5) * scale - 0.5,
        };
        // Weights of neighbours from `first` on, those past an end added to it.
        let clamped = |first: i64, weights: &[f64]| {
            let at = |k: usize| (first + k as i64).clamp(0, last);
            let (low, high) = (at(0), at(weights.len().saturating_sub(1)));
            let mut out = vec![0.0; (high - low + 1) as usize];
            for (k, w) in weights.iter().enumerate() {
                out[(at(k) - low) as usize] += w;
            }
            (low as usize, out)
        };
        let one = |i: u64| -> (usize, Vec<f64>) {
            if self.mode == Interpolation::Nearest {
                // In integers: i * in / out is exact.
                let at = u128::from(i) * u128::from(input) / u128::from(output);
                return ((at as i64).min(last) as usize, vec![1.0]);
            }
            if self.antialias {
                return self.widened(i, input, scale);
            }
            let x = if self.mode == Interpolation::Linear { place(i).max(0.0) } else { place(i) };
            let floor = math::floor(x);
            let t = x - floor;
            if self.mode == Interpolation::Linear {
                return clamped(floor as i64, &[1.0 - t, t]);
            }
            let weights = [1.0 + t, t, 1.0 - t, 2.0 - t].map(|d| keys(d, -0.75));
            clamped(floor as i64 - 1, &weights)
        };
        (0..output).map(one).collect()
    }

    /// The kernel stretched over what one result covers, normalised; neighbours past an end have
    /// no weight.
    fn widened(&self, i: u64, input: u64, scale: f64) -> (usize, Vec<f64>) {
        let stretch = scale.max(1.0);
        let radius = stretch * if self.mode == Interpolation::Cubic { 2.0 } else { 1.0 };
        let centre = scale * (i as f64 + 0.5);
        let first = math::floor((centre - radius + 0.5).max(0.0)) as u64;
        let end = (math::floor(centre + radius + 0.5) as u64).min(input);
        let weight = |j: u64| {
            let d = ((j as f64 - centre + 0.5) / stretch).abs();
            match self.mode {
                Interpolation::Cubic => keys(d, -0.5),
                _ => (1.0 - d).max(0.0),
            }
        };
        let mut weights: Vec<f64> = (first..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        for w in &mut weights {
            *w /= sum;
        }
        (first as usize, weights)
    }
}

/// Keys' cubic convolution kernel at distance `d` (IEEE ASSP 29, 1981).
fn keys(d: f64, a: f64) -> f64 {
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}
