//! How far a device's answers are from a reference's, over real text: what each of them thinks of every next token.
//!
//! The text's own tokens are fed to both, in windows of the context. So a difference is that of one row, or of the
//! caches that rows before it wrote, and never that of another text.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::load::{LoadOptions, compile, open};
use crate::network::CheckpointFiles;
use rlx_core::lower::{CTL, PARAMS, ProgramSpec};
use rlx_core::runtime::device::{Device, DeviceInfo, Submission, Write, WriteTo};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::Session;
use rlx_core::sample::{Control, SampleParams};
use rlx_core::target::Activations;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

/// How a text's rows are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One row a step, by the program that decodes.
    Decode,
    /// A chunk of rows a step.
    Prompts,
}

/// How far two devices are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fidelity {
    /// Rows that were compared.
    pub rows: usize,
    /// Mean divergence (Kullback and Leibler's) of the next token's probabilities from the reference's, in nats.
    pub mean_kl: f64,
    /// The largest divergence of one row.
    pub worst_kl: f64,
    /// The token behind which that row predicts, counted from 0 over all windows.
    pub worst_at: usize,
    /// Rows whose likeliest token is the reference's, divided by all rows.
    pub top1: f64,
    /// Perplexity of the text.
    pub perplexity: f64,
    /// The same by the reference.
    pub reference_perplexity: f64,
}

/// A model on a device, with programs that return every row's logits.
pub struct Side {
    session: Session,
    compiled: CompiledModel,
    /// How it was compiled.
    pub options: ModelOptions,
    ctl: u32,
    params: u32,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

impl Side {
    /// Loads a model. `progress` is told bytes so far and of how many.
    ///
    /// # Errors
    /// As [`compile`] and [`open`]; `Unsupported` for a model that fills blocks.
    pub fn load(
        source: &CheckpointFiles,
        row: &DeviceRow,
        device: Arc<dyn Device>,
        load: &LoadOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let mut options = load.model_options(row, device.target());
        options.programs =
            vec![ProgramSpec::decode().with_logits(), ProgramSpec::verify(options.chunk, false)];
        let compiled = compile(source, &*device, &options, load.memory)?;
        if compiled.diffusion.is_some() {
            let what = "a model that fills blocks predicts no next token";
            return Err(
                Error::new(Code::Unsupported, what).hint("give a model that writes token by token")
            );
        }
        let session = open(&compiled, source, row, device, &options, progress)?;
        let (ctl, params) = (session.state(CTL)?, session.state(PARAMS)?);
        Ok(Side { session, compiled, options, ctl, params })
    }

    /// Which executor runs.
    pub fn info(&self) -> DeviceInfo {
        self.session.info()
    }

    /// Positions of its caches.
    pub fn context(&self) -> usize {
        self.compiled.context as usize
    }

    /// Logits of `tokens`, which stand behind `past` others of their window.
    fn logits(&self, way: Way, past: usize, tokens: &[u32]) -> Result<Vec<f32>> {
        let control = Control {
            past: past as u32,
            len: tokens.len() as u32,
            token: tokens[0],
            limit: u32::MAX,
            capacity: self.context() as u32,
            ..Control::default()
        };
        let state = |number, bytes| Write { to: WriteTo::State(number), offset: 0, bytes };
        let mut writes = Vec::new();
        if past == 0 {
            writes.push(state(self.params, words(&SampleParams::default().to_words())));
            writes.extend(self.compiled.recurrences().into_iter().map(|(i, n)| Write::zeros(i, n)));
        }
        writes.push(state(self.ctl, words(&control.to_words())));
        // What decodes returns the token that it samples before the logits.
        let (entry, output) = match way {
            Way::Decode => ("decode_logits", 1),
            Way::Prompts => {
                writes.push(Write { to: WriteTo::Input(0), offset: 0, bytes: words(tokens) });
                ("verify", 0)
            }
        };
        let ticket = self.session.submit(entry, &Submission::new(&writes))?;
        let outputs = block_on(|cx| self.session.poll(ticket, cx))?;
        let bytes = outputs.values.get(output).map_or(&[][..], |b| b);
        let wanted = tokens.len() * self.compiled.module.vocab as usize;
        let all = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
        let rows: Vec<f32> = all.take(wanted).collect();
        if rows.len() < wanted {
            let what = format!("{entry} gave {} logits instead of {wanted}", rows.len());
            return Err(Error::internal(what));
        }
        Ok(rows)
    }
}

/// What one row says of the next token: log probabilities are logits less this.
fn log_sum(logits: &[f32]) -> (f64, usize) {
    let mut best = 0;
    for (i, x) in logits.iter().enumerate() {
        if *x > logits[best] {
            best = i;
        }
    }
    let max = f64::from(logits[best]);
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - max).exp()).sum();
    (max + sum.ln(), best)
}

/// Sums over rows.
#[derive(Default)]
struct Sums {
    rows: usize,
    kl: f64,
    worst: (f64, usize),
    same: usize,
    /// Rows whose next token is known, and its surprise by the device and by the reference.
    known: usize,
    surprise: [f64; 2],
}

impl Sums {
    fn add(&mut self, got: &[f32], want: &[f32], next: Option<u32>) {
        let ((sum, best), (sum_want, best_want)) = (log_sum(got), log_sum(want));
        let terms = got.iter().zip(want).map(|(q, p)| {
            let (q, p) = (f64::from(*q) - sum, f64::from(*p) - sum_want);
            p.exp() * (p - q)
        });
        // It is never negative; where two rows are equal, the sums' roundings may be.
        let kl = terms.sum::<f64>().max(0.0);
        if kl > self.worst.0 {
            self.worst = (kl, self.rows);
        }
        self.rows += 1;
        self.kl += kl;
        self.same += usize::from(best == best_want);
        if let Some(next) = next {
            self.known += 1;
            self.surprise[0] += sum - f64::from(got[next as usize]);
            self.surprise[1] += sum_want - f64::from(want[next as usize]);
        }
    }

    fn fidelity(&self) -> Fidelity {
        let [perplexity, reference_perplexity] =
            self.surprise.map(|sum| (sum / self.known.max(1) as f64).exp());
        Fidelity {
            rows: self.rows,
            mean_kl: self.kl / self.rows.max(1) as f64,
            worst_kl: self.worst.0,
            worst_at: self.worst.1,
            top1: self.same as f64 / self.rows.max(1) as f64,
            perplexity,
            reference_perplexity,
        }
    }
}

fn finite(logits: &[f32], at: usize, vocab: usize, info: &DeviceInfo) -> Result<()> {
    let Some(i) = logits.iter().position(|x| !x.is_finite()) else { return Ok(()) };
    let what = format!("a logit behind token {} is {} on {}", at + i / vocab, logits[i], info.kind);
    Err(Error::new(Code::CheckFailed, what)
        .hint("choose other activations, caches or another device"))
}

/// The windows that a text is read in: as many tokens as caches have positions, each behind the token that begins a
/// text where the model wants one.
pub fn windows(tokens: &[u32], bos: Option<u32>, context: usize) -> Vec<Vec<u32>> {
    let room = context.saturating_sub(usize::from(bos.is_some())).max(1);
    tokens.chunks(room).map(|part| bos.into_iter().chain(part.iter().copied()).collect()).collect()
}

/// Compares a device with a reference, which reads the text in chunks either way. `progress` is told rows that are
/// done.
///
/// # Errors
/// What the devices meet; `CheckFailed` for logits that are not finite; `Internal` where the two have other programs.
pub fn fidelity(
    side: &Side,
    reference: &Side,
    windows: &[Vec<u32>],
    way: Way,
    progress: &mut dyn FnMut(usize),
) -> Result<Fidelity> {
    let vocab = side.compiled.module.vocab as usize;
    let chunk = side.options.chunk as usize;
    if (reference.options.chunk, reference.compiled.module.vocab) != (chunk as u64, vocab as u64) {
        return Err(Error::internal("a device and its reference were compiled differently"));
    }
    let mut sums = Sums::default();
    for window in windows {
        for (past, tokens) in (0..).step_by(chunk).zip(window.chunks(chunk)) {
            let want = reference.logits(Way::Prompts, past, tokens)?;
            finite(&want, sums.rows, vocab, &reference.info())?;
            let rows = match way {
                Way::Decode => 1,
                Way::Prompts => tokens.len(),
            };
            for (first, part) in (0..).step_by(rows).zip(tokens.chunks(rows)) {
                let got = side.logits(way, past + first, part)?;
                finite(&got, sums.rows, vocab, &side.info())?;
                let want = want[first * vocab..].chunks_exact(vocab);
                for (i, (got, want)) in got.chunks_exact(vocab).zip(want).enumerate() {
                    sums.add(got, want, window.get(past + first + i + 1).copied());
                }
                progress(sums.rows);
            }
        }
    }
    Ok(sums.fidelity())
}

/// The options that a reference is loaded with: f32 throughout, and else those of the device that is compared.
pub fn reference_options(of: &LoadOptions, side: &Side) -> LoadOptions {
    LoadOptions {
        context: Some(side.compiled.context),
        chunk: Some(side.options.chunk),
        kv: Some(DType::F32),
        activations: Some(Activations::F32.into()),
        profile: None,
        ..of.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_divergence_of_two_coins_is_the_one_that_a_book_has() {
        let mut sums = Sums::default();
        // Probabilities 1/2, 1/2 by the reference and 1/4, 3/4 by the device.
        let (got, want) = ([0.25f32.ln(), 0.75f32.ln()], [7.0, 7.0]);
        sums.add(&got, &want, Some(0));
        let kl = 0.5 * (2.0f64).ln() + 0.5 * (2.0f64 / 3.0).ln();
        let found = sums.fidelity();
        assert!((found.mean_kl - kl).abs() < 1e-7 && found.worst_kl == found.mean_kl);
        assert!((found.perplexity - 4.0).abs() < 1e-6);
        assert!((found.reference_perplexity - 2.0).abs() < 1e-12);
        // Of equal logits the first is the likeliest.
        assert_eq!((found.rows, found.top1, found.worst_at), (1, 0.0, 0));
        sums.add(&want, &want, None);
        let found = sums.fidelity();
        assert_eq!((found.rows, found.top1, found.worst_at), (2, 0.5, 0));
        assert!((found.mean_kl - kl / 2.0).abs() < 1e-7);
        assert!(
            (found.perplexity - 4.0).abs() < 1e-6,
            "a row without a next token counts for no perplexity"
        );
    }

    #[test]
    fn a_text_longer_than_the_context_is_read_in_windows_that_each_begin_as_a_text() {
        assert_eq!(windows(&[1, 2, 3, 4, 5], None, 2), [vec![1, 2], vec![3, 4], vec![5]]);
        assert_eq!(windows(&[1, 2, 3], Some(9), 3), [vec![9, 1, 2], vec![9, 3]]);
        assert_eq!(windows(&[1, 2], Some(9), 8), [vec![9, 1, 2]]);
    }
}
