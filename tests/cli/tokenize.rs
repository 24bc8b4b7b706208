//! `rlx tokenize`: the recorded ids of every kind of file, and text back.

use super::{fails, fixture, folder, repository, rlx, run};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// What a command prints for this on stdin, and its exit code and complaints.
fn piped(command: &mut Command, input: &[u8]) -> (i32, Vec<u8>, String) {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // A command that refuses its arguments may end before it reads.
    let _ = child.stdin.take().unwrap().write_all(input);
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (status.code().expect("no signal"), stdout, String::from_utf8(stderr).unwrap())
}

#[track_caller]
fn printed(args: &[&str], input: &[u8]) -> String {
    let (code, stdout, stderr) = piped(rlx(&["tokenize"]).args(args), input);
    assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
    String::from_utf8(stdout).unwrap()
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn words(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ") + "\n"
}

#[test]
fn every_kind_of_file_gives_the_recorded_ids_and_text_back() {
    let strings: Value = serde_json::from_slice(&fixture("tokenizers/strings.json")).unwrap();
    for name in ["llama3", "gemma", "phi3", "unigram", "bert"] {
        let record: Value =
            serde_json::from_slice(&fixture(&format!("tokenizers/{name}.json"))).unwrap();
        // A transformers folder of the same tokenizer.
        let folder = folder(&format!("tokenize-{name}"));
        for part in ["tokenizer.json", "tokenizer_config.json"] {
            let from = repository("tests/fixtures/tokenizers").join(format!("{name}.{part}"));
            if from.exists() {
                std::fs::copy(from, folder.join(part)).unwrap();
            }
        }
        let files = [
            format!("tests/fixtures/tokenizers/{name}.gguf"),
            format!("tests/fixtures/tokenizers/{name}.tokenizer.json"),
            folder.display().to_string(),
        ];
        let cases = strings["strings"].as_array().unwrap().iter();
        for (string, case) in cases.zip(record["strings"].as_array().unwrap()).step_by(17) {
            let (label, text) = (&string["name"], string["text"].as_str().unwrap());
            if *label == "metaspace" {
                // U+2581 in a text: Gemma's GGUF file and its tokenizer.json do not say the same.
                continue;
            }
            let want = ids(&case["ids"]);
            for file in &files {
                let got = printed(&[file], text.as_bytes());
                assert_eq!(got, words(&want), "{file}: {label}");
                if name != "bert" {
                    let back = printed(&[file, "--decode"], got.as_bytes());
                    let decoded = case.get("decoded").map_or(text, |text| text.as_str().unwrap());
                    assert_eq!(back, decoded, "{file}: {label}");
                }
            }
        }
    }
}

#[test]
fn control_tokens_are_read_or_are_text_and_ids_are_lines_or_json() {
    const PHI: &str = "tests/fixtures/tokenizers/phi3.gguf";
    let text = "<|user|>\nhi<|end|>\n".as_bytes();
    assert_eq!(printed(&[PHI], text), "1 599 448 473 598\n");
    assert_eq!(printed(&[PHI, "--json"], text), "[1,599,448,473,598]\n");
    assert_eq!(printed(&[PHI, "--decode"], b"[1,599, 448,473,598]\n"), "hi");
    let literal = printed(&[PHI, "--no-special"], text);
    assert!(literal.starts_with("283 554 363 260 554 487 13 "), "{literal}");
    assert_eq!(printed(&[PHI, "--decode"], literal.as_bytes()).as_bytes(), text);
    assert_eq!(printed(&[PHI, "--no-special"], b""), "\n");
    // One U+FFFD for a byte that is no UTF-8.
    let (broken, replaced) = (printed(&[PHI], b"a\xff"), printed(&[PHI], "a\u{fffd}".as_bytes()));
    assert_eq!(broken, replaced);
}

#[test]
fn many_texts_are_read_where_zero_bytes_end_them() {
    const PHI: &str = "tests/fixtures/tokenizers/phi3.gguf";
    // One with a line's end, an empty one, one that is no UTF-8; no zero byte need end the last.
    let texts: [&[u8]; 4] = [b"hi\nyou", b"", b"a\xff", b"<|end|>"];
    let input = texts.join(&0);
    for args in [&[PHI][..], &[PHI, "--json"], &[PHI, "--no-special"]] {
        let alone: String = texts.iter().map(|text| printed(args, text)).collect();
        let many = [args, &["--null"]].concat();
        assert_eq!(printed(&many, &input), alone, "{args:?}");
        assert_eq!(printed(&many, &[&input[..], b"\0"].concat()), alone, "{args:?}");
        assert_eq!(printed(&many, b""), "");
    }
    let ids = printed(&[PHI, "-0"], &input);
    assert_eq!(printed(&[PHI, "-0", "--decode"], ids.as_bytes()), "hi\nyou\0\0a\u{fffd}\0\0");
}

#[test]
fn what_is_wrong_is_said() {
    const LLAMA: &str = "tests/fixtures/tokenizers/llama3.gguf";
    let said = |args: &[&str], input: &[u8]| {
        let (code, stdout, stderr) = piped(rlx(&["tokenize"]).args(args), input);
        assert!(stdout.is_empty());
        (code, stderr)
    };
    let (code, stderr) = said(&[LLAMA, "--decode"], b"1 x");
    assert_eq!(
        (code, stderr.as_str()),
        (
            2,
            "error: `x` is no token id\nhint: give ids as `rlx tokenize` prints them: numbers between \
             blanks, or a JSON array\n"
        )
    );
    let (code, stderr) = said(&[LLAMA, "--decode"], b"600");
    assert_eq!(code, 2);
    assert!(stderr.starts_with("error: token 600 is outside the 600 tokens\n"), "{stderr}");
    let (code, stderr) = said(&["tests/fixtures/tokenizers/bert.gguf", "--decode"], b"1");
    assert_eq!(code, 3);
    assert!(stderr.starts_with("error: WordPiece keeps no blanks"), "{stderr}");
    fails(
        &mut rlx(&["tokenize", "Cargo.toml"]),
        3,
        "this is no tokenizer (Cargo.toml)",
        "give a .gguf file, a tokenizer.json or tokenizer.model, or the folder they are in",
    );
    let (code, _, stderr) = run(&mut rlx(&["tokenize", "docs"]));
    assert_eq!(code, 3);
    assert!(stderr.contains("has no tokenizer.json, tokenizer.model or vocab.txt"), "{stderr}");
}
