//! Bounded fuzzing with seeds: the text parsers on broken text, the pipeline on random valid graphs.
//!
//! `RLX_FUZZ_GRAPHS` and `RLX_FUZZ_TEXTS` say how many, `RLX_FUZZ_SECONDS` for how long at least
//! each target runs on, `RLX_FUZZ_SEED` where it begins. A failure prints its seed;
//! `scripts/fuzz.mjs` runs the long version and records the counts.
#![cfg(all(feature = "reference", feature = "parse"))]

use crate::common::execute;
use crate::common::random_graph as data_graphs;
use crate::plan::graphs;
mod modules;
mod pipeline;
mod rounding;
mod text;

use std::time::{Duration, Instant};

/// Calls `f` with one seed after the other, as often and as long as the environment asks for, at
/// least `n` times; returns how often.
fn seeds(variable: &str, n: u64, mut f: impl FnMut(u64)) -> u64 {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let n = number(variable).unwrap_or(n);
    let first = number("RLX_FUZZ_SEED").unwrap_or(0);
    let (start, time) =
        (Instant::now(), Duration::from_secs(number("RLX_FUZZ_SECONDS").unwrap_or(0)));
    let mut done = 0;
    while done < n || start.elapsed() < time {
        let seed = first + done;
        let guard = Guard(seed);
        f(seed);
        std::mem::forget(guard);
        done += 1;
    }
    println!("{variable}={done} from RLX_FUZZ_SEED={first} in {:?}", start.elapsed());
    done
}

/// Names the seed of a failure.
struct Guard(u64);

impl Drop for Guard {
    fn drop(&mut self) {
        eprintln!("this was RLX_FUZZ_SEED={}", self.0);
    }
}
