//! Answers that are held to a form.

use super::{SMALL, fails, folder, rlx, run};
use serde_json::Value;
use std::path::PathBuf;

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3},
        "age": {"type": "integer", "minimum": 0, "maximum": 150}
    },
    "required": ["name", "tags", "age"],
    "additionalProperties": false
}"#;

fn file(name: &str, text: &str) -> String {
    let path: PathBuf = folder(name).join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The answer to one question, and why it ended.
fn answer(device: &str, args: &[&str]) -> (String, String) {
    answer_within(200, device, args)
}

/// As [`answer`], of at most so many tokens.
fn answer_within(tokens: u32, device: &str, args: &[&str]) -> (String, String) {
    let tokens = tokens.to_string();
    let model =
        ["run", "--model", SMALL, "--device", device, "--activations", "f32", "--kv", "f32"];
    let (code, stdout, stderr) =
        run(rlx(&model).args(["--json", "--max-tokens", &tokens]).args(args).arg("What is a Vec?"));
    assert_eq!((code, stderr.as_str()), (0, ""), "{device} {args:?}");
    let json: Value = serde_json::from_str(&stdout).unwrap();
    let text = |key: &str| json[key].as_str().unwrap().to_owned();
    (text("text"), text("finish_reason"))
}

#[test]
fn every_device_gives_the_same_answer_of_a_schema() {
    let schema = file("form.json", SCHEMA);
    for (seed, temperature) in [("0", "0"), ("1", "1"), ("2", "3")] {
        let args = ["--json-schema", &schema, "--seed", seed, "--temperature", temperature];
        let (text, finish) = answer("reference", &args);
        assert_eq!(finish, "stop", "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        let object = value.as_object().unwrap();
        assert_eq!(object.keys().collect::<Vec<_>>(), ["name", "tags", "age"]);
        assert!(object["name"].as_str().unwrap().chars().count() <= 8);
        assert!((0..=150).contains(&object["age"].as_i64().unwrap()));
        assert!((1..=3).contains(&object["tags"].as_array().unwrap().len()));
        for device in ["cpu", "webgpu"] {
            assert_eq!(answer(device, &args).0, text, "{device}");
        }
    }
}

#[test]
fn penalties_hold_beside_a_form() {
    let schema = file("penalised.json", SCHEMA);
    let args =
        ["--json-schema", &schema, "--repeat-penalty", "1.5", "--temperature", "2", "--seed", "4"];
    let (text, _) = answer("reference", &args);
    serde_json::from_str::<Value>(&text).unwrap();
    assert_eq!(answer("cpu", &args).0, text);
}

#[test]
fn grammars_and_regular_expressions_hold_an_answer_as_a_whole() {
    let gbnf = file("yes.gbnf", "root ::= \"Answer: \" (\"yes\" | \"no\") [.!]\n");
    let (text, finish) = answer("cpu", &["--grammar", &gbnf]);
    assert_eq!(finish, "stop");
    let rest = text.strip_prefix("Answer: ").unwrap();
    assert!(["yes.", "yes!", "no.", "no!"].contains(&rest), "{text}");
    let lark = file("list.lark", "start: \"(\" item (\", \" item){2} \")\"\nitem: /[a-c]{2}/\n");
    let (text, _) = answer("cpu", &["--grammar", &lark]);
    assert_eq!((text.len(), &text[..1], &text[9..]), (12, "(", &text[9..]));
    let (text, _) = answer("cpu", &["--regex", "[A-Z][a-z]{3} (ja|nein)", "--temperature", "2"]);
    assert!(text.ends_with(" ja") || text.ends_with(" nein"), "{text}");
    let (text, finish) = answer_within(30, "cpu", &["--json-object"]);
    assert!(text.trim_start().starts_with('{') && finish == "length", "{text}");
}

#[test]
fn every_turn_of_a_chat_has_the_form() {
    use std::io::Write;
    let args = ["chat", "--model", SMALL, "--regex", "(yes|no)\\.", "--json"];
    let mut chat = rlx(&args);
    let mut child = chat
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"One?\nTwo?\n").unwrap();
    let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let texts: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(texts.len(), 2);
    for turn in texts {
        assert!(["yes.", "no."].contains(&turn["text"].as_str().unwrap()), "{turn}");
    }
}

#[test]
fn what_is_no_form_is_told_before_an_answer() {
    let with = |args: &[&str]| {
        let mut command = rlx(&["run", "--model", SMALL]);
        command.args(args).arg("x");
        command
    };
    let help = "see `rlx --help`";
    let gbnf = file("none.gbnf", "root ::= \"a\"\n\nx := \"b\"\n");
    let what = "expected ::= after the rule's name \"x\", found ':' (line 3 of the grammar)";
    fails(&mut with(&["--grammar", &gbnf]), 2, what, help);
    let schema = file("none.json", "{\"type\": \"objet\"}");
    let what = "the grammar cannot be used: Invalid type: objet (grammar)";
    fails(&mut with(&["--json-schema", &schema]), 2, what, help);
    let (code, _, stderr) = run(&mut with(&["--regex", "(a"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("unclosed group"), "{stderr}");
    let (code, _, stderr) = run(&mut with(&["--json-schema", "nowhere.json"]));
    assert_ne!(code, 0);
    assert!(
        stderr.contains("the file of the answer's form cannot be read")
            && stderr.contains("nowhere.json")
    );
    let (code, _, stderr) = run(&mut with(&["--json-object", "--regex", "a"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("cannot be used with"), "{stderr}");
}
