//! What a model that hears has beside its tensors, from the small files of its folder.

use super::{CtcVocabulary, SoundProcessor, VocabularyFiles};
use crate::error::{Code, Error, Result};
use crate::models::FolderTexts;
use alloc::format;

const VOCAB: &str = "vocab.json";
const CONFIG: &str = "tokenizer_config.json";
const SPECIAL: &str = "special_tokens_map.json";
const ADDED: &str = "added_tokens.json";

impl FolderTexts {
    /// What is done to sounds: as the files say, else as models that hear usually do.
    ///
    /// # Errors
    /// As [`SoundProcessor::read`].
    pub fn sound_processor(&self) -> Result<SoundProcessor> {
        let found = self.preprocessor().or_else(|| self.file("processor_config.json"));
        found.map_or_else(
            || Ok(SoundProcessor::default()),
            |(at, bytes)| SoundProcessor::read(bytes, at),
        )
    }

    /// What the tokens of a model with `vocab` ids mean.
    ///
    /// # Errors
    /// `Io` without a `vocab.json`; as [`CtcVocabulary::read`], with what the files are called in errors.
    pub fn ctc_vocabulary(&self, vocab: u64) -> Result<CtcVocabulary> {
        let Some((_, tokens)) = self.file(VOCAB) else {
            return Err(Error::new(Code::Io, "the model has no vocab.json")
                .hint("it has the letters that the model's numbers stand for: give it too"));
        };
        let bytes = |name: &str| self.file(name).map(|(_, bytes)| bytes);
        let files = VocabularyFiles {
            vocab: tokens,
            config: bytes(CONFIG),
            special: bytes(SPECIAL),
            added: bytes(ADDED),
        };
        CtcVocabulary::read(&files, vocab).map_err(|e| {
            let called = |name: &str| {
                let rest = e.at.strip_prefix(name)?;
                Some(format!("{}{rest}", self.file(name)?.0))
            };
            match [VOCAB, CONFIG, SPECIAL, ADDED].into_iter().find_map(called) {
                Some(at) => e.at(at),
                None => e,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LETTERS: &[u8] = br#"{"<pad>": 0, "|": 1, "A": 2}"#;

    fn folder(files: &[(&str, &[u8])]) -> FolderTexts {
        let mut folder = FolderTexts::default();
        for (name, bytes) in files {
            folder.put(name, &format!("m/{name}"), bytes).unwrap();
        }
        folder
    }

    #[test]
    fn files_say_what_is_done_to_sounds_and_the_older_name_counts_first() {
        let usual = folder(&[]).sound_processor().unwrap();
        assert_eq!(usual, SoundProcessor::default());
        let nested = &br#"{"feature_extractor": {"sampling_rate": 8000}}"#[..];
        let newer = folder(&[("processor_config.json", nested)]);
        assert_eq!(newer.sound_processor().unwrap().rate, 8_000);
        let older = (&br#"{"sampling_rate": 22050, "do_normalize": false}"#[..], 22_050);
        let both = [("processor_config.json", nested), ("preprocessor_config.json", older.0)];
        let processor = folder(&both).sound_processor().unwrap();
        assert_eq!((processor.rate, processor.normalise), (older.1, false));
        let e = folder(&[("processor_config.json", b"{")]).sound_processor().unwrap_err();
        assert_eq!(e.code, Code::BadFile);
        assert!(e.at.starts_with("m/processor_config.json"), "{e}");
    }

    #[test]
    fn a_vocabulary_is_read_of_all_its_files_and_errors_name_the_file() {
        folder(&[("vocab.json", LETTERS)]).ctc_vocabulary(3).unwrap();
        let added = (ADDED, &br#"{"<pad>": 3}"#[..]);
        let rest = &br#"{"|": 1, "A": 2}"#[..];
        folder(&[(VOCAB, rest), added]).ctc_vocabulary(4).unwrap();
        assert_eq!(folder(&[added]).ctc_vocabulary(4).unwrap_err().code, Code::Io);
        for (files, at) in [
            (&[(VOCAB, &b"{"[..])][..], "m/vocab.json"),
            (&[(VOCAB, rest)], "m/vocab.json"),
            (&[(VOCAB, LETTERS), (ADDED, b"[]")], "m/added_tokens.json"),
            (&[(VOCAB, LETTERS), (SPECIAL, br#"{"pad_token": 3}"#)], "m/special_tokens_map.json"),
            (&[(VOCAB, LETTERS), (CONFIG, br#"{"do_lower_case": 3}"#)], "m/tokenizer_config.json"),
        ] {
            let e = folder(files).ctc_vocabulary(3).unwrap_err();
            assert_eq!(e.code, Code::BadFile, "{e}");
            assert!(e.at.starts_with(at), "{at}: {e}");
        }
    }
}
