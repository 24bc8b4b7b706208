//! Read bandwidth: threads sum a buffer of the given size, each its own part, again and again.
//!
//! A buffer of the size of a model's weights tells how fast a decode step could be at most, caches
//! included.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Bytes a second.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// The median of the passes.
    pub median: f64,
    /// The best of them.
    pub best: f64,
    /// How many there were.
    pub passes: usize,
}

/// Words summed side by side: eight vectors of 512 bits.
const LANES: usize = 64;
/// Passes at least.
const PASSES: usize = 7;

#[inline(always)]
fn sum_words(words: &[u64]) -> u64 {
    let mut sums = [0u64; LANES];
    let (chunks, rest) = words.as_chunks::<LANES>();
    for chunk in chunks {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().chain(rest).fold(0, |a, b| a.wrapping_add(*b))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512(words: &[u64]) -> u64 {
    sum_words(words)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(words: &[u64]) -> u64 {
    sum_words(words)
}

/// The sum with the widest loads that the machine has.
fn sum(words: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has avx512f, as asked above; the function needs nothing else.
            #[allow(unsafe_code)]
            return unsafe { sum_avx512(words) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has avx2, as asked above; the function needs nothing else.
            #[allow(unsafe_code)]
            return unsafe { sum_avx2(words) };
        }
    }
    sum_words(words)
}

/// Sums a buffer of `bytes` bytes with `threads` threads for `time` or longer.
///
/// # Errors
/// What is wrong with the arguments, in words.
pub fn read(bytes: usize, threads: usize, time: Duration) -> Result<Rates, &'static str> {
    if bytes < 8 || threads == 0 {
        return Err("8 bytes or more, 1 thread or more");
    }
    let words: Vec<u64> = (0..bytes as u64 / 8).collect();
    let parts: Vec<&[u64]> = words.chunks(words.len().div_ceil(threads)).collect();
    let barrier = Barrier::new(parts.len());
    let mut rates = Vec::new();
    let begin = Instant::now();
    // Small buffers are read several times between two looks at the clock.
    let reads = (64_000_000 / bytes).max(1);
    while rates.len() < PASSES || begin.elapsed() < time {
        let timed = |part: &[u64]| {
            barrier.wait();
            let start = Instant::now();
            for _ in 0..reads {
                black_box(sum(black_box(part)));
            }
            (start, Instant::now())
        };
        let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
            let workers: Vec<_> = parts.iter().map(|part| scope.spawn(|| timed(part))).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
        });
        let start = times.iter().map(|t| t.0).min().ok_or("no thread ran")?;
        let end = times.iter().map(|t| t.1).max().ok_or("no thread ran")?;
        rates.push((words.len() * 8 * reads) as f64 / (end - start).as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    let (median, best) = (rates[rates.len() / 2], rates[rates.len() - 1]);
    Ok(Rates { median, best, passes: rates.len() })
}
