//! Resizing with the bytes that Pillow gives up to version 12: along rows first, then along columns, with bytes
//! between and weights of 22 fractional bits. (Pillow 13 goes along columns first for some sizes.)

use super::{Image, LARGEST, check_size};
use crate::error::{Error, Result};
use crate::math;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Fractional bits of a weight: 32, less those of a byte, less two for sums above and below a byte.
const BITS: u32 = 32 - 8 - 2;

/// How a pixel is made of its neighbours. A kernel widens where it shrinks an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The pixel that lies under the middle of the new one.
    Nearest,
    /// A triangle of radius 1.
    Bilinear,
    /// Keys' cubic kernel with a = -0.5, radius 2 (IEEE ASSP 29, 1981).
    Bicubic,
}

impl Filter {
    /// Pixels to each side that have a weight.
    fn radius(self) -> f64 {
        match self {
            Filter::Nearest => 0.5,
            Filter::Bilinear => 1.0,
            Filter::Bicubic => 2.0,
        }
    }

    /// The kernel at a distance, in Pillow's order of operations.
    fn weight(self, x: f64) -> f64 {
        const A: f64 = -0.5;
        let x = x.abs();
        match self {
            Filter::Nearest => 1.0,
            Filter::Bilinear => (1.0 - x).max(0.0),
            Filter::Bicubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            Filter::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
            Filter::Bicubic => 0.0,
        }
    }
}

/// What each pixel of an edge is made of: the first neighbour, and fixed-point weights from it on.
struct Taps {
    first: Vec<(usize, usize)>,
    weights: Vec<i32>,
}

impl Taps {
    /// Of an edge of `from` pixels that becomes `to`; both are 1 or more.
    fn of(from: u32, to: u32, filter: Filter) -> Self {
        let scale = f64::from(from) / f64::from(to);
        let stretch = scale.max(1.0);
        let support = filter.radius() * stretch;
        let mut taps = Taps { first: Vec::with_capacity(to as usize), weights: Vec::new() };
        let mut exact = Vec::new();
        for i in 0..to {
            let middle = (f64::from(i) + 0.5) * scale;
            // Casts cut toward zero and saturate: before the first pixel is the first.
            let low = (middle - support + 0.5) as u32;
            let high = ((middle + support + 0.5) as u32).min(from);
            exact.clear();
            let step = 1.0 / stretch;
            let at = |j: u32| filter.weight((f64::from(j) - middle + 0.5) * step);
            exact.extend((low..high).map(at));
            let sum: f64 = exact.iter().sum();
            taps.first.push((low as usize, taps.weights.len()));
            let fixed = |w: &f64| {
                let w = if sum == 0.0 { *w } else { w / sum } * f64::from(1u32 << BITS);
                (if w < 0.0 { w - 0.5 } else { w + 0.5 }) as i32
            };
            taps.weights.extend(exact.iter().map(fixed));
        }
        taps
    }

    /// The first neighbour and the weights of each pixel.
    fn each(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let ends = self.first.iter().skip(1).map(|f| f.1).chain([self.weights.len()]);
        self.first.iter().zip(ends).map(|(&(low, start), end)| (low, &self.weights[start..end]))
    }
}

/// A sum of bytes times weights, from half a step on, as a byte.
fn byte(sum: i32) -> u8 {
    // Within 0 and 255.
    (sum >> BITS).clamp(0, 255) as u8
}

const HALF: i32 = 1 << (BITS - 1);

/// The image with `width` by `height` pixels.
///
/// # Errors
/// `BadFile` for a size without pixels, and for one that is too large, also where only the rows are resized.
pub fn resized(image: &Image, width: u32, height: u32, filter: Filter) -> Result<Image> {
    check_size(width, height)?;
    if (width, height) == (image.width(), image.height()) {
        return Ok(image.clone());
    }
    if filter == Filter::Nearest {
        return nearest(image, width, height);
    }
    let between = u64::from(width) * u64::from(image.height());
    if between > LARGEST {
        let what = format!(
            "an image of {} x {} pixels would have {between} while it is resized",
            image.width(),
            image.height()
        );
        return Err(Error::bad_file(what).hint("give an image that is less long and thin"));
    }
    let rows = match width == image.width() {
        true => image.pixels().to_vec(),
        false => along(image, width, filter),
    };
    let pixels = match height == image.height() {
        true => rows,
        false => down(&rows, width, (image.height(), height), filter),
    };
    Image::new(width, height, pixels)
}

/// Every row with `width` pixels.
fn along(image: &Image, width: u32, filter: Filter) -> Vec<u8> {
    let taps = Taps::of(image.width(), width, filter);
    let mut out = Vec::with_capacity(width as usize * image.height() as usize * 3);
    for row in image.pixels().chunks_exact(image.width() as usize * 3) {
        let (row, _) = row.as_chunks::<3>();
        for (low, weights) in taps.each() {
            let mut sums = [HALF; 3];
            for (pixel, w) in row[low..].iter().zip(weights) {
                for (sum, &c) in sums.iter_mut().zip(pixel) {
                    *sum += i32::from(c) * w;
                }
            }
            out.extend(sums.map(byte));
        }
    }
    out
}

/// Rows of `width` pixels, `from` of them, as `to`.
fn down(rows: &[u8], width: u32, (from, to): (u32, u32), filter: Filter) -> Vec<u8> {
    let bytes = width as usize * 3;
    let mut out = Vec::with_capacity(bytes * to as usize);
    let mut sums = vec![HALF; bytes];
    for (low, weights) in Taps::of(from, to, filter).each() {
        sums.fill(HALF);
        for (row, w) in rows[low * bytes..].chunks_exact(bytes).zip(weights) {
            for (sum, &c) in sums.iter_mut().zip(row) {
                *sum += i32::from(c) * w;
            }
        }
        out.extend(sums.iter().map(|&sum| byte(sum)));
    }
    out
}

/// The pixel under the middle of each new one.
fn nearest(image: &Image, width: u32, height: u32) -> Result<Image> {
    let (all, _) = image.pixels().as_chunks::<3>();
    // Pillow adds the step up from pixel to pixel, and so does this: products round otherwise.
    let places = |from: u32, to: u32| {
        let step = f64::from(from) / f64::from(to);
        let mut at = step * 0.5;
        let next = move |_| {
            let here = (math::floor(at) as usize).min(from as usize - 1);
            at += step;
            here
        };
        (0..to).map(next).collect::<Vec<usize>>()
    };
    let columns = places(image.width(), width);
    let mut pixels = Vec::with_capacity(width as usize * height as usize * 3);
    for row in places(image.height(), height) {
        let row = &all[row * image.width() as usize..];
        pixels.extend(columns.iter().flat_map(|&x| row[x]));
    }
    Image::new(width, height, pixels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_colour_stays_that_colour() {
        for filter in [Filter::Nearest, Filter::Bilinear, Filter::Bicubic] {
            for (from, to) in [((1, 1), (7, 5)), ((31, 2), (3, 9)), ((3, 200), (5, 1))] {
                let pixels = [9, 255, 0].repeat(from.0 as usize * from.1 as usize);
                let image = Image::new(from.0, from.1, pixels).unwrap();
                let got = resized(&image, to.0, to.1, filter).unwrap();
                assert_eq!((got.width(), got.height()), to);
                assert!(got.pixels().chunks(3).all(|p| p == [9, 255, 0]), "{filter:?} {from:?}");
            }
        }
    }

    #[test]
    fn sizes_that_cost_too_much_are_errors() {
        let image = Image::new(1, 100_000, vec![0; 300_000]).unwrap();
        assert!(resized(&image, 2_000, 1, Filter::Bicubic).is_err());
        assert!(resized(&image, 2_000, 1, Filter::Nearest).is_ok());
        assert!(resized(&image, 0, 1, Filter::Bicubic).is_err());
        assert!(resized(&image, u32::MAX, u32::MAX, Filter::Nearest).is_err());
    }
}
