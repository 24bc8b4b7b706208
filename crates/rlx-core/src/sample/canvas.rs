//! A canvas: the block that a model of block diffusion fills, and how, in words that live on the device.
//!
//! A pass runs the model over the block's tokens, masks among them, and [`unmask`] places some of its predictions. The
//! host writes a canvas when a block begins, and reads it behind each pass. Passes that are in flight behind the last
//! one change nothing of it, and leave in the caches what the finished block makes there.
//!
//! Where there are masks, a pass fixes every masked position whose prediction has more than the threshold's
//! probability; or, where these are fewer than the plan of the pass, the likeliest masked ones up to the plan. The
//! plan spreads a block over `steps` passes, the remainder first, and is 1 at least. With editing (LLaDA 2.1,
//! arXiv:2602.08676) tokens that were placed, not those of the prompt, are replaced where the prediction is another
//! and has more than its own threshold. That may be the mask again, until the block has had two passes for each of its
//! positions: from then on every pass leaves fewer masks. The block then ends with a pass without masks that edits
//! nothing, or after so many of these. Without editing it ends when no mask is left.

use super::predict::CERTAIN;
use crate::error::{Error, Result};
use alloc::format;
use alloc::vec::Vec;

/// Word index: the id of a position without a token.
pub const MASK: usize = 0;
/// Word index: how many of the block's first positions are the prompt's.
pub const PROMPT: usize = 1;
/// Word index: passes that a block is spread over.
pub const STEPS: usize = 2;
/// Word index: the threshold of masked positions, in units of 2^-31.
pub const THRESHOLD: usize = 3;
/// Word index: the threshold of placed tokens, in units of 2^-31; [`NO_EDITING`] is off.
pub const EDITING: usize = 4;
/// Word index: most passes without masks.
pub const POST: usize = 5;
/// Word index: passes so far.
pub const PASS: usize = 6;
/// Word index: passes so far that began without masks.
pub const AFTER: usize = 7;
/// Word index: 1 once the block is finished.
pub const FINISHED: usize = 8;
/// Word index: masks that the last pass replaced.
pub const FIXED: usize = 9;
/// Word index: placed tokens that the last pass replaced.
pub const EDITED: usize = 10;
/// Word index: the position of the block's first token.
pub const START: usize = 11;
/// Word index: positions that [`STEPS`] spreads.
pub const SPREAD: usize = 12;
/// Word index: the first token.
pub const IDS: usize = 16;

const _: () = assert!(IDS as u64 == crate::ops::CANVAS_WORDS);

/// [`EDITING`] where placed tokens stay.
pub const NO_EDITING: u32 = u32::MAX;

/// Most passes behind a block's last mask that may be asked for.
const POST_MOST: u32 = 1 << 10;

/// How blocks are filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filling {
    /// Passes that a block is spread over, at least 1; `None`: as many as it has positions, so that a pass fixes one
    /// token, or all above the threshold.
    pub steps: Option<u32>,
    /// A pass fixes every position whose token has more than this probability; 0 to 1.
    pub threshold: f32,
    /// Placed tokens are replaced by others with more than this probability; 0 to 1. `None`: they stay.
    pub editing: Option<f32>,
    /// Most passes behind a block's last mask, which edit only.
    pub post: u32,
}

impl Filling {
    /// Checks every range.
    ///
    /// # Errors
    /// `Usage` that names the option, its value and its range.
    pub fn validate(&self) -> Result<()> {
        let share = |name: &str, value: f32| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(Error::usage(format!("{name} {value} is out of range: 0 to 1"))),
        };
        share("threshold", self.threshold)?;
        share("editing_threshold", self.editing.unwrap_or(0.0))?;
        if self.steps == Some(0) {
            return Err(Error::usage("steps is 0, expected 1 or more"));
        }
        if self.post > POST_MOST {
            let what = format!("max_post_steps {} is out of range: 0 to {POST_MOST}", self.post);
            return Err(Error::usage(what));
        }
        Ok(())
    }

    /// A canvas of `block` positions from `start` on, whose first tokens are `prompt` and whose others are `mask`.
    pub fn canvas(&self, mask: u32, start: u32, prompt: &[u32], block: usize) -> Vec<u32> {
        let share = |p: f32| (f64::from(p) * f64::from(CERTAIN) + 0.5) as u32;
        let mut words = alloc::vec![0; IDS];
        words[MASK] = mask;
        words[PROMPT] = prompt.len() as u32;
        words[STEPS] = self.steps.unwrap_or(block as u32);
        words[THRESHOLD] = share(self.threshold);
        words[EDITING] = self.editing.map_or(NO_EDITING, share);
        words[POST] = self.post;
        words[START] = start;
        words[SPREAD] = block as u32;
        words.extend_from_slice(prompt);
        words.resize(IDS + block, mask);
        words
    }

    /// A canvas of a whole text in a block of `room` positions: `prompt`, so many masks behind it, over which passes
    /// are spread, and what no row sees. There are no edits of it: [`editing`](Self::editing) is `None`.
    pub fn whole(&self, mask: u32, prompt: &[u32], masks: usize, room: usize) -> Vec<u32> {
        let mut words = self.canvas(mask, 0, prompt, prompt.len() + masks);
        words[STEPS] = self.steps.unwrap_or(masks as u32);
        words[SPREAD] = masks as u32;
        // Where there is no mask nothing is placed.
        words.resize(IDS + room, u32::from(mask == 0));
        words
    }
}

/// The token that the prediction of position `i` must not be, if there is one: the mask, where it would not end.
pub fn never(canvas: &[u32], i: usize) -> Option<u32> {
    let tokens = canvas.get(IDS..)?;
    let is_late = canvas[PASS] as usize >= 2 * tokens.len();
    (is_late || tokens.get(i) == Some(&canvas[MASK])).then_some(canvas[MASK])
}

/// Places predictions on a canvas: `ids` are their tokens, `confidence` the probabilities in units of 2^-31, one for
/// each position.
pub fn unmask(ids: &[u32], confidence: &[u32], canvas: &mut [u32]) {
    let Some((plan, tokens)) = canvas.split_at_mut_checked(IDS) else { return };
    if plan[FINISHED] != 0 {
        return;
    }
    let mask = plan[MASK];
    let masked: Vec<bool> = tokens.iter().map(|&id| id == mask).collect();
    let above = |i: usize, threshold: u32| confidence[i] > threshold;
    let sure = (0..tokens.len()).filter(|&i| masked[i] && above(i, plan[THRESHOLD])).count();
    let planned = planned(plan) as usize;
    let (mut fixed, mut edited) = (0, 0);
    for i in 0..tokens.len() {
        let moves = if !masked[i] {
            let editable = i >= plan[PROMPT] as usize && plan[EDITING] != NO_EDITING;
            let edits = editable && ids[i] != tokens[i] && above(i, plan[EDITING]);
            edited += u32::from(edits);
            edits
        } else if sure >= planned {
            above(i, plan[THRESHOLD])
        } else {
            // Likelier masked positions, and as likely ones before it.
            let ahead = |j: usize| {
                masked[j]
                    && (confidence[j] > confidence[i] || (confidence[j] == confidence[i] && j < i))
            };
            (0..tokens.len()).filter(|&j| ahead(j)).count() < planned
        };
        if moves {
            tokens[i] = ids[i];
            fixed += u32::from(masked[i]);
        }
    }
    let had_masks = masked.contains(&true);
    plan[PASS] += 1;
    plan[AFTER] += u32::from(!had_masks);
    plan[FIXED] = fixed;
    plan[EDITED] = edited;
    let done = plan[AFTER] >= plan[POST] || (!had_masks && edited == 0);
    let ends = plan[EDITING] == NO_EDITING || done;
    plan[FINISHED] = u32::from(ends && !tokens.contains(&mask));
}

/// Positions that the next pass fixes at least.
fn planned(plan: &[u32]) -> u32 {
    let (spread, steps) = (plan[SPREAD], plan[STEPS].max(1));
    (spread / steps + u32::from(plan[PASS] < spread % steps)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Filling = Filling { steps: None, threshold: 0.5, editing: None, post: 0 };

    fn shares<const N: usize>(p: [f64; N]) -> [u32; N] {
        p.map(|p| (p * f64::from(CERTAIN)) as u32)
    }

    #[test]
    fn a_pass_fixes_what_is_above_the_threshold_or_the_likeliest_up_to_the_plan() {
        let mut canvas = PLAIN.canvas(9, 8, &[5], 4);
        unmask(&[1, 2, 3, 4], &shares([0.9, 0.6, 0.5, 0.7]), &mut canvas);
        assert_eq!(canvas[IDS..], [5, 2, 9, 4], "the prompt stays, and the threshold is exceeded");
        assert_eq!((canvas[FIXED], canvas[EDITED], canvas[PASS]), (2, 0, 1));
        assert_eq!(canvas[FINISHED], 0);
        unmask(&[1, 1, 7, 1], &shares([0.9, 0.9, 0.1, 0.9]), &mut canvas);
        assert_eq!(canvas[IDS..], [5, 2, 7, 4]);
        assert_eq!((canvas[FIXED], canvas[FINISHED]), (1, 1));
        let before = canvas.clone();
        unmask(&[0; 4], &shares([1.0; 4]), &mut canvas);
        assert_eq!(canvas, before, "a finished block stays");
    }

    #[test]
    fn the_plan_spreads_a_block_over_its_steps_the_remainder_first() {
        // 5 positions in 3 steps: 2, 2, 1. Ties go to the first.
        let mut canvas = Filling { steps: Some(3), ..PLAIN }.canvas(9, 0, &[], 5);
        let confidence = shares([0.1, 0.3, 0.2, 0.3, 0.3]);
        let fixed: Vec<u32> = (0..3)
            .map(|_| {
                unmask(&[0, 1, 2, 3, 4], &confidence, &mut canvas);
                canvas[FIXED]
            })
            .collect();
        assert_eq!(fixed, [2, 2, 1]);
        let mut canvas = Filling { steps: Some(3), ..PLAIN }.canvas(9, 0, &[], 5);
        unmask(&[0, 1, 2, 3, 4], &confidence, &mut canvas);
        assert_eq!(canvas[IDS..], [9, 1, 9, 3, 9]);
        // More steps than positions are one at a time.
        let mut canvas = Filling { steps: Some(50), ..PLAIN }.canvas(9, 0, &[], 5);
        (0..5).for_each(|_| unmask(&[0, 1, 2, 3, 4], &confidence, &mut canvas));
        assert_eq!((canvas[FINISHED], canvas[PASS]), (1, 5));
    }

    #[test]
    fn a_whole_text_has_its_masks_between_the_prompt_and_what_nobody_sees() {
        for mask in [9, 0] {
            let mut canvas = Filling { steps: Some(2), ..PLAIN }.whole(mask, &[5, 6], 3, 8);
            let rest = u32::from(mask == 0);
            assert_eq!(canvas[IDS..], [5, 6, mask, mask, mask, rest, rest, rest]);
            // 3 masks in 2 steps, whatever is predicted elsewhere.
            let confidence = shares([0.9, 0.9, 0.3, 0.4, 0.2, 0.9, 0.9, 0.9]);
            unmask(&[7; 8], &confidence, &mut canvas);
            assert_eq!(canvas[IDS..], [5, 6, 7, 7, mask, rest, rest, rest]);
            assert_eq!((canvas[FIXED], canvas[FINISHED]), (2, 0));
            unmask(&[8; 8], &confidence, &mut canvas);
            assert_eq!(canvas[IDS..], [5, 6, 7, 7, 8, rest, rest, rest]);
            assert_eq!((canvas[FIXED], canvas[FINISHED]), (1, 1));
        }
        assert_eq!(PLAIN.whole(9, &[5], 3, 8)[STEPS], 3, "a pass fixes one token");
    }

    #[test]
    fn editing_replaces_what_was_placed_and_ends_with_a_pass_that_edits_nothing() {
        let filling = Filling { editing: Some(0.4), post: 2, ..PLAIN };
        let mut canvas = filling.canvas(9, 0, &[5], 3);
        unmask(&[1, 2, 3], &shares([0.9, 0.9, 0.9]), &mut canvas);
        assert_eq!((&canvas[IDS..], canvas[FINISHED]), (&[5, 2, 3][..], 0));
        unmask(&[1, 7, 8], &shares([0.9, 0.6, 0.4]), &mut canvas);
        assert_eq!(canvas[IDS..], [5, 7, 3], "not the prompt, and the threshold is exceeded");
        assert_eq!((canvas[EDITED], canvas[FINISHED], canvas[AFTER]), (1, 0, 1));
        let mut again = canvas.clone();
        unmask(&[1, 7, 3], &shares([0.9; 3]), &mut canvas);
        assert_eq!((canvas[EDITED], canvas[FINISHED]), (0, 1));
        // The second pass without masks is the last one that is allowed.
        unmask(&[1, 6, 3], &shares([0.9; 3]), &mut again);
        assert_eq!((&again[IDS..], again[EDITED], again[FINISHED]), (&[5, 6, 3][..], 1, 1));
        let mut at_once = Filling { post: 0, ..filling }.canvas(9, 0, &[5], 3);
        unmask(&[1, 2, 3], &shares([0.9; 3]), &mut at_once);
        assert_eq!(at_once[FINISHED], 1);
    }

    #[test]
    fn a_placed_token_may_become_a_mask_again_until_the_block_is_late() {
        let filling = Filling { editing: Some(0.4), post: 1, ..PLAIN };
        let mut canvas = filling.canvas(9, 0, &[], 2);
        unmask(&[1, 2], &shares([0.9; 2]), &mut canvas);
        assert_eq!([never(&canvas, 0), never(&canvas, 1)], [None; 2]);
        unmask(&[1, 9], &shares([0.9; 2]), &mut canvas);
        assert_eq!((&canvas[IDS..], canvas[EDITED], canvas[FINISHED]), (&[1, 9][..], 1, 0));
        assert_eq!([never(&canvas, 0), never(&canvas, 1)], [None, Some(9)]);
        unmask(&[9, 5], &shares([0.9; 2]), &mut canvas);
        assert_eq!((&canvas[IDS..], canvas[FIXED], canvas[EDITED]), (&[9, 5][..], 1, 1));
        unmask(&[5, 9], &shares([0.9; 2]), &mut canvas);
        assert_eq!([never(&canvas, 0), never(&canvas, 1)], [Some(9); 2], "four passes of two");
    }

    #[test]
    fn options_out_of_range_are_named() {
        let message = |filling: Filling| filling.validate().unwrap_err().what;
        assert_eq!(
            message(Filling { threshold: 1.5, ..PLAIN }),
            "threshold 1.5 is out of range: 0 to 1"
        );
        assert_eq!(
            message(Filling { editing: Some(f32::NAN), ..PLAIN }),
            "editing_threshold NaN is out of range: 0 to 1"
        );
        assert_eq!(message(Filling { steps: Some(0), ..PLAIN }), "steps is 0, expected 1 or more");
        assert_eq!(
            message(Filling { post: 1025, ..PLAIN }),
            "max_post_steps 1025 is out of range: 0 to 1024"
        );
        assert_eq!(PLAIN.validate(), Ok(()));
    }
}
