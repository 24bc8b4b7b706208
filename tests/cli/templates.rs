//! Model files whose chat template is a hostile program: an error like that of any bad file.

use super::{SMALL, fixture, folder, repository, rlx, run};
use std::time::{Duration, Instant};

/// A small model with another chat template. What follows in the file keeps its alignment, for the
/// template is filled up with blanks.
fn with_template(template: &str) -> Vec<u8> {
    let mut file = fixture(SMALL.trim_start_matches("tests/fixtures/"));
    let key = b"tokenizer.chat_template";
    // Behind the key: the type, four bytes, and the length, eight.
    let at = file.windows(key.len()).position(|w| w == key).unwrap() + key.len() + 4;
    let old = u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let mut new = template.as_bytes().to_vec();
    while new.len() % 32 != old % 32 {
        new.push(b' ');
    }
    let text = (new.len() as u64).to_le_bytes().into_iter().chain(new);
    file.splice(at..at + 8 + old, text);
    file
}

#[test]
fn a_hostile_chat_template_is_an_error_with_its_line_and_raw_prompts_work() {
    let path = folder("templates").join("bomb.gguf");
    let model = path.to_str().unwrap();
    for (template, what, line) in [
        (
            "\n{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
            "did not end within ",
            2,
        ),
        ("{{ [1] | tojson(indent=4000000000) }}", "did not end within ", 1),
        ("{{ [1] * 4000000000 }}", "needs more than 32 MB of memory", 1),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nests deeper than 300 calls", 1),
        ("{% set n=namespace() %}{% set n.x=n %}{{ n|tojson }}", "failed: a namespace has no", 1),
    ] {
        std::fs::write(&path, with_template(template)).unwrap();
        let start = Instant::now();
        let (code, stdout, stderr) =
            run(rlx(&["run", "--max-tokens", "1", "--model", model, "hi"])
                .stdin(std::process::Stdio::null()));
        assert!(start.elapsed() < Duration::from_secs(20), "{template}: {:?}", start.elapsed());
        assert_eq!((code, stdout.as_str()), (3, ""), "{template}: {stderr}");
        assert!(stderr.starts_with(&format!("error: the chat template {what}")), "{stderr}");
        let place = format!("tokenizer.chat_template, line {line}");
        assert!(stderr.contains(&place), "{template}: {stderr}");
        assert!(stderr.ends_with("\nhint: use `--raw` to send the prompt as it is\n"), "{stderr}");
    }
    // The hint is true.
    let raw = ["run", "--raw", "--max-tokens", "1", "--model", model, "hi"];
    let (code, _, stderr) = run(&mut rlx(&raw));
    assert_eq!((code, stderr.as_str()), (0, ""));
    // So is what the errors say of the file: with its own kind of template it answers.
    let good = "{{ messages[0].content }}";
    std::fs::write(repository("").join(&path), with_template(good)).unwrap();
    let (code, _, stderr) = run(&mut rlx(&["run", "--max-tokens", "1", "--model", model, "hi"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
}
