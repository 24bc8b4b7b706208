//! The integer sampler against hand cases, a sort and exact softmax.

use rlx_core::sample::control::{FULL, RUNNING, STOPPED};
use rlx_core::sample::weight::{FAR, weight};
use rlx_core::sample::{
    Control, GENERATED, IN_PROMPT, SampleParams, Scratch, bias_word, params, philox, sample,
};

const NONE: f32 = f32::NEG_INFINITY;

fn start(position: u32) -> Control {
    Control { past: position, len: 0, limit: 1 << 30, capacity: u32::MAX, ..Control::default() }
}

fn sample_at(logits: &[f32], params: &SampleParams, position: u32) -> u32 {
    params.validate().unwrap();
    sample(logits, &params.to_words(), &mut [], &mut start(position), &mut Scratch::default())
}

/// Every id that 4000 positions give, in order.
fn support(logits: &[f32], params: SampleParams) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..4000).map(|p| sample_at(logits, &params, p)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn hot() -> SampleParams {
    SampleParams { temperature: 1.0, seed: 7, ..SampleParams::default() }
}

/// Random numbers for the tests, from the sampler's own generator under another key.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 += 1;
        philox::philox4x32_10([self.0, 1, 2, 3], [4, 5])[0]
    }

    /// In -1..1.
    fn unit(&mut self) -> f32 {
        self.next() as i32 as f32 / 2_147_483_648.0
    }
}

#[test]
fn greedy_takes_the_lowest_id_of_the_largest() {
    let greedy = SampleParams::default();
    assert_eq!(sample_at(&[1.0, 3.0, 2.0, 3.0], &greedy, 0), 1);
    assert_eq!(sample_at(&[-0.0, 0.0], &greedy, 0), 0);
    assert_eq!(sample_at(&[0.0, -0.0], &greedy, 0), 0);
    assert_eq!(sample_at(&[-5.0], &greedy, 0), 0);
    for n in [15, 16, 17, 1023, 1024, 1025, 5000] {
        let mut logits = vec![-2.0; n];
        logits[n - 1] = -1.0;
        assert_eq!(sample_at(&logits, &greedy, 0), n as u32 - 1);
        logits[n / 2] = -1.0;
        assert_eq!(sample_at(&logits, &greedy, 0), n as u32 / 2);
    }
}

#[test]
fn nan_is_never_taken_and_nothing_gives_id_0() {
    for params in [SampleParams::default(), hot()] {
        assert_eq!(sample_at(&[f32::NAN, NONE, -3.0e38, f32::NAN], &params, 3), 2);
        assert_eq!(sample_at(&[f32::NAN, NONE], &params, 3), 0);
        assert_eq!(sample_at(&[NONE, NONE, f32::NAN], &params, 3), 0);
        assert_eq!(sample_at(&[1.0, f32::INFINITY, 2.0], &params, 3), 1);
    }
    assert_eq!(support(&[f32::NAN, 1.0, NONE, 1.0], hot()), [1, 3]);
}

#[test]
fn a_token_that_the_mask_leaves_out_is_never_taken() {
    let logits: Vec<f32> = (0..70).map(|i| i as f32).collect();
    for params in [SampleParams::default(), SampleParams { repetition_penalty: 1.5, ..hot() }] {
        let mut words = params.to_words().to_vec();
        let mut at = |mask: &[u32], masked: u32| {
            words.truncate(params::WORDS);
            words[params::MASKED] = masked;
            words.extend_from_slice(mask);
            sample(&logits, &words, &mut [0; 70], &mut start(3), &mut Scratch::default())
        };
        assert_eq!(at(&[1 << 4, 1 << 2, 0], 1), 34);
        assert_eq!(at(&[1 << 4, 0, 0], 1), 4);
        // Tokens that the mask has no word for are left out; without a mask all may be taken.
        assert_eq!(at(&[1 << 9], 1), 9);
        assert_eq!(at(&[0, 0, 0], 1), 0);
        assert_eq!(at(&[1 << 4, 0, 0], 0), at(&[u32::MAX; 3], 1));
        assert!(at(&[1 << 4, 0, 0], 0) > 60);
    }
}

#[test]
fn an_extreme_range_or_temperature_takes_the_best() {
    assert_eq!(support(&[f32::MIN, f32::MAX], hot()), [1]);
    let cold = SampleParams { temperature: 1e-45, ..hot() };
    assert_eq!(support(&[0.5, 0.500_001, 0.4], cold.clone()), [1]);
    assert_eq!(support(&[0.5, 0.5, 0.4], cold), [0, 1]);
    let warm = SampleParams { temperature: 100.0, ..hot() };
    assert_eq!(support(&[0.0, 10.0, -20.0], warm), [0, 1, 2]);
}

#[test]
fn top_k_keeps_k_and_ties_go_to_the_lower_id() {
    let logits = [1.0, 2.0, 1.0, 1.0, 0.9];
    for (k, kept) in [
        (1, vec![1]),
        (2, vec![0, 1]),
        (3, vec![0, 1, 2]),
        (4, vec![0, 1, 2, 3]),
        (5, vec![0, 1, 2, 3, 4]),
        (6, vec![0, 1, 2, 3, 4]),
        (u32::MAX, vec![0, 1, 2, 3, 4]),
    ] {
        assert_eq!(support(&logits, SampleParams { top_k: k, ..hot() }), kept, "top_k {k}");
    }
}

#[test]
fn top_p_keeps_the_shortest_run_that_reaches_p() {
    // Weights 4 : 2 : 1 : 1, so probabilities 1/2, 1/4, 1/8, 1/8.
    let ln2 = core::f32::consts::LN_2;
    let logits = [-ln2 * 2.0, 0.0, -ln2 * 2.0, -ln2];
    for (p, kept) in [
        (1e-9, vec![1]),
        (0.49, vec![1]),
        (0.51, vec![1, 3]),
        (0.74, vec![1, 3]),
        (0.76, vec![0, 1, 3]),
        (0.874, vec![0, 1, 3]),
        (0.876, vec![0, 1, 2, 3]),
        (1.0, vec![0, 1, 2, 3]),
    ] {
        assert_eq!(support(&logits, SampleParams { top_p: p, ..hot() }), kept, "top_p {p}");
    }
}

#[test]
fn top_p_meets_its_sum_exactly_and_splits_ties_by_id() {
    let equal = [1.5; 8];
    assert_eq!(support(&equal, SampleParams { top_p: 0.5, ..hot() }), [0, 1, 2, 3]);
    assert_eq!(support(&equal, SampleParams { top_p: 0.5001, ..hot() }), [0, 1, 2, 3, 4]);
}

#[test]
fn top_p_is_a_share_of_what_top_k_kept() {
    let equal = [1.5; 8];
    let params = SampleParams { top_k: 4, top_p: 0.5, ..hot() };
    assert_eq!(support(&equal, params), [0, 1]);
    let params = SampleParams { top_k: 4, top_p: 0.9999, ..hot() };
    assert_eq!(support(&equal, params), [0, 1, 2, 3]);
}

#[test]
fn min_p_keeps_its_share_of_the_best() {
    let ln2 = core::f32::consts::LN_2;
    let logits = [0.0, -ln2 * 0.99, -ln2 * 1.01, -ln2 * 3.0];
    assert_eq!(support(&logits, SampleParams { min_p: 0.5, ..hot() }), [0, 1]);
    assert_eq!(support(&logits, SampleParams { min_p: 0.2, ..hot() }), [0, 1, 2]);
    assert_eq!(support(&logits, SampleParams { min_p: 0.999_999, ..hot() }), [0]);
}

#[test]
fn draws_follow_softmax() {
    let logits: [f32; 10] = [0.3, -1.0, 2.2, 0.0, 1.1, -3.0, 1.1, 0.7, -0.4, 2.0];
    const N: u32 = 40_000;
    // The 99.9 % quantile of chi-square with 9 degrees of freedom.
    const BOUND: f64 = 27.88;
    for (temperature, seed) in [(1.0, 1), (0.7, 2), (1.8, 1 << 40), (1.0, u64::MAX)] {
        let params = SampleParams { temperature, seed, ..SampleParams::default() };
        let mut seen = [0u32; 10];
        for position in 0..N {
            seen[sample_at(&logits, &params, position) as usize] += 1;
        }
        let weights = logits.map(|l| (f64::from(l) / f64::from(temperature)).exp());
        let total: f64 = weights.iter().sum();
        let chi2: f64 = weights
            .iter()
            .zip(seen)
            .map(|(w, n)| {
                let expected = w / total * f64::from(N);
                (f64::from(n) - expected).powi(2) / expected
            })
            .sum();
        assert!(chi2 < BOUND, "temperature {temperature}, seed {seed}: chi-square {chi2}");
        assert!(chi2 > 0.5, "too even to be random: {chi2}");
    }
}

#[test]
fn seed_and_position_decide() {
    let logits = [0.0; 1000];
    let run = |seed| -> Vec<u32> {
        (0..20).map(|p| sample_at(&logits, &SampleParams { seed, ..hot() }, p)).collect()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
    assert_ne!(run(5), run(5 + (1 << 32)), "the high half of the seed counts");
    let mut distinct = run(5);
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() > 15, "positions differ");
}

#[test]
fn position_is_past_plus_len() {
    let logits = [0.0; 1000];
    let words = hot().to_words();
    let at = |past, len| {
        let mut control = Control { past, len, ..start(0) };
        sample(&logits, &words, &mut [], &mut control, &mut Scratch::default())
    };
    assert_eq!(at(0, 12), at(11, 1));
    assert_ne!(at(0, 12), at(12, 1));
}

#[test]
fn repetition_divides_positive_and_multiplies_other_logits_of_prompt_and_answer() {
    let params = SampleParams { repetition_penalty: 2.0, ..SampleParams::default() };
    let take = |logits: &[f32], counts: &mut [u32]| {
        let mut scratch = Scratch::default();
        sample(logits, &params.to_words(), counts, &mut start(0), &mut scratch)
    };
    let mut counts = [IN_PROMPT, 0, 0];
    assert_eq!(take(&[4.0, 2.5, 1.0], &mut counts), 1);
    assert_eq!(counts, [IN_PROMPT, 1, 0]);
    assert_eq!(take(&[4.0, 2.5, 1.0], &mut counts), 0);
    assert_eq!(counts, [IN_PROMPT | 1, 1, 0]);
    assert_eq!(take(&[-1.0, -1.5, -1.9], &mut counts), 2, "-2, -3, -1.9");
}

#[test]
fn frequency_and_presence_count_generated_tokens_only() {
    let take = |params: &SampleParams, logits: &[f32], counts: &mut [u32]| {
        let mut scratch = Scratch::default();
        sample(logits, &params.to_words(), counts, &mut start(0), &mut scratch)
    };
    let frequency = SampleParams { frequency_penalty: 0.5, ..SampleParams::default() };
    assert_eq!(take(&frequency, &[2.0, 1.2], &mut [IN_PROMPT, 0]), 0);
    assert_eq!(take(&frequency, &[2.0, 1.2], &mut [1, 0]), 0);
    assert_eq!(take(&frequency, &[2.0, 1.2], &mut [2, 0]), 1);
    let presence = SampleParams { presence_penalty: 1.0, ..SampleParams::default() };
    assert_eq!(take(&presence, &[2.0, 1.2], &mut [IN_PROMPT, 0]), 0);
    assert_eq!(take(&presence, &[2.0, 0.5], &mut [9, 0]), 0);
    assert_eq!(take(&presence, &[2.0, 1.2], &mut [9, 0]), 1);
}

#[test]
fn biases_are_added_after_penalties_and_forbid_or_force_a_token() {
    let take = |params: &SampleParams, logits: &[f32], counts: &mut [u32]| {
        let mut scratch = Scratch::default();
        sample(logits, &params.to_words(), counts, &mut start(0), &mut scratch)
    };
    let biased = |bias| SampleParams { logit_bias: vec![(0, bias)], ..SampleParams::default() };
    let mut counts = [bias_word(-100.0), 0];
    assert_eq!(take(&biased(-100.0), &[90.0, -9.5], &mut counts), 1);
    assert_eq!(counts, [bias_word(-100.0), 1]);
    assert_eq!(take(&biased(100.0), &[-90.0, 9.5], &mut [bias_word(100.0), 0]), 0);
    // 256ths: 0.5 + 1/256 is above 0.5, and a bias is no occurrence.
    let both = SampleParams { repetition_penalty: 2.0, ..biased(1.0 / 256.0) };
    assert_eq!(take(&both, &[0.5, 0.5], &mut [0, bias_word(1.0 / 256.0)]), 1);
    assert_eq!(take(&both, &[4.0, 2.5], &mut [IN_PROMPT | bias_word(1.0), 0]), 0, "2 + 1");
    assert_eq!(take(&both, &[f32::NEG_INFINITY, -50.0], &mut [bias_word(100.0), 0]), 1);
}

#[test]
fn a_full_count_stays_and_leaves_bias_and_prompt_alone() {
    let params = SampleParams { presence_penalty: -1.0, ..SampleParams::default() };
    for word in [GENERATED, GENERATED | IN_PROMPT | bias_word(-1.0)] {
        let (mut counts, mut scratch) = ([word], Scratch::default());
        sample(&[1.0], &params.to_words(), &mut counts, &mut start(0), &mut scratch);
        assert_eq!(counts, [word]);
    }
}

#[test]
fn counts_stay_when_penalties_are_off() {
    let mut counts = [3, 4];
    let words = SampleParams::default().to_words();
    let id = sample(&[2.0, 1.9], &words, &mut counts, &mut start(0), &mut Scratch::default());
    assert_eq!((id, counts), (0, [3, 4]));
}

#[test]
fn a_stop_id_ends_the_generation_and_nothing_changes_after() {
    let params =
        SampleParams { stop_ids: vec![9, 1], presence_penalty: 0.5, ..SampleParams::default() };
    let (words, mut counts, mut control) = (params.to_words(), [0, 0], start(4));
    let mut scratch = Scratch::default();
    assert_eq!(sample(&[1.0, 0.8], &words, &mut counts, &mut control, &mut scratch), 0);
    assert_eq!(control.done, RUNNING);
    assert_eq!(sample(&[1.0, 0.8], &words, &mut counts, &mut control, &mut scratch), 1);
    assert_eq!(control.done, STOPPED);
    let (counts_before, control_before) = (counts, control);
    assert_eq!(sample(&[1.0, -9.0], &words, &mut counts, &mut control, &mut scratch), 1);
    assert_eq!((counts, control), (counts_before, control_before));
}

#[test]
fn an_unused_stop_word_is_no_stop_id() {
    let mut control = Control { limit: 1, ..start(4) };
    let words = SampleParams::default().to_words();
    assert_eq!(sample(&[1.0], &words, &mut [], &mut control, &mut Scratch::default()), 0);
    assert_eq!(control.done, FULL);
}

/// The definition, by sorting.
fn sample_by_sort(logits: &[f32], words: &[u32; params::WORDS], position: u32) -> u32 {
    let max = logits.iter().copied().fold(NONE, f32::max);
    let scale = f32::from_bits(words[params::SCALE]);
    let q = |id: usize| ((max - logits[id]) * scale).min(FAR as f32) as u32;
    let mut order: Vec<usize> = (0..logits.len()).filter(|&id| weight(q(id)) > 0).collect();
    order.sort_by_key(|&id| (q(id), id));
    if words[params::TOP_K] != 0 {
        order.truncate(words[params::TOP_K] as usize);
    }
    let sum = |ids: &[usize]| -> u128 { ids.iter().map(|&id| u128::from(weight(q(id)))).sum() };
    if words[params::TOP_P] < params::TOP_P_OFF {
        let need = (sum(&order) * u128::from(words[params::TOP_P])) >> 31;
        let n = (1..=order.len()).find(|&n| sum(&order[..n]) >= need).unwrap();
        order.truncate(n);
    }
    order.retain(|&id| weight(q(id)) >= words[params::MIN_P]);
    order.sort_unstable();
    let key = [words[params::SEED_LO], words[params::SEED_HI]];
    let random = philox::philox4x32_10([position, 0, 0, 0], key)[0];
    let target = (u128::from(random) * sum(&order)) >> 32;
    let n = (1..=order.len()).find(|&n| sum(&order[..n]) > target).unwrap();
    order[n - 1] as u32
}

#[test]
fn every_combination_equals_the_sort() {
    let mut random = Random(0);
    let mut scratch = Scratch::default();
    for case in 0..1500 {
        let n = [1, 2, 3, 17, 100, 255, 256, 257, 600][case % 9];
        // Rounded logits tie often; others hardly ever.
        let step = [0.0, 0.5, 0.01][random.next() as usize % 3];
        let spread = [1.0, 8.0, 40.0][random.next() as usize % 3];
        let mut logit = |_| {
            let l = random.unit() * spread;
            if step > 0.0 { (l / step).round() * step } else { l }
        };
        let logits: Vec<f32> = (0..n).map(&mut logit).collect();
        let pick = |r: u32, of: &[f32]| of[r as usize % of.len()];
        let params = SampleParams {
            temperature: pick(random.next(), &[0.1, 0.7, 1.0, 3.0, 100.0]),
            top_k: [0, 1, 2, 5, 40, 300][random.next() as usize % 6],
            top_p: pick(random.next(), &[1.0, 0.01, 0.3, 0.5, 0.9, 0.999]),
            min_p: pick(random.next(), &[0.0, 0.0, 0.05, 0.5]),
            seed: u64::from(random.next()) << 20,
            ..SampleParams::default()
        };
        let words = params.to_words();
        let position = random.next();
        let id = sample(&logits, &words, &mut [], &mut start(position), &mut scratch);
        assert_eq!(id, sample_by_sort(&logits, &words, position), "case {case}: n {n}, {params:?}");
    }
}
