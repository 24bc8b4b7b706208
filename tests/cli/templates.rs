//! Chat templates of model files: what `rlx template` prints, and those that are hostile programs, which are
//! an error like that of any bad file.

use super::{SMALL, fails, fixture, folder, repository, rlx, run};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    let messages = path.with_file_name("messages.json");
    std::fs::write(&messages, r#"[{"role": "user", "content": "hi"}]"#).unwrap();
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
        let place = format!("{model}, line {line}");
        let start = Instant::now();
        let (code, stdout, stderr) =
            run(&mut rlx(&["template", model, "--messages", messages.to_str().unwrap()]));
        assert!(start.elapsed() < Duration::from_secs(5), "{template}: {:?}", start.elapsed());
        assert_eq!((code, stdout.as_str()), (3, ""), "{template}: {stderr}");
        assert!(stderr.starts_with(&format!("error: the chat template {what}")), "{stderr}");
        assert!(stderr.ends_with(&format!(" ({place})\nhint: correct the template\n")), "{stderr}");

        let mut chat = rlx(&["chat", "--model", model, "--max-tokens", "1"]);
        let pipes = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let start = Instant::now();
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"hi\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(start.elapsed() < Duration::from_secs(20), "{template}: {:?}", start.elapsed());
        assert_eq!(output.status.code(), Some(3), "{template}");

        let start = Instant::now();
        let (code, stdout, stderr) =
            run(rlx(&["run", "--max-tokens", "1", "--model", model, "hi"]).stdin(Stdio::null()));
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

/// Of `rlx template`, which must say nothing on stderr.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let (code, stdout, stderr) = run(rlx(&["template"]).args(args));
    assert_eq!((code, stderr.as_str()), (0, ""));
    stdout
}

#[test]
fn the_prompt_is_printed_and_nothing_else() {
    const TEMPLATES: &str = "tests/fixtures/chat_templates";
    let folder = folder("template");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let messages = file(
        "messages.json",
        r#"[{"role": "user", "content": "Hi "}, {"role": "assistant", "content": "<|im_end|>",
            "tool_calls": [{"function": {"name": "f", "arguments": {"z": 1, "a": 2.0}}}]}]"#,
    );
    let model = printed(&[SMALL, "--messages", &messages]);
    assert_eq!(
        model,
        "<|begin_of_text|><|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\n<|im_end|><|im_end|>\n\
         <|im_start|>assistant\n"
    );
    let args = [SMALL, "--messages", &messages, "--no-generation-prompt"];
    assert_eq!(format!("{}<|im_start|>assistant\n", printed(&args)), model);

    // A folder: its own file of a template counts, else its tokenizer_config.json, which may have several.
    let named = r#"[{"name": "default", "template": "d{{ bos_token }}{{ eos_token }}"},
                    {"name": "tool_use", "template": "{{ tools | tojson }}"}]"#;
    let config = format!(
        r#"{{"bos_token": "<b>", "eos_token": {{"content": "<e>"}}, "chat_template": {named}}}"#
    );
    file("tokenizer_config.json", &config);
    let of_folder = [folder.to_str().unwrap(), "--messages", &messages];
    assert_eq!(printed(&of_folder), "d<b><e>");
    let tools = file("tools.json", r#"[{"z": 1, "a": null}]"#);
    let with_tools = [&of_folder[..], &["--tools", &tools]].concat();
    assert_eq!(printed(&with_tools), r#"[{"z": 1, "a": null}]"#);
    file("chat_template.jinja", "{{ messages | length }}{{ tools is none }}{{ eos_token }}\n\n");
    assert_eq!(printed(&of_folder), "2True<e>\n");

    // A template alone.
    let chatml = format!("{TEMPLATES}/chatml.jinja");
    let args = ["--template", &chatml, "--messages", &messages, "--set", "enable_thinking=false"];
    assert!(printed(&args).ends_with(
        "<call>\n{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": 2.0}}\n</call><|im_end|>\n\
         <|im_start|>assistant\n<think>\n\n</think>\n\n"
    ));
    let channels = format!("{TEMPLATES}/channels.jinja");
    let args = ["--template", &channels, "--messages", &messages, "--now", "86400"];
    assert!(printed(&args).contains("Current date: 1970-01-02\n"));
    let language = file("tokens.jinja", "{{ bos_token }}{{ eos_token }}");
    let args = ["--template", &language, "--bos", "<s>", "--eos", "</s>", "--messages", &messages];
    assert_eq!(printed(&args), "<s></s>");
}

#[test]
fn templates_are_told_the_local_time() {
    let folder = folder("template-time");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let messages = file("messages.json", "[]");
    let template = file("now.jinja", "{{ strftime_now('%H %M') }}");
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // Such a zone counts from the west: it is 5 hours and 30 minutes ahead of UTC, or 9 hours behind.
    for (zone, ahead) in [("UTC0", 0), ("IST-5:30", 330 * 60), ("AKST9", 15 * 3600)] {
        let wall = |seconds: u64| {
            let minutes = (seconds + ahead) / 60 % (24 * 60);
            format!("{:02} {:02}", minutes / 60, minutes % 60)
        };
        let before = seconds();
        let mut command = rlx(&["template", "--template", &template, "--messages", &messages]);
        let (code, stdout, stderr) = run(command.env("TZ", zone));
        let after = seconds();
        assert_eq!((code, stderr.as_str()), (0, ""));
        let possible: Vec<String> = (before / 60..=after / 60).map(|m| wall(m * 60)).collect();
        assert!(possible.contains(&stdout), "{zone}: {stdout} is none of {possible:?}");
    }
}

#[test]
fn what_is_wrong_with_a_conversation_or_a_template_is_said() {
    let folder = folder("template-wrong");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let messages = file("messages.json", "[]");
    let of = |args: &[&str]| {
        let mut command = rlx(&["template"]);
        command.args(args);
        command
    };
    let template = file("raise.jinja", "\n{{ raise_exception('No questions.') }}");
    fails(
        &mut of(&["--template", &template, "--messages", &messages]),
        2,
        &format!("the chat template refused the conversation: No questions. ({template})"),
        "see `rlx --help`",
    );
    let broken = file("broken.jinja", "\n{% for %}");
    let (code, _, stderr) = run(&mut of(&["--template", &broken, "--messages", &messages]));
    assert_eq!(code, 3);
    assert!(
        stderr.contains(&format!("({broken}, line 2)\nhint: correct the template")),
        "{stderr}"
    );
    let object = file("object.json", "{}");
    let (code, _, stderr) = run(&mut of(&[SMALL, "--messages", &object]));
    assert_eq!((code, stderr), (3, format!("error: this is no JSON array ({object})\n")));
    let deep = file("deep.json", &"[".repeat(1 << 20));
    let (code, _, stderr) = run(&mut of(&[SMALL, "--messages", &deep]));
    assert_eq!(code, 3);
    assert!(stderr.starts_with("error: not JSON: the JSON is nested too deep"), "{stderr}");
    fails(
        &mut of(&[SMALL, "--messages", &messages, "--set", "effort=high"]),
        2,
        "`effort=high`: not JSON: a JSON value is expected (the text, byte 0) (--set)",
        "write NAME=JSON, such as `enable_thinking=false` or `effort=\"high\"`",
    );
    fails(
        &mut of(&["tests/fixtures/tokenizers/unigram.gguf", "--messages", &messages]),
        2,
        "the model has no chat template (tests/fixtures/tokenizers/unigram.gguf)",
        "give one by --template",
    );
    let (code, _, stderr) = run(&mut of(&["docs", "--messages", &messages]));
    assert_eq!(code, 3);
    assert!(stderr.contains("no tokenizer_config.json or chat_template.jinja (docs)"), "{stderr}");
    assert_eq!(run(&mut of(&["--messages", &messages])).0, 2);
}
