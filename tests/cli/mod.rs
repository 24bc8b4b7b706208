//! The command line as scripts see it: exit codes, messages, JSON.

mod answers;
mod bad_input;
#[path = "../support/malformed.rs"]
mod broken;
mod chat;
mod convert;
mod detect;
mod devices;
mod embed;
mod features;
mod fidelity;
mod files;
mod forms;
mod graph;
mod imagine;
mod inspect;
mod json;
mod quantize;
mod segment;
mod smollm2;
mod templates;
mod tokenize;
mod track;
mod transcribe;
mod usage;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The embedded model, or a small one, answers on this device unless a test is about another.
const SMALL: &str = "tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn fixture(path: &str) -> Vec<u8> {
    let path = repository("tests/fixtures").join(path);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn rlx(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlx"));
    command.args(args).current_dir(repository(""));
    // What this machine remembers of its GPUs is no part of a test, nor the other way round.
    command.env("RLX_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    // Nor which of its devices is the fastest.
    command.env("RLX_AUTO", "cpu");
    command
}

/// Runs a command; what it printed and its exit code.
fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().expect("no signal"), text(stdout), text(stderr))
}

/// The hint of an error about a device that nobody knows.
const DEVICES_HINT: &str =
    "devices: auto, reference, cpu, webgpu, cuda, rocm, metal, mlx, tpu, xla-cpu, xla-cuda";

/// Asserts that a command fails with exactly these two lines.
#[track_caller]
fn fails(command: &mut Command, code: i32, error: &str, hint: &str) {
    let (got, stdout, stderr) = run(command);
    assert_eq!(stderr, format!("error: {error}\nhint: {hint}\n"));
    assert_eq!((got, stdout.as_str()), (code, ""));
}
