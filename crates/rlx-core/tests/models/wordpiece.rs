//! WordPiece against what the tokenizers library recorded, from each form of a vocabulary.

use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::models;
use rlx_core::safetensors::json::Json;
use rlx_core::text::{Special, WordPiece, WordPieceData};
use serde_json::Value;
use std::path::PathBuf;

fn fixture(name: &str) -> Vec<u8> {
    let root =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tokenizers"));
    std::fs::read(root.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&fixture(name)).unwrap()
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

fn by_json() -> WordPiece {
    let json = Json::parse(&fixture("bert.tokenizer.json"), "tokenizer.json", 0).unwrap();
    WordPiece::new(WordPieceData::from_tokenizer_json(&json).unwrap()).unwrap()
}

fn by_gguf() -> WordPiece {
    let mut reader = HeaderReader::new("bert.gguf", None);
    reader.push(&fixture("bert.gguf")).unwrap();
    models::wordpiece(&ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap()).unwrap()
}

fn by_vocab() -> WordPiece {
    let vocab = json("bert.tokenizer.json")["model"]["vocab"].clone();
    let mut tokens: Vec<(u64, String)> =
        vocab.as_object().unwrap().iter().map(|(t, n)| (n.as_u64().unwrap(), t.clone())).collect();
    tokens.sort();
    let lines: Vec<String> = tokens.into_iter().map(|t| t.1).collect();
    WordPiece::new(WordPieceData::from_vocab_txt(&lines.join("\n")).unwrap()).unwrap()
}

#[test]
fn every_form_of_a_vocabulary_gives_the_recorded_ids() {
    let (strings, expected) = (json("strings.json"), json("bert.json"));
    for (form, tokenizer) in
        [("tokenizer.json", by_json()), ("GGUF", by_gguf()), ("vocab.txt", by_vocab())]
    {
        assert_eq!(tokenizer.vocab_size(), 800);
        let cases = strings["strings"].as_array().unwrap();
        let mut wrong = Vec::new();
        for (string, case) in cases.iter().zip(expected["strings"].as_array().unwrap()) {
            let (label, text) = (&string["name"], string["text"].as_str().unwrap());
            let want = ids(&case["ids"]);
            let got = tokenizer.encode_document(text, Special::Parse, usize::MAX);
            if got != want {
                wrong.push(format!("{label}: {got:?}, expected {want:?}"));
            }
            let literal = case.get("literal_ids").map_or(want, ids);
            let got = tokenizer.encode_document(text, Special::Literal, usize::MAX);
            if got != literal {
                wrong.push(format!("{label}, literal: {got:?}, expected {literal:?}"));
            }
        }
        for (bytes, case) in
            strings["bytes"].as_array().unwrap().iter().zip(expected["bytes"].as_array().unwrap())
        {
            let text: Vec<u8> = ids(&bytes["bytes"]).into_iter().map(|b| b as u8).collect();
            let text = String::from_utf8_lossy(&text);
            let got = tokenizer.encode_document(&text, Special::Parse, usize::MAX);
            if got != ids(&case["lossy_ids"]) {
                wrong.push(format!("{}: {got:?}", bytes["name"]));
            }
        }
        assert!(wrong.is_empty(), "{form}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_text_is_cut_off_between_its_ends() {
    let t = by_json();
    let whole = t.encode_document("the borrow checker", Special::Literal, usize::MAX);
    assert_eq!((whole[0], *whole.last().unwrap()), (2, 3));
    for limit in 2..whole.len() + 2 {
        let cut = t.encode_document("the borrow checker", Special::Literal, limit);
        let kept = limit.min(whole.len());
        assert_eq!(cut.len(), kept);
        assert_eq!(cut[..kept - 1], whole[..kept - 1]);
        assert_eq!(cut[kept - 1], 3);
    }
    // What is cut off is not read.
    let long = "word ".repeat(1 << 22);
    assert_eq!(t.encode_document(&long, Special::Literal, 16).len(), 16);
}

#[test]
fn long_words_are_unknown_whatever_they_are_made_of() {
    let t = by_json();
    assert_ne!(t.encode(&"a".repeat(100), Special::Literal), [t.unk()]);
    assert_eq!(t.encode(&"a".repeat(101), Special::Literal), [t.unk()]);
    assert_eq!(t.encode(&"a".repeat(10_000_000), Special::Literal), [t.unk()]);
}

#[test]
fn faults_of_a_vocabulary_are_named() {
    let said = WordPieceData::from_vocab_txt("a\nb").unwrap_err().to_string();
    assert!(said.contains("no token [UNK]"), "{said}");
    let change = |from: &str, to: &str| {
        let text = String::from_utf8(fixture("bert.tokenizer.json")).unwrap();
        // The file is written with blanks or without.
        let text = text.replace(": ", ":").replace(", ", ",");
        assert!(text.contains(from), "{from}");
        let json = Json::parse(text.replacen(from, to, 1).as_bytes(), "t", 0).unwrap();
        WordPieceData::from_tokenizer_json(&json).unwrap_err().to_string()
    };
    for (from, to, what) in [
        (r#""type":"BertNormalizer""#, r#""type":"NFC""#, "a normalizer of type NFC"),
        (r#""type":"BertPreTokenizer""#, r#""type":"Split""#, "a pre_tokenizer of type Split"),
        (r#""type":"TemplateProcessing""#, r#""type":"Roberta""#, "type Roberta"),
        (r###""continuing_subword_prefix":"##""###, r#""continuing_subword_prefix":"@""#, "##"),
        (r#""id":0"#, r#""id":4000000000"#, "outside the vocabulary"),
    ] {
        let said = change(from, to);
        assert!(said.contains(what), "{to}: {said}");
    }
    let e = WordPieceData::from_gguf(&["[UNK]"], Some(&[3, 3]), None, true).unwrap_err();
    assert_eq!(e.what, "2 token types for 1 tokens");
    assert!(WordPieceData::from_gguf(&["a"], None, None, true).is_err());
}
