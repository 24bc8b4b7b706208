//! Where an image's pixels are in what the model sees, and back: the image is made as large as fits, and what is left
//! at the bottom and the right is padding.

use super::LARGEST;
use crate::error::{Error, Result};
use alloc::format;
use alloc::vec::Vec;

/// Most pixels along an edge of what a model sees.
const EDGE_MOST: u32 = 1 << 13;

/// An image that was fitted into a model's square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SquareFit {
    /// Width and height of the image, in pixels.
    pub image: [u32; 2],
    /// Pixels along the square's edge.
    pub edge: u32,
    /// Width and height of the image in the square, from its top left corner.
    pub fitted: [u32; 2],
    /// Whether the image fills the square, whatever its proportions.
    stretched: bool,
}

impl SquareFit {
    /// An image of that width and height in a square of `edge` pixels: its longer side is the edge.
    ///
    /// # Errors
    /// `BadFile` for an image without pixels or with more than 100 million, for one so thin that nothing of it is
    /// left, and for a square without pixels or of more than 8,192 along its edge.
    pub fn new(image: [u32; 2], edge: u32) -> Result<Self> {
        Self::check(image, edge)?;
        let [width, height] = image;
        let scale = f64::from(edge) / f64::from(width.max(height));
        // To the nearest: neither is more than the edge.
        let fitted = image.map(|n| (f64::from(n) * scale + 0.5) as u32);
        if fitted.contains(&0) {
            let what = format!("an image of {width} x {height} pixels is too thin for this model");
            return Err(Error::bad_file(what)
                .hint(format!("nothing of it is left in {edge} x {edge} pixels: cut it")));
        }
        Ok(SquareFit { image, edge, fitted, stretched: false })
    }

    /// An image of that width and height that fills a square of `edge` pixels, whatever its proportions.
    ///
    /// # Errors
    /// As [`new`](Self::new), but for thin images.
    pub fn stretched(image: [u32; 2], edge: u32) -> Result<Self> {
        Self::check(image, edge)?;
        Ok(SquareFit { image, edge, fitted: [edge; 2], stretched: true })
    }

    fn check([width, height]: [u32; 2], edge: u32) -> Result<()> {
        if u64::from(width) * u64::from(height) > LARGEST || width.min(height) == 0 {
            let what = format!("an image of {width} x {height} pixels is not read");
            return Err(Error::bad_file(what).hint("give one of 1 to 100 million pixels"));
        }
        if edge == 0 || edge > EDGE_MOST {
            let what = format!("a model that sees {edge} x {edge} pixels is not read");
            return Err(Error::bad_file(what).hint(format!("at most {EDGE_MOST} are, 1 at least")));
        }
        Ok(())
    }

    /// The place in the square of a point `[x, y]` of the image, both in pixels: what `input_points` takes.
    pub fn place(&self, point: [f64; 2]) -> [f32; 2] {
        let along =
            |i: usize| (point[i] * (f64::from(self.fitted[i]) / f64::from(self.image[i]))) as f32;
        [along(0), along(1)]
    }

    /// Which pixels of the image a mask covers, row by row. `mask` is what the model made: `n x n` logits of the whole
    /// square. They are made as fine as the square, cut to the image and made as large as the image, linearly
    /// both times; of an image that fills the square they are made as large as the image at once, as the makers of
    /// those models do. What is above 0 is covered. Works row by row: beside the answer there are the square and
    /// one row.
    ///
    /// # Errors
    /// `BadFile` for another number of logits than `n n`, or none.
    pub fn covered(&self, mask: &[f32], n: u32) -> Result<Vec<bool>> {
        if n == 0 || mask.len() as u64 != u64::from(n) * u64::from(n) {
            let what = format!("{} numbers are no mask of {n} x {n}", mask.len());
            return Err(Error::bad_file(what).hint("give one mask as the model made it"));
        }
        let [w, h] = self.image.map(|n| n as usize);
        if self.stretched {
            let (across, down) = (steps(n, self.image[0], w), steps(n, self.image[1], h));
            let grid = (mask, n as usize);
            return Ok(down.iter().flat_map(|row| line(grid, row, &across)).map(covers).collect());
        }
        let [width, height] = self.fitted.map(|n| n as usize);
        // The cut square, then the image out of it.
        let mut fine = Vec::with_capacity(width * height);
        let grid = (mask, n as usize);
        let (across, down) = (steps(n, self.edge, width), steps(n, self.edge, height));
        for row in &down {
            fine.extend(line(grid, row, &across));
        }
        let (across, down) =
            (steps(self.fitted[0], self.image[0], w), steps(self.fitted[1], self.image[1], h));
        let mut out = Vec::with_capacity(w * h);
        for row in &down {
            out.extend(line((&fine, width), row, &across).map(covers));
        }
        Ok(out)
    }
}

/// Whether a logit says that its pixel is covered.
fn covers(x: f32) -> bool {
    x > 0.0
}

/// Two neighbours and what the second counts for.
type Step = ([usize; 2], f32);

/// Where the first `count` of `to` pixels lie among `from` pixels, by their middles.
fn steps(from: u32, to: u32, count: usize) -> Vec<Step> {
    let scale = from as f32 / to as f32;
    let step = |i: usize| {
        let at = (scale * (i as f32 + 0.5) - 0.5).max(0.0);
        let first = (at as usize).min(from as usize - 1);
        ([first, (first + 1).min(from as usize - 1)], at - first as f32)
    };
    (0..count).map(step).collect()
}

/// A row of numbers between those of `grid`, whose rows are `width` long.
fn line<'a>(
    (grid, width): (&'a [f32], usize),
    &([above, below], down): &'a Step,
    across: &'a [Step],
) -> impl Iterator<Item = f32> + 'a {
    let at = move |row: usize, [a, b]: [usize; 2], part: f32| {
        (1.0 - part) * grid[row * width + a] + part * grid[row * width + b]
    };
    across
        .iter()
        .map(move |&(two, part)| (1.0 - down) * at(above, two, part) + down * at(below, two, part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    /// Logits of an 8 by 8 mask, none of them near 0 after either step.
    fn mask() -> Vec<f32> {
        (0..64).map(|i| ((i * 37 % 23) - 11) as f32 / 4.0 + 0.1).collect()
    }

    #[test]
    fn masks_cover_what_torch_says() {
        // torch 2.15, `F.interpolate(mode="bilinear")` to 32 x 32, cut, and to the image: width, height, then eight
        // pixels a byte from its lowest bit on.
        for (image, fitted, expected) in [
            (
                [37, 23],
                [32, 20],
                "c0e11fe00038fc031c00873fc00370e00778000ffce00ffe810fffc01ff0f11ff8033efe037fe0c33fe0e77\
                 ff007fcfc0ffe809fffc00ff0f11ff8013efe033fc0c73fc0837ff00778f80ffe000fffc10ff0e01ff8c11ff\
                 c033efe833fc0c33fe0017cf8073cc00fff8007",
            ),
            ([50, 1], [32, 1], "000ffc0f800f00"),
            (
                [11, 40],
                [9, 32],
                "c0010e7080039e7ffce31f7ff8c39f7ffef39f7ff8c31f7ef0831f78c0030e108000873ffef10f7ff8c31ffef0073ff8c10f7ef0810f7c",
            ),
        ] {
            let fit = SquareFit::new(image, 32).unwrap();
            assert_eq!(fit.fitted, fitted);
            let covered = fit.covered(&mask(), 8).unwrap();
            assert_eq!(covered.len() as u32, image[0] * image[1]);
            let byte = |bits: &[bool]| (0..).zip(bits).map(|(i, &b)| u8::from(b) << i).sum::<u8>();
            let got: Vec<_> = covered.chunks(8).map(|bits| format!("{:02x}", byte(bits))).collect();
            assert_eq!(got.concat(), expected.replace(' ', ""), "{image:?}");
        }
    }

    #[test]
    fn points_go_where_their_pixels_went() {
        // 1800 x 1200 becomes 1024 x 683: the two axes do not shrink alike.
        let fit = SquareFit::new([1800, 1200], 1024).unwrap();
        assert_eq!(fit.fitted, [1024, 683]);
        assert_eq!(fit.place([900.0, 600.0]), [512.0, 341.5]);
        assert_eq!(SquareFit::new([64, 64], 64).unwrap().place([3.0, 5.5]), [3.0, 5.5]);
    }

    #[test]
    fn sizes_without_an_answer_are_errors() {
        for (image, edge) in [
            ([0, 5], 64),
            ([5, 0], 64),
            ([u32::MAX, u32::MAX], 64),
            ([100_000, 1], 64),
            ([5, 5], 0),
            ([5, 5], u32::MAX),
        ] {
            assert_eq!(
                SquareFit::new(image, edge).unwrap_err().code,
                Code::BadFile,
                "{image:?} {edge}"
            );
        }
        assert_eq!(SquareFit::stretched([0, 5], 64).unwrap_err().code, Code::BadFile);
        let fit = SquareFit::new([5, 5], 64).unwrap();
        for (count, n) in [(63, 8), (0, 0), (4, u32::MAX)] {
            assert_eq!(fit.covered(&mask()[..count], n).unwrap_err().code, Code::BadFile);
        }
    }
}
