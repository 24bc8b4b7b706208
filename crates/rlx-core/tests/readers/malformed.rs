//! Every recorded way to break a GGUF file gives the message in `malformed.txt`, at the recorded byte.
//! `BLESS=1` rewrites the table; read what changed.

use crate::readers::broken::{Case, as_recorded, cases};
use crate::readers::gguf::read;
use crate::readers::{fixture, repository};
use rlx_core::gguf::HeaderReader;
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

#[test]
fn each_case_gives_its_message_at_its_byte() {
    let mut table = String::new();
    for Case { name, file, at } in cases(fixture) {
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
    as_recorded(&table, &repository("crates/rlx-core/tests/readers/malformed.txt"));
}

#[test]
fn one_byte_at_a_time_gives_the_same_message() {
    for Case { name, file, .. } in cases(fixture) {
        let whole = read("llama.gguf", &file, file.len().max(1));
        assert_eq!(read("llama.gguf", &file, 1), whole, "{name}");
    }
}

#[test]
fn without_the_files_size_each_case_still_fails() {
    for Case { name, file, .. } in cases(fixture) {
        let mut reader = HeaderReader::new("llama.gguf", None);
        let result = file.chunks(1000).try_for_each(|bytes| reader.push(bytes).map(|_| ()));
        let result = result.and_then(|()| reader.eof());
        assert_eq!(result.is_ok(), HEADER_PARSES.contains(&name.as_str()), "{name}: {result:?}");
    }
}
