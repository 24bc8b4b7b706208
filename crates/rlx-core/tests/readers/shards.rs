//! Shards in any order make the model; every wrong set is refused with its reason.

use crate::readers::gguf::read;
use crate::readers::repository;
use rlx_core::Result;
use rlx_core::gguf::{Header, ModelFiles, TensorSpec, Value, Writer};
use rlx_core::types::DType;

const NAMES: [&str; 3] = [
    "rustdoc-29m-q4_k_m-00001-of-00003.gguf",
    "rustdoc-29m-q4_k_m-00002-of-00003.gguf",
    "rustdoc-29m-q4_k_m-00003-of-00003.gguf",
];

fn rustdoc(shards: &[usize]) -> Vec<Header> {
    let read_one = |&i: &usize| {
        let file = std::fs::read(repository("models/rustdoc-29m").join(NAMES[i])).unwrap();
        read(NAMES[i], &file, 1 << 16).unwrap()
    };
    shards.iter().map(read_one).collect()
}

/// A shard with one tensor for each name.
fn shard(file: &str, no: u32, count: u32, n_tensors: u32, tensors: &[&str]) -> Header {
    let pairs: Vec<(String, Value)> = [
        ("split.no", Value::U16(no as u16)),
        ("split.count", Value::U16(count as u16)),
        ("split.tensors.count", Value::I32(n_tensors as i32)),
    ]
    .map(|(key, value)| (key.to_string(), value))
    .into();
    let specs: Vec<_> = tensors
        .iter()
        .map(|name| TensorSpec { name: name.to_string(), dtype: DType::F32, dims: vec![8] })
        .collect();
    let writer = Writer::new(&pairs, &specs).unwrap();
    let mut bytes = writer.header().to_vec();
    bytes.resize(writer.file_bytes() as usize, 0);
    read(file, &bytes, bytes.len()).unwrap()
}

fn message(result: Result<ModelFiles>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn shards_in_any_order_make_the_same_model() {
    let model = ModelFiles::new(rustdoc(&[0, 1, 2])).unwrap();
    assert_eq!(model.order, [0, 1, 2]);
    assert_eq!(model.tensors.len(), 74);
    assert_eq!(model.metadata.str("general.name").unwrap(), "rustdoc-29m");
    let (file, _) = model.tensor("output_norm.weight").unwrap();
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let other = ModelFiles::new(rustdoc(&order)).unwrap();
        assert_eq!(other.metadata, model.metadata);
        assert_eq!(other.files, order.map(|i| NAMES[i]));
        for (no, &i) in other.order.iter().enumerate() {
            assert_eq!(other.files[i], NAMES[no]);
        }
        assert_eq!(other.files[other.tensor("output_norm.weight").unwrap().0], NAMES[*file]);
        assert_eq!(other.tensor_bytes(), model.tensor_bytes());
    }
}

#[test]
fn a_whole_file_is_a_model() {
    let file = std::fs::read(repository("tests/fixtures/gguf/llama.gguf")).unwrap();
    let model = ModelFiles::new(vec![read("llama.gguf", &file, file.len()).unwrap()]).unwrap();
    assert_eq!((model.tensors.len(), model.order), (22, vec![0]));
}

#[test]
fn missing_shards_are_listed() {
    let all = "give all shards of the model, in any order";
    assert_eq!(
        message(ModelFiles::new(rustdoc(&[0]))),
        format!("missing shards 2, 3 of 3 ({}); {all}", NAMES[0])
    );
    assert_eq!(
        message(ModelFiles::new(rustdoc(&[2, 0]))),
        format!("missing shard 2 of 3 ({}); {all}", NAMES[2])
    );
    assert_eq!(
        message(ModelFiles::new(vec![shard("m.gguf", 11, 60000, 1, &["a"])])),
        format!("missing shards 1, 2, 3, 4, 5, 6, 7, 8, 59991 more of 60000 (m.gguf); {all}")
    );
}

#[test]
fn a_shard_given_twice_is_named() {
    assert_eq!(
        message(ModelFiles::new(rustdoc(&[0, 1, 1]))),
        format!(
            "shard 2 of 3 is given twice, also as {} ({}); give each shard once",
            NAMES[1], NAMES[1]
        )
    );
}

#[test]
fn shards_of_another_model_are_refused() {
    let other = "give the shards of one model";
    let a = || shard("a-00001-of-00002.gguf", 0, 2, 2, &["x"]);
    let cases = [
        (
            vec![a(), shard("b.gguf", 1, 3, 2, &["y"])],
            format!(
                "a shard of 3 is among the shards of 2: they are of different models (b.gguf); {other}"
            ),
        ),
        (
            vec![a(), shard("b.gguf", 1, 2, 5, &["y"])],
            format!(
                "split.tensors.count is 5, in a-00001-of-00002.gguf it is 2: they are of different models (b.gguf); {other}"
            ),
        ),
        (
            vec![a(), shard("m/b-00002-of-00002.gguf?x=1", 1, 2, 2, &["y"])],
            format!("a shard of b is among the shards of a (m/b-00002-of-00002.gguf?x=1); {other}"),
        ),
        (
            vec![a(), shard("b.gguf", 1, 2, 2, &["y", "x"])],
            format!("tensor x is also in a-00001-of-00002.gguf (b.gguf, byte 139); {other}"),
        ),
        (
            vec![shard("b.gguf", 1, 2, 2, &["y", "z"]), a()],
            format!(
                "the 2 shards have 3 tensors, split.tensors.count is 2 (a-00001-of-00002.gguf); {other}"
            ),
        ),
    ];
    for (headers, expected) in cases {
        assert_eq!(message(ModelFiles::new(headers)), expected);
    }
}

#[test]
fn sets_that_are_no_shards_are_refused() {
    let file = std::fs::read(repository("tests/fixtures/gguf/llama.gguf")).unwrap();
    let whole = read("llama.gguf", &file, file.len()).unwrap();
    let mixed = "a whole model, not a shard, is among the files (llama.gguf); give one whole model, or the shards of one model";
    let first = rustdoc(&[0]).remove(0);
    assert_eq!(message(ModelFiles::new(vec![first.clone(), whole.clone()])), mixed);
    assert_eq!(message(ModelFiles::new(vec![whole, first])), mixed);
    assert_eq!(message(ModelFiles::new(Vec::new())), "no model file is given; give a .gguf file");
    assert_eq!(
        message(ModelFiles::new(vec![shard("m.gguf", 3, 3, 1, &["x"])])),
        "split.no is 3, split.count is 3 (m.gguf, byte 44); the file is damaged; download or convert it again"
    );
}

#[test]
fn a_missing_or_wrong_tensor_is_named_with_its_byte() {
    let file = std::fs::read(repository("tests/fixtures/gguf/llama.gguf")).unwrap();
    let model = ModelFiles::new(vec![read("llama.gguf", &file, file.len()).unwrap()]).unwrap();
    assert_eq!(
        model.tensor("blk.2.attn_norm.weight").unwrap_err().to_string(),
        "tensor blk.2.attn_norm.weight is missing (llama.gguf); use a file that its converter finished, made for language models"
    );
    assert_eq!(
        model.bad_tensor("output.weight", "output.weight is odd").at,
        "llama.gguf, byte 14956"
    );
}
