//! Keys of a tokenizer that `rlx convert` writes: read again they give the folder's ids, and they are those that
//! llama.cpp's converter has written.

use super::*;
use rlx_core::Code;
use rlx_core::gguf::{Array, Entry, HeaderReader, Metadata, Value};
use rlx_core::models::convert::tokenizer_keys;
use std::collections::BTreeMap;

type Keys = BTreeMap<String, Value>;

fn files(name: &str) -> TokenizerFiles {
    let mut files = transformers_files(&fixtures().join("tokenizers"), name);
    if matches!(name, "gemma" | "phi3") {
        // The scores are in the folder's other file.
        let gguf = fixtures().join(format!("tokenizers/{name}.gguf"));
        let (data, _) = vocabulary(&std::fs::read(gguf).unwrap());
        files.put("tokenizer.model", "tokenizer.model", &sentencepiece(&data, false)).unwrap();
    }
    files
}

/// The keys of the folder of that name, whose model embeds `rows` tokens.
fn converted(files: &TokenizerFiles, name: &str, rows: u64) -> rlx_core::Result<Keys> {
    let data = files.vocabulary().unwrap();
    let keys = tokenizer_keys(&data, files.sentencepiece(), "llama", name, rows)?;
    Ok(keys.into_iter().collect())
}

fn read(keys: &Keys, name: &str) -> Tokenizer {
    let named = [("general.name".to_string(), Value::String(name.into()))];
    let all = keys.clone().into_iter().chain(named);
    let entries = all.map(|(key, value)| (key, Entry { value, at: 0 })).collect();
    Tokenizer::new(rlx_core::models::vocabulary(&Metadata::new("keys", entries)).unwrap()).unwrap()
}

#[test]
fn converted_tokenizers_give_the_folders_ids() {
    for name in ["llama3", "qwen2", "gemma", "phi3", "unigram"] {
        let keys = converted(&files(name), name, 600).unwrap_or_else(|e| panic!("{name}: {e}"));
        check(&fixtures().join("tokenizers"), name, &read(&keys, name), true);
    }
}

#[test]
fn converted_tokenizers_have_the_keys_of_llama_cpps_files() {
    for name in ["llama3", "gemma", "phi3", "unigram"] {
        let ours = converted(&files(name), name, 600).unwrap();
        let bytes = std::fs::read(fixtures().join(format!("tokenizers/{name}.gguf"))).unwrap();
        let mut reader = HeaderReader::new("recorded", None);
        reader.push(&bytes).unwrap();
        let theirs = reader.into_header().unwrap().metadata;
        for (key, entry) in theirs.iter().filter(|(key, _)| key.starts_with("tokenizer.ggml.")) {
            let short = &key["tokenizer.ggml.".len()..];
            let same = ours.get(key) == Some(&entry.value);
            let known = match (name, short) {
                // What nothing in RLX reads, and llama.cpp has as the default.
                (_, "add_sep_token") => true,
                // GGUF's converter was told the name; the folder says it by its expressions.
                ("unigram" | "gemma" | "phi3", "pre") => true,
                // Scores of tokens that are never merged.
                ("gemma" | "phi3", "scores") => scores_agree(ours.get(key), &entry.value),
                // The unknown token is a control token to some, which to readers is the same.
                ("gemma" | "phi3" | "unigram", "token_type") => {
                    types_agree(ours.get(key), &entry.value)
                }
                // It is known by its name, and has no key unless others end an answer too.
                ("gemma", "eot_token_id") => true,
                _ => false,
            };
            let got = ours.get(key);
            assert!(same || known, "{name}: {short}: {got:?}, {:?}", entry.value);
        }
    }
}

/// Equal wherever llama.cpp's converter has the score of a piece.
fn scores_agree(a: Option<&Value>, b: &Value) -> bool {
    let (Some(Value::Array(Array::F32(a))), Value::Array(Array::F32(b))) = (a, b) else {
        return false;
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || *b == -1000.0)
}

fn types_agree(a: Option<&Value>, b: &Value) -> bool {
    let (Some(Value::Array(Array::I32(a))), Value::Array(Array::I32(b))) = (a, b) else {
        return false;
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || matches!((a, b), (2 | 3, 2 | 3)))
}

#[test]
fn vocabularies_are_filled_up_and_never_cut() {
    let files = files("llama3");
    let keys = converted(&files, "llama3", 608).unwrap();
    let Some(Value::Array(Array::Strings(tokens))) = keys.get("tokenizer.ggml.tokens") else {
        panic!("no tokens")
    };
    assert_eq!((tokens.len(), tokens.get(607)), (608, Some("[PAD607]")));
    let Some(Value::Array(Array::I32(types))) = keys.get("tokenizer.ggml.token_type") else {
        panic!("no types")
    };
    assert_eq!(types[600..], [5; 8]);
    let e = converted(&files, "llama3", 599).unwrap_err();
    assert_eq!(
        (e.code, e.what.as_str()),
        (Code::BadFile, "the tokenizer has 600 tokens, and the model embeds 599")
    );
}

#[test]
fn merges_become_scores_where_these_say_the_same() {
    let json = |merges: &str| {
        let text = format!(
            r#"{{"model": {{"type": "BPE", "vocab": {{"a": 0, "b": 1, "ab": 2, "aba": 3, "ba": 4, "▁": 5}},
            "merges": [{merges}]}}, "normalizer": {{"type": "Replace", "pattern": {{"String": " "}},
            "content": "▁"}}}}"#
        );
        let mut files = TokenizerFiles::default();
        files.put("tokenizer.json", "tokenizer.json", text.as_bytes()).unwrap();
        // Without a name of its own the third token ends a text.
        let config = r#"{"bos_token": "b", "eos_token": "ab", "unk_token": "a"}"#;
        files.put("tokenizer_config.json", "tokenizer_config.json", config.as_bytes()).unwrap();
        files
    };
    // Every cut of each piece into two others is a merge, piece by piece.
    let whole = json(r#"["a", "b"], ["b", "a"], ["ab", "a"], ["a", "ba"]"#);
    let keys = converted(&whole, "x", 6).unwrap();
    let scores = Value::Array(Array::F32(vec![0.0, 0.0, -1.0, -3.0, -2.0, 0.0]));
    assert_eq!(keys.get("tokenizer.ggml.scores"), Some(&scores));
    let (ours, theirs) = (read(&keys, "x"), whole.tokenizer().unwrap());
    for text in ["abab", "baab", "a ba", "bbaaba"] {
        let ids = |t: &Tokenizer| t.encode(text, Special::Parse);
        assert_eq!(ids(&ours), ids(&theirs), "{text}");
    }
    // One that is missing, and pieces in turn.
    for merges in [
        r#"["a", "b"], ["b", "a"], ["ab", "a"]"#,
        r#"["a", "b"], ["ab", "a"], ["b", "a"], ["a", "ba"]"#,
    ] {
        let e = converted(&json(merges), "x", 6).unwrap_err();
        assert_eq!((e.code, e.at.as_str()), (Code::Unsupported, "tokenizer.json"), "{e}");
        assert!(e.hint.contains("tokenizer.model"), "{e}");
    }
}

#[test]
fn what_gguf_has_no_word_for_is_refused() {
    let path = fixtures().join("tokenizers/llama3.tokenizer.json");
    let whole = std::fs::read_to_string(path).unwrap();
    let error = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        let mut files = TokenizerFiles::default();
        files.put("tokenizer.json", "t", whole.replacen(from, to, 1).as_bytes()).unwrap();
        let e = converted(&files, "llama3", 600).unwrap_err();
        assert_eq!(e.code, Code::Unsupported);
        e.what
    };
    let blank = error("\"add_prefix_space\": false", "\"add_prefix_space\": true");
    assert!(blank.starts_with("a blank is put before text"), "{blank}");
    let rule = error("\"rstrip\": false", "\"rstrip\": true");
    assert!(rule.contains("takes the white space beside it"), "{rule}");
    let nfc = error("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
    assert!(nfc.starts_with("no pre-tokenizer of GGUF cuts text as `llama-bpe` does"), "{nfc}");
}
