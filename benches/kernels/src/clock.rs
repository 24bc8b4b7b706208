//! The core's clock, by counting: what the system reports is often a nominal rate.

use std::hint::black_box;
use std::time::Instant;

const STEPS: u32 = 2_000_000;

/// Cycles a second, the best of several tries: a chain of exclusive-ors and additions, each of which
/// needs the one before and takes one cycle on every core of today.
pub fn hertz() -> f64 {
    let (a, b) = black_box((0x5bd1_e995_u64, 0x9e37_79b9_u64));
    let mut best = 0.0f64;
    for _ in 0..9 {
        let mut x = black_box(1u64);
        let start = Instant::now();
        for _ in 0..STEPS {
            for _ in 0..8 {
                x = (x ^ a).wrapping_add(b);
            }
        }
        black_box(x);
        best = best.max(16.0 * f64::from(STEPS) / start.elapsed().as_secs_f64());
    }
    best
}
