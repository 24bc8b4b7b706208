//! `rlx fidelity`: what options cost against f32, and what it says of texts and models.

use super::{SMALL, fails, folder, rlx, run};
use serde_json::Value;
use std::path::PathBuf;

const TEXT: &str = "tests/cli/fidelity.txt";
const BERT: &str = "tests/fixtures/bert/bert.gguf";

/// What `--json` prints for the small model.
#[track_caller]
fn measured(args: &[&str]) -> Value {
    let mut command = rlx(&["fidelity", SMALL, "--text", TEXT, "--json", "--threads", "1"]);
    let (code, stdout, stderr) = run(command.args(args));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout.lines().count(), 1);
    serde_json::from_str(&stdout).unwrap()
}

fn number(v: &Value, way: &str, key: &str) -> f64 {
    v[way][key].as_f64().unwrap_or_else(|| panic!("{way} {key}: {v}"))
}

const WAYS: [&str; 2] = ["decode", "prompts"];

/// The same activations and caches as the reference: nothing but orders of sums differ.
#[test]
fn f32_is_as_good_as_the_reference_on_both_and_both_references_agree() {
    for reference in ["cpu", "reference"] {
        let v = measured(&[
            "--activations",
            "f32",
            "--kv",
            "f32",
            "--reference",
            reference,
            "--tokens",
            "60",
        ]);
        assert_eq!((&v["reference"], &v["activations"]), (&reference.into(), &"f32".into()));
        assert_eq!(v["tokens"], 60);
        for way in WAYS {
            // Behind each token of the text, and the one that begins it.
            assert_eq!(number(&v, way, "rows"), 61.0);
            assert!(number(&v, way, "mean_kl") < 1e-9 && number(&v, way, "worst_kl") < 1e-8, "{v}");
            assert_eq!(number(&v, way, "top1"), 1.0, "{v}");
            let ratio = number(&v, way, "perplexity") / number(&v, way, "reference_perplexity");
            assert!((ratio - 1.0).abs() < 1e-5, "{v}");
        }
    }
}

#[test]
fn shorter_activations_and_caches_cost_what_they_must_in_both_ways() {
    let int8 = measured(&["--activations", "int8", "--kv", "f32"]);
    let caches = measured(&["--activations", "f32", "--kv", "q8_0"]);
    let int16 = measured(&["--activations", "int16", "--kv", "f32"]);
    // The caches that a device has where nothing is said.
    let usual = measured(&["--activations", "f32"]);
    assert_eq!(usual["kv"], "f16");
    for way in WAYS {
        let kl = |v: &Value| number(v, way, "mean_kl");
        assert!(kl(&usual) > 0.0 && kl(&usual) < 1e-5, "{usual}");
        assert!(kl(&int16) > 0.0 && kl(&int16) < 1e-3 * kl(&int8), "{int16}");
        assert_eq!(number(&int16, way, "top1"), 1.0, "{int16}");
    }
    assert_eq!((&int8["kv"], &caches["kv"]), (&"f32".into(), &"q8_0".into()));
    for (v, most) in [(&int8, 0.1), (&caches, 0.05)] {
        for way in WAYS {
            let (mean, worst) = (number(v, way, "mean_kl"), number(v, way, "worst_kl"));
            assert!(mean > 1e-7 && mean < most && worst > mean, "{v}");
            assert!(number(v, way, "worst_at") < number(v, way, "rows"), "{v}");
            let top1 = number(v, way, "top1");
            assert!(top1 > 0.8 && top1 <= 1.0, "{v}");
        }
        // The text's tokens are the reference's whatever is compared with it.
        let by = |v: &Value| number(v, "decode", "reference_perplexity");
        assert_eq!(by(v), by(&int8));
        assert_eq!(by(v), number(v, "prompts", "reference_perplexity"));
    }
}

/// A window's rows see none of the window before.
#[test]
fn a_text_is_read_in_windows_of_the_context_and_in_chunks() {
    let f32s = ["--activations", "f32", "--kv", "f32", "--tokens", "60"];
    let all = measured(&f32s);
    let v = measured(&[&f32s[..], &["--context", "16", "--chunk", "4"]].concat());
    assert_eq!((&v["context"], &v["chunk"]), (&16.into(), &4.into()));
    for way in WAYS {
        assert!(number(&v, way, "rows") >= 60.0 && number(&v, way, "mean_kl") < 1e-9, "{v}");
        // A row that sees less says something else.
        let ratio = number(&v, way, "perplexity") / number(&all, way, "perplexity");
        assert!((ratio - 1.0).abs() > 0.05, "{v} {all}");
    }
}

#[test]
fn a_table_for_people_has_both_ways() {
    let (code, stdout, stderr) =
        run(&mut rlx(&["fidelity", SMALL, "--text", TEXT, "--tokens", "20"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let starts: Vec<&str> =
        stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(starts, ["cpu", "mean", "decode", "prompts"], "{stdout}");
    assert!(
        stdout.contains("activations int16/mixed, beside cpu with f32, over 20 tokens"),
        "{stdout}"
    );
}

/// A file of this test's own.
fn text(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder(&format!("fidelity_{name}")).join("text.txt");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_text_that_cannot_be_read_is_told_why() {
    let of = |path: &PathBuf| {
        let mut command = rlx(&["fidelity", SMALL, "--text"]);
        command.arg(path);
        command
    };
    let path = text("empty", b"");
    let what = format!("the text has 0 tokens, expected 2 or more ({})", path.display());
    fails(&mut of(&path), 2, &what, "give a longer text: some thousand tokens tell options apart");
    let path = text("utf8", b"some \xff text");
    let (code, stdout, stderr) = run(&mut of(&path));
    let first = format!("error: the text is no UTF-8 ({})", path.display());
    assert_eq!((code, stdout.as_str(), stderr.lines().next()), (3, "", Some(first.as_str())));
    let path = path.with_file_name("nothing.txt");
    let (code, _, stderr) = run(&mut of(&path));
    let first = format!("error: the file is not there ({})", path.display());
    assert_eq!((code, stderr.lines().next()), (3, Some(first.as_str())));
}

#[test]
fn what_it_cannot_compare_is_an_error_by_name() {
    let mut command = rlx(&["fidelity", SMALL, "--text", TEXT, "--reference", "gpu"]);
    let hint = super::DEVICES_HINT.replace("auto, ", "");
    fails(&mut command, 2, "unknown device `gpu`", &hint);
    let (code, _, stderr) = run(&mut rlx(&["fidelity", BERT, "--text", TEXT]));
    assert_eq!(code, 3, "{stderr}");
    let (code, _, stderr) = run(&mut rlx(&["fidelity", SMALL]));
    assert_eq!(code, 2);
    assert!(stderr.contains("--text <FILE>"), "{stderr}");
}
