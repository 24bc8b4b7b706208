//! `rlx chat` with piped stdin.

use super::{SMALL, rlx};
use serde_json::Value;
#[cfg(unix)]
use std::io::Read;
use std::io::Write;
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
fn a_full_context_ends_a_chat_or_slides() {
    let input = "What does Vec::push do?\n".repeat(12);
    let args = ["--model", SMALL, "--json", "--context", "128", "--max-tokens", "12"];
    let (code, stdout, stderr) = talk(&args, input.as_bytes());
    assert_eq!(code, 2, "{stderr}");
    let ended = stdout.lines().count();
    assert!((2..12).contains(&ended), "{ended} turns");
    let (code, stdout, stderr) =
        talk(&[&args[..], &["--overflow", "slide"]].concat(), input.as_bytes());
    assert_eq!((code, stderr.as_str()), (0, ""));
    let turns: Vec<Value> = stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(turns.len(), 12);
    let left = |turn: &Value| turn["left_out"]["turns"].as_u64().unwrap_or(0);
    assert_eq!(left(&turns[1]), 0);
    assert!(turns[1]["left_out"].is_null());
    assert!(turns.is_sorted_by_key(left));
    assert!(left(&turns[11]) >= 12 - ended as u64, "{}", turns[11]);
    // Prompts begin alike for a while, and then with other turns.
    let reused = |turn: &&Value| turn["reused_tokens"].as_u64().unwrap() > 20;
    assert!(turns[ended..].iter().filter(reused).count() > 2, "{stdout}");
    assert!(turns.iter().all(|turn| turn["prompt_tokens"].as_u64().unwrap() <= 128 - 12));
}

#[test]
fn an_answer_goes_on_where_the_context_is_full() {
    let args = ["run", "--model", SMALL, "--json", "--context", "64", "--max-tokens", "150"];
    let how = ["--temperature", "100", "--seed", "1", "--overflow", "slide", "What is a slice?"];
    let (code, stdout, stderr) = super::run(&mut rlx(&[&args[..], &how].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(answer["tokens"].as_array().unwrap().len(), 150);
    assert_eq!(answer["left_out"]["turns"], 0);
    assert!(answer["left_out"]["tokens"].as_u64().unwrap() > 64);
}

#[test]
fn text_that_is_not_utf_8_is_a_usage_error_with_its_line() {
    let args = ["--model", SMALL, "--max-tokens", "1"];
    let (code, _, stderr) = talk(&args, b"hello\nab\xff\n");
    assert_eq!(code, 2);
    assert_eq!(stderr, "error: byte 2 is not UTF-8 (stdin, line 2)\nhint: send text in UTF-8\n");
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let kill = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_an_answer_and_the_next_turn_works() {
    // Nearly every token is as likely as any other, so the answer goes on until the context is full: a busy machine
    // may send the signal late, and still somebody is answering.
    let args = ["--model", SMALL, "--device", "reference", "--temperature", "100", "--seed", "1"];
    let args = [&args[..], &["--context", "256"]].concat();
    let (code, whole, _) = talk(&args, b"What does Vec::push do?\n");
    assert_eq!(code, 0);
    let mut child = start(&args);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdin.write_all(b"What does Vec::push do?\n").unwrap();
    let mut first = [0];
    stdout.read_exact(&mut first).unwrap();
    interrupt(&child);
    stdin.write_all(b"Thanks\n").unwrap();
    drop(stdin);
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let both = String::from_utf8([&first[..], &rest].concat()).unwrap();
    let same = both.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
    assert!(same < whole.trim_end().len(), "the first answer was not stopped: {both}");
    assert!(both[same..].trim().len() > 1, "there was no second answer: {both}");
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
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
