//! Random and mutated files: an answer or an error, never a panic, and the same in any chunks.

use crate::readers::fixture;
use proptest::prelude::*;
use rlx_core::gguf::{Array, HeaderReader, ModelFiles, TensorSpec, Value, Writer};
use rlx_core::safetensors::json::Json;
use rlx_core::types::{BlockFormat, DType};
use std::sync::LazyLock;

/// A small good file: each edit is likely to hit a field.
static GGUF: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let pairs = [
        ("general.architecture", Value::String("llama".into())),
        ("general.alignment", Value::U32(32)),
        ("split.no", Value::U16(0)),
        ("split.count", Value::U16(1)),
        ("tokens", Value::Array(Array::Strings(["a", "b"].into_iter().collect()))),
        ("scores", Value::Array(Array::F32(vec![1.0, 2.0]))),
    ]
    .map(|(key, value)| (key.to_string(), value));
    let spec = |name: &str, dtype, dims: &[u64]| TensorSpec {
        name: name.into(),
        dtype,
        dims: dims.to_vec(),
    };
    let writer = Writer::new(
        &pairs,
        &[spec("a", DType::F32, &[2, 4]), spec("b", DType::Block(BlockFormat::Q8_0), &[2, 32])],
    )
    .unwrap();
    let mut file = writer.header().to_vec();
    file.resize(writer.file_bytes() as usize, 0);
    file
});

static SAFETENSORS: LazyLock<Vec<u8>> = LazyLock::new(|| fixture("llama32/io.safetensors"));

fn read_gguf(file: &[u8], size: Option<u64>, chunk: usize) -> rlx_core::Result<()> {
    let mut reader = HeaderReader::new("x.gguf", size);
    for bytes in file.chunks(chunk) {
        reader.push(bytes)?;
    }
    reader.eof()?;
    let header = reader.into_header().unwrap();
    for tensor in &header.tensors {
        assert!(tensor.offset + tensor.bytes <= file.len() as u64);
    }
    ModelFiles::new(vec![header]).map(|_| ())
}

/// A good file with bytes and little-endian words overwritten, then cut.
fn mutated(good: &'static [u8], head: usize) -> impl Strategy<Value = Vec<u8>> {
    let words = prop_oneof![
        any::<u64>(),
        0..64u64,
        Just(u64::MAX),
        Just(1 << 63),
        Just(i64::MAX as u64),
        Just(1 << 60)
    ];
    let edits = prop::collection::vec((0..head, words, 1..=8usize), 1..4);
    (edits, prop::option::weighted(0.2, 0..good.len())).prop_map(move |(edits, cut)| {
        let mut file = good.to_vec();
        for (at, word, len) in edits {
            let len = len.min(file.len() - at);
            file[at..at + len].copy_from_slice(&word.to_le_bytes()[..len]);
        }
        file.truncate(cut.unwrap_or(file.len()));
        file
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_bytes_after_a_magic_never_panic(
        tail in prop::collection::vec(any::<u8>(), 0..300),
        counts in (0..4u64, 0..4u64),
    ) {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend_from_slice(&counts.0.to_le_bytes());
        file.extend_from_slice(&counts.1.to_le_bytes());
        file.extend_from_slice(&tail);
        let size = Some(file.len() as u64);
        prop_assert_eq!(read_gguf(&file, size, 1), read_gguf(&file, size, 1000));
        let _ = read_gguf(&file, None, 7);
        let _ = read_gguf(&tail, None, 7);
    }

    #[test]
    fn mutated_gguf_headers_never_panic_and_chunks_do_not_matter(
        file in mutated(&GGUF, 512.min(GGUF.len())),
        chunk in 1..64usize,
    ) {
        let size = Some(file.len() as u64);
        prop_assert_eq!(read_gguf(&file, size, chunk), read_gguf(&file, size, 1 << 20));
        let _ = read_gguf(&file, None, chunk);
    }

    #[test]
    fn mutated_safetensors_headers_never_panic_and_chunks_do_not_matter(
        file in mutated(&SAFETENSORS, 600),
        chunk in 64..4096usize,
    ) {
        let whole = crate::readers::safetensors::read(&file, 1 << 20);
        prop_assert_eq!(crate::readers::safetensors::read(&file, chunk), whole);
    }

    #[test]
    fn random_json_like_text_never_panics(text in "[\\[\\]{}\",:0-9eE.+\\-tfnul\\\\ud8a \n]{0,60}") {
        if let Ok(ours) = Json::parse(text.as_bytes(), "x", 0) {
            // What we read, serde_json reads too, but for numbers too large for it.
            let theirs: Result<serde_json::Value, _> = serde_json::from_str(&text);
            let large = format!("{:?}", ours).contains("inf");
            prop_assert!(theirs.is_ok() || large, "{:?}", text);
        }
    }
}
