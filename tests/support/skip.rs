//! What a test says that cannot do what its name says: one line, which is counted.

use std::fs::OpenOptions;
use std::io::Write;

/// Notes that a test, or a part of one, did not run: `rlx-skip: <test>: <reason>`. The line goes to the
/// end of the file that `RLX_SKIPS` names, as `npm test` does, and else past the test harness,
/// which swallows what a passing test prints, to the terminal.
pub fn skip(test: &str, reason: &str) {
    let line = format!("rlx-skip: {test}: {reason}\n");
    // One write of the whole line: tests beside each other and other processes append too.
    match std::env::var_os("RLX_SKIPS") {
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(&path);
            let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
            written.unwrap_or_else(|e| panic!("RLX_SKIPS={}: {e}", path.display()));
        }
        None => std::io::stderr().write_all(line.as_bytes()).expect("there is a terminal"),
    }
}
