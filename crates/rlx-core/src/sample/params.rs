//! Sampling parameters: what a caller asks for, and the 32 words a device reads. Behind these the device has a bit
//! for each token, the lowest bit of a word first: whether it may be chosen ([`MASKED`]).

use alloc::format;
use alloc::vec::Vec;
use core::fmt::Display;

use crate::error::{Error, Result};

/// Words of the packed parameters.
pub const WORDS: usize = 32;
/// Word index: 1 when the temperature is 0.
pub const GREEDY: usize = 0;
/// Word index: `65536 * log2(e) / temperature`, f32 bits.
pub const SCALE: usize = 1;
/// Word index: tokens that top-k keeps; 0 is off.
pub const TOP_K: usize = 2;
/// Word index: `round(top_p * 2^31)`; [`TOP_P_OFF`] is off.
pub const TOP_P: usize = 3;
/// Word index: the least weight that min-p keeps, `round(min_p * 2^31)`; 0 is off.
pub const MIN_P: usize = 4;
/// Word index: repetition penalty, f32 bits.
pub const REPETITION: usize = 5;
/// Word index: the repetition penalty's reciprocal, f32 bits: devices divide inexactly.
pub const REPETITION_RECIPROCAL: usize = 6;
/// Word index: frequency penalty, f32 bits.
pub const FREQUENCY: usize = 7;
/// Word index: presence penalty, f32 bits.
pub const PRESENCE: usize = 8;
/// Word index: 1 when any penalty or bias is on; else counts are neither read nor written.
pub const PENALTIES: usize = 9;
/// Word index: low half of the seed.
pub const SEED_LO: usize = 10;
/// Word index: high half of the seed.
pub const SEED_HI: usize = 11;
/// Word index: number of stop ids.
pub const N_STOP: usize = 12;
/// Word index: the first stop id.
pub const STOP: usize = 13;
/// Word index: 1 when only some tokens may be chosen; behind the parameters is then a bit for each token.
pub const MASKED: usize = 29;

/// Stop ids at most.
pub const MAX_STOP_IDS: usize = 16;
/// [`TOP_P`] when top-p is off: probability 1.
pub const TOP_P_OFF: u32 = 1 << 31;

/// How to choose a token. The default is greedy, with no penalty and no stop id.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleParams {
    /// Divides the logits, 0..=100; 0 takes the best token.
    pub temperature: f32,
    /// Keep the best `k` tokens; 0 is off.
    pub top_k: u32,
    /// Keep the fewest best tokens whose probabilities reach this sum, in (0, 1]; 1 is off.
    pub top_p: f32,
    /// Keep tokens with at least this share of the best one's probability, in [0, 1); 0 is off.
    pub min_p: f32,
    /// Divides positive and multiplies other logits of tokens already in the text, in (0, 10];
    /// 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted from a logit for each time its token was generated, in [-2, 2]; 0 is off.
    pub frequency_penalty: f32,
    /// Subtracted once from a logit whose token was generated, in [-2, 2]; 0 is off.
    pub presence_penalty: f32,
    /// Added to the logits of these ids after penalties, each -100..=100, to the next 256th.
    pub logit_bias: Vec<(u32, f32)>,
    /// With the position, what a token's random number depends on.
    pub seed: u64,
    /// Ids that end the generation, at most [`MAX_STOP_IDS`].
    pub stop_ids: Vec<u32>,
}

impl Default for SampleParams {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
            stop_ids: Vec::new(),
        }
    }
}

impl SampleParams {
    /// Checks every range.
    ///
    /// # Errors
    ///
    /// [`Code::Usage`](crate::Code::Usage) that names the option, its value and its range.
    pub fn validate(&self) -> Result<()> {
        let Self { temperature, top_p, min_p, repetition_penalty, .. } = *self;
        let Self { frequency_penalty, presence_penalty, .. } = *self;
        within("temperature", temperature, (0.0..=100.0).contains(&temperature), "0 to 100")?;
        within("top_p", top_p, top_p > 0.0 && top_p <= 1.0, "above 0, at most 1")?;
        within("min_p", min_p, (0.0..1.0).contains(&min_p), "at least 0, below 1")?;
        within(
            "repetition_penalty",
            repetition_penalty,
            repetition_penalty > 0.0 && repetition_penalty <= 10.0,
            "above 0, at most 10",
        )?;
        for (name, value) in
            [("frequency_penalty", frequency_penalty), ("presence_penalty", presence_penalty)]
        {
            within(name, value, (-2.0..=2.0).contains(&value), "-2 to 2")?;
        }
        for &(id, bias) in &self.logit_bias {
            let within = (-100.0..=100.0).contains(&bias);
            self::within(&format!("logit_bias of token {id}"), bias, within, "-100 to 100")?;
        }
        let n_stop = self.stop_ids.len();
        if n_stop > MAX_STOP_IDS {
            return Err(Error::usage(format!("stop_ids has {n_stop} ids, at most {MAX_STOP_IDS}")));
        }
        Ok(())
    }

    /// Whether words of tokens matter: counts of past ones, or biases.
    pub fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.frequency_penalty != 0.0
            || self.presence_penalty != 0.0
            || !self.logit_bias.is_empty()
    }

    /// The words a device reads, for parameters that [`validate`](Self::validate) accepts.
    pub fn to_words(&self) -> [u32; WORDS] {
        let mut words = [0; WORDS];
        words[GREEDY] = u32::from(self.temperature == 0.0);
        words[SCALE] = scale(self.temperature).to_bits();
        words[TOP_K] = self.top_k;
        words[TOP_P] = probability(self.top_p).max(1);
        words[MIN_P] = probability(self.min_p);
        words[REPETITION] = self.repetition_penalty.to_bits();
        words[REPETITION_RECIPROCAL] = (1.0 / self.repetition_penalty).to_bits();
        words[FREQUENCY] = self.frequency_penalty.to_bits();
        words[PRESENCE] = self.presence_penalty.to_bits();
        words[PENALTIES] = u32::from(self.has_penalties());
        words[SEED_LO] = self.seed as u32;
        words[SEED_HI] = (self.seed >> 32) as u32;
        let n_stop = self.stop_ids.len().min(MAX_STOP_IDS);
        words[N_STOP] = n_stop as u32;
        words[STOP..STOP + n_stop].copy_from_slice(&self.stop_ids[..n_stop]);
        words
    }
}

/// Units of `q` per unit of logit. At most 2^100, which a temperature below 1e-25 would pass:
/// so the sampler's product with a distance stays finite, and a difference too small to be a
/// normal f32, which a GPU may flush, is zero units with or without the flush.
fn scale(temperature: f32) -> f32 {
    if temperature == 0.0 {
        return 0.0; // greedy: not read
    }
    let units = 65536.0 * core::f64::consts::LOG2_E / f64::from(temperature);
    units.min((1u128 << 100) as f64) as f32
}

/// `round(p * 2^31)`, for `p` in 0..=1.
fn probability(p: f32) -> u32 {
    (f64::from(p) * f64::from(TOP_P_OFF) + 0.5) as u32
}

fn within(name: &str, value: impl Display, is_within: bool, range: &str) -> Result<()> {
    if is_within {
        return Ok(());
    }
    Err(Error::usage(format!("{name} {value} is out of range: {range}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use alloc::vec;

    fn message(params: SampleParams) -> String {
        let error = params.validate().expect_err("out of range");
        assert_eq!(error.code, crate::Code::Usage);
        error.to_string()
    }

    #[test]
    fn defaults_and_the_ends_of_each_range_are_valid() {
        let d = SampleParams::default;
        for params in [
            d(),
            SampleParams { temperature: 100.0, top_p: 1e-6, min_p: 0.99, ..d() },
            SampleParams { repetition_penalty: 10.0, frequency_penalty: -2.0, ..d() },
            SampleParams { presence_penalty: 2.0, stop_ids: vec![7; 16], ..d() },
        ] {
            assert_eq!(params.validate(), Ok(()));
        }
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_range() {
        let d = SampleParams::default;
        let cases = [
            (
                SampleParams { temperature: 101.0, ..d() },
                "temperature 101 is out of range: 0 to 100",
            ),
            (
                SampleParams { temperature: -0.5, ..d() },
                "temperature -0.5 is out of range: 0 to 100",
            ),
            (
                SampleParams { temperature: f32::NAN, ..d() },
                "temperature NaN is out of range: 0 to 100",
            ),
            (
                SampleParams { temperature: f32::INFINITY, ..d() },
                "temperature inf is out of range: 0 to 100",
            ),
            (SampleParams { top_p: 0.0, ..d() }, "top_p 0 is out of range: above 0, at most 1"),
            (SampleParams { top_p: 1.5, ..d() }, "top_p 1.5 is out of range: above 0, at most 1"),
            (SampleParams { min_p: 1.0, ..d() }, "min_p 1 is out of range: at least 0, below 1"),
            (
                SampleParams { min_p: -0.1, ..d() },
                "min_p -0.1 is out of range: at least 0, below 1",
            ),
            (
                SampleParams { repetition_penalty: 0.0, ..d() },
                "repetition_penalty 0 is out of range: above 0, at most 10",
            ),
            (
                SampleParams { repetition_penalty: 10.5, ..d() },
                "repetition_penalty 10.5 is out of range: above 0, at most 10",
            ),
            (
                SampleParams { frequency_penalty: 2.5, ..d() },
                "frequency_penalty 2.5 is out of range: -2 to 2",
            ),
            (
                SampleParams { presence_penalty: f32::NAN, ..d() },
                "presence_penalty NaN is out of range: -2 to 2",
            ),
            (
                SampleParams { logit_bias: vec![(3, 1.0), (7, -101.0)], ..d() },
                "logit_bias of token 7 -101 is out of range: -100 to 100",
            ),
            (SampleParams { stop_ids: vec![0; 17], ..d() }, "stop_ids has 17 ids, at most 16"),
        ];
        for (params, expected) in cases {
            assert_eq!(message(params), expected);
        }
    }

    #[test]
    fn words_are_as_the_layout_says() {
        let greedy = SampleParams::default().to_words();
        let mut expected = [0; WORDS];
        expected[GREEDY] = 1;
        expected[TOP_P] = TOP_P_OFF;
        expected[REPETITION] = 1f32.to_bits();
        expected[REPETITION_RECIPROCAL] = 1f32.to_bits();
        assert_eq!(greedy, expected);

        let words = SampleParams {
            temperature: 0.5,
            top_k: 40,
            top_p: 0.75,
            min_p: 0.25,
            repetition_penalty: 2.0,
            frequency_penalty: 0.5,
            presence_penalty: -1.0,
            logit_bias: Vec::new(),
            seed: 0x0123_4567_89AB_CDEF,
            stop_ids: vec![2, 7],
        }
        .to_words();
        let mut expected = [0; WORDS];
        expected[SCALE] = (2.0 * 65536.0 * core::f32::consts::LOG2_E).to_bits();
        expected[TOP_K] = 40;
        expected[TOP_P] = 3 << 29;
        expected[MIN_P] = 1 << 29;
        expected[REPETITION] = 2f32.to_bits();
        expected[REPETITION_RECIPROCAL] = 0.5f32.to_bits();
        expected[FREQUENCY] = 0.5f32.to_bits();
        expected[PRESENCE] = (-1f32).to_bits();
        expected[PENALTIES] = 1;
        expected[SEED_LO] = 0x89AB_CDEF;
        expected[SEED_HI] = 0x0123_4567;
        expected[N_STOP] = 2;
        expected[STOP] = 2;
        expected[STOP + 1] = 7;
        assert_eq!(words, expected);
    }

    #[test]
    fn a_tiny_temperature_has_a_finite_scale() {
        let words = SampleParams { temperature: 1e-45, ..SampleParams::default() }.to_words();
        assert_eq!(words[GREEDY], 0);
        assert_eq!(f32::from_bits(words[SCALE]), 1_267_650_600_228_229_401_496_703_205_376.0);
    }
}
