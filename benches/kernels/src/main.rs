//! Raw times of matrix products, by format, shape, SIMD level and threads. `run.py` drives it, and
//! README.md says what is measured.
//!
//! Prints JSON: seconds of every round for each cell, read bandwidths and clock rates. `--clock`
//! prints the core's clock in Hz alone. Rounds are outermost, so that what else the machine does
//! falls on every format.

mod clock;
mod work;

use rlx_bench_bandwidth::read;
use rlx_core::types::{BlockFormat, DType};
use rlx_cpu::Level;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use work::{Product, Timing};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What is measured.
struct Plan {
    levels: Vec<Level>,
    threads: Vec<usize>,
    formats: Vec<DType>,
    /// `cache`, `memory`, `prefill`.
    places: Vec<String>,
    rounds: usize,
    /// Weights in cache and from memory, in bytes.
    cache: usize,
    memory: usize,
    /// Rows of x in a prefill, and at the scalar level.
    rows: usize,
    scalar_rows: usize,
}

/// Decode twice, and prefill.
const PLACES: [&str; 3] = ["cache", "memory", "prefill"];
/// Shapes `[n, k]` of llama-3.2-1b's matrices.
const SHAPES: [(usize, usize); 3] = [(2048, 2048), (8192, 2048), (2048, 8192)];
/// Rows of the matrices that decode is measured with have that many elements.
const DECODE_K: usize = 2048;
/// Rows of the matrices that memory is filled with.
const DECODE_N: usize = 8192;
/// Bandwidth is measured for so long a round.
const BANDWIDTH: Duration = Duration::from_millis(200);

fn every_format() -> impl Iterator<Item = DType> {
    let blocks = rlx_native::tools::synth::formats().map(DType::Block);
    [DType::F32, DType::F16, DType::BF16].into_iter().chain(blocks)
}

fn plan(mut args: impl Iterator<Item = String>) -> Result<Plan> {
    let available = || Level::ALL.into_iter().filter(|level| level.is_available());
    let mut plan = Plan {
        levels: Vec::new(),
        threads: Vec::new(),
        formats: Vec::new(),
        places: Vec::new(),
        rounds: 7,
        cache: 640 << 10,
        memory: 128 << 20,
        rows: 512,
        scalar_rows: 32,
    };
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name}: a value is missing"))?;
        match name.as_str() {
            "--level" => {
                let level = available().find(|level| level.name() == value);
                plan.levels.push(level.ok_or_else(|| format!("there is no {value} here"))?);
            }
            "--threads" => plan.threads.push(value.parse()?),
            "--format" => {
                let dtype = every_format().find(|dtype| dtype.name() == value);
                plan.formats.push(dtype.ok_or_else(|| format!("{value} is no format"))?);
            }
            "--place" if PLACES.contains(&&*value) => plan.places.push(value),
            "--rounds" => plan.rounds = value.parse()?,
            "--cache-kib" => plan.cache = value.parse::<usize>()? << 10,
            "--memory-mib" => plan.memory = value.parse::<usize>()? << 20,
            "--rows" => plan.rows = value.parse()?,
            "--scalar-rows" => plan.scalar_rows = value.parse()?,
            _ => return Err(format!("{name} {value}: no such option or value").into()),
        }
    }
    if plan.levels.is_empty() {
        plan.levels = available().collect();
    }
    if plan.threads.is_empty() {
        plan.threads = vec![1, 2];
    }
    if plan.formats.is_empty() {
        plan.formats = every_format().collect();
    }
    if plan.places.is_empty() {
        plan.places = PLACES.map(String::from).to_vec();
    }
    if plan.rounds == 0 || plan.threads.contains(&0) || plan.rows < 2 || plan.scalar_rows < 2 {
        return Err("1 round, 1 thread and 2 rows at least".into());
    }
    Ok(plan)
}

/// A cell's name, by which its rounds come together, and what it is.
type Cells = BTreeMap<String, (Value, Vec<f64>)>;

fn note(
    cells: &mut Cells,
    timing: &Timing<'_>,
    place: &str,
    level: Level,
    threads: usize,
) -> Result<()> {
    let Product { dtype, n, k, .. } = *timing.product;
    let m = timing.m;
    let seconds = timing.seconds(level, threads)?;
    let name = format!("{dtype}/{place}/{n}x{k}/{}/{threads}", level.name());
    let about = json!({
        "format": dtype.name(), "place": place, "n": n, "k": k, "rows_of_x": m,
        "level": level.name(), "threads": threads, "matrix_bytes": timing.product.matrix_bytes(),
        "matrices": timing.product.matrices(), "int8": timing.product.int8().map(BlockFormat::name),
    });
    cells.entry(name).or_insert_with(|| (about, Vec::new())).1.push(seconds);
    Ok(())
}

fn round(plan: &Plan, dtype: DType, cells: &mut Cells) -> Result<()> {
    let row = dtype.row_bytes(DECODE_K as u64).ok_or("rows of another length")? as usize;
    let cached = (plan.cache / row / 32).max(1) * 32;
    let matrices = plan.memory.div_ceil(row * DECODE_N);
    let takes = |place: &str| plan.places.iter().any(|p| p == place);
    for (place, n, matrices) in [("cache", cached, 1), ("memory", DECODE_N, matrices)] {
        if !takes(place) {
            continue;
        }
        let product = Product::new(dtype, n, DECODE_K, matrices)?;
        let timing = Timing::new(&product, 1)?;
        for &level in &plan.levels {
            for &threads in &plan.threads {
                note(cells, &timing, place, level, threads)?;
            }
        }
    }
    for (n, k) in SHAPES.into_iter().filter(|_| takes("prefill")) {
        let product = Product::new(dtype, n, k, 1)?;
        for &level in &plan.levels {
            let m = if level == Level::Scalar { plan.scalar_rows } else { plan.rows };
            let timing = Timing::new(&product, m)?;
            for &threads in &plan.threads {
                note(cells, &timing, "prefill", level, threads)?;
            }
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == "--clock").is_some() {
        println!("{:.0}", clock::hertz());
        return Ok(());
    }
    let plan = plan(args)?;
    let mut cells = Cells::new();
    let mut bandwidths: BTreeMap<(&str, usize), (usize, Vec<f64>)> = BTreeMap::new();
    let mut clocks = Vec::new();
    for i in 0..plan.rounds {
        clocks.push(clock::hertz());
        for &threads in &plan.threads {
            for (place, bytes) in [("cache", plan.cache), ("memory", plan.memory)] {
                let rates = read(bytes, threads, BANDWIDTH)?;
                let entry = bandwidths.entry((place, threads));
                entry.or_insert_with(|| (bytes, Vec::new())).1.push(rates.median);
            }
        }
        // Who is first changes.
        let mut formats = plan.formats.clone();
        if i % 2 == 1 {
            formats.reverse();
        }
        for dtype in formats {
            round(&plan, dtype, &mut cells)?;
        }
        eprintln!("round {} of {}", i + 1, plan.rounds);
    }
    let bandwidths: Vec<Value> = bandwidths
        .iter()
        .map(|((place, threads), (bytes, rates))| {
            json!({ "place": place, "threads": threads, "bytes": bytes, "bytes_per_s": rates })
        })
        .collect();
    let cells: Vec<Value> = cells
        .into_iter()
        .map(|(id, (mut about, seconds))| {
            about["id"] = id.into();
            about["seconds"] = seconds.into();
            about
        })
        .collect();
    let best = Level::detect().name();
    let out =
        json!({ "clock_hz": clocks, "best_level": best, "bandwidth": bandwidths, "cells": cells });
    println!("{out}");
    Ok(())
}
