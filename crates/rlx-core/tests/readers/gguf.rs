//! Good files: the same header whatever the chunks, typed reads, writing and reading back.

use crate::readers::{fixture, repository};
use rlx_core::gguf::{Array, Header, HeaderReader, Progress, Strings, TensorSpec, Value, Writer};
use rlx_core::types::{BlockFormat, DType};

/// Reads a header in chunks of `chunk` bytes, and the rest of the file.
pub fn read(name: &str, file: &[u8], chunk: usize) -> rlx_core::Result<Header> {
    let mut reader = HeaderReader::new(name, Some(file.len() as u64));
    for bytes in file.chunks(chunk) {
        reader.push(bytes)?;
    }
    reader.eof()?;
    Ok(reader.into_header().unwrap())
}

/// Rebuilds a file's header from what was read; equal bytes prove that nothing was lost.
fn write_again(header: &Header) -> Writer {
    let mut pairs: Vec<_> = header.metadata.iter().collect();
    pairs.sort_by_key(|(_, entry)| entry.at);
    let pairs: Vec<_> = pairs.iter().map(|(k, e)| (k.to_string(), e.value.clone())).collect();
    let specs: Vec<_> = header
        .tensors
        .iter()
        .map(|t| TensorSpec { name: t.name.clone(), dtype: t.dtype, dims: t.dims.clone() })
        .collect();
    Writer::new(&pairs, &specs).unwrap()
}

#[test]
fn chunk_sizes_do_not_matter() {
    let file = fixture("gguf/llama.gguf");
    let whole = read("llama.gguf", &file, file.len()).unwrap();
    for chunk in [1, 2, 7, 4096] {
        assert_eq!(read("llama.gguf", &file, chunk).unwrap(), whole, "chunks of {chunk}");
    }
}

#[test]
fn the_header_of_a_known_file_is_as_recorded() {
    let header = read("llama.gguf", &fixture("gguf/llama.gguf"), 1 << 20).unwrap();
    assert_eq!((header.version, header.alignment, header.data_start), (3, 32, 16160));
    assert_eq!((header.metadata.iter().count(), header.tensors.len()), (29, 22));
    let metadata = &header.metadata;
    assert_eq!(metadata.str("general.architecture").unwrap(), "llama");
    assert_eq!(metadata.get("general.architecture").unwrap().at, 56);
    assert_eq!(metadata.u32("llama.block_count").unwrap(), 2);
    assert_eq!(metadata.strings("tokenizer.ggml.tokens").unwrap().len(), 600);
    assert_eq!(metadata.opt_i32s("tokenizer.ggml.token_type").unwrap().unwrap().len(), 600);
    let output = header.tensor("output.weight").unwrap();
    assert_eq!((output.dtype, output.dims.as_slice()), (DType::F16, &[600, 64][..]));
    assert_eq!((output.dims_len_at(), output.dims_at(), output.type_at()), (14952, 14956, 14972));
    assert_eq!(output.elements(), 38400);
    assert_eq!(header.tensor("blk.0.ffn_down.weight").unwrap().offset_at(), 15148);
    assert!(header.tensor("none").is_none());
}

#[test]
fn done_comes_with_the_headers_last_byte() {
    let file = fixture("gguf/llama.gguf");
    let mut reader = HeaderReader::new("llama.gguf", None);
    assert_eq!(reader.push(&file[..16148]).unwrap(), Progress::NeedMore);
    assert!(reader.header().is_none());
    assert_eq!(reader.push(&file[16148..16149]).unwrap(), Progress::Done);
    assert_eq!(reader.header().unwrap().data_start, 16160);
    assert_eq!(reader.push(&file[16149..]).unwrap(), Progress::Done);
    assert_eq!(reader.seen(), file.len() as u64);
    reader.eof().unwrap();
}

#[test]
fn without_a_size_the_end_tells_what_is_cut() {
    let file = fixture("gguf/llama.gguf");
    let cases = [
        (10, "the file ends in the tensor count (llama.gguf, byte 8)"),
        (
            9998,
            "the file ends in the length of string 0 of tokenizer.ggml.merges (llama.gguf, byte 9993)",
        ),
        (
            318527,
            "the file ends at byte 318527, the data of output_norm.weight at byte 318528 (llama.gguf, byte 318527)",
        ),
    ];
    for (size, message) in cases {
        let mut reader = HeaderReader::new("llama.gguf", None);
        reader.push(&file[..size]).unwrap();
        let error = reader.eof().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{message}; the file is incomplete; download it again")
        );
        assert_eq!(reader.push(&[0]).unwrap_err(), error, "an error stays");
    }
}

#[test]
fn a_source_that_stops_half_way_is_an_io_error() {
    let file = fixture("gguf/llama.gguf");
    for size in [9000, 20000] {
        let mut reader = HeaderReader::new("llama.gguf", Some(file.len() as u64));
        reader.push(&file[..size]).unwrap();
        let error = reader.eof().unwrap_err();
        assert_eq!(error.code, rlx_core::Code::Io);
        assert_eq!(error.what, format!("the source ended after {size} of 318528 bytes"));
    }
}

#[test]
fn recorded_files_are_written_back_byte_for_byte() {
    for path in [
        "tests/fixtures/gguf/llama.gguf",
        "tests/fixtures/gguf/llama-q4_k_m.gguf",
        "tests/fixtures/gguf/llama-q6_k.gguf",
        "tests/fixtures/tokenizers/llama3.gguf",
        "models/rustdoc-29m/rustdoc-29m-q4_k_m-00001-of-00003.gguf",
        "models/rustdoc-29m/rustdoc-29m-q4_k_m-00003-of-00003.gguf",
    ] {
        let file = std::fs::read(repository(path)).unwrap();
        let header = read(path, &file, 1 << 20).unwrap();
        let writer = write_again(&header);
        let written = writer.header();
        assert!(written == &file[..written.len().min(file.len())], "{path}");
        for (i, tensor) in header.tensors.iter().enumerate() {
            assert_eq!(
                (writer.offset(i), writer.bytes(i)),
                (tensor.offset, tensor.bytes),
                "{path}"
            );
        }
        assert_eq!(writer.file_bytes(), file.len() as u64, "{path}");
    }
}

#[test]
fn version_2_reads_as_version_3_does() {
    let mut file = fixture("gguf/llama.gguf");
    let mut header = read("llama.gguf", &file, 1 << 20).unwrap();
    file[4] = 2;
    header.version = 2;
    assert_eq!(read("llama.gguf", &file, 1 << 20).unwrap(), header);
}

/// One pair of each type, a wide alignment, packed and scalar tensors.
fn sample() -> (Vec<(String, Value)>, Writer) {
    let pairs: Vec<(String, Value)> = [
        ("general.alignment", Value::U32(128)),
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-100)),
        ("u16", Value::U16(60000)),
        ("i16", Value::I16(-30000)),
        ("i32", Value::I32(-7)),
        ("u64", Value::U64(u64::MAX)),
        ("i64", Value::I64(i64::MIN)),
        ("f32", Value::F32(0.5)),
        ("f64", Value::F64(1e300)),
        ("bool", Value::Bool(true)),
        ("string", Value::String("größer".into())),
        ("empty", Value::Array(Array::Strings(Strings::new()))),
        ("u8s", Value::Array(Array::U8(vec![1, 2]))),
        ("i8s", Value::Array(Array::I8(vec![-1]))),
        ("u16s", Value::Array(Array::U16(vec![1, 65535]))),
        ("i16s", Value::Array(Array::I16(vec![-2]))),
        ("u32s", Value::Array(Array::U32(vec![3, 4]))),
        ("i32s", Value::Array(Array::I32(vec![5, 6]))),
        ("u64s", Value::Array(Array::U64(vec![7]))),
        ("i64s", Value::Array(Array::I64(vec![-8]))),
        ("f32s", Value::Array(Array::F32(vec![0.25]))),
        ("f64s", Value::Array(Array::F64(vec![-0.25]))),
        ("bools", Value::Array(Array::Bool(vec![true, false]))),
        ("strings", Value::Array(Array::Strings(["a", "", "bc"].into_iter().collect()))),
    ]
    .map(|(k, v)| (k.to_string(), v))
    .into();
    let spec = |name: &str, dtype, dims: &[u64]| TensorSpec {
        name: name.into(),
        dtype,
        dims: dims.to_vec(),
    };
    let writer = Writer::new(
        &pairs,
        &[
            spec("a", DType::F32, &[3]),
            spec("b", DType::Block(BlockFormat::Q4K), &[2, 512]),
            spec("c", DType::F16, &[2, 3, 4, 5]),
        ],
    )
    .unwrap();
    (pairs, writer)
}

fn sample_file() -> Vec<u8> {
    let (_, writer) = sample();
    let mut file = writer.header().to_vec();
    for i in 0..3 {
        assert_eq!(file.len() as u64, writer.offset(i));
        file.resize(file.len() + (writer.bytes(i) + writer.padding(i)) as usize, 0);
    }
    assert_eq!(file.len() as u64, writer.file_bytes());
    file
}

#[test]
fn values_of_every_type_come_back() {
    let header = read("s.gguf", &sample_file(), 1).unwrap();
    assert_eq!(header.alignment, 128);
    for (key, value) in sample().0 {
        assert_eq!(header.metadata.get(&key).unwrap().value, value, "{key}");
    }
    let tensors: Vec<_> = header
        .tensors
        .iter()
        .map(|t| (t.name.as_str(), t.dims.as_slice(), t.offset - header.data_start, t.bytes))
        .collect();
    assert_eq!(
        tensors,
        [("a", &[3][..], 0, 12), ("b", &[2, 512], 128, 576), ("c", &[2, 3, 4, 5], 768, 240)]
    );
    assert_eq!(header.tensor_bytes(), 828);
    let strings = header.metadata.strings("strings").unwrap();
    assert_eq!(strings.iter().collect::<Vec<_>>(), ["a", "", "bc"]);
    assert_eq!((strings.get(2), strings.get(3)), (Some("bc"), None));
}

#[test]
fn getters_name_key_type_and_byte() {
    let header = read("s.gguf", &sample_file(), 1 << 20).unwrap();
    let m = &header.metadata;
    assert_eq!((m.u32("u16").unwrap(), m.u64("u64").unwrap()), (60000, u64::MAX));
    assert_eq!((m.f32("f64").unwrap(), m.bool("bool").unwrap()), (f32::INFINITY, true));
    assert_eq!((m.u32s("i32s").unwrap(), m.u32s("u8").unwrap()), (vec![5, 6], vec![200]));
    assert_eq!(m.opt_f32s("f32s").unwrap(), Some(&[0.25][..]));
    assert_eq!((m.opt_u32("none").unwrap(), m.opt_str("none").unwrap()), (None, None));
    let at = |key: &str| m.get(key).unwrap().at - 4;
    let again = "convert the model again with a current converter";
    let cases = [
        (m.u32("f32").unwrap_err(), format!("f32 is f32, expected u32 (s.gguf, byte {}); {again}", at("f32"))),
        (m.u32("i32").unwrap_err(), format!("i32 is the i32 -7, expected u32 (s.gguf, byte {}); {again}", at("i32"))),
        (m.str("strings").unwrap_err(), format!("strings is array of strings, expected string (s.gguf, byte {}); {again}", at("strings"))),
        (m.strings("string").unwrap_err(), format!("string is string, expected array of strings (s.gguf, byte {}); {again}", at("string"))),
        (m.u32("none").unwrap_err(), "metadata key none is missing (s.gguf); use a file that its converter finished, made for language models".to_string()),
        (m.bad_value("i32", "i32 is odd"), format!("i32 is odd (s.gguf, byte {}); the file is damaged; download or convert it again", at("i32") + 4)),
    ];
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn faults_of_pairs_that_no_recorded_case_has_are_named() {
    let header = read("s.gguf", &sample_file(), 1 << 20).unwrap();
    let at = |key: &str| header.metadata.get(key).unwrap().at;
    let cases = [
        (at("bool"), 7, format!("bool bool is 7, needed is 0 or 1 (s.gguf, byte {})", at("bool"))),
        (
            at("bools") + 13,
            2,
            format!("bool bools is 2, needed is 0 or 1 (s.gguf, byte {})", at("bools") + 13),
        ),
        (
            at("string") + 8,
            0xff,
            format!("the string string is not UTF-8 (s.gguf, byte {})", at("string")),
        ),
        (
            at("strings") + 20,
            0xff,
            format!("string 0 of strings is not UTF-8 (s.gguf, byte {})", at("strings") + 12),
        ),
    ];
    for (byte, value, message) in cases {
        let mut file = sample_file();
        file[byte as usize] = value;
        let error = read("s.gguf", &file, 1 << 20).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{message}; the file is damaged; download or convert it again")
        );
    }
}

#[test]
fn what_is_given_in_a_ggufs_place_is_recognised() {
    let cases: [(&[u8], &str); 3] = [
        (
            b"<!DOCTYPE html>",
            "not a GGUF file: it looks like an HTML page (m.gguf, byte 0); check the URL: the server answered with a page",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1",
            "not a GGUF file: it looks like a Git LFS pointer (m.gguf, byte 0); fetch the file itself: git lfs pull",
        ),
        (
            b"PK\x03\x04 and more",
            "not a GGUF file: it looks like a zip archive, perhaps a PyTorch checkpoint (m.gguf, byte 0); convert it to GGUF or safetensors",
        ),
    ];
    for (bytes, message) in cases {
        assert_eq!(read("m.gguf", bytes, 1).unwrap_err().to_string(), message);
    }
}

#[test]
fn the_writer_refuses_what_gguf_cannot_hold() {
    let tensor = |name: &str, dtype, dims: &[u64]| {
        [TensorSpec { name: name.into(), dtype, dims: dims.to_vec() }]
    };
    let q4_k = DType::Block(BlockFormat::Q4K);
    let cases = [
        (tensor("", DType::F32, &[1]), "tensor name \"\" has 0 bytes, needed are 1 to 63"),
        (tensor("t", DType::U32, &[1]), "tensor t: GGUF has no type u32"),
        (tensor("t", q4_k, &[4, 100]), "tensor t: GGUF cannot hold [4, 100] of q4_k"),
        (tensor("t", DType::F32, &[]), "tensor t: GGUF cannot hold [] of f32"),
        (tensor("t", DType::F32, &[2, 0]), "tensor t: GGUF cannot hold [2, 0] of f32"),
        (
            tensor("t", DType::F32, &[1 << 62, 2]),
            "tensor t: GGUF cannot hold [4611686018427387904, 2] of f32",
        ),
    ];
    for (tensors, message) in cases {
        assert_eq!(Writer::new(&[], &tensors).unwrap_err().what, message);
    }
    let pair = |value| [("general.alignment".to_string(), value)];
    for value in [Value::U32(24), Value::U64(32)] {
        let error = Writer::new(&pair(value), &[]).unwrap_err();
        assert_eq!(error.what, "general.alignment must be a u32 power of two");
    }
}
