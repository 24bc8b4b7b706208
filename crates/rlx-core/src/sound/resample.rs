//! Another rate for samples of a sound: a windowed sinc (J. O. Smith, "Digital Audio Resampling").
//!
//! Filter and window are those of `torchaudio.functional.resample` with its defaults: a sinc of six zero
//! crossings on either side, cut at 0.99 of the lower rate's half, under a Hann window. Results are equal to
//! its own but for the order of sums.

use crate::error::{Code, Error, Result};
use crate::math;
use alloc::format;
use alloc::vec::Vec;

/// Zero crossings of the sinc on either side.
const CROSSINGS: f64 = 6.0;
/// Where the filter cuts, of half the lower rate.
const ROLLOFF: f64 = 0.99;
/// Rates that are read, in samples a second: they bound the filter's memory and how much a sound can grow.
const RATES: core::ops::RangeInclusive<u32> = 4_000..=384_000;

/// The weights of one phase: how far from the first sample of its group the first of them is.
struct Phase {
    first: i64,
    from: usize,
    taps: usize,
}

/// Gives a sound another rate, piece by piece: the pieces do not show in what comes out.
pub struct Resampler {
    /// Samples that come in for each group of `to` that go out.
    from: u64,
    to: u64,
    phases: Vec<Phase>,
    weights: Vec<f32>,
    /// Samples that a result may still be made of, the number of the first, and how many came in.
    kept: Vec<f32>,
    start: u64,
    came: u64,
    /// Results so far.
    made: u64,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Resampler {
    /// From one rate to another, in samples a second.
    ///
    /// # Errors
    /// `Unsupported` for a rate below 4 kHz or above 384 kHz.
    pub fn new(from: u32, to: u32) -> Result<Self> {
        for rate in [from, to] {
            if !RATES.contains(&rate) {
                let (low, high) = (RATES.start(), RATES.end());
                let what = format!("{rate} samples a second: {low} to {high} are supported");
                return Err(
                    Error::new(Code::Unsupported, what).hint("convert the sound to 16000 Hz first")
                );
            }
        }
        let by = gcd(from.into(), to.into());
        let (from, to) = (u64::from(from) / by, u64::from(to) / by);
        let mut out = Resampler {
            from,
            to,
            phases: Vec::new(),
            weights: Vec::new(),
            kept: Vec::new(),
            start: 0,
            came: 0,
            made: 0,
        };
        if from != to {
            out.filter();
        }
        Ok(out)
    }

    fn filter(&mut self) {
        let (orig, new) = (self.from as f64, self.to as f64);
        let base = orig.min(new) * ROLLOFF;
        let width = math::ceil(CROSSINGS * orig / base) as i64;
        for p in 0..self.to {
            let time = |at: i64| (at as f64 / orig - p as f64 / new) * base;
            let inside = |at: i64| time(at).abs() < CROSSINGS;
            // The place of the phase among the samples of its group, around which its weights stand.
            let middle = (p * self.from / self.to) as i64;
            let first = (middle - width..=middle).find(|&at| inside(at)).unwrap_or(middle);
            let from = self.weights.len();
            let mut at = first;
            while inside(at) {
                let t = time(at) * core::f64::consts::PI;
                let window = math::cos(t / CROSSINGS / 2.0);
                let sinc = if t == 0.0 { 1.0 } else { math::sin(t) / t };
                self.weights.push((sinc * window * window * base / orig) as f32);
                at += 1;
            }
            self.phases.push(Phase { first, from, taps: self.weights.len() - from });
        }
    }

    /// Takes the next samples, and adds to `out` what is known by them.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.came += samples.len() as u64;
        if self.phases.is_empty() {
            out.extend_from_slice(samples);
            return;
        }
        self.kept.extend_from_slice(samples);
        while self.last_needed() < self.came as i64 {
            self.make(out);
        }
        // What no later result is made of.
        let first = self.place().0.max(0) as u64;
        let gone = first.saturating_sub(self.start).min(self.kept.len() as u64);
        self.kept.drain(..gone as usize);
        self.start += gone;
    }

    /// The end of the sound: adds what is left. Behind its end a sound is silent.
    pub fn finish(mut self, out: &mut Vec<f32>) {
        if self.phases.is_empty() {
            return;
        }
        let all = u128::from(self.came) * u128::from(self.to);
        let all = all.div_ceil(u128::from(self.from)) as u64;
        while self.made < all {
            self.make(out);
        }
    }

    /// The first sample that the next result is made of, and its phase.
    fn place(&self) -> (i64, usize) {
        let phase = (self.made % self.to) as usize;
        let group = (self.made / self.to * self.from) as i64;
        (group + self.phases[phase].first, phase)
    }

    /// The last sample that the next result is made of.
    fn last_needed(&self) -> i64 {
        let (first, phase) = self.place();
        first + self.phases[phase].taps as i64 - 1
    }

    fn make(&mut self, out: &mut Vec<f32>) {
        let (first, phase) = self.place();
        let Phase { from, taps, .. } = self.phases[phase];
        let mut sum = 0f32;
        for (i, w) in self.weights[from..from + taps].iter().enumerate() {
            let at = first + i as i64 - self.start as i64;
            let x = usize::try_from(at).ok().and_then(|at| self.kept.get(at));
            sum += w * x.copied().unwrap_or(0.0);
        }
        out.push(sum);
        self.made += 1;
    }
}
