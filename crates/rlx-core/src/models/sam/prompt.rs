//! What a user shows of a thing, as the network takes it.

use super::label;
use crate::error::{Error, Result};
use crate::image::SquareFit;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Most points of a prompt.
const POINTS_MOST: usize = 1024;

/// Points and a box that show one thing of an image. Places are `[x, y]` in pixels of the image, from its top left
/// corner: the first pixel's middle is at 0.5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamPrompt {
    /// Points, and whether each is of the thing or beside it.
    pub points: Vec<([f64; 2], bool)>,
    /// A box around it: left, top, right, bottom.
    pub frame: Option<[f64; 4]>,
}

impl SamPrompt {
    /// Fails for a prompt that does not fit an image of that width and height.
    ///
    /// # Errors
    /// `Usage` for a prompt that shows nothing or has more than 1,024 points, for a place outside the image, and for
    /// a box whose right or bottom is not beyond its left or top.
    pub fn check(&self, image: [u32; 2]) -> Result<()> {
        if self.points.is_empty() && self.frame.is_none() {
            let what = "nothing is shown of the thing";
            return Err(Error::usage(what).hint("give a point of it, or a box around it"));
        }
        if self.points.len() > POINTS_MOST {
            let what = format!("{} points of one thing are too many", self.points.len());
            return Err(Error::usage(what).hint(format!("at most {POINTS_MOST} are read")));
        }
        let inside = |&[x, y]: &[f64; 2]| {
            (0.0..=f64::from(image[0])).contains(&x) && (0.0..=f64::from(image[1])).contains(&y)
        };
        let outside = |what: String| {
            Err(Error::usage(what).hint(format!("it has {} x {} pixels", image[0], image[1])))
        };
        if let Some((at, _)) = self.points.iter().find(|(at, _)| !inside(at)) {
            return outside(format!("the point {},{} is not in the image", at[0], at[1]));
        }
        let Some(frame) = self.frame else { return Ok(()) };
        let [left, top, right, bottom] = frame;
        let name = format!("the box {left},{top},{right},{bottom}");
        if !inside(&[left, top]) || !inside(&[right, bottom]) {
            return outside(format!("{name} is not in the image"));
        }
        if left >= right || top >= bottom {
            let what = format!("{name} has nothing in it");
            return Err(Error::usage(what).hint("give its left, top, right and bottom"));
        }
        Ok(())
    }

    /// Whether the prompt means one thing: a box, or more than one point. A point alone may mean a part or the whole,
    /// and the model then offers several masks.
    pub fn means_one(&self) -> bool {
        self.frame.is_some() || self.points.len() > 1
    }

    /// Places and labels of the prompt, as `input_points` and `input_labels` have them. With `closed` a point that is
    /// none follows a box too, as SAM 2 has it; without, it follows prompts that have no box.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn rows(&self, fit: &SquareFit, closed: bool) -> Result<(Vec<[f32; 2]>, Vec<i32>)> {
        self.check(fit.image)?;
        let kind = |of_it: bool| if of_it { label::OF_IT } else { label::BESIDE };
        let mut all: Vec<([f32; 2], i32)> =
            self.points.iter().map(|&(at, of_it)| (fit.place(at), kind(of_it))).collect();
        if let Some([left, top, right, bottom]) = self.frame {
            all.push((fit.place([left, top]), label::TOP_LEFT));
            all.push((fit.place([right, bottom]), label::BOTTOM_RIGHT));
        }
        if closed || self.frame.is_none() {
            all.push(([0.0; 2], label::NONE));
        }
        Ok(all.into_iter().unzip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use alloc::vec;

    #[test]
    fn prompts_become_rows_of_places_and_labels() {
        let fit = SquareFit::new([200, 100], 64).unwrap();
        let point = ([100.0, 50.0], true);
        let beside = ([0.0, 100.0], false);
        let alone = SamPrompt { points: vec![point], frame: None };
        assert_eq!(alone.rows(&fit, false).unwrap(), (vec![[32.0, 16.0], [0.0; 2]], vec![1, -1]));
        assert!(!alone.means_one());
        let all = SamPrompt { points: vec![point, beside], frame: Some([50.0, 25.0, 200.0, 75.0]) };
        let places = [[32.0, 16.0], [0.0, 32.0], [16.0, 8.0], [64.0, 24.0]];
        assert_eq!(all.rows(&fit, false).unwrap(), (places.to_vec(), vec![1, 0, 2, 3]));
        assert_eq!(all.rows(&fit, true).unwrap().1, [1, 0, 2, 3, -1]);
        assert!(all.means_one());
    }

    #[test]
    fn prompts_that_show_nothing_of_the_image_are_errors() {
        let points = |list: &[[f64; 2]]| SamPrompt {
            points: list.iter().map(|&at| (at, true)).collect(),
            frame: None,
        };
        let frame = |frame| SamPrompt { points: Vec::new(), frame: Some(frame) };
        for prompt in [
            SamPrompt::default(),
            points(&[[1.0, 1.0], [-0.5, 1.0]]),
            points(&[[1.0, 101.0]]),
            points(&[[f64::NAN, 1.0]]),
            points(&[[f64::INFINITY, 1.0]]),
            points(&[[1.0; 2]; 1025]),
            frame([5.0, 5.0, 5.0, 9.0]),
            frame([9.0, 5.0, 5.0, 9.0]),
            frame([0.0, 0.0, 201.0, 9.0]),
            frame([0.0, 0.0, f64::NAN, 9.0]),
        ] {
            let fit = SquareFit::new([200, 100], 64).unwrap();
            assert_eq!(prompt.rows(&fit, false).unwrap_err().code, Code::Usage, "{prompt:?}");
        }
    }
}
