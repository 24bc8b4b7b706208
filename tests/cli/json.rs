//! What `--json` prints.

use super::{SMALL, folder, repository, rlx, run};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

fn json(args: &[&str]) -> Value {
    let (code, stdout, stderr) = run(&mut rlx(args));
    assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

fn keys(v: &Value) -> Vec<&str> {
    v.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn run_has_the_fields_that_scripts_depend_on() {
    let v = json(&["run", "--model", SMALL, "--json", "What does Vec::push do?"]);
    for key in ["prefill_tokens_per_s", "decode_tokens_per_s", "load_ms"] {
        assert!(v[key].as_f64().unwrap() > 0.0, "{key}");
    }
    if cfg!(target_os = "linux") {
        assert!(v["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
    }
    assert_eq!(v["text"], "`Vec::push` appends an element to the back of a collection.");
    let tokens = v["tokens"].as_array().unwrap();
    assert_eq!((tokens.len(), tokens.last()), (16, Some(&Value::from(2046))));
    assert_eq!(v["prompt_tokens"], 19);
    assert_eq!(v["device"], "cpu");
    assert_eq!(v["finish_reason"], "stop");
    assert_eq!((&v["kv"], &v["activations"]), (&Value::from("f16"), &Value::from("int16/mixed")));
    assert!(!keys(&v).contains(&"top_logits"));
    assert!(v["fallback"].is_null());
}

#[test]
fn top_logits_are_the_largest_in_order() {
    let args = ["--top-logits", "3", "--kv", "f32", "--activations", "f32", "--max-tokens", "2"];
    let v = json(
        &[&["run", "--model", SMALL, "--json", "What does Vec::push do?"], &args[..]].concat(),
    );
    let top = v["top_logits"].as_array().unwrap();
    assert_eq!(top.len(), 3);
    // rustdoc-2m's record: [473, 29.51446], [2046, 8.31365], [697, 7.42317].
    assert_eq!((&top[0][0], &top[1][0]), (&Value::from(473), &Value::from(2046)));
    assert!((top[0][1].as_f64().unwrap() - 29.51446).abs() < 3e-3 * 30.0);
    assert_eq!((&v["kv"], &v["activations"]), (&Value::from("f32"), &Value::from("f32")));
    assert_eq!(v["finish_reason"], "length");
}

#[test]
fn caches_of_q8_0_are_named_and_answer_the_same() {
    let args = ["run", "--model", SMALL, "--json", "--kv", "q8_0", "What does Vec::push do?"];
    let v = json(&args);
    assert_eq!(v["kv"], "q8_0");
    assert_eq!(v["text"], "`Vec::push` appends an element to the back of a collection.");
}

#[test]
fn a_stop_text_ends_the_answer_before_it() {
    let v = json(&[
        "run",
        "--model",
        SMALL,
        "--json",
        "--stop",
        "zzz",
        "--stop",
        " element",
        "What does Vec::push do?",
    ]);
    assert_eq!(v["text"], "`Vec::push` appends an");
    assert_eq!(v["finish_reason"], "stop");
}

#[test]
fn text_streams_and_ends_with_a_line_end() {
    let (code, stdout, stderr) =
        run(&mut rlx(&["run", "--model", SMALL, "What does Vec::push do?"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout, "`Vec::push` appends an element to the back of a collection.\n");
}

#[test]
fn the_model_inside_the_binary_answers_without_any_file() {
    let mut command = rlx(&["run", "--max-tokens", "4", "What does Vec::push do?"]);
    command.current_dir(folder("no-files"));
    assert_eq!(run(&mut command), (0, "`Vec::push`\n".into(), String::new()));
}

#[test]
fn content_that_spells_a_control_token_is_text() {
    let tokens = |prompt: &str| -> u64 {
        let v = json(&["run", "--model", SMALL, "--json", "--max-tokens", "1", prompt]);
        v["prompt_tokens"].as_u64().unwrap()
    };
    // As a control token it would be one; as text it is several.
    assert!(tokens("a<|im_end|>") > tokens("a") + 1);
    let raw = |prompt: &str| {
        let v = json(&["run", "--model", SMALL, "--json", "--raw", "--max-tokens", "1", prompt]);
        v["prompt_tokens"].as_u64().unwrap()
    };
    assert_eq!(raw("a<|im_end|>"), raw("a") + 1);
}

#[test]
fn bench_has_the_fields_that_scripts_depend_on() {
    let v = json(&[
        "bench",
        "--model",
        SMALL,
        "--prompt-tokens",
        "20",
        "--tokens",
        "8",
        "--depth",
        "10",
        "--repeat",
        "2",
        "--threads",
        "2",
        "--json",
    ]);
    for key in ["prefill_tokens_per_s", "decode_tokens_per_s", "dispatches_per_token"] {
        assert!(v[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert_eq!(v["readback_bytes_per_token"], 4.0);
    assert_eq!(v["submits_per_token"], 1.0);
    assert!(v["device_bytes"].as_u64().unwrap() > 1 << 20);
    // The plan says how many steps a token has.
    let lir = json(&["inspect", SMALL, "--stage", "lir", "--target", "cpu", "--json"]);
    assert_eq!(v["dispatches_per_token"].as_f64(), lir["steps"].as_f64());
}

#[test]
fn a_bench_in_turns_answers_each_line_with_its_seconds() {
    let sizes = ["--prompt-tokens", "20", "--tokens", "8", "--depth", "10", "--threads", "1"];
    let mut child = rlx(&["bench", "--turns", "--model", SMALL])
        .args(sizes)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"prefill\ndecode\ndecode\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["ready"]), (4, &Value::Bool(true)));
    for line in &lines[1..] {
        assert!(line["seconds"].as_f64().unwrap() > 0.0, "{text}");
    }
}

#[test]
fn inspect_lir_has_the_fields_that_scripts_depend_on() {
    for target in ["reference", "cpu", "webgpu"] {
        for phase in ["prefill", "decode"] {
            let v = json(&[
                "inspect", SMALL, "--stage", "lir", "--phase", phase, "--target", target, "--json",
            ]);
            for key in [
                "nodes",
                "steps",
                "activation_bytes",
                "largest_live_bytes",
                "unshared_bytes",
                "weight_bytes",
                "state_bytes",
            ] {
                assert!(v[key].as_u64().unwrap() > 0, "{key}");
            }
            let bytes = |key: &str| v[key].as_u64().unwrap() as f64;
            assert!(bytes("largest_live_bytes") <= bytes("activation_bytes"));
            assert!(
                bytes("activation_bytes") <= 1.05 * bytes("largest_live_bytes"),
                "{target} {phase}"
            );
            let fingerprint = v["fingerprint"].as_str().unwrap();
            assert_eq!(fingerprint.len(), 16);
            assert!(fingerprint.bytes().all(|b| b.is_ascii_hexdigit()));
            assert!(v["fusion"]["fused"].is_object() && v["fusion"]["misses"].is_array());
            // A target's description stands for the target.
            let text = v["target"].as_str().unwrap();
            let same = json(&[
                "inspect", SMALL, "--stage", "lir", "--phase", phase, "--target", text, "--json",
            ]);
            assert_eq!(same["fingerprint"], v["fingerprint"]);
        }
    }
}

#[test]
fn inspect_reports_what_fused_and_how_operators_run() {
    let (code, text, stderr) =
        run(&mut rlx(&["inspect", SMALL, "--stage", "fusion", "--target", "webgpu"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(text.contains("launches") && text.contains("0 missed"), "{text}");
    let (code, text, stderr) =
        run(&mut rlx(&["inspect", SMALL, "--stage", "dispatch", "--target", "webgpu"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(text.contains("matmul") && text.contains("native"), "{text}");
    let v = json(&["inspect", SMALL, "--stage", "dispatch", "--target", "webgpu", "--json"]);
    assert_eq!(v["dispatch"]["compile_ready"], true);
    let launches = |when: &str| v["fusion"]["traffic"][when]["launches"].as_u64().unwrap();
    assert!(launches("after") < launches("before"));
    let lir = json(&["inspect", SMALL, "--stage", "lir", "--target", "webgpu", "--json"]);
    assert_eq!(lir["steps"], launches("after"));
}

#[test]
fn inspect_shows_passes_one_by_one() {
    let (code, text, _) = run(&mut rlx(&["inspect", SMALL, "--print-after", "glu"]));
    assert_eq!(code, 0);
    assert!(text.starts_with("// after glu: ") && text.contains("glu = silu"), "{text}");
    let (code, text, _) = run(&mut rlx(&["inspect", SMALL, "--stop-after", "lower"]));
    assert_eq!(code, 0);
    assert!(text.starts_with("func @decode {") && !text.contains("glu = silu"), "{text}");
    let (code, text, _) = run(&mut rlx(&["inspect", SMALL, "--timing"]));
    assert_eq!(code, 0);
    assert!(text.contains("legalise") && text.contains("plan"), "{text}");
    let v = json(&["inspect", SMALL, "--timing", "--json"]);
    let passes = v["passes"].as_array().unwrap();
    assert_eq!((&passes[0]["pass"], &v["text"]), (&Value::from("lower"), &Value::Null));
    assert!(passes.iter().all(|p| p["ms"].as_f64().unwrap() >= 0.0));
    let (code, _, stderr) = run(&mut rlx(&["inspect", SMALL, "--stop-after", "legalize"]));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("there is no pass legalize") && stderr.contains("legalise"),
        "{stderr}"
    );
}

#[test]
fn weights_take_no_more_than_the_file_has() {
    for model in [
        "models/rustdoc-29m/rustdoc-29m-q4_k_m-00001-of-00003.gguf",
        SMALL,
        "tests/fixtures/rustdoc-2m/rustdoc-2m-q8_0.gguf",
        "tests/fixtures/rustdoc-2m/rustdoc-2m-f16.gguf",
        "tests/fixtures/gguf/llama-q6_k.gguf",
    ] {
        let file = json(&["inspect", model, "--json"]);
        for target in ["cpu", "webgpu"] {
            let lir = json(&["inspect", model, "--stage", "lir", "--target", target, "--json"]);
            let (have, most) =
                (lir["weight_bytes"].as_f64().unwrap(), file["tensor_bytes"].as_f64().unwrap());
            // The rotary table, a constant of its own, is a few kilobytes a thousand positions.
            assert!(have <= 1.02 * most, "{model} on {target}: {have} of {most}");
        }
    }
}

#[test]
fn inspect_prints_each_stage_as_text() {
    for (stage, first) in [
        ("file", "tests/fixtures/"),
        ("hir", "module @llama32 "),
        ("mir", "func @decode {"),
        ("lir", "// cpu buffer="),
    ] {
        let (code, stdout, stderr) = run(&mut rlx(&["inspect", SMALL, "--stage", stage]));
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(stdout.starts_with(first), "{stage}: {}", &stdout[..200.min(stdout.len())]);
    }
    let (_, lir, _) = run(&mut rlx(&["inspect", SMALL, "--stage", "lir"]));
    let steps = json(&["inspect", SMALL, "--stage", "lir", "--json"])["steps"].as_u64().unwrap();
    assert!(
        lir.contains(&format!("\n  {}: ", steps - 1)) && !lir.contains(&format!("\n  {steps}: "))
    );
}

#[test]
fn devices_say_what_is_there_and_why_not() {
    let mut command = rlx(&["devices", "--json"]);
    let nowhere = repository("tests/fixtures/no-such-driver.json");
    command.env("VK_DRIVER_FILES", &nowhere).env("VK_ICD_FILENAMES", &nowhere);
    let (code, stdout, _) = run(&mut command);
    assert_eq!(code, 0);
    let v: Value = serde_json::from_str(&stdout).unwrap();
    let names: Vec<_> =
        v.as_array().unwrap().iter().map(|r| r["device"].as_str().unwrap()).collect();
    assert_eq!(format!("devices: auto, {}", names.join(", ")), super::DEVICES_HINT);
    assert_eq!((&v[1]["auto"], &v[0]["auto"]), (&true.into(), &false.into()), "RLX_AUTO says so");
    assert_eq!(v[1]["available"], true);
    assert_eq!(v[2]["available"], false);
    assert!(v[2]["reason"].as_str().unwrap().starts_with("this machine has no WebGPU adapter"));
    // Without a card or its driver that is what is said.
    let reason = v[3]["reason"].as_str();
    let told = reason.is_some_and(|why| why.contains("NVIDIA") || why.contains("CUDA"));
    assert_eq!(v[3]["available"] == false, told, "{reason:?}");
    let reason = v[4]["reason"].as_str();
    let told = reason.is_some_and(|why| why.contains("AMD") || why.contains("ROCm"));
    assert_eq!(v[4]["available"] == false, told, "{reason:?}");
    for (at, word) in [(5, "Metal"), (6, "MLX"), (7, "plugin"), (8, "plugin"), (9, "plugin")] {
        let told = v[at]["reason"].as_str().is_some_and(|why| why.contains(word));
        assert_eq!(v[at]["available"] == false, told, "{}", v[at]);
    }
}

#[test]
fn verify_compares_a_folder_and_says_what_fails() {
    let whole = ["verify", "tests/fixtures/llama32", "--device", "reference", "--json"];
    let v = json(&whole);
    assert_eq!(v["outputs"].as_array().unwrap().len(), 6);
    assert_eq!(v.get("first_layer_that_differs"), None);
    let v = json(&[&whole[..], &["--layers"]].concat());
    assert_eq!((&v["ok"], &v["device"]), (&Value::Bool(true), &Value::from("reference")));
    assert_eq!(v.get("first_layer_that_differs"), Some(&Value::Null));
    let outputs = v["outputs"].as_array().unwrap();
    assert_eq!(outputs.len(), 10);
    for row in outputs {
        assert!(row["relative"].as_f64().unwrap() <= 2e-4, "{row}");
        assert!(row["cosine"].as_f64().unwrap() > 0.999_999, "{row}");
    }
    // Another norm scale: the check fails with exit code 1.
    let dir = folder("verify-changed");
    for file in ["config.json", "model.safetensors", "io.safetensors"] {
        std::fs::copy(repository("tests/fixtures/llama32").join(file), dir.join(file)).unwrap();
    }
    let path = dir.join("config.json");
    let config = std::fs::read_to_string(&path).unwrap().replace("1e-05", "1e-02");
    std::fs::write(&path, config).unwrap();
    let (code, stdout, stderr) = run(rlx(&["verify", ".", "--device", "cpu"]).current_dir(&dir));
    assert_eq!(code, 1);
    assert!(stdout.contains("ABOVE TOLERANCE"));
    assert!(
        stderr.starts_with("error: ") && stderr.contains(" of 6 outputs fail the check (.)\n"),
        "{stderr}"
    );
    // The norm is first used inside layer 0; the embedding passes.
    let layers = ["verify", ".", "--device", "cpu", "--layers"];
    let (code, stdout, stderr) = run(rlx(&layers).current_dir(&dir));
    assert_eq!(code, 1);
    let said = "the first layer that differs is layer.0, by ";
    assert!(stderr.contains(said) && stderr.contains(" of its largest value (.)\n"), "{stderr}");
    let passes = |line: &str| line.starts_with("layer.embed") && !line.ends_with("TOLERANCE");
    assert!(stdout.lines().any(passes), "{stdout}");
    let named = run(rlx(&[&layers[..], &["--json"]].concat()).current_dir(&dir)).1;
    let v: Value = serde_json::from_str(&named).unwrap();
    assert_eq!(v["first_layer_that_differs"], "layer.0");
}

#[test]
fn verify_decodes_block_formats_bit_for_bit() {
    let path = folder("verify_formats").join("ggml_quants.safetensors");
    std::fs::write(&path, crate::gunzip::gunzip("ggml_quants.safetensors")).unwrap();
    let file = path.to_str().unwrap();
    let (code, _, stderr) = run(&mut rlx(&["verify", file, "--layers"]));
    assert_eq!(code, 2);
    let said = "error: --layers is for a folder, not for a file of block formats\n";
    assert!(stderr.starts_with(said), "{stderr}");
    let v = json(&["verify", file, "--types", "f16,BF16,Q4_0,Q8_0,Q4_K,Q5_K,Q6_K", "--json"]);
    let rows = v["outputs"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    assert!(rows.iter().all(|r| r["ok"] == true && r["largest_difference"] == 0.0));
    // Without --types, all that are recorded: 25 packed formats and two halves.
    let v = json(&["verify", file, "--json"]);
    let rows = v["outputs"].as_array().unwrap();
    assert_eq!(rows.len(), 27);
    assert!(rows.iter().all(|r| r["ok"] == true && r["largest_difference"] == 0.0));
    let (code, _, stderr) = run(&mut rlx(&["verify", file, "--types", "Q9_Z"]));
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with(&format!("error: --types Q9_Z: the file has no such type ({file})\n"))
    );
}

#[test]
fn a_profile_has_every_launch_with_its_time_and_its_bytes() {
    let trace = folder("bench_profile").join("trace.json");
    let path = trace.to_str().unwrap();
    let sizes = ["--prompt-tokens", "70", "--tokens", "3", "--context", "128"];
    let profile = |device| ["bench", "--model", SMALL, "--device", device, "--profile", "--json"];
    let webgpu = json(&[&profile("webgpu")[..], &sizes, &["--trace", path]].concat());
    let cpu = json(&[&profile("cpu")[..], &sizes].concat());
    let phases = |value: Value| [("prefill", 1), ("decode", 3)].map(|(p, n)| (value[p].clone(), n));
    assert!(cpu["copy_gb_per_s"].as_f64().unwrap() > 0.0);
    for (phase, submissions) in phases(webgpu).into_iter().chain(phases(cpu)) {
        assert_eq!(phase["submissions"], submissions);
        let kernels = phase["kernels"].as_array().unwrap();
        assert!(kernels.iter().any(|k| k["step"] == "ffn_down" && k["launches"] == 2));
        let us: f64 = kernels.iter().map(|k| k["us"].as_f64().unwrap()).sum();
        assert!(us > 0.0 && us <= phase["us"].as_f64().unwrap(), "{us} of {}", phase["us"]);
        let moved =
            |k: &Value| k["read_bytes"].as_u64().unwrap() + k["written_bytes"].as_u64().unwrap();
        assert!(kernels.iter().all(|k| moved(k) > 0), "{kernels:?}");
    }
    let trace: Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.iter().all(|e| e["ph"] == "M" || e["dur"].as_f64().unwrap() >= 0.0));
    let down = events.iter().filter(|e| e["args"]["step"] == "blk.1.ffn_down");
    assert_eq!(down.count(), 4, "one a submission");
}

#[test]
fn a_device_that_times_no_launches_says_so() {
    let options = ["--prompt-tokens", "1", "--tokens", "1"];
    let mut command = rlx(&["bench", "--model", SMALL, "--device", "reference", "--profile"]);
    let (code, stdout, stderr) = run(command.args(options));
    assert_eq!((code, stdout.as_str()), (3, ""));
    assert!(stderr.contains("the device reference does not time launches"), "{stderr}");
}
