//! Logits of a block to tokens and their probabilities: the sampler over bytes.

use crate::error::{Error, Result};
use crate::ops::Predict;
use crate::reference::view::word_bytes;
use crate::reference::{Run, View, arity};
use crate::sample::{canvas, params, predict};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Predict {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [logits, params, onto] = operands else { return Err(arity("predict")) };
        let words = params.words();
        let params = words
            .first_chunk::<{ params::WORDS }>()
            .ok_or_else(|| Error::internal("predict: params has not 32 words"))?;
        let [rows, vocab] = logits.dims()?;
        let plan = onto.words();
        let logits: Vec<f32> = logits.f64s()?.into_iter().map(|v| v as f32).collect();
        let (mut ids, mut confidence) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for i in 0..rows {
            let at = [plan[canvas::START].wrapping_add(i as u32), plan[canvas::PASS]];
            let row = &logits[i * vocab..(i + 1) * vocab];
            let (id, share) = predict(row, params, canvas::never(&plan, i), at);
            ids.push(id);
            confidence.push(share);
        }
        Ok(vec![word_bytes(&ids), word_bytes(&confidence)])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Predict, Unmask};
    use crate::reference::testing::*;
    use crate::sample::{SampleParams, canvas};

    const FILLING: canvas::Filling =
        canvas::Filling { steps: None, threshold: 0.9, editing: None, post: 0 };

    #[test]
    fn each_row_is_a_position_of_the_canvas_and_the_likeliest_is_placed() {
        let onto = state_words(&FILLING.canvas(2, 4, &[], 2));
        let params = state_words(&SampleParams::default().to_words());
        let logits = f32s(&[2, 3], &[1.0, 2.0, 9.0, 3.0, 0.0, 0.0]);
        let y = run(Predict, &[&logits, &params, &onto]);
        assert_eq!(y[0].u32s(), [1, 0], "the mask is no token");
        let y = run(Unmask, &[&y[0], &y[1], &onto]);
        assert_eq!(y[0].u32s()[canvas::IDS..], [2, 0]);
    }

    #[test]
    fn operands_that_do_not_fit_are_refused() {
        let onto = state_words(&FILLING.canvas(2, 4, &[], 2));
        let params = state_words(&SampleParams::default().to_words());
        let e = fails(Predict, &[&f32s(&[1, 3], &[0.0; 3]), &params, &onto]);
        assert_eq!(
            e.what,
            "predict: logits is tensor<1x3xf32>, expected floats of the canvas's 2 positions"
        );
        let e = fails(Predict, &[&f32s(&[2, 3], &[0.0; 6]), &params, &state_words(&[0; 16])]);
        assert_eq!(
            e.what,
            "predict: canvas is state<16xu32>, expected a state of u32, 16 and one for each position"
        );
        let e = fails(Unmask, &[&u32s(&[3], &[0; 3]), &u32s(&[2], &[0; 2]), &onto]);
        assert!(e.what.starts_with("unmask: ids is "), "{}", e.what);
    }
}
