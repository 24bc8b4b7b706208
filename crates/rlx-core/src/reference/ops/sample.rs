//! Logits to a token: the sampler over bytes.

use crate::error::Result;
use crate::ops::Sample;
use crate::reference::view::word_bytes;
use crate::reference::{Run, View, arity};
use crate::sample::{Scratch, control, sample};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Sample {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [logits, params, counts, ctl] = operands else { return Err(arity("sample")) };
        let params = params.words();
        let mut counts = counts.words();
        let mut block = ctl.control()?;
        let was_done = block.done != control::RUNNING;
        let logits: Vec<f32> = logits.f64s()?.into_iter().map(|v| v as f32).collect();
        sample(&logits, &params, &mut counts, &mut block, &mut Scratch::default());
        // A block that is done keeps its bytes, the reserved words too.
        let next = if was_done { ctl.bytes.to_vec() } else { word_bytes(&block.to_words()) };
        Ok(vec![word_bytes(&counts), next])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Sample;
    use crate::reference::testing::*;
    use crate::sample::{SampleParams, control as at};
    use crate::types::{DType, Scalar};

    /// With room for the mask of four tokens behind them.
    fn params_words(params: &SampleParams) -> Value {
        let mut words = params.to_words().to_vec();
        words.push(0);
        state_words(&words)
    }

    #[test]
    fn the_token_is_counted_and_the_control_block_advances() {
        let params = SampleParams { repetition_penalty: 1.5, ..SampleParams::default() };
        let logits = f32s(&[1, 4], &[0.0, 3.0, 5.0, 1.0]);
        let counts = state_words(&[0, 0, 0, 0]);
        let y = run(Sample, &[&logits, &params_words(&params), &counts, &control(4, 3, 0)]);
        assert_eq!(y[0].u32s(), [0, 0, 1, 0]);
        let ctl = y[1].u32s();
        assert_eq!((ctl[at::TOKEN], ctl[at::PAST], ctl[at::LEN], ctl[at::STEP]), (2, 7, 1, 1));
    }

    #[test]
    fn a_control_block_that_is_done_changes_nothing() {
        let params = SampleParams { repetition_penalty: 1.5, ..SampleParams::default() };
        let logits = f32s(&[1, 4], &[0.0, 3.0, 5.0, 1.0]);
        let (counts, ctl) = (state_words(&[1, 2, 3, 4]), control(4, 1, 1));
        let y = run(Sample, &[&logits, &params_words(&params), &counts, &ctl]);
        assert_eq!((&y[0].bytes, &y[1].bytes), (&counts.bytes, &ctl.bytes));
    }

    #[test]
    fn logits_of_any_float_type_choose_the_same_token() {
        let params = params_words(&SampleParams::default());
        let logits = [0.0, 3.0, 5.0, 1.0];
        let exact = run(
            Sample,
            &[&f32s(&[1, 4], &logits), &params, &state_words(&[0; 4]), &control(4, 3, 0)],
        );
        for dtype in [DType::F16, DType::BF16, DType::Scalar(Scalar::F64)] {
            let logits = floats(dtype, &[1, 4], &logits);
            let y = run(Sample, &[&logits, &params, &state_words(&[0; 4]), &control(4, 3, 0)]);
            assert_eq!(y, exact);
        }
    }
}
