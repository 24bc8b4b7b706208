//! `rlx verify` of GGUF files with records of llama.cpp's, and `--device auto`.

use super::{SMALL, fails, fixture, folder, repository, rlx, run};
use serde_json::Value;

const LOGITS: &str = "tests/fixtures/gguf/qwen3.gguf";

fn verified(args: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) = run(&mut rlx(&[&["verify", "--json"], args].concat()));
    (code, serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stdout}{stderr}")))
}

fn names(report: &Value) -> Vec<&str> {
    report["outputs"].as_array().unwrap().iter().map(|o| o["name"].as_str().unwrap()).collect()
}

#[test]
fn logits_and_answers_are_compared() {
    let (code, report) = verified(&[LOGITS, "--device", "cpu"]);
    assert_eq!((code, &report["family"], &report["ok"]), (0, &"qwen3".into(), &true.into()));
    assert_eq!(names(&report), ["in.prompt", "out.logits", "out.greedy"]);
    let (code, report) = verified(&[SMALL, "--questions", "1"]);
    assert_eq!((code, &report["device"]), (0, &"cpu".into()), "RLX_AUTO says so");
    assert_eq!(names(&report), ["in.prompt.0", "out.answer.0"]);
}

#[test]
fn another_answer_and_another_logit_are_told() {
    let dir = folder("other-records");
    let mut record: Value = serde_json::from_slice(&fixture("gguf/qwen3.json")).unwrap();
    record["logits"][7] = 99.0.into();
    record["greedy"][3] = 1.into();
    let path = dir.join("logits.json");
    std::fs::write(&path, record.to_string()).unwrap();
    let (code, report) = verified(&[LOGITS, "--record", path.to_str().unwrap()]);
    assert_eq!((code, &report["ok"]), (1, &false.into()));
    let wrong = report["outputs"].as_array().unwrap().iter().filter(|o| o["ok"] == false);
    assert_eq!(
        wrong.map(|o| o["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["out.logits", "out.greedy"]
    );

    let mut record: Value = serde_json::from_slice(&fixture("rustdoc-2m/expected.json")).unwrap();
    record["questions"][0]["formats"]["q4_k_m"]["tokens"][2] = 5.into();
    std::fs::write(&path, record.to_string()).unwrap();
    let (code, report) = verified(&[SMALL, "--questions", "1", "--record", path.to_str().unwrap()]);
    assert_eq!((code, &report["outputs"][1]["ok"]), (1, &false.into()));
}

#[test]
fn what_is_no_record_is_an_error_by_name() {
    let dir = folder("no-records");
    let path = dir.join("model.gguf");
    std::fs::copy(repository(LOGITS), &path).unwrap();
    let at = path.display().to_string();
    let mut command = rlx(&["verify", &at]);
    let what = format!("there is no record of what the model answers ({at})");
    let hint = "name one with --record: a JSON file with logits or answers of llama.cpp";
    fails(&mut command, 2, &what, hint);
    for text in ["", "{}", "[1]", "{\"max_new_tokens\":-1,\"questions\":[]}"] {
        let record = dir.join("model.json");
        std::fs::write(&record, text).unwrap();
        let (code, _, stderr) = run(&mut rlx(&["verify", &at]));
        assert_eq!(code, 3, "{text}: {stderr}");
        assert!(
            stderr.starts_with("error: the file is no record of logits or of answers"),
            "{stderr}"
        );
    }
    let answers = "tests/fixtures/rustdoc-2m/expected.json";
    let (code, _, stderr) = run(&mut rlx(&["verify", &at, "--record", answers]));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.starts_with("error: the record has no answers of the format ``"), "{stderr}");
    let (code, _, stderr) =
        run(&mut rlx(&["verify", "tests/fixtures/llama32", "--questions", "1"]));
    assert!(code == 2 && stderr.contains("are for a GGUF file"), "{stderr}");
    let bert = "tests/fixtures/bert/bert.gguf";
    let (code, _, stderr) =
        run(&mut rlx(&["verify", bert, "--record", "tests/fixtures/gguf/qwen3.json"]));
    assert!(code == 3 && stderr.contains("models that make text"), "{stderr}");
}

/// What is kept of a machine decides, without a measurement, as long as it is of this machine's devices.
#[test]
fn auto_is_what_was_kept_and_what_the_environment_names() {
    let dir = folder("auto");
    let asked = |auto: &str| {
        let mut command = rlx(&["verify", SMALL, "--questions", "1", "--json"]);
        command.env("RLX_AUTO", auto).env("RLX_CACHE_DIR", &dir);
        run(&mut command)
    };
    let (code, stdout, _) = asked("reference");
    assert!(code == 0 && stdout.contains("\"device\":\"reference\""), "{stdout}");
    let (code, _, stderr) = asked("gpu");
    assert!(code == 2 && stderr.starts_with("error: RLX_AUTO: unknown device `gpu`"), "{stderr}");

    let (_, stdout, _) = run(&mut rlx(&["devices", "--json"]));
    let devices: Value = serde_json::from_str(&stdout).unwrap();
    let adapter = devices[1]["adapter"].as_str().unwrap();
    let timed = |device: &str, adapter: &str, ms: f64| {
        serde_json::json!({
            "device": device, "adapter": adapter, "token_ms": ms, "prompt_ms": ms, "failed": null,
        })
    };
    let kept = serde_json::json!({
        "devices": [timed("webgpu", "a card that is gone", 9.0), timed("cpu", adapter, 1.0)],
    });
    let version = env!("CARGO_PKG_VERSION");
    let key = format!("rlx {version}, 16 layers, threads usual, adapter any");
    let file = serde_json::json!({ key: kept.to_string() });
    std::fs::write(dir.join("auto.json"), file.to_string()).unwrap();
    let (code, stdout, stderr) = asked("");
    assert!(code == 0 && stdout.contains("\"device\":\"cpu\""), "{stdout}");
    assert!(!stderr.contains("measured"), "{stderr}");
}
