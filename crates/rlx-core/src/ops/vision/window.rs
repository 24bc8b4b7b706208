//! How a window slides over spatial axes: what convolutions, pooling and `im2col` share.

use crate::error::{Error, Result};
use crate::ops::attributes;
use crate::ops::def::slide::slide;
use crate::types::Dim;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// No stride, padding, dilation or kernel is larger: products of two stay far from 64 bits.
const MOST: u64 = 1 << 31;
/// Spatial axes at most.
const AXES: usize = 3;

/// Steps and padding of a window, one number for each spatial axis (1 to 3 axes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Elements between neighbouring positions, 1 or more.
    pub stride: Vec<u64>,
    /// Elements of padding before the first.
    pub pad_low: Vec<u64>,
    /// Elements of padding behind the last.
    pub pad_high: Vec<u64>,
    /// Elements between neighbouring taps, 1 or more.
    pub dilation: Vec<u64>,
}

attributes! { Window { stride, pad_low, pad_high, dilation } }

impl Window {
    /// Every position of `axes` spatial axes: stride and dilation 1, no padding.
    pub fn new(axes: usize) -> Window {
        let (one, zero) = (vec![1; axes], vec![0; axes]);
        Window { stride: one.clone(), pad_low: zero.clone(), pad_high: zero, dilation: one }
    }

    /// With this stride; chain it.
    #[must_use]
    pub fn stride(mut self, stride: &[u64]) -> Window {
        self.stride = stride.to_vec();
        self
    }

    /// With this padding; chain it.
    #[must_use]
    pub fn pad(mut self, low: &[u64], high: &[u64]) -> Window {
        self.pad_low = low.to_vec();
        self.pad_high = high.to_vec();
        self
    }

    /// With this dilation; chain it.
    #[must_use]
    pub fn dilation(mut self, dilation: &[u64]) -> Window {
        self.dilation = dilation.to_vec();
        self
    }

    /// Number of spatial axes.
    pub fn axes(&self) -> usize {
        self.stride.len()
    }

    /// Fails on lists of different lengths, a stride or dilation of 0, or numbers past 2^31.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        let lists = [&self.stride, &self.pad_low, &self.pad_high, &self.dilation];
        let axes = self.axes();
        if axes == 0 || axes > AXES || lists.iter().any(|l| l.len() != axes) {
            return Err(Error::bad_graph(format!(
                "{name}: stride {:?}, pad_low {:?}, pad_high {:?} and dilation {:?}, expected one number each for 1 to {AXES} axes",
                self.stride, self.pad_low, self.pad_high, self.dilation
            )));
        }
        for (what, list) in ["stride", "pad_low", "pad_high", "dilation"].iter().zip(lists) {
            let least = u64::from(!what.starts_with("pad"));
            if list.iter().any(|&n| n < least || n > MOST) {
                return Err(Error::bad_graph(format!(
                    "{name}: {what} is {list:?}, expected {least} to {MOST} on each axis"
                )));
            }
        }
        Ok(())
    }

    /// Elements from the first tap of `axis` to the last, both counted. `check` came before.
    pub(super) fn reach(&self, name: &str, axis: usize, kernel: u64) -> Result<u64> {
        if kernel == 0 || kernel > MOST {
            return Err(Error::bad_graph(format!(
                "{name}: the kernel of spatial axis {axis} is {kernel}, expected 1 to {MOST}"
            )));
        }
        Ok(self.dilation[axis] * (kernel - 1) + 1)
    }

    /// Positions along `axis`.
    ///
    /// # Errors
    /// As [`slide`], with the axis.
    pub(super) fn output(&self, name: &str, axis: usize, input: &Dim, kernel: u64) -> Result<Dim> {
        let reach = self.reach(name, axis, kernel)?;
        let pad = self.pad_low[axis] + self.pad_high[axis];
        slide(input, pad, reach, self.stride[axis]).map_err(|e| {
            let what = format!("{name}: spatial axis {axis} is {input}; {}", e.what);
            Error { what, ..e }
        })
    }

    /// Positions along every axis.
    pub(crate) fn outputs(&self, name: &str, input: &[Dim], kernel: &[u64]) -> Result<Vec<Dim>> {
        self.check(name)?;
        if input.len() != self.axes() || kernel.len() != self.axes() {
            return Err(Error::bad_graph(format!(
                "{name}: the window has {} spatial axes, x has {} and the kernel has {}",
                self.axes(),
                input.len(),
                kernel.len()
            )));
        }
        (0..self.axes()).map(|i| self.output(name, i, &input[i], kernel[i])).collect()
    }
}

/// Which input element lies under a tap: a window over static sizes, taken as three axes.
pub(crate) struct Grid {
    input: [u64; AXES],
    kernel: [u64; AXES],
    output: [u64; AXES],
    stride: [u64; AXES],
    low: [u64; AXES],
    dilation: [u64; AXES],
}

impl Grid {
    /// The grid of sizes that a type rule accepted; missing axes are 1.
    pub(crate) fn new(window: &Window, input: &[u64], kernel: &[u64], output: &[u64]) -> Grid {
        let three = |list: &[u64], fill: u64| {
            let mut out = [fill; AXES];
            let skip = AXES.saturating_sub(list.len());
            for (o, n) in out.iter_mut().skip(skip).zip(list) {
                *o = *n;
            }
            out
        };
        Grid {
            input: three(input, 1),
            kernel: three(kernel, 1),
            output: three(output, 1),
            stride: three(&window.stride, 1),
            low: three(&window.pad_low, 0),
            dilation: three(&window.dilation, 1),
        }
    }

    /// Number of positions.
    pub(crate) fn positions(&self) -> usize {
        self.output.iter().product::<u64>() as usize
    }

    /// The input element under every tap of position `at`, taps row-major; `None` in the padding.
    pub(crate) fn sources(&self, at: usize, out: &mut Vec<Option<usize>>) {
        out.clear();
        let [_, h, w] = self.output;
        let at = at as u64;
        let at = [at / (h * w), at / w % h, at % w];
        let source = |axis: usize, tap: u64| {
            let i = (at[axis] * self.stride[axis] + tap * self.dilation[axis])
                .checked_sub(self.low[axis])?;
            (i < self.input[axis]).then_some(i)
        };
        for a in 0..self.kernel[0] {
            for b in 0..self.kernel[1] {
                for c in 0..self.kernel[2] {
                    out.push(
                        source(0, a).zip(source(1, b)).zip(source(2, c)).map(|((z, y), x)| {
                            ((z * self.input[1] + y) * self.input[2] + x) as usize
                        }),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn positions_on_numbers_and_on_symbols_agree() {
        for (n, k, s, p, d) in [
            (10, 3, 1, 2, 1),
            (7, 2, 2, 0, 1),
            (9, 3, 2, 2, 1),
            (16, 3, 4, 4, 2),
            (5, 1, 1, 0, 9),
            (10, 3, 1, 0, 1),
            (9, 4, 2, 1, 2),
            (12, 7, 3, 0, 1),
        ] {
            let w = Window::new(1).stride(&[s]).pad(&[p], &[0]).dilation(&[d]);
            let fixed = w.output("conv", 0, &Dim::from(n), k).unwrap();
            let symbolic = w.output("conv", 0, &Dim::symbol("N"), k).unwrap();
            let bound = symbolic.bind(&[("N".to_string(), n)].into()).unwrap();
            assert_eq!(fixed, bound, "{symbolic}");
        }
    }

    #[test]
    fn what_cannot_slide_is_an_error() {
        let say = |w: &Window, n: Dim, k| w.outputs("pool", &[n], &[k]).unwrap_err().to_string();
        let (w, n) = (Window::new(1), || Dim::from(4u64));
        assert_eq!(
            say(&w.clone().stride(&[0]), n(), 2),
            "pool: stride is [0], expected 1 to 2147483648 on each axis"
        );
        assert_eq!(
            say(&w.clone().dilation(&[0]), n(), 2),
            "pool: dilation is [0], expected 1 to 2147483648 on each axis"
        );
        assert_eq!(
            say(&w.clone().pad(&[u64::MAX], &[0]), n(), 2),
            "pool: pad_low is [18446744073709551615], expected 0 to 2147483648 on each axis"
        );
        assert_eq!(
            say(&w, n(), 0),
            "pool: the kernel of spatial axis 0 is 0, expected 1 to 2147483648"
        );
        assert_eq!(
            say(&w.clone().pad(&[1], &[0]), n(), 6),
            "pool: spatial axis 0 is 4; a window of 6 elements does not fit, with 1 of padding"
        );
        assert_eq!(
            say(&Window { stride: vec![1, 1], ..Window::new(1) }, n(), 2),
            "pool: stride [1, 1], pad_low [0], pad_high [0] and dilation [1], expected one number each for 1 to 3 axes"
        );
    }
}
