//! Tokens of frames to text and words: as transformers' `Wav2Vec2CTCTokenizer` makes them, in any pieces.

use super::record;
use rlx_core::sound::{CtcDecoding, CtcVocabulary, VocabularyFiles, Word};
use rlx_core::{Code, Result};
use serde_json::Value;

/// The vocabulary of a record's files.
pub fn vocabulary(files: &Value, vocab: u64) -> Result<CtcVocabulary> {
    let text = |name: &str| files.get(name).map(|json| json.to_string().into_bytes());
    let vocab_json = text("vocab.json").unwrap();
    let others =
        ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"].map(text);
    let [config, special, added] = [0, 1, 2].map(|i| others[i].as_deref());
    CtcVocabulary::read(&VocabularyFiles { vocab: &vocab_json, config, special, added }, vocab)
}

/// Text and words of ids that come in pieces of so many; texts are taken whenever a piece came.
fn decoded(vocabulary: &CtcVocabulary, ids: &[u32], piece: usize) -> (Vec<String>, Vec<Word>) {
    let (mut out, mut texts, mut words) = (CtcDecoding::default(), Vec::new(), Vec::new());
    for piece in ids.chunks(piece) {
        out.push(vocabulary, piece);
        texts.push(out.take_text());
        words.extend(out.take_words());
    }
    assert_eq!(out.frames(), ids.len() as u64);
    out.finish(vocabulary);
    texts.push(out.take_text());
    words.extend(out.take_words());
    (texts, words)
}

#[test]
fn texts_and_words_are_those_of_transformers_in_any_pieces() {
    for case in record("ctc.json")["cases"].as_array().unwrap() {
        let number = |x: &Value| x.as_u64().unwrap();
        let ids: Vec<u32> =
            case["ids"].as_array().unwrap().iter().map(|x| number(x) as u32).collect();
        let words = case["words"].as_array().unwrap().iter();
        let words: Vec<Word> = words
            .map(|w| Word {
                text: w[0].as_str().unwrap().into(),
                start: number(&w[1]),
                end: number(&w[2]),
            })
            .collect();
        let vocabulary = vocabulary(&case["files"], number(&case["vocab"])).unwrap();
        for piece in [1, 2, 7, ids.len().max(1)] {
            let (texts, got) = decoded(&vocabulary, &ids, piece);
            assert_eq!(texts.concat(), case["text"].as_str().unwrap(), "{} {piece}", case["what"]);
            assert_eq!(got, words, "{} {piece}", case["what"]);
        }
    }
}

#[test]
fn a_text_is_known_while_it_grows() {
    let all = record("ctc.json");
    let case = &all["cases"][0];
    assert_eq!(case["text"], "HELLO WORLD IT'S ME");
    let vocabulary = vocabulary(&case["files"], 32).unwrap();
    let ids: Vec<u32> =
        case["ids"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect();
    let (texts, _) = decoded(&vocabulary, &ids, 1);
    let texts: Vec<&str> = texts.iter().map(String::as_str).filter(|t| !t.is_empty()).collect();
    // A word is final when the letter behind its blank was said.
    assert_eq!(texts, ["HELLO", " WORLD", " IT'S", " ME"]);
}

#[test]
fn what_is_not_known_of_a_vocabulary_is_refused_by_name() {
    let vocab = r#"{"<pad>": 0, "|": 1, "a": 2}"#;
    let read = |vocab: &str, config: &str| {
        let config = Some(config.as_bytes());
        let files = VocabularyFiles { vocab: vocab.as_bytes(), config, ..Default::default() };
        CtcVocabulary::read(&files, 3)
    };
    let usual = r#"{"tokenizer_class": "Wav2Vec2CTCTokenizer", "model_max_length": 1000000000000000019884624838656,
        "pad_token": {"content": "<pad>", "__type": "AddedToken", "lstrip": false}, "target_lang": null}"#;
    assert!(read(vocab, usual).is_ok());
    // Ids far behind the model's cost nothing.
    assert!(read(r#"{"<pad>": 0, "a": 9000000000000000000}"#, "{}").is_ok());
    for (vocab, config, code, said) in [
        (vocab, r#"{"tokenizer_class": "BertTokenizer"}"#, Code::Unsupported, "BertTokenizer"),
        (vocab, r#"{"target_lang": "eng"}"#, Code::Unsupported, "target_lang"),
        (vocab, r#"{"replace_word_delimiter_char": "_"}"#, Code::Unsupported, "`_`"),
        (vocab, r#"{"phonemizer": "espeak"}"#, Code::Unsupported, "phonemizer"),
        (vocab, r#"{"do_lower_case": 1}"#, Code::BadFile, "do_lower_case"),
        (vocab, r#"{"pad_token": 3}"#, Code::BadFile, "pad_token is no token"),
        (vocab, r#"{"pad_token": "[PAD]"}"#, Code::BadFile, "`[PAD]`"),
        (vocab, r#"{"added_tokens_decoder": {"x": "y"}}"#, Code::BadFile, "added_tokens_decoder"),
        (vocab, r#"{"added_tokens_decoder": {"3": {}}}"#, Code::BadFile, "added_tokens_decoder"),
        (r#"{"<pad>": 3, "a": 0}"#, "{}", Code::BadFile, "`<pad>`"),
        (r#"{"<pad>": -1}"#, "{}", Code::BadFile, "`<pad>`"),
        (r#"{"<pad>": 0.5}"#, "{}", Code::BadFile, "`<pad>`"),
        (r#"["<pad>"]"#, "{}", Code::BadFile, "vocab.json"),
        (r#"{"eng": {"<pad>": 0}}"#, "{}", Code::Unsupported, "`eng`"),
        ("{", "{}", Code::BadFile, "vocab.json"),
        (vocab, "[]", Code::BadFile, "no JSON object"),
    ] {
        let e = read(vocab, config).unwrap_err();
        assert_eq!((e.code, e.to_string().contains(said)), (code, true), "{vocab} {config}: {e}");
    }
}
