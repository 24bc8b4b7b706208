//! Every recorded way to break a GGUF file gives the message in `malformed.txt`, at the recorded byte.
//! `BLESS=1` rewrites the table; read what changed.

use crate::gguf::read;
use crate::{fixture, repository};
use rlx_core::gguf::HeaderReader;
use serde_json::Value;
use std::fmt::Write;

/// Cases that a header does not show: the model's reader finds them, or nothing is wrong.
const HEADER_PARSES: [&str; 12] = [
    "architecture-missing",
    "architecture-unknown",
    "parameter-missing",
    "parameter-wrong-type",
    "blocks-more-than-tensors",
    "heads-zero",
    "tensor-missing",
    "tensor-wrong-shape",
    "token-types-missing",
    "merge-without-space",
    "eos-out-of-range",
    "trailing-garbage",
];

/// The good file after a case's edits: the highest offset first, equal ones in the order given.
fn broken(good: &[u8], ops: &[Value]) -> Vec<u8> {
    let mut file = good.to_vec();
    let mut ops: Vec<_> = ops.iter().map(|op| op.as_array().unwrap()).collect();
    ops.sort_by_key(|op| std::cmp::Reverse(op[1].as_u64().unwrap()));
    for op in ops {
        let at = op[1].as_u64().unwrap() as usize;
        let bytes = || -> Vec<u8> {
            let hex = op[2].as_str().unwrap();
            (0..hex.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
                .collect()
        };
        match op[0].as_str().unwrap() {
            "set" => file[at..at + bytes().len()].copy_from_slice(&bytes()),
            "insert" | "append" => drop(file.splice(at..at, bytes())),
            "delete" => drop(file.drain(at..at + op[2].as_u64().unwrap() as usize)),
            "truncate" => file.truncate(at),
            other => panic!("{other}"),
        }
    }
    file
}

fn cases() -> Vec<(String, Vec<u8>, Option<u64>)> {
    let table: Value = serde_json::from_slice(&fixture("malformed.json")).unwrap();
    let good = fixture(table["base"].as_str().unwrap());
    assert_eq!(table["base_bytes"], good.len());
    let cases = table["cases"].as_array().unwrap().iter();
    let cases = cases.map(|case| {
        let file = broken(&good, case["ops"].as_array().unwrap());
        (case["name"].as_str().unwrap().to_string(), file, case["at"].as_u64())
    });
    cases.collect()
}

#[test]
fn each_case_gives_its_message_at_its_byte() {
    let mut table = String::new();
    for (name, file, at) in cases() {
        match read("llama.gguf", &file, file.len().max(1)) {
            Ok(_) => {
                assert!(HEADER_PARSES.contains(&name.as_str()), "{name} is accepted");
                writeln!(table, "{name}: the header parses").unwrap();
            }
            Err(error) => {
                assert!(!HEADER_PARSES.contains(&name.as_str()), "{name}: {error}");
                assert_eq!(
                    error.at,
                    format!("llama.gguf, byte {}", at.unwrap()),
                    "{name}: {error}"
                );
                writeln!(table, "{name}: [{}] {error}", error.code.name()).unwrap();
            }
        }
    }
    let path = repository("crates/rlx-core/tests/readers/malformed.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    for (got, want) in table.lines().zip(recorded.lines()) {
        assert_eq!(got, want);
    }
    assert_eq!(table, recorded);
}

#[test]
fn one_byte_at_a_time_gives_the_same_message() {
    for (name, file, _) in cases() {
        let whole = read("llama.gguf", &file, file.len().max(1));
        assert_eq!(read("llama.gguf", &file, 1), whole, "{name}");
    }
}

#[test]
fn without_the_files_size_each_case_still_fails() {
    for (name, file, _) in cases() {
        let mut reader = HeaderReader::new("llama.gguf", None);
        let result = file.chunks(1000).try_for_each(|bytes| reader.push(bytes).map(|_| ()));
        let result = result.and_then(|()| reader.eof());
        assert_eq!(result.is_ok(), HEADER_PARSES.contains(&name.as_str()), "{name}: {result:?}");
    }
}
