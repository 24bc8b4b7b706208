//! Where a model's time goes: every kernel launch by the device's clock, beside what it had to move.

use crate::block_on::block_on;
use crate::tools::bench::{BenchOptions, check, generate, prompt};
use rlx_core::Result;
use rlx_core::ir::lir::Program;
use rlx_core::runtime::device::TimedSubmission;
use rlx_core::runtime::generate::engine::Engine;
use rlx_core::runtime::work::{Position, Work};
use serde_json::{Value, json};

/// What a decoder's submission computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecoderPhase {
    /// A chunk of the prompt.
    Prefill,
    /// One token.
    Decode,
}

impl DecoderPhase {
    /// `prefill` or `decode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What its submission is for.
    pub phase: DecoderPhase,
    /// Number of the submission.
    pub submission: usize,
    /// The step's label: `blk.3.ffn_down`.
    pub label: String,
    /// The kernel's entry point.
    pub kernel: &'static str,
    /// Begin and end, in nanoseconds of the device's clock.
    pub ns: [u64; 2],
    /// What it cannot do without.
    pub work: Work,
}

/// Launches of one kind: equal steps of all layers.
#[derive(Clone, Debug)]
pub struct Kind {
    /// What they are for.
    pub phase: DecoderPhase,
    /// The label without its layer: `ffn_down`.
    pub role: String,
    /// The kernel's entry point.
    pub kernel: &'static str,
    /// How many.
    pub launches: usize,
    /// Nanoseconds of all.
    pub ns: u64,
    /// Work of all.
    pub work: Work,
}

/// Times every launch of one prompt and of the decode steps after it. `repeat` means nothing here.
///
/// # Errors
/// `Unsupported` where the device does not time launches; as [`bench`](crate::tools::bench::bench).
pub fn kernel_times(engine: &mut Engine, options: &BenchOptions) -> Result<Vec<Launch>> {
    check(engine, options)?;
    let BenchOptions { prompt_tokens, tokens, depth, .. } = *options;
    engine.unpaced();
    // What is made on first use is made, and the depth computed, before the clock counts.
    let warm = prompt(engine, depth, prompt_tokens, 1);
    generate(engine, warm, 2)?;
    engine.device().time_launches(true)?;
    let timed = prompt(engine, depth, prompt_tokens, 2);
    let ran = generate(engine, timed, tokens + 1);
    engine.device().time_launches(false)?;
    let device = engine.device().clone();
    let submissions = block_on(|cx| device.poll_times(cx))?;
    ran?;
    Ok(launches(engine, &submissions, options))
}

/// Puts steps and positions to submissions: chunks of the prompt, then a step a token.
fn launches(engine: &Engine, timed: &[TimedSubmission], options: &BenchOptions) -> Vec<Launch> {
    let chunk = engine.compiled().chunk;
    let (mut past, mut prompt) = (options.depth as u64, options.prompt_tokens as u64);
    let mut tokens = options.tokens;
    let mut out = Vec::new();
    for (submission, timed) in timed.iter().enumerate() {
        let Some(program) = engine.program(timed.program) else { continue };
        let (phase, rows) = if prompt > 0 {
            (DecoderPhase::Prefill, prompt.min(chunk))
        } else if tokens > 0 {
            tokens -= 1;
            (DecoderPhase::Decode, 1)
        } else {
            // Steps that ran ahead of the last token do nothing.
            break;
        };
        let at = Position { past, rows };
        out.extend(of_submission(timed, program, phase, submission, at));
        past += rows;
        prompt = prompt.saturating_sub(rows);
    }
    out
}

fn of_submission<'a>(
    timed: &'a TimedSubmission,
    program: &'a Program,
    phase: DecoderPhase,
    submission: usize,
    at: Position,
) -> impl Iterator<Item = Launch> + 'a {
    timed.launches.iter().filter_map(move |l| {
        let step = program.steps.get(l.step as usize)?;
        let (label, work) = (step.label.clone(), Work::of(step, program, at));
        Some(Launch { phase, submission, label, kernel: l.kernel, ns: l.ns, work })
    })
}

/// `blk.3.ffn_down` is `ffn_down`.
fn role(label: &str) -> &str {
    let rest = label.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    match rest {
        Some((layer, role)) if layer.bytes().all(|b| b.is_ascii_digit()) => role,
        _ => label,
    }
}

/// Sums by kind, those that take longest first, prefill before decode.
pub fn kinds(launches: &[Launch]) -> Vec<Kind> {
    let mut out: Vec<Kind> = Vec::new();
    for l in launches {
        let role = role(&l.label);
        let same = |k: &&mut Kind| k.phase == l.phase && k.role == role && k.kernel == l.kernel;
        let kind = match out.iter_mut().find(same) {
            Some(kind) => kind,
            None => {
                let (phase, kernel) = (l.phase, l.kernel);
                let work = Work::default();
                out.push(Kind { phase, role: role.into(), kernel, launches: 0, ns: 0, work });
                let last = out.len() - 1;
                &mut out[last]
            }
        };
        kind.launches += 1;
        kind.ns += l.ns[1].saturating_sub(l.ns[0]);
        kind.work += l.work;
    }
    out.sort_by_key(|k| (k.phase == DecoderPhase::Decode, core::cmp::Reverse(k.ns)));
    out
}

/// From the first begin to the last end of each submission of a phase, all together, in nanoseconds;
/// and how many there are.
pub fn spans(launches: &[Launch], phase: DecoderPhase) -> (u64, usize) {
    let of_phase: Vec<&Launch> = launches.iter().filter(|l| l.phase == phase).collect();
    let submissions = of_phase.chunk_by(|a, b| a.submission == b.submission);
    submissions.fold((0, 0), |(ns, n), launches| match launches {
        [first, .., last] => (ns + last.ns[1].saturating_sub(first.ns[0]), n + 1),
        [only] => (ns + only.ns[1].saturating_sub(only.ns[0]), n + 1),
        [] => (ns, n),
    })
}

/// The launches as a trace that Perfetto and chrome://tracing open (Chrome's Trace Event Format,
/// complete events): a row for the submissions, one for their launches. Times are microseconds after
/// the first launch.
pub fn trace(launches: &[Launch], adapter: &str) -> Value {
    let zero = launches.iter().map(|l| l.ns[0]).min().unwrap_or(0);
    let us = |ns: u64| ns.saturating_sub(zero) as f64 / 1e3;
    let name = |tid: u32, name: &str| json!({ "ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": { "name": name } });
    let mut events = vec![
        json!({ "ph": "M", "pid": 1, "name": "process_name", "args": { "name": adapter } }),
        name(1, "submissions"),
        name(2, "kernels"),
    ];
    for of_one in launches.chunk_by(|a, b| a.submission == b.submission) {
        let (Some(first), Some(last)) = (of_one.first(), of_one.last()) else { continue };
        events.push(json!({
            "ph": "X", "pid": 1, "tid": 1, "name": first.phase.name(), "ts": us(first.ns[0]),
            "dur": us(last.ns[1]) - us(first.ns[0]), "args": { "submission": first.submission },
        }));
    }
    for l in launches {
        let seconds = l.ns[1].saturating_sub(l.ns[0]) as f64 / 1e9;
        events.push(json!({
            "ph": "X", "pid": 1, "tid": 2, "name": role(&l.label), "cat": l.kernel,
            "ts": us(l.ns[0]), "dur": us(l.ns[1]) - us(l.ns[0]),
            "args": {
                "step": l.label, "kernel": l.kernel, "read_bytes": l.work.read,
                "written_bytes": l.work.written, "operations": l.work.operations,
                "gb_per_s": if seconds > 0.0 { (l.work.read + l.work.written) as f64 / seconds / 1e9 } else { 0.0 },
            },
        }));
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(phase: DecoderPhase, submission: usize, label: &str, ns: [u64; 2]) -> Launch {
        let work = Work { read: 10, written: 2, operations: 7 };
        Launch { phase, submission, label: label.into(), kernel: "k", ns, work }
    }

    #[test]
    fn equal_steps_of_all_layers_are_one_kind_and_the_longest_comes_first() {
        let launches = [
            launch(DecoderPhase::Prefill, 0, "output", [0, 5]),
            launch(DecoderPhase::Decode, 1, "blk.0.ffn_down", [10, 20]),
            launch(DecoderPhase::Decode, 1, "blk.11.ffn_down", [25, 40]),
            launch(DecoderPhase::Decode, 1, "output", [40, 80]),
        ];
        let kinds = kinds(&launches);
        let rows: Vec<_> = kinds.iter().map(|k| (k.role.as_str(), k.launches, k.ns)).collect();
        assert_eq!(rows, [("output", 1, 5), ("output", 1, 40), ("ffn_down", 2, 25)]);
        assert_eq!(kinds[2].work, Work { read: 20, written: 4, operations: 14 });
        assert_eq!(spans(&launches, DecoderPhase::Decode), (70, 1));
        assert_eq!(spans(&launches, DecoderPhase::Prefill), (5, 1));
    }

    #[test]
    fn a_trace_has_an_event_for_every_launch_in_microseconds() {
        let launches = [
            launch(DecoderPhase::Decode, 3, "blk.0.attn", [5_000, 7_000]),
            launch(DecoderPhase::Decode, 3, "output", [7_500, 9_500]),
        ];
        let trace = trace(&launches, "an adapter");
        let events = trace["traceEvents"].as_array().expect("a list");
        assert_eq!(events.len(), 3 + 1 + 2);
        assert_eq!((&events[3]["ts"], &events[3]["dur"]), (&json!(0.0), &json!(4.5)));
        assert_eq!(events[4]["name"], "attn");
        assert_eq!((&events[5]["ts"], &events[5]["dur"]), (&json!(2.5), &json!(2.0)));
        assert_eq!(events[5]["args"]["gb_per_s"], json!(0.006));
    }
}
