//! Reports of devices: what `rlx devices --tune --report FILE` writes, and `Engine.tune({ report: true })` in a page.
//! `docs/guides/devices.md` says what each member means; a change of what is here is another [`VERSION`].

mod guess;
mod measure;

pub use guess::{REPORTS, first_guess, guess_of};
pub use measure::{MODELS, measure};

use rlx_core::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What `format` says.
pub const FORMAT: &str = "rlx-device-report";
/// The version of reports that this build writes and reads.
pub const VERSION: u64 = 1;
/// Most bytes of a report.
pub const MOST_BYTES: usize = 64 << 10;
/// Most characters of each of its texts.
const MOST_TEXT: usize = 1000;

/// What wrote a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// `rlx devices`: kernels went through naga and wgpu to the system's driver.
    Terminal,
    /// The package: kernels went through the browser's compiler.
    Page,
}

/// A device as it was measured. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u64,
    /// The version of RLX.
    pub rlx: String,
    /// The number of its kernels ([`KERNELS`](rlx_webgpu::tuning::KERNELS)).
    pub kernels: u32,
    /// The day, of UTC: `2026-11-26`.
    pub date: String,
    /// What measured.
    pub from: Host,
    /// The operating system and the processor's architecture, or what the browser calls itself.
    pub system: String,
    /// The adapter's name.
    pub adapter: String,
    /// The driver's name and version; empty in a page, which is not told.
    pub driver: String,
    /// Whether the processor simulates the device: its times say nothing of a GPU.
    pub software: bool,
    /// Optional features that kernels use.
    pub features: Vec<String>,
    /// Features that compute wrong values, each with the reason.
    pub demoted: Vec<String>,
    /// Lanes of a subgroup that kernels count on, and how they are known.
    pub subgroups: Option<String>,
    /// The executor's target, with the device's limits.
    pub target: String,
    /// Bytes a second of a copy, reads and writes counted.
    pub copy_bytes_per_second: f64,
    /// The fastest tuning that was found.
    pub tuning: String,
    /// The times behind it: choice, what was tried, the time of a submission.
    pub choices: BTreeMap<String, BTreeMap<String, f64>>,
    /// Forms of products, timed on layers of models; none where the device is simulated.
    pub forms: Vec<Forms>,
}

/// The forms of products for one model: steps of one of its layers of each kind, and of its head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forms {
    /// The model whose sizes these are.
    pub model: String,
    /// Activation types that the executor recommends; absent where nothing was timed.
    pub recommended: Option<String>,
    /// Those that the times choose.
    pub chosen: Option<String>,
    /// Of a step of decode with the recommended type, and with f32.
    pub decode_ms: Option<[f64; 2]>,
    /// Of a prompt of 128 tokens.
    pub prompt_ms: Option<[f64; 2]>,
    /// Why nothing was timed.
    pub failed: Option<String>,
}

impl Report {
    /// Reads a report. Errors name it `at`.
    ///
    /// # Errors
    /// `BadFile` for anything but a whole report of this version: it is understood, or refused.
    pub fn parse(text: &str, at: &str) -> Result<Report> {
        let bad = |what: &str| Error::new(Code::BadFile, what).at(at);
        if text.len() > MOST_BYTES {
            return Err(bad("this is more than a device's report may be, 64 KiB"));
        }
        let value: Value = serde_json::from_str(text).map_err(|e| bad(&e.to_string()))?;
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(bad("this is no report of a device")
                .hint(format!("one has `\"format\": \"{FORMAT}\"`")));
        }
        match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(other) => {
                return Err(bad(&format!("the report has version {other}"))
                    .hint(format!("this build of RLX reads version {VERSION}")));
            }
            None => return Err(bad("the report's version is no number")),
        }
        let report: Report = serde_json::from_value(value).map_err(|e| bad(&e.to_string()))?;
        report.check().map_err(|what| bad(&what))?;
        Ok(report)
    }

    /// The text of a file.
    ///
    /// # Errors
    /// `Internal` where it does not read back.
    pub fn to_text(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::internal(format!("the report does not print: {e}")))?;
        match Report::parse(&text, "report") {
            Ok(_) => Ok(text + "\n"),
            Err(e) => Err(Error::internal(format!("the report does not read back: {e}"))),
        }
    }

    /// What is wrong with what its members say, if something is.
    fn check(&self) -> core::result::Result<(), String> {
        let forms = self.forms.iter();
        let times = self.choices.values().flat_map(|tried| tried.values());
        let pairs = forms.clone().flat_map(|f| [f.decode_ms, f.prompt_ms]).flatten().flatten();
        let mut numbers = times.copied().chain(pairs).chain([self.copy_bytes_per_second]);
        if let Some(wrong) = numbers.find(|x| !(x.is_finite() && *x > 0.0)) {
            return Err(format!("{wrong} is neither a time nor a rate"));
        }
        let named = [&self.rlx, &self.system, &self.adapter, &self.driver, &self.target];
        let lists = self.features.iter().chain(&self.demoted).chain(&self.subgroups);
        let of_forms = forms.flat_map(|f| {
            core::iter::once(&f.model).chain(&f.recommended).chain(&f.chosen).chain(&f.failed)
        });
        let keys = self
            .choices
            .iter()
            .flat_map(|(name, tried)| core::iter::once(name).chain(tried.keys()));
        let texts = named.into_iter().chain(lists).chain(of_forms).chain(keys);
        let wrong =
            |text: &&String| text.chars().count() > MOST_TEXT || text.chars().any(char::is_control);
        if let Some(text) = texts.chain([&self.tuning]).find(wrong) {
            let begin: String = text.chars().take(40).flat_map(char::escape_debug).collect();
            return Err(format!("`{begin}` is too long, or has characters that do not print"));
        }
        let day = self.date.as_bytes();
        let mark = |i: usize| i == 4 || i == 7;
        let fits = |(i, b): (usize, &u8)| if mark(i) { *b == b'-' } else { b.is_ascii_digit() };
        if day.len() != 10 || !day.iter().enumerate().all(fits) {
            return Err("its date is no day such as 2026-11-26".into());
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report of a made-up device.
    pub(crate) const GPU: &str = include_str!("../../../../tests/fixtures/devices/gpu.json");

    #[test]
    fn a_report_reads_back() {
        let report = Report::parse(GPU, "gpu.json").unwrap();
        assert_eq!(report.to_text().unwrap(), GPU);
        assert_eq!((report.from, report.software), (Host::Terminal, false));
        assert_eq!(report.choices["short"].len(), 7);
        assert_eq!(report.forms[1].failed.as_deref(), Some("the GPU has too little memory"));
    }

    #[test]
    fn what_a_page_writes_is_read_too() {
        let text = include_str!("../../../../tests/fixtures/devices/page.json");
        let report = Report::parse(text, "page.json").unwrap();
        assert_eq!((report.from, report.software), (Host::Page, true));
        assert_eq!(report.driver, "");
    }

    #[test]
    fn what_is_no_report_is_refused_with_the_reason() {
        let changed = |from: &str, to: &str| {
            assert!(GPU.contains(from), "{from}");
            GPU.replacen(from, to, 1)
        };
        let long = format!("\"adapter\": \"{}\"", "x".repeat(MOST_TEXT + 1));
        let adapter = "\"adapter\": \"Fixture GPU\"";
        for (text, said) in [
            (String::new(), "EOF while parsing"),
            ("[".repeat(100_000), "more than a device's report may be"),
            ("[".repeat(60_000), "recursion limit"),
            ("{}".into(), "no report of a device"),
            ("[1, 2]".into(), "no report of a device"),
            (GPU[..GPU.len() / 2].into(), "EOF while parsing"),
            (changed("rlx-device-report", "other"), "no report of a device"),
            (changed("\"version\": 1", "\"version\": 2"), "the report has version 2"),
            (changed("\"version\": 1", "\"version\": -1"), "version is no number"),
            (changed("\"software\"", "\"hardware\""), "unknown field `hardware`"),
            (changed("  \"software\": false,\n", ""), "missing field `software`"),
            (changed("\"terminal\"", "\"elsewhere\""), "unknown variant `elsewhere`"),
            (changed("1900000000000.0", "0"), "neither a time nor a rate"),
            (changed("1900000000000.0", "1e999"), "number out of range"),
            (changed("0.125", "-0.125"), "neither a time nor a rate"),
            (changed("0.125", "\"fast\""), "invalid type"),
            (changed(adapter, &long), "too long"),
            (changed(adapter, "\"adapter\": \"a\\u001b[2Jb\""), "do not print"),
            (changed("2026-11-26", "26.11.2026"), "no day"),
            (changed("2026-11-26", "２026-11-2"), "no day"),
        ] {
            let e = Report::parse(&text, "it.json").unwrap_err();
            assert_eq!((e.code, e.at.as_str()), (Code::BadFile, "it.json"));
            assert!(e.what.contains(said), "{}: {}", e.what, &text[..text.len().min(80)]);
        }
        for i in (0..GPU.len()).filter(|i| GPU.is_char_boundary(*i)) {
            assert!(Report::parse(&GPU[..i], "cut").is_err() || GPU[i..].trim().is_empty());
        }
    }
}
