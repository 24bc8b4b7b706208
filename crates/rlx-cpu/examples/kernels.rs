//! GB/s of weights and GFLOP/s of matrix products, by format, rows of x and threads.
//!
//! `cargo run --release -p rlx-cpu --example kernels [--level L] [--n N] [--k K] [--mib M] [FORMAT…]`.
//! Rows are shared between threads as in a step. Fresh matrices of M MiB in all are walked in turn, so
//! that with the default every byte comes from memory.

use rlx_core::formats::activations::{encode_q8_0, encode_q8_k};
use rlx_core::types::{BlockFormat, DType};
use rlx_cpu::Level;
use rlx_cpu::products::{Activations, Matrix};
use std::sync::Barrier;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (mut level, mut n, mut k, mut mib) = (Level::detect(), 4096, 4096, 256);
    let mut names = Vec::new();
    while let Some(arg) = args.next() {
        let mut number =
            || -> Result<usize> { Ok(args.next().ok_or("a number is missing")?.parse()?) };
        match arg.as_str() {
            "--n" => n = number()?,
            "--k" => k = number()?,
            "--mib" => mib = number()?,
            "--level" => {
                let name = args.next().ok_or("which level?")?;
                let known = Level::ALL.into_iter().filter(|l| l.is_available());
                level = known.into_iter().find(|l| l.name() == name).ok_or("no such level here")?;
            }
            _ => names.push(arg),
        }
    }
    println!("[{n}, {k}] by {}; GB/s of weights with 1 row of x, GFLOP/s with 64", level.name());
    println!("{:<8} {:>5} {:>10} {:>10} {:>12}", "weight", "x", "1 thread", "2 threads", "64 rows");
    let blocks = BlockFormat::ALL.iter().copied().map(DType::Block);
    for dtype in [DType::F32, DType::F16, DType::BF16].into_iter().chain(blocks) {
        let name = format!("{dtype}");
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        let Some(row) = dtype.row_bytes(k as u64) else { continue };
        // 0x11 everywhere: an f16 scale of 6e-4, an f32 of 1e-28, no subnormals.
        let Ok(first) = Matrix::new(dtype, n, k, &vec![0x11; row as usize * n]) else { continue };
        let count = ((mib << 20) / (row as usize * n)).max(1);
        let mut weights = vec![first];
        for _ in 1..count {
            weights.push(Matrix::new(dtype, n, k, &vec![0x11; row as usize * n])?);
        }
        for int8 in [None, weights[0].int8()] {
            let x = |m: usize| -> Result<Activations> {
                let x: Vec<f32> = (0..m * k).map(|i| (i as f32 * 0.37).sin()).collect();
                Ok(match int8 {
                    None => Activations::f32(k, &x)?,
                    Some(b) => {
                        let mut blocks = vec![0; m * k / b.elements() * b.bytes()];
                        match b {
                            BlockFormat::Q8_0 => encode_q8_0(&x, &mut blocks)?,
                            _ => encode_q8_k(&x, &mut blocks)?,
                        }
                        Activations::int8(b, k, &blocks)?
                    }
                })
            };
            let (one, many) = (x(1)?, x(64)?);
            let bytes = (row as usize * n) as f64;
            let seconds = |x: &Activations, m, threads| time(&weights, level, n, x, m, threads);
            let speed = |threads| bytes / seconds(&one, 1, threads) / 1e9;
            let flops = 2.0 * (64 * n * k) as f64 / seconds(&many, 64, 1) / 1e9;
            let kind = int8.map_or("f32", |b| b.name());
            println!("{name:<8} {kind:>5} {:>10.1} {:>10.1} {flops:>12.1}", speed(1), speed(2));
            if int8.is_none() && weights[0].int8().is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Seconds for one matrix: the best of many passes, which a busy machine disturbs least.
fn time(
    weights: &[Matrix],
    level: Level,
    n: usize,
    x: &Activations,
    m: usize,
    threads: usize,
) -> f64 {
    let share = (n / threads).next_multiple_of(16);
    let rounds = if m == 1 { weights.len() } else { 1 };
    let barrier = Barrier::new(threads);
    let best: Vec<f64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|part| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let rows = part * share..((part + 1) * share).min(n);
                    let mut y = vec![0.0; m * rows.len()];
                    let mut best = f64::INFINITY;
                    let begin = Instant::now();
                    let mut passes = 0;
                    while passes < 5 || threads == 1 && begin.elapsed().as_secs_f64() < 0.3 {
                        barrier.wait();
                        let start = Instant::now();
                        for w in &weights[..rounds] {
                            let done = w.multiply(level, rows.clone(), x, &mut y);
                            assert_eq!(done, Ok(()), "every type here has kernels");
                            std::hint::black_box(&mut y);
                        }
                        best = best.min(start.elapsed().as_secs_f64());
                        passes += 1;
                    }
                    best
                })
            })
            .collect();
        workers.into_iter().filter_map(|w| w.join().ok()).collect()
    });
    best.into_iter().fold(0.0, f64::max) / rounds as f64
}
