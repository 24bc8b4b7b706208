//! From a picture to the numbers that a model of images reads: sizes, and what its
//! `preprocessor_config.json` asks for. Files are decoded by the caller.
//!
//! Resizing gives the bytes of Pillow, with which the published models were trained and measured.

mod fit;
mod processor;
mod resize;
mod sam;

pub use fit::SquareFit;
pub use processor::{ImageProcessor, Pixels, TargetSize};
pub use resize::{Filter, resized};
pub use sam::SamProcessor;

use crate::error::{Error, Result};
use alloc::format;
use alloc::vec::Vec;

/// Most pixels of an image: 100 million.
pub const LARGEST: u64 = 100_000_000;
/// Most pixels along an edge. It bounds the memory for the weights of a resized edge.
pub const LONGEST: u32 = 1 << 20;

/// An image: red, green and blue bytes of each pixel, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

/// Fails for an image without pixels, and for more than are read.
pub(crate) fn check_size(width: u32, height: u32) -> Result<()> {
    let all = u64::from(width) * u64::from(height);
    if all == 0 {
        return Err(Error::bad_file(format!("an image of {width} x {height} pixels has none")));
    }
    if all > LARGEST || width.max(height) > LONGEST {
        let what = format!("an image of {width} x {height} pixels is too large");
        return Err(Error::bad_file(what).hint(format!(
            "at most {LARGEST} pixels are read, and {LONGEST} along an edge: give a smaller image"
        )));
    }
    Ok(())
}

impl Image {
    /// An image of red, green and blue bytes.
    ///
    /// # Errors
    /// `BadFile` for an image that has no pixels or is too large, and for another number of bytes.
    pub fn new(width: u32, height: u32, pixels: Vec<u8>) -> Result<Self> {
        check_size(width, height)?;
        let bytes = u64::from(width) * u64::from(height) * 3;
        if pixels.len() as u64 != bytes {
            let what = format!("{} bytes for {width} x {height} pixels", pixels.len());
            return Err(Error::bad_file(what).hint(format!("expected {bytes}: 3 for each pixel")));
        }
        Ok(Image { width, height, pixels })
    }

    /// The same of grey bytes: each is red, green and blue.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_grey(width: u32, height: u32, pixels: &[u8]) -> Result<Self> {
        Self::new(width, height, pixels.iter().flat_map(|&grey| [grey; 3]).collect())
    }

    /// The same of red, green, blue and opacity, over white, as transformers 5 has it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_rgba(width: u32, height: u32, pixels: &[u8]) -> Result<Self> {
        let (all, rest) = pixels.as_chunks::<4>();
        if !rest.is_empty() {
            let what = format!("{} bytes are not 4 for each pixel", pixels.len());
            return Err(Error::bad_file(what));
        }
        let over_white = |&[r, g, b, a]: &[u8; 4]| [r, g, b].map(|c| blended(c, a));
        Self::new(width, height, all.iter().flat_map(over_white).collect())
    }

    /// Pixels of a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Red, green and blue of each pixel, row by row.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }
}

/// A colour over white: `(c a + 255 (255 - a)) / 255` to the nearest, in Pillow's integers, which keep six
/// more bits and divide by shifts.
fn blended(c: u8, a: u8) -> u8 {
    let (c, a) = (u32::from(c), u32::from(a));
    let sum = ((c * a + 255 * (255 - a)) << 6) + (0x80 << 6);
    // At most 255: the sum is at most 255 * 255 * 64 and half a step.
    ((((sum >> 8) + sum) >> 8) >> 6) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use alloc::vec;

    #[test]
    fn sizes_and_bytes_that_do_not_fit_are_errors() {
        for (width, height, bytes) in [(0, 4, 0), (4, 0, 0), (2, 2, 11), (2, 2, 13)] {
            let e = Image::new(width, height, vec![0; bytes]).unwrap_err();
            assert_eq!(e.code, Code::BadFile, "{e}");
        }
        for (width, height) in [(u32::MAX, u32::MAX), (10_001, 10_000), (LONGEST + 1, 1)] {
            let e = Image::new(width, height, Vec::new()).unwrap_err();
            assert!(e.what.contains("too large"), "{e}");
        }
        assert!(Image::from_rgba(1, 1, &[0; 5]).is_err());
    }

    #[test]
    fn opacity_blends_with_white() {
        let all = |a: u8| (0..=255).map(move |c| (c, blended(c, a)));
        assert!(all(255).all(|(c, y)| c == y) && all(0).all(|(_, y)| y == 255));
        for a in 0..=255u8 {
            for (c, y) in all(a) {
                let exact = (f64::from(c) * f64::from(a) + 255.0 * f64::from(255 - a)) / 255.0;
                assert!((f64::from(y) - exact).abs() <= 0.51, "{c} {a}: {y}, {exact}");
            }
        }
    }
}
