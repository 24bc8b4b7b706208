//! The safetensors header: recorded files in chunks of any size, and broken ones.

use crate::readers::fixture;
use rlx_core::safetensors::json::Json;
use rlx_core::safetensors::{Header, HeaderReader};
use rlx_core::types::DType;
use rlx_core::{Code, Result};

pub fn read(file: &[u8], chunk: usize) -> Result<Header> {
    let mut reader = HeaderReader::new("m.safetensors", Some(file.len() as u64));
    for bytes in file.chunks(chunk) {
        reader.push(bytes)?;
    }
    reader.eof()?;
    Ok(reader.into_header().unwrap())
}

/// A file of that JSON and that many data bytes.
fn file(json: &str, data: usize) -> Vec<u8> {
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(json.as_bytes());
    file.resize(file.len() + data, 0);
    file
}

#[test]
fn recorded_files_read_the_same_in_any_chunks() {
    for name in ["llama32/model.safetensors", "llama32/io.safetensors"] {
        let bytes = fixture(name);
        let header = read(&bytes, bytes.len()).unwrap();
        assert_eq!(read(&bytes, 1).unwrap(), header);
        let end = header.tensors.values().map(|t| t.offset + t.bytes).max().unwrap();
        assert_eq!(end, bytes.len() as u64);
    }
}

#[test]
fn a_recorded_tensor_is_as_its_json_says() {
    let header = read(&fixture("llama32/model.safetensors"), 1000).unwrap();
    assert_eq!(header.metadata["format"], "pt");
    let tensor = &header.tensors["model.layers.0.self_attn.k_proj.weight"];
    assert_eq!((tensor.dtype, tensor.shape.as_slice()), (DType::F32, &[64, 96][..]));
    assert_eq!((tensor.offset - header.data_start, tensor.bytes), (192384, 24576));
}

#[test]
fn recorded_configurations_parse_as_serde_json_has_them() {
    fn same(ours: &Json, theirs: &serde_json::Value) -> bool {
        use serde_json::Value;
        match (ours, theirs) {
            (Json::Null, Value::Null) => true,
            (Json::Bool(a), Value::Bool(b)) => a == b,
            (Json::Integer(a), Value::Number(b)) => b.as_i64() == Some(*a),
            (Json::Float(a), Value::Number(b)) => b.as_f64() == Some(*a),
            (Json::String(a), Value::String(b)) => a == b,
            (Json::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (Json::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|b| same(v, b)))
            }
            _ => false,
        }
    }
    for name in [
        "llama32/config.json",
        "llama32/config.legacy.json",
        "malformed.json",
        "ggml_types.json",
        "tokenizers/strings.json",
    ] {
        let text = fixture(name);
        let ours = Json::parse(&text, name, 0).unwrap();
        assert!(same(&ours, &serde_json::from_slice(&text).unwrap()), "{name}");
    }
}

#[test]
fn empty_and_scalar_tensors_and_no_tensors_are_read() {
    let json = r#"{"a":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]},"b":{"dtype":"I64","shape":[0,4],"data_offsets":[1,1]}}  "#;
    let header = read(&file(json, 1), 3).unwrap();
    assert_eq!((header.tensors["a"].bytes, header.tensors["b"].bytes), (1, 0));
    assert!(read(&file("{}", 0), 1).unwrap().tensors.is_empty());
}

#[test]
fn packed_tensors_are_what_the_metadata_says() {
    let packed = |says: &str, dtype: &str, shape: &str, bytes: u64| {
        let tensor =
            format!(r#""w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{bytes}]}}"#);
        let json = format!(r#"{{"__metadata__":{{"rlx.packed":"{says}"}},{tensor}}}"#);
        read(&file(&json, bytes as usize), 7)
    };
    let header = packed(r#"{\"w\":\"q8_0\"}"#, "U8", "[3,68]", 204).unwrap();
    let w = &header.tensors["w"];
    assert_eq!((w.dtype.name(), w.shape.as_slice(), w.bytes), ("q8_0", &[3, 64][..], 204));
    let refused = |says: &str, dtype: &str, shape: &str, bytes: u64, what: &str| {
        let e = packed(says, dtype, shape, bytes).unwrap_err();
        assert_eq!((e.code, e.what.as_str()), (Code::BadFile, what));
    };
    let q8 = r#"{\"w\":\"q8_0\"}"#;
    refused(q8, "U8", "[3,67]", 201, "tensor w of u8 [3, 67] has no rows of q8_0");
    refused(q8, "F32", "[34]", 136, "tensor w of f32 [34] has no rows of q8_0");
    refused(q8, "U8", "[]", 1, "tensor w of u8 [] has no rows of q8_0");
    let none = "rlx.packed has no format of blocks for tensor w";
    refused(r#"{\"w\":\"f16\"}"#, "U8", "[4]", 4, none);
    refused(r#"{\"w\":3}"#, "U8", "[4]", 4, none);
    let gone = "rlx.packed names v, and there is no such tensor";
    refused(r#"{\"v\":\"q8_0\"}"#, "U8", "[34]", 34, gone);
    refused("[]", "U8", "[34]", 34, "rlx.packed is no object");
    assert_eq!(packed("{", "U8", "[34]", 34).unwrap_err().code, Code::BadFile);
}

#[test]
fn broken_files_are_named() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        let json =
            format!(r#"{{"w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#);
        file(&json, 16)
    };
    let damaged = "the file is damaged; download or convert it again";
    let cut = "the file is incomplete; download it again";
    let mut short = one("F32", "[4]", "[0,16]");
    short.truncate(short.len() - 1);
    let end = short.len();
    let cases: Vec<(Vec<u8>, String)> = vec![
        (vec![], format!("not a safetensors file: it ends after 0 bytes (m.safetensors, byte 0); {cut}")),
        (
            b"GGUF\x03\x00\x00\x00more".to_vec(),
            "not a safetensors file: its header would have 14064895815 bytes, at most 100000000 are allowed (m.safetensors, byte 0); give a .safetensors file".into(),
        ),
        (
            file("{}", 0)[..9].to_vec(),
            format!("the header of 2 bytes runs past the end of the file at byte 9 (m.safetensors, byte 0); {cut}"),
        ),
        (file("{\"w\":", 0), format!("the JSON ends where a value is expected (m.safetensors, byte 13); {damaged}")),
        (file("[]", 0), format!("the header is an array, expected an object (m.safetensors, byte 8); {damaged}")),
        (file("{\"w\":1}", 0), format!("tensor w: its description is a number, expected an object (m.safetensors); {damaged}")),
        (file("{\"w\":{}}", 0), format!("tensor w: dtype is missing or no string (m.safetensors); {damaged}")),
        (
            one("F8_E4M3", "[4]", "[0,4]"),
            "tensor w: dtype F8_E4M3 is not supported (m.safetensors); convert the tensor to F64, F32, F16, BF16, I64, I32, I16, I8, U32, U8 or BOOL".into(),
        ),
        (one("F32", "[-4]", "[0,16]"), format!("tensor w: shape is no array of non-negative integers (m.safetensors); {damaged}")),
        (one("F32", "[4]", "[0,16,0]"), format!("tensor w: data_offsets has 3 numbers, expected 2 (m.safetensors); {damaged}")),
        (one("F32", "[4]", "[16,0]"), format!("tensor w: its data ends at 0, before it begins at 16 (m.safetensors); {damaged}")),
        (one("F32", "[5]", "[0,16]"), format!("tensor w: its data has 16 bytes, [5] of F32 has 20 (m.safetensors); {damaged}")),
        (
            one("F32", "[4294967296,4294967296]", "[0,16]"),
            format!("tensor w: shape [4294967296, 4294967296] of F32 overflows 64 bits (m.safetensors); {damaged}"),
        ),
        (short, format!("tensor w: its data ends at byte {}, the file at byte {end} (m.safetensors); {cut}", end + 1)),
        (
            file(r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}}"#, 7),
            format!("tensor b: its data overlaps that of a (m.safetensors); {damaged}"),
        ),
    ];
    for (bytes, message) in cases {
        assert_eq!(read(&bytes, 1).unwrap_err().to_string(), message);
        assert_eq!(read(&bytes, 1000).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_source_that_stops_half_way_is_an_io_error() {
    let bytes = fixture("llama32/model.safetensors");
    let mut reader = HeaderReader::new("m.safetensors", Some(bytes.len() as u64));
    reader.push(&bytes[..100]).unwrap();
    let error = reader.eof().unwrap_err();
    assert_eq!(
        (error.code, error.what.as_str()),
        (Code::Io, "the source ended after 100 of 699408 bytes")
    );

    let mut reader = HeaderReader::new("m.safetensors", None);
    reader.push(&bytes[..100]).unwrap();
    assert_eq!(reader.eof().unwrap_err().code, Code::BadFile);
}
