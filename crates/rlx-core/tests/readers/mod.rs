//! The file readers and block decoding against recorded files, broken files and random ones.

#[path = "../../../../tests/support/malformed.rs"]
mod broken;
mod dequantize;
mod encode;
mod gguf;
mod malformed;
mod random;
mod safetensors;
mod shards;

use std::path::{Path, PathBuf};

/// A file under the repository's root.
fn repository(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

/// The bytes of a recorded file.
fn fixture(path: &str) -> Vec<u8> {
    let path = repository("tests/fixtures").join(path);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
