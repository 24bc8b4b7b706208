//! Dispatch and join of small tasks on two threads: RLX's pool beside others. `run.py` drives it,
//! and README.md says what is measured.
//!
//! `rlx-bench-pool [ROUNDS]` prints JSON: nanoseconds of every sample for each pool and case.
//! One pool lives at a time, so that nobody's idle workers take another's time; rounds are
//! outermost, and who is first changes.

mod pools;

use pools::{POOLS, Pool};
use serde_json::json;
use std::hint::black_box;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What is timed.
struct Case {
    name: &'static str,
    /// Steps of a submission. One: from a thread outside to its end. Many: what a step costs in a
    /// program, by the mean.
    steps: usize,
    /// What a part takes on one thread, in nanoseconds.
    part_ns: u64,
    /// What the caller does between submissions.
    gap: Gap,
    /// Samples a round.
    samples: usize,
}

#[derive(Clone, Copy)]
enum Gap {
    None,
    /// Computes, as a host between two tokens.
    Busy(Duration),
    /// Sleeps: workers may too.
    Idle(Duration),
}

const fn case(name: &'static str, steps: usize, part_ns: u64, gap: Gap, samples: usize) -> Case {
    Case { name, steps, part_ns, gap, samples }
}

const BUSY: Gap = Gap::Busy(Duration::from_micros(100));
const IDLE: Gap = Gap::Idle(Duration::from_millis(2));

const CASES: [Case; 9] = [
    case("submission, empty", 1, 0, Gap::None, 400),
    case("submission, 10 us", 1, 10_000, Gap::None, 400),
    case("submission, 100 us", 1, 100_000, Gap::None, 100),
    case("submission after 100 us of other work, empty", 1, 0, BUSY, 200),
    case("submission after 100 us of other work, 10 us", 1, 10_000, BUSY, 200),
    case("submission after 2 ms of sleep, 10 us", 1, 10_000, IDLE, 25),
    case("step of 100, empty", 100, 0, Gap::None, 20),
    case("step of 100, 10 us", 100, 10_000, Gap::None, 10),
    case("step of 100, 100 us", 100, 100_000, Gap::None, 3),
];

/// A new pool works for so long before it is timed: its threads have to be born first, for which
/// some pools wait and others do not.
const WARM: Duration = Duration::from_millis(20);

/// A part: a chain of additions and exclusive-ors that nothing shortens.
pub fn task(loops: u64) {
    let (a, b) = black_box((0x5bd1_e995_u64, 0x9e37_79b9_u64));
    let mut x = black_box(1u64);
    for _ in 0..loops {
        for _ in 0..8 {
            x = (x ^ a).wrapping_add(b);
        }
    }
    black_box(x);
}

/// Loops of a task in a nanosecond, the best of many tries.
fn speed() -> f64 {
    let time = |_| {
        let start = Instant::now();
        task(100_000);
        1e5 / start.elapsed().as_nanos().max(1) as f64
    };
    (0..50).map(time).fold(0.0, f64::max)
}

fn wait(gap: Gap) {
    match gap {
        Gap::None => {}
        Gap::Busy(time) => {
            let start = Instant::now();
            while start.elapsed() < time {
                task(16);
            }
        }
        Gap::Idle(time) => std::thread::sleep(time),
    }
}

/// Nanoseconds of a step.
fn sample(pool: &mut dyn Pool, case: &Case) -> f64 {
    wait(case.gap);
    let start = Instant::now();
    pool.run(case.steps);
    start.elapsed().as_nanos() as f64 / case.steps as f64
}

fn main() -> Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(15), |n| n.parse::<usize>())?;
    let speed = speed();
    let mut out = Vec::new();
    for case in &CASES {
        let loops = (case.part_ns as f64 * speed) as u64;
        let mut samples = vec![Vec::new(); POOLS.len()];
        for round in 0..rounds {
            for turn in 0..POOLS.len() {
                let i = (round + turn) % POOLS.len();
                let mut pool = (POOLS[i].1)(loops)?;
                let start = Instant::now();
                while start.elapsed() < WARM {
                    pool.run(case.steps);
                }
                samples[i].extend((0..case.samples).map(|_| sample(&mut *pool, case)));
            }
        }
        for ((name, _), ns) in POOLS.iter().zip(samples) {
            out.push(json!({ "case": case.name, "pool": name, "part_ns": case.part_ns, "ns": ns }));
        }
        eprintln!("{}", case.name);
    }
    println!("{}", json!({ "threads": pools::THREADS, "rounds": rounds, "cells": out }));
    Ok(())
}
