//! `rlx graph`: any network, from a graph's text or a model, with tensors from `.npy` files.

use super::{SMALL, fails, fixture, folder, rlx, run};
use rlx_core::compare::difference;
use rlx_core::types::DType;
use rlx_native::npy::Array;
use serde_json::Value;
use std::path::Path;

const BERT: &str = "tests/fixtures/bert/bert.gguf";
const BLOCKS: &str = "tests/fixtures/graphs/bert.hir";

/// `y = x w^T + b` over any number of rows.
const LAYER: &str = "func @layer {
  input %x : tensor<SEQx4xf32>
  weight %w : tensor<3x4xf32>
  weight %b : tensor<3xf32>
  %0 = matmul %x, %w -> tensor<SEQx3xf32> // product
  %1 = zip %0, %b {f = add} -> tensor<SEQx3xf32> // y
  return y = %1
}
";

fn f32s(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Weights `w` and `b`, of this many outputs.
fn weights(path: &Path, outputs: u64) {
    let w: Vec<f32> = (0..4 * outputs).map(|i| i as f32 / 4.0 - 1.0).collect();
    let b: Vec<f32> = (0..outputs).map(|i| 10.0 * i as f32).collect();
    let (w, b) = (f32s(&w), f32s(&b));
    let header = format!(
        "{{\"w\":{{\"dtype\":\"F32\",\"shape\":[{outputs},4],\"data_offsets\":[0,{}]}},\
         \"b\":{{\"dtype\":\"F32\",\"shape\":[{outputs}],\"data_offsets\":[{},{}]}}}}",
        w.len(),
        w.len(),
        w.len() + b.len()
    );
    let head = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&head[..], header.as_bytes(), &w, &b].concat()).unwrap();
}

/// A folder with the layer, its weights and an input of two rows.
fn layer(name: &str) -> [String; 4] {
    let folder = folder(name);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::write(path("layer.mir"), LAYER).unwrap();
    weights(Path::new(&path("w.safetensors")), 3);
    let x = f32s(&[1.0, 2.0, 3.0, 4.0, -1.0, 0.0, 0.5, 2.0]);
    std::fs::write(path("x.npy"), Array::to_file(DType::F32, &[2, 4], &x).unwrap()).unwrap();
    [path("layer.mir"), path("w.safetensors"), path("x.npy"), path("out")]
}

#[test]
fn a_graphs_text_runs_with_weights_and_arrays_on_every_device() {
    let [graph, weights, x, out] = layer("graph");
    for device in ["reference", "cpu", "webgpu"] {
        let input = format!("x={x}");
        let args = ["graph", &graph, "--weights", &weights, "--input", &input, "--device", device];
        let (code, said, stderr) = run(rlx(&args).args(["--output", &out, "--force", "--json"]));
        assert_eq!((code, stderr.as_str()), (0, ""));
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&said["entry"], &said["device"]), (&"layer".into(), &device.into()));
        let y = &said["outputs"][0];
        assert_eq!((&y["name"], &y["type"]), (&"y".into(), &"f32".into()));
        assert_eq!(y["dims"], serde_json::json!([2, 3]));
        let array = Array::parse(&std::fs::read(y["file"].as_str().unwrap()).unwrap()).unwrap();
        // By hand: rows of w are -1 … -0.25, 0 … 0.75, 1 … 1.75.
        let expected = [-5.0, 15.0, 35.0, 0.25, 11.75, 23.25];
        assert_eq!((array.dims.as_slice(), array.bytes), (&[2, 3][..], f32s(&expected)));
    }
    let input = format!("x={x}");
    let (code, text, _) =
        run(&mut rlx(&["graph", &graph, "--weights", &weights, "--input", &input]));
    let expected = "y: f32 [2, 3]\n  -5.000000 15.000000 35.000000 0.250000 11.750000 23.250000\n  \
                    from -5.000000 to 35.000000, mean 13.375000\n";
    assert_eq!((code, text.as_str()), (0, expected));
}

#[test]
fn without_inputs_it_lists_what_can_be_asked() {
    let (code, said, _) = run(&mut rlx(&["graph", BLOCKS]));
    assert_eq!(code, 0);
    assert!(said.starts_with("bert\n  inputs\n    ids: tensor<BATCHxSEQxu32>\n"), "{said}");
    let (code, said, _) = run(&mut rlx(&["graph", BERT, "--json"]));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["entry"]), (0, &"encode".into()));
    assert_eq!(said["outputs"][1]["name"], "embedding");
}

#[test]
fn a_model_takes_integers_of_any_width() {
    let folder = folder("graph-model");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let ids: Vec<u8> = [2i64, 9, 30, 3].iter().flat_map(|x| x.to_le_bytes()).collect();
    let (i64s, ones) = (DType::from_name("i64").unwrap(), 1u32.to_le_bytes().repeat(4));
    std::fs::write(path("ids.npy"), Array::to_file(i64s, &[1, 4], &ids).unwrap()).unwrap();
    let zeros = vec![0; 16];
    std::fs::write(path("mask.npy"), Array::to_file(DType::U32, &[1, 4], &ones).unwrap()).unwrap();
    std::fs::write(path("types.npy"), Array::to_file(DType::U32, &[1, 4], &zeros).unwrap())
        .unwrap();
    let inputs = [("input_ids", "ids"), ("attention_mask", "mask"), ("token_type_ids", "types")];
    let inputs = inputs.map(|(name, file)| format!("{name}={}", path(&format!("{file}.npy"))));
    let mut command = rlx(&["graph", BERT, "--json"]);
    for input in &inputs {
        command.args(["--input", input]);
    }
    let (code, said, stderr) = run(&mut command);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["outputs"][0]["dims"], serde_json::json!([1, 4, 64]));
}

#[test]
fn what_does_not_fit_is_said_with_what_is_wanted() {
    let [graph, weights, x, _] = layer("graph-refused");
    let input = format!("x={x}");
    let see = "see `rlx --help`";
    fails(
        &mut rlx(&["graph", &graph, "--input", &input]),
        3,
        "tensor w is missing",
        "give the file that has it with --weights",
    );
    fails(
        &mut rlx(&["graph", &graph, "--input", "x"]),
        2,
        "--input x names no file",
        "write --input NAME=FILE.npy",
    );
    let other = format!("z={x}");
    let args = ["graph", &graph, "--weights", &weights, "--input", &other];
    fails(&mut rlx(&args), 2, "layer has no input z", "its inputs: x: tensor<SEQx4xf32>");
    fails(
        &mut rlx(&["graph", BERT, "--weights", &weights]),
        2,
        "--weights is for a graph's text; a model has its own",
        see,
    );
    let wide = Path::new(&x).with_file_name("wide.npy");
    std::fs::write(&wide, Array::to_file(DType::F32, &[2, 3], &[0; 24]).unwrap()).unwrap();
    let wide = format!("x={}", wide.display());
    let args = ["graph", &graph, "--weights", &weights, "--input", &wide];
    let said = "input x is tensor<SEQx4xf32>, and was given as [2, 3] (layer)";
    fails(&mut rlx(&args), 2, said, see);
    let few = Path::new(&weights).with_file_name("few.safetensors");
    self::weights(&few, 2);
    let args = ["graph", &graph, "--weights", few.to_str().unwrap(), "--input", &input];
    let said = "tensor w has 32 bytes, its type tensor<3x4xf32> needs 48";
    let (code, _, stderr) = run(&mut rlx(&args));
    assert_eq!(code, 3);
    assert!(stderr.starts_with(&format!("error: {said}\n")), "{stderr}");
    let args = ["graph", &graph, "--weights", &weights, "--input", &input, "--context", "8"];
    let said = "--context is for a model; a graph's text says its own";
    fails(&mut rlx(&args), 2, said, see);
    let args = ["graph", SMALL, "--context", "1000000"];
    fails(&mut rlx(&args), 2, "a context of 1000000 tokens: this model takes 1 to 1024", see);
}

/// A language model's entry: the ids of a text to the logits behind each, the last of them the recorded ones.
#[test]
fn a_language_model_gives_the_logits_of_a_text() {
    let recorded: Value =
        serde_json::from_slice(&fixture("llama_linear/llama_linear.json")).unwrap();
    let numbers = |key: &str| recorded[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
    let ids: Vec<u8> = numbers("prompt_ids").flat_map(|id| (id as u32).to_le_bytes()).collect();
    let len = ids.len() as u64 / 4;
    let expected: Vec<f64> = numbers("logits").collect();
    let folder = folder("graph-logits");
    let file = folder.join("ids.npy");
    std::fs::write(&file, Array::to_file(DType::U32, &[len], &ids).unwrap()).unwrap();
    let input = format!("ids={}", file.display());
    let model = ["graph", "tests/fixtures/llama_linear/llama_linear.gguf"];
    let (code, said, _) = run(&mut rlx(&model));
    assert_eq!(code, 0);
    assert!(said.starts_with("logits\n  inputs\n    ids: tensor<SEQxu32>\n  outputs\n"), "{said}");
    for device in ["reference", "cpu", "webgpu"] {
        let out = folder.join(device);
        let args = ["--input", &input, "--device", device, "--output", out.to_str().unwrap()];
        let (code, said, stderr) = run(rlx(&model).args(args).arg("--force"));
        assert_eq!((code, stderr.as_str()), (0, ""), "{said}");
        let array = Array::parse(&std::fs::read(out.join("logits.npy")).unwrap()).unwrap();
        assert_eq!((array.dtype, array.dims), (DType::F32, vec![len, expected.len() as u64]));
        let rows = array.bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
        let last: Vec<f32> = rows.skip((len as usize - 1) * expected.len()).collect();
        let apart = difference(&last, &expected).relative();
        assert!(apart <= 1e-5, "{device}: {apart}");
    }
    let few = (len - 1).to_string();
    let args = ["--input", &input, "--context", &few];
    let said = format!("a text of {len} tokens: the caches have {few} positions (logits)");
    fails(rlx(&model).args(args), 2, &said, "see `rlx --help`");
}
