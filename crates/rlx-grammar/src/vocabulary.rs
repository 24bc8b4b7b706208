//! The tokens of a model as bytes, in a tree by their beginnings.

use llguidance::ParserFactory;
use llguidance::toktrie::{
    InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv,
};
use rlx_core::text::Tokenizer;
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

/// Most bytes of a token that may be part of a form: the tree has places for 1,023 bytes below its root.
const MOST_BYTES: usize = 1000;
/// Most tokens: the tree counts its nodes in 22 bits.
const MOST_TOKENS: usize = 1 << 20;
/// Most bytes of all tokens together, for the same reason.
const MOST_NODES: usize = 1 << 22;

/// The tokens of a model. It is made once and serves all its answers.
#[derive(Clone)]
pub struct Vocabulary {
    factory: Arc<ParserFactory>,
}

/// A token of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// Its bytes, which may be part of a character.
    Text(&'a [u8]),
    /// Structure without text of its own. A grammar names it by its number, as `<[5]>`.
    Control(&'a [u8]),
    /// As [`Control`](Self::Control); it ends an answer.
    End(&'a [u8]),
}

struct Tokens(TokTrie);

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }

    /// The longest tokens, from the left. It decides nothing about an answer: no token is forced.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.0.greedy_tokenize(bytes)
    }

    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

impl Vocabulary {
    /// The tokens of a tokenizer.
    ///
    /// # Errors
    /// As [`of_tokens`](Self::of_tokens).
    pub fn new(tokenizer: &Tokenizer) -> Result<Self> {
        let tokens = (0..tokenizer.vocab_size() as u32).map(|id| {
            let piece = tokenizer.piece(id);
            match (tokenizer.is_eog(id), tokenizer.is_control(id)) {
                (true, _) => Token::End(piece),
                (false, true) => Token::Control(piece),
                (false, false) => Token::Text(piece),
            }
        });
        Self::of_tokens(tokens)
    }

    /// The tokens, in the order of their numbers.
    ///
    /// # Errors
    /// `Unsupported` for a vocabulary without a token that ends an answer, or one that is too large.
    pub fn of_tokens<'a>(tokens: impl Iterator<Item = Token<'a>>) -> Result<Self> {
        let (mut words, mut ends): (Vec<Vec<u8>>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut bytes = 0usize;
        for (id, token) in tokens.take(MOST_TOKENS + 1).enumerate() {
            let word = match token {
                // Never chosen, as a token without bytes.
                Token::Text(text) if text.len() > MOST_BYTES => Vec::new(),
                Token::Text(text) => text.to_vec(),
                Token::Control(_) | Token::End(_) => {
                    let mut word = vec![TokTrie::SPECIAL_TOKEN_MARKER];
                    word.extend_from_slice(format!("[{id}]").as_bytes());
                    word
                }
            };
            if matches!(token, Token::End(_)) {
                ends.push(id as u32);
            }
            bytes += word.len();
            words.push(word);
        }
        let Some(&end) = ends.first() else {
            return Err(Error::new(
                Code::Unsupported,
                "no token of this model ends an answer, so no form can be asked of one",
            ));
        };
        if words.len() > MOST_TOKENS || bytes > MOST_NODES {
            return Err(Error::new(
                Code::Unsupported,
                format!(
                    "the vocabulary is too large for forms: {} tokens or more of {bytes} bytes or more, at most {MOST_TOKENS} of {MOST_NODES}",
                    words.len()
                ),
            ));
        }
        let info = TokRxInfo::new(words.len() as u32, end);
        let tokens: TokEnv = Arc::new(Tokens(TokTrie::from(&info, &words).with_eos_tokens(&ends)));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&tokens, InferenceCapabilities::default(), &slices)
            .map_err(|e| Error::internal(format!("the vocabulary's tree: {e}")))?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Vocabulary { factory: Arc::new(factory) })
    }

    /// Words with a bit for each token.
    pub fn words(&self) -> usize {
        self.factory.tok_env().tok_trie().vocab_size().div_ceil(32)
    }

    pub(crate) fn factory(&self) -> &ParserFactory {
        &self.factory
    }
}
