//! Vectors of texts: a session of an encoder, with its tokenizer.
//!
//! Texts are sorted by length, padded to a few sizes and run in batches, so that a few programs serve all
//! texts. A mask hides the padding: a text's vector does not depend on its batch.

use crate::error::{Code, Error, Result};
use crate::models::ENCODE;
use crate::order;
use crate::runtime::session::{Run, Session, Tensor, TensorRef};
use crate::text::{Special, WordPiece};
use crate::types::DType;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

const IDS: &str = "input_ids";
const TYPES: &str = "token_type_ids";
const MASK: &str = "attention_mask";
const EMBEDDING: &str = "embedding";
/// Most tokens of a batch, padding included, and most texts.
const BATCH_TOKENS: usize = 4096;
const BATCH_TEXTS: usize = 64;

/// An encoder on a device, with its tokenizer.
pub struct Embedder {
    session: Session,
    tokenizer: Arc<WordPiece>,
    /// Most tokens of a text, special tokens included.
    limit: usize,
    width: usize,
    has_types: bool,
}

/// A batch of texts of similar length.
struct Batch {
    /// Indices of the texts.
    texts: Vec<usize>,
    /// Tokens that each is padded to.
    seq: usize,
    /// Rows of the batch; the last may be empty.
    rows: usize,
}

/// A call in progress. It borrows nothing: poll it with its embedder. Dropping it cancels the call.
pub struct Embedding {
    ids: Vec<Vec<u32>>,
    /// The longest texts first.
    batches: Vec<Batch>,
    run: Option<Run>,
    vectors: Vec<f32>,
    done: usize,
    truncated: usize,
}

/// The padded length of a text: a multiple of 8, then of 16, 32, 64, so that padding is at most an eighth.
fn padded_length(tokens: usize, limit: usize) -> usize {
    let step = match tokens {
        0..=64 => 8,
        65..=128 => 16,
        129..=256 => 32,
        _ => 64,
    };
    tokens.max(1).next_multiple_of(step).min(limit)
}

impl Embedder {
    /// An embedder over a session with the entry [`ENCODE`], which has an output `embedding`. Texts have at
    /// most `limit` tokens.
    ///
    /// # Errors
    /// `Unsupported` for a model that makes no vector of a text; `BadFile` for a tokenizer with more tokens than
    /// the model.
    pub fn new(
        session: Session,
        tokenizer: Arc<WordPiece>,
        vocab: u64,
        limit: u64,
    ) -> Result<Self> {
        let outputs = session.outputs(ENCODE)?;
        let width = outputs
            .iter()
            .find(|o| o.name == EMBEDDING)
            .and_then(|o| o.ty.shape.last().as_static())
            .ok_or_else(|| {
                Error::new(Code::Unsupported, "the model makes no vector of a text")
                    .hint("its file says that rows are not pooled; choose mean, cls or last")
            })?;
        if tokenizer.vocab_size() as u64 > vocab {
            let own = tokenizer.vocab_size();
            let what = format!("the tokenizer has {own} tokens, the model {vocab}");
            return Err(Error::bad_file(what));
        }
        let has_types = session.inputs(ENCODE)?.iter().any(|i| i.name == TYPES);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(Embedder { session, tokenizer, limit, width: width as usize, has_types })
    }

    /// How many numbers a vector has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Most tokens of a text, special tokens included; longer texts are cut.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Starts to compute the vectors of texts. This cancels a call that was started before.
    pub fn start(&self, texts: &[&str]) -> Embedding {
        // One token above the limit shows whether a text is cut or just fits.
        let encode = |text: &&str| {
            self.tokenizer.encode_document(text, Special::Literal, self.limit.saturating_add(1))
        };
        let mut ids: Vec<Vec<u32>> = texts.iter().map(encode).collect();
        let mut truncated = 0;
        for (ids, text) in ids.iter_mut().zip(texts) {
            if ids.len() > self.limit {
                truncated += 1;
                *ids = self.tokenizer.encode_document(text, Special::Literal, self.limit);
            }
        }
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order::sort_by_key(&mut order, |&i| ids[i].len());
        let mut batches: Vec<Batch> = Vec::new();
        for i in order {
            let seq = padded_length(ids[i].len(), self.limit);
            let most = (BATCH_TOKENS / seq).clamp(1, BATCH_TEXTS);
            match batches.last_mut() {
                Some(b) if b.seq == seq && b.texts.len() < most => b.texts.push(i),
                _ => batches.push(Batch { texts: vec![i], seq, rows: most }),
            }
        }
        for b in &mut batches {
            b.rows = b.texts.len().next_power_of_two().min(b.rows);
        }
        let vectors = vec![0.0; ids.len() * self.width];
        Embedding { ids, batches, run: None, vectors, done: 0, truncated }
    }
}

fn words(words: impl Iterator<Item = u32>) -> Vec<u8> {
    words.flat_map(u32::to_le_bytes).collect()
}

impl Embedding {
    /// How many tokens the texts have, special ones included, after cuts.
    pub fn tokens(&self) -> usize {
        self.ids.iter().map(Vec::len).sum()
    }

    /// How many texts are done, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        (self.done, self.ids.len())
    }

    /// How many texts were cut because they are longer than [`Embedder::limit`].
    pub fn truncated(&self) -> usize {
        self.truncated
    }

    /// Works until a batch is done; `true` after the last.
    ///
    /// # Errors
    /// The same as those of a run of the session.
    pub fn poll(&mut self, embedder: &mut Embedder, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        let Some(batch) = self.batches.last() else { return Poll::Ready(Ok(true)) };
        let run = match &mut self.run {
            Some(run) => run,
            None => self.run.insert(start(embedder, batch, &self.ids)?),
        };
        let outputs = ready!(run.poll(&mut embedder.session, cx));
        self.run = None;
        let rows = outputs?.into_iter().find(|o| o.name == EMBEDDING);
        let rows = rows.as_ref().map(Tensor::f32s).transpose()?.unwrap_or_default();
        let width = embedder.width;
        for (&text, row) in batch.texts.iter().zip(rows.chunks_exact(width)) {
            self.vectors[text * width..][..width].copy_from_slice(row);
        }
        self.done += batch.texts.len();
        self.batches.pop();
        Poll::Ready(Ok(self.batches.is_empty()))
    }

    /// The vectors, concatenated in the order of the texts. Call it after [`poll`](Self::poll) answered `true`.
    pub fn finish(self) -> Vec<f32> {
        self.vectors
    }
}

fn start(embedder: &mut Embedder, batch: &Batch, ids: &[Vec<u32>]) -> Result<Run> {
    let Batch { texts, seq, rows } = batch;
    let row = |i: usize| texts.get(i).map_or(&[][..], |&t| ids[t].as_slice());
    let pad = embedder.tokenizer.pad().unwrap_or(0);
    let all = || (0..*rows).flat_map(|i| (0..*seq).map(move |at| (i, at)));
    let tokens = words(all().map(|(i, at)| row(i).get(at).copied().unwrap_or(pad)));
    let mask = words(all().map(|(i, at)| u32::from(at < row(i).len())));
    let types = vec![0; if embedder.has_types { tokens.len() } else { 0 }];
    let dims = [*rows as u64, *seq as u64];
    fn tensor<'a>(dims: &'a [u64], bytes: &'a [u8]) -> TensorRef<'a> {
        TensorRef { dtype: DType::U32, dims, bytes }
    }
    let mut inputs = vec![(IDS, tensor(&dims, &tokens)), (MASK, tensor(&dims, &mask))];
    if embedder.has_types {
        inputs.push((TYPES, tensor(&dims, &types)));
    }
    embedder.session.start(ENCODE, &inputs)
}

#[cfg(test)]
mod tests {
    use super::padded_length;

    #[test]
    fn texts_are_padded_by_little_and_to_few_lengths() {
        assert_eq!(
            [0, 1, 8, 9, 65, 129, 300].map(|n| padded_length(n, 512)),
            [8, 8, 8, 16, 80, 160, 320]
        );
        assert_eq!(padded_length(500, 510), 510);
        let lengths: alloc::collections::BTreeSet<_> =
            (1..=512).map(|n| padded_length(n, 512)).collect();
        assert_eq!(lengths.len(), 8 + 4 + 4 + 4);
    }
}
