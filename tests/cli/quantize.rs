//! `rlx quantize`: the types, metadata and accuracy of llama.cpp's files, and nothing half done.

use super::{fails, fixture, folder, repository, rlx, run};
use rlx_core::formats::encode::ENCODABLE;
use rlx_core::gguf::{Header, HeaderReader, Stream, TensorSpec, Value, Writer};
use rlx_core::types::DType;
use serde_json::Value as Json;
use std::path::Path;

const F16: &str = "tests/fixtures/rustdoc-2m/rustdoc-2m-f16.gguf";

fn header(bytes: &[u8]) -> Header {
    let mut reader = HeaderReader::new("file", Some(bytes.len() as u64));
    reader.push(bytes).unwrap();
    reader.into_header().unwrap()
}

fn data<'a>(bytes: &'a [u8], header: &Header, name: &str) -> &'a [u8] {
    let tensor = header.tensor(name).unwrap();
    &bytes[tensor.offset as usize..][..tensor.bytes as usize]
}

/// Runs the command; the bytes of the file and what stderr has.
#[track_caller]
fn made(input: &str, out: &Path, args: &[&str]) -> (Vec<u8>, String) {
    let mut command = rlx(&["quantize", input, out.to_str().unwrap()]);
    let (code, stdout, stderr) = run(command.args(args));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.starts_with(out.to_str().unwrap()), "{stdout}");
    (std::fs::read(out).unwrap(), stderr)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn files_have_the_header_of_llama_cpp_s_and_its_q8_0_the_same_bytes() {
    let dir = folder("quantize-header");
    for quant in ["q4_k_m", "q8_0"] {
        let (ours, notes) = made(F16, &dir.join(quant), &["--to", quant]);
        assert_eq!(notes, "");
        let theirs = fixture(&format!("rustdoc-2m/rustdoc-2m-{quant}.gguf"));
        let (a, b) = (header(&ours), header(&theirs));
        let plain = |h: &Header| {
            let tensors: Vec<_> =
                h.tensors.iter().map(|t| (t.name.clone(), t.dtype, t.dims.clone())).collect();
            let pairs: Vec<_> =
                h.metadata.iter().map(|(k, e)| (k.to_owned(), e.value.clone())).collect();
            (tensors, pairs)
        };
        assert_eq!(plain(&a).0, plain(&b).0);
        assert_eq!(plain(&a).1, plain(&b).1);
        if quant == "q8_0" {
            for tensor in &a.tensors {
                let name = tensor.name.as_str();
                assert!(data(&ours, &a, name) == data(&theirs, &b, name), "{name}");
            }
        }
    }
}

/// Tokens and all logits after the prompt of a recorded question.
fn answer(model: &Path, question: &str) -> (Vec<u32>, Vec<f32>) {
    let model = model.to_str().unwrap();
    let args = ["--json", "--top-logits", "2048", "--activations", "f32", question];
    let (code, stdout, stderr) = run(rlx(&["run", "--model", model]).args(args));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let json: Json = serde_json::from_str(&stdout).unwrap();
    let tokens =
        json["tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect();
    let mut logits = vec![0.0; 2048];
    for pair in json["top_logits"].as_array().unwrap() {
        logits[pair[0].as_u64().unwrap() as usize] = pair[1].as_f64().unwrap() as f32;
    }
    (tokens, logits)
}

#[test]
fn the_reference_answers_from_every_format_that_is_written() {
    let dir = folder("quantize-formats");
    let expected: Json = serde_json::from_slice(&fixture("rustdoc-2m/expected.json")).unwrap();
    let question = &expected["questions"][0];
    let text = question["messages"][0]["content"].as_str().unwrap();
    for dtype in ENCODABLE {
        let out = dir.join(dtype.name());
        made(F16, &out, &["--to", dtype.name(), "--pure"]);
        let model = out.to_str().unwrap();
        let args = ["run", "--json", "--device", "reference", "--model", model, text];
        let (code, stdout, stderr) = run(&mut rlx(&args));
        assert_eq!((code, stderr.as_str()), (0, ""));
        let json: Json = serde_json::from_str(&stdout).unwrap();
        // The model was trained so that every format gives these.
        assert_eq!(json["tokens"], question["formats"]["f16"]["tokens"], "{dtype}");
    }
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |(a, b): (&f32, &f32)| f64::from(a - b).powi(2);
    (a.iter().zip(b).map(square).sum::<f64>() / a.len() as f64).sqrt()
}

#[test]
fn answers_are_the_recorded_ones_and_logits_as_near_to_f16_as_llama_cpp_s_file() {
    let dir = folder("quantize-answers");
    let expected: Json = serde_json::from_slice(&fixture("rustdoc-2m/expected.json")).unwrap();
    let questions = &expected["questions"].as_array().unwrap()[..3];
    for quant in ["q4_k_m", "q8_0"] {
        let out = dir.join(quant);
        made(F16, &out, &["--to", quant]);
        let (mut ours, mut theirs) = (0.0, 0.0);
        for question in questions {
            let text = question["messages"][0]["content"].as_str().unwrap();
            let (_, exact) = answer(&repository(F16), text);
            let (tokens, logits) = answer(&out, text);
            assert_eq!(Json::from(tokens), question["formats"][quant]["tokens"], "{text}");
            let made = repository(&format!("tests/fixtures/rustdoc-2m/rustdoc-2m-{quant}.gguf"));
            ours += distance(&logits, &exact);
            theirs += distance(&answer(&made, text).1, &exact);
        }
        println!("{quant}: {ours} of f16's logits, llama.cpp's file {theirs}");
        // One model and a few prompts: errors of equal size differ by luck.
        assert!(ours <= 1.25 * theirs, "{quant}: {ours}, llama.cpp's file {theirs}");
    }
}

#[test]
fn shards_are_read_and_the_number_of_threads_makes_no_difference() {
    let dir = folder("quantize-shards");
    let prefix = dir.join("m");
    let split = ["split", F16, prefix.to_str().unwrap(), "--max-size", "2M"];
    let (code, shards, _) = run(&mut rlx(&split));
    assert_eq!(code, 0);
    let first = shards.lines().next().unwrap();
    assert!(shards.lines().count() > 1);
    let one = made(F16, &dir.join("one"), &["--to", "q5_k_m", "--threads", "1"]).0;
    let three = made(first, &dir.join("three"), &["--to", "q5_k_m", "--threads", "3"]).0;
    assert!(one == three);
    assert!(header(&three).metadata.get("split.count").is_none());
}

#[test]
fn rows_that_no_block_fills_fall_back_and_it_is_said() {
    let dir = folder("quantize-fallback");
    let llama = "tests/fixtures/gguf/llama.gguf"; // rows of 64
    let (bytes, notes) = made(llama, &dir.join("m"), &["--to", "q4_k", "--pure"]);
    let header = header(&bytes);
    let kinds = |name: &str| header.tensor(name).unwrap().dtype.name();
    assert_eq!((kinds("blk.0.attn_q.weight"), kinds("blk.0.attn_norm.weight")), ("q5_0", "f32"));
    assert_eq!(notes.lines().count(), 1, "{notes}");
    assert!(
        notes.contains(" more: q5_0, not q4_k, whose blocks do not fill rows of 64"),
        "{notes}"
    );
}

#[test]
fn what_cannot_be_done_is_said_and_leaves_nothing() {
    let dir = folder("quantize-errors");
    let out = dir.join("out.gguf");
    let path = out.to_str().unwrap();
    let hint = "give one of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, q4_k_m, q5_k_m";
    fails(&mut rlx(&["quantize", F16, path, "--to", "q9"]), 2, "there is no quant q9", hint);
    let what = "iq1_s can be read, not written";
    fails(&mut rlx(&["quantize", F16, path, "--to", "iq1_s"]), 2, what, hint);

    let packed = "tests/fixtures/rustdoc-2m/rustdoc-2m-q8_0.gguf";
    let (code, _, stderr) = run(&mut rlx(&["quantize", packed, path, "--to", "q4_0"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("is packed as q8_0 and would become q"), "{stderr}");
    assert!(names(&dir).is_empty());
    made(packed, &out, &["--to", "q4_0", "--requantize"]);

    fails(
        &mut rlx(&["quantize", F16, path, "--to", "q8_0"]),
        2,
        &format!("there is a file of this name already ({path})"),
        "give another name, or --force to replace it",
    );
    let before = std::fs::read(&out).unwrap();
    assert!(made(F16, &out, &["--to", "q8_0", "--force"]).0 != before);
    fails(
        &mut rlx(&["quantize", path, path, "--to", "q8_0", "--force"]),
        2,
        &format!("the file to write is the file to read ({path})"),
        "give another name",
    );
    assert_eq!(names(&dir), ["out.gguf"]);
}

#[test]
fn a_number_that_is_not_finite_ends_the_command_before_there_is_a_file() {
    let dir = folder("quantize-nan");
    let (input, out) = (dir.join("nan.gguf"), dir.join("out.gguf"));
    let metadata = [
        ("general.architecture".to_owned(), Value::String("llama".into())),
        ("llama.block_count".to_owned(), Value::U32(1)),
    ];
    let tensors =
        [TensorSpec { name: "blk.0.ffn_up.weight".into(), dtype: DType::F32, dims: vec![2, 32] }];
    let mut stream = Stream::begin(Writer::new(&metadata, &tensors).unwrap(), Vec::new()).unwrap();
    for i in 0..64 {
        let x = if i == 37 { f32::NAN } else { 1.0 };
        stream.write(&x.to_le_bytes()).unwrap();
    }
    std::fs::write(&input, stream.end().unwrap()).unwrap();
    let (input, out) = (input.to_str().unwrap(), out.to_str().unwrap());
    fails(
        &mut rlx(&["quantize", input, out, "--to", "q4_0"]),
        3,
        &format!("blk.0.ffn_up.weight: element 5 of a row is NaN ({input})"),
        "a packed format holds finite numbers; keep the tensor in f32, f16 or bf16",
    );
    assert_eq!(names(&dir), ["nan.gguf"]);
}
