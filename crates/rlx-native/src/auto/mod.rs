//! `--device auto`: the fastest device of this machine, by measurement.
//!
//! The first use opens every device of [`CANDIDATES`] that is there and times each with two products of packed
//! weights ([`probe`]). The answer is kept in the cache's folder with the devices' names. Later uses open the winner
//! alone; where that is not there any more, or is another, all are timed again, and so they are by `rlx devices` where
//! any of them is another than before. A GPU that the processor simulates loses to the processor by its times, not by
//! its name.

pub mod probe;

use crate::devices::{CPU, DeviceRow, OpenOptions, find};
use crate::remembered::{remember, remembered};
use core::fmt;
use rlx_core::runtime::device::Device;
use rlx_core::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The name that stands for the fastest device.
pub const AUTO: &str = "auto";

/// Names the device that `auto` is: nothing is timed.
pub const VARIABLE: &str = "RLX_AUTO";

/// What is compared; of two that are equally fast the first one wins.
const CANDIDATES: [&str; 5] = ["metal", "cuda", "rocm", "webgpu", CPU];

/// Where answers are kept.
const FILE: &str = "auto.json";

/// Tokens of the answer to a prompt of [`probe::PROMPT`] tokens: what devices are compared by.
const ANSWER: f64 = 128.0;

/// A device that was there, and what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// As `--device` takes it.
    pub device: String,
    /// The adapter's name.
    pub adapter: String,
    /// Milliseconds of one row; absent where it was not timed.
    pub token_ms: Option<f64>,
    /// Milliseconds of a prompt.
    pub prompt_ms: Option<f64>,
    /// Why it cannot be used.
    pub failed: Option<String>,
}

impl Timed {
    fn new(device: &str, adapter: &str) -> Self {
        let (device, adapter) = (device.into(), adapter.into());
        Timed { device, adapter, token_ms: None, prompt_ms: None, failed: None }
    }

    /// Milliseconds of a prompt and an answer; none for what was not timed.
    fn total(&self) -> Option<f64> {
        let total = self.prompt_ms? + ANSWER * self.token_ms?;
        (total.is_finite() && total > 0.0).then_some(total)
    }
}

/// The devices of a machine, in the order of [`CANDIDATES`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// One for each that was there.
    pub devices: Vec<Timed>,
}

impl Comparison {
    /// Reads what [`to_text`](Self::to_text) wrote; `None` for anything else, and for devices that this version does
    /// not know.
    pub fn parse(text: &str) -> Option<Self> {
        let comparison: Comparison = serde_json::from_str(text).ok()?;
        let known = |t: &Timed| CANDIDATES.contains(&t.device.as_str());
        comparison.devices.iter().all(known).then_some(comparison)
    }

    fn to_text(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|e| Error::internal(format!("a comparison of devices does not print: {e}")))
    }

    /// The fastest; where nothing was timed the first that did not fail.
    pub fn fastest(&self) -> Option<&Timed> {
        let timed = self.devices.iter().filter_map(|t| Some((t, t.total()?)));
        let least = timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(t, _)| t);
        least.or_else(|| self.devices.iter().find(|t| t.failed.is_none()))
    }

    /// Whether it is of the same devices.
    fn is_of(&self, other: &Comparison) -> bool {
        let names = |c: &Comparison| -> Vec<(String, String)> {
            c.devices.iter().map(|t| (t.device.clone(), t.adapter.clone())).collect()
        };
        names(self) == names(other)
    }
}

/// Why `auto` is what it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// A variable of the environment says so.
    Named,
    /// There is no other.
    Only,
    /// They were timed just now.
    Measured(Comparison),
    /// They were timed before.
    Remembered(Comparison),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (how, comparison) = match self {
            Self::Named => return write!(f, "as {VARIABLE} says"),
            Self::Only => return f.write_str("no other device is there"),
            Self::Measured(comparison) => ("measured now", comparison),
            Self::Remembered(comparison) => ("as measured here", comparison),
        };
        write!(f, "{how}:")?;
        for (i, t) in comparison.devices.iter().enumerate() {
            let comma = if i == 0 { "" } else { ";" };
            match (t.token_ms, t.prompt_ms, &t.failed) {
                (Some(token), Some(prompt), _) => write!(
                    f,
                    "{comma} {} {token:.3} ms a row, {prompt:.1} ms {} rows",
                    t.device,
                    probe::PROMPT
                )?,
                (.., Some(why)) => write!(f, "{comma} {} failed: {why}", t.device)?,
                _ => write!(f, "{comma} {} was not timed", t.device)?,
            }
        }
        Ok(())
    }
}

/// The device that `auto` is.
pub struct Auto {
    /// Its row.
    pub row: &'static DeviceRow,
    /// The open device.
    pub device: Arc<dyn Device>,
    /// Why it is this one.
    pub why: Why,
}

/// A device that is open.
pub type Opened = (&'static DeviceRow, Arc<dyn Device>);

/// Under which answers are kept: how devices are opened, and by which version.
fn key(options: &OpenOptions) -> String {
    let threads = options.threads.map_or("usual".into(), |n| n.to_string());
    let adapter = options.adapter.as_deref().unwrap_or("any");
    let version = env!("CARGO_PKG_VERSION");
    format!("rlx {version}, {} layers, threads {threads}, adapter {adapter}", probe::LAYERS)
}

/// Opens the device that `auto` is.
///
/// # Errors
/// `Usage` for an unknown name in `RLX_AUTO`; what the CPU meets, which is always a candidate.
pub fn open(options: &OpenOptions) -> Result<Auto> {
    if let Some(row) = named()? {
        return Ok(Auto { row, device: (row.open)(options)?, why: Why::Named });
    }
    let kept = remembered(FILE, &key(options)).and_then(|text| Comparison::parse(&text));
    if let Some(kept) = kept
        && let Some(best) = kept.fastest()
        && let Ok(row) = find(&best.device)
        && let Ok(device) = (row.open)(options)
        && device.info().adapter == best.adapter
    {
        let why = if kept.devices.len() == 1 { Why::Only } else { Why::Remembered(kept) };
        return Ok(Auto { row, device, why });
    }
    let mut there: Vec<Opened> = Vec::new();
    for name in CANDIDATES {
        let row = find(name)?;
        match (row.open)(options) {
            Ok(device) => there.push((row, device)),
            Err(e) if name == CPU => return Err(e),
            Err(_) => {}
        }
    }
    among(&there, options, false)
}

/// The device that `auto` is among these, which are open: as it was kept for the same devices, unless `anew`, or else
/// by timing them.
///
/// # Errors
/// `Usage` for an unknown name in `RLX_AUTO`, `DeviceUnavailable` where it is not among them.
pub fn among(there: &[Opened], options: &OpenOptions, anew: bool) -> Result<Auto> {
    let found = |name: &str, why: Why| {
        let (row, device) = there.iter().find(|(row, _)| row.name == name).ok_or_else(|| {
            Error::new(Code::DeviceUnavailable, format!("auto is {name}, which is not available"))
                .hint("`rlx devices` says why")
        })?;
        Ok(Auto { row, device: device.clone(), why })
    };
    if let Some(row) = named()? {
        return found(row.name, Why::Named);
    }
    let mut now = Comparison::default();
    for name in CANDIDATES {
        let own = there.iter().find(|(row, _)| row.name == name);
        now.devices.extend(own.map(|(row, d)| Timed::new(row.name, &d.info().adapter)));
    }
    let kept = remembered(FILE, &key(options)).and_then(|text| Comparison::parse(&text));
    let same = kept.filter(|kept| !anew && kept.is_of(&now));
    let remembered = same.is_some();
    let comparison = match same {
        Some(kept) => kept,
        None => {
            time(&mut now, there);
            // Where it cannot be kept it is timed again.
            let _ = now.to_text().and_then(|text| remember(FILE, key(options), text));
            now
        }
    };
    let best = comparison.fastest().map_or(CPU.to_owned(), |best| best.device.clone());
    let why = match comparison.devices.len() {
        0 | 1 => Why::Only,
        _ if remembered => Why::Remembered(comparison),
        _ => Why::Measured(comparison),
    };
    found(&best, why)
}

/// Times all devices where there are several. The CPU is the first, because a GPU that is far slower need not be timed
/// to the end.
fn time(comparison: &mut Comparison, there: &[Opened]) {
    if comparison.devices.len() < 2 {
        return;
    }
    let mut limit = f64::INFINITY;
    for timed in comparison.devices.iter_mut().rev() {
        let Some((_, device)) = there.iter().find(|(row, _)| row.name == timed.device) else {
            continue;
        };
        match probe::measure(device, limit) {
            Ok([token, prompt]) => {
                (timed.token_ms, timed.prompt_ms) = (Some(token), Some(prompt));
                limit = timed.total().map_or(limit, |total| total.min(limit));
            }
            Err(e) => timed.failed = Some(e.what.chars().filter(|c| !c.is_control()).collect()),
        }
    }
}

/// The device that the environment names.
fn named() -> Result<Option<&'static DeviceRow>> {
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let row = find(&name.to_string_lossy());
    row.map(Some).map_err(|e| Error::usage(format!("{VARIABLE}: {}", e.what)).hint(e.hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(device: &str, token: f64, prompt: f64) -> Timed {
        let (token_ms, prompt_ms) = (Some(token), Some(prompt));
        Timed { token_ms, prompt_ms, ..Timed::new(device, "a name") }
    }

    fn fastest(devices: &[Timed]) -> Option<String> {
        let comparison = Comparison { devices: devices.to_vec() };
        comparison.fastest().map(|t| t.device.clone())
    }

    #[test]
    fn the_least_time_of_a_prompt_and_an_answer_wins() {
        let cpu = timed("cpu", 2.0, 90.0);
        assert_eq!(fastest(&[timed("cuda", 0.02, 0.2), cpu.clone()]).as_deref(), Some("cuda"));
        // A GPU that waits for launches, and one that the processor simulates.
        assert_eq!(fastest(&[timed("webgpu", 3.0, 5.0), cpu.clone()]).as_deref(), Some("cpu"));
        assert_eq!(fastest(&[timed("webgpu", 9.0, 900.0), cpu.clone()]).as_deref(), Some("cpu"));
        // Equal times: the driver of its own before WebGPU.
        let equal = [timed("metal", 1.0, 9.0), timed("webgpu", 1.0, 9.0), cpu];
        assert_eq!(fastest(&equal).as_deref(), Some("metal"));
    }

    #[test]
    fn a_device_that_failed_never_wins_and_without_times_the_first_does() {
        let failed = Timed { failed: Some("lost".into()), ..Timed::new("cuda", "a card") };
        let cpu = Timed::new("cpu", "avx2");
        assert_eq!(fastest(&[failed.clone(), cpu.clone()]).as_deref(), Some("cpu"));
        assert_eq!(fastest(&[failed.clone(), timed("cpu", 1.0, 1.0)]).as_deref(), Some("cpu"));
        assert_eq!(fastest(&[timed("cuda", f64::NAN, 1.0), cpu]).as_deref(), Some("cuda"));
        assert_eq!(fastest(&[failed]), None);
        assert_eq!(fastest(&[]), None);
    }

    #[test]
    fn what_is_kept_is_read_again_and_anything_else_is_nothing() -> Result<()> {
        let kept =
            Comparison { devices: vec![timed("webgpu", 9.0, 900.0), timed("cpu", 2.0, 90.0)] };
        assert_eq!(Comparison::parse(&kept.to_text()?), Some(kept.clone()));
        for text in ["", "{}", "[]", "{\"devices\":3}"] {
            assert_eq!(Comparison::parse(text), None, "{text}");
        }
        let other = Comparison { devices: vec![Timed::new("abacus", "wood")] };
        assert_eq!(Comparison::parse(&other.to_text()?), None);
        let another_card = Comparison {
            devices: kept
                .devices
                .iter()
                .map(|t| Timed { adapter: "new".into(), ..t.clone() })
                .collect(),
        };
        assert!(kept.is_of(&kept.clone()) && !kept.is_of(&another_card));
        let said = Why::Remembered(kept).to_string();
        assert_eq!(
            said,
            "as measured here: webgpu 9.000 ms a row, 900.0 ms 128 rows; cpu 2.000 ms a row, 90.0 ms 128 rows"
        );
        Ok(())
    }
}
