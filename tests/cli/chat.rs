//! `rlx chat` with piped stdin.

use super::{SMALL, rlx};
use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Child, Stdio};

fn start(args: &[&str]) -> Child {
    let mut command = rlx(&["chat"]);
    let pipes = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    pipes.stderr(Stdio::piped()).spawn().unwrap()
}

fn talk(args: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = start(args);
    child.stdin.take().unwrap().write_all(input).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap(), text(out.stdout), text(out.stderr))
}

#[test]
fn a_second_turn_reuses_what_the_caches_hold_and_reset_does_not_remember() {
    let input = b"What does Vec::push do?\nThanks\n\n/reset\nWhat does Vec::push do?\n";
    let (code, stdout, stderr) = talk(&["--model", SMALL, "--json"], input);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let turns: Vec<Value> = stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(turns.len(), 3);
    let reused = |i: usize| turns[i]["reused_tokens"].as_u64().unwrap();
    assert_eq!((reused(0), reused(2)), (0, 0));
    assert!(reused(1) >= 19, "{}", turns[1]);
    assert!(turns[1]["prompt_tokens"].as_u64() > turns[0]["prompt_tokens"].as_u64());
    assert_eq!(turns[0]["tokens"], turns[2]["tokens"]);
}

#[test]
fn text_that_is_not_utf_8_is_a_usage_error_with_its_line() {
    let args = ["--model", SMALL, "--max-tokens", "1"];
    let (code, _, stderr) = talk(&args, b"hello\nab\xff\n");
    assert_eq!(code, 2);
    assert_eq!(stderr, "error: byte 2 is not UTF-8 (stdin, line 2)\nhint: send text in UTF-8\n");
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_an_answer_and_the_next_turn_works() {
    // The reference is slow enough to be stopped, and stops between two steps.
    let mut child = start(&["--model", SMALL, "--device", "reference"]);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdin.write_all(b"What does Vec::push do?\n").unwrap();
    let mut first = [0];
    stdout.read_exact(&mut first).unwrap();
    let interrupt = |id: u32| {
        let status =
            std::process::Command::new("sh").args(["-c", &format!("kill -INT {id}")]).status();
        assert!(status.unwrap().success());
    };
    interrupt(child.id());
    stdin.write_all(b"Thanks\n").unwrap();
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let answers: Vec<&str> = rest.trim_end().lines().collect();
    assert_eq!(answers.len(), 2, "{rest}");
    assert!(!answers[0].ends_with("collection."), "the first answer was not stopped: {rest}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_at_the_prompt_leaves() {
    let mut child = start(&["--model", SMALL, "--max-tokens", "1"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"hello\n").unwrap();
    let mut line = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    // After the answer's line end nobody is answering.
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
