//! The progress line of a long command.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two changes of the line.
const PAUSE: Duration = Duration::from_millis(100);

/// `loading 12.0 of 18.8 MB` on a terminal, once the work has taken a quarter of a second.
pub struct ProgressLine {
    verb: &'static str,
    next: Instant,
    shown: bool,
    terminal: bool,
}

impl ProgressLine {
    /// A line that begins with this verb.
    pub fn new(verb: &'static str) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let next = Instant::now() + Duration::from_millis(250);
        Self { verb, next, shown: false, terminal }
    }

    /// Shows how many bytes of all are done.
    pub fn show(&mut self, done: u64, total: u64) {
        let mb = |n: u64| n as f64 / 1e6;
        self.write(|| format!("{:.1} of {:.1} MB", mb(done), mb(total)));
    }

    /// Shows how many of all are done.
    pub fn count(&mut self, done: u64, all: u64, of: &str) {
        self.write(|| format!("{done} of {all} {of}"));
    }

    /// Shows how much is done, from 0 to 1.
    pub fn share(&mut self, done: f64) {
        self.write(|| format!("{:.0} %", 100.0 * done));
    }

    fn write(&mut self, text: impl Fn() -> String) {
        let now = Instant::now();
        if self.terminal && now >= self.next {
            (self.shown, self.next) = (true, now + PAUSE);
            let text = format!("\r{} {}", self.verb, text());
            // Failing to show progress is not an error.
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        }
    }

    /// Takes the line away until it is next written, for something else to be printed.
    pub fn hide(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// Erases the line.
    pub fn clear(self) {}
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.hide();
    }
}
