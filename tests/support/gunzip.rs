//! Fixtures that are kept compressed.

use std::io::Read;

/// The bytes of a file of `tests/fixtures` that has `.gz` behind this name.
pub fn gunzip(name: &str) -> Vec<u8> {
    let path = format!("{}/../../tests/fixtures/{name}.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("a whole file");
    bytes
}
