//! How fast the processor copies memory, which the times of its kernels are compared with.

use rlx_core::{Code, Error, Result};
use std::thread;
use std::time::Instant;

/// Bytes that are copied: more than a processor's caches hold.
const BYTES: usize = 128 << 20;
/// How often; the fastest counts, for the first one finds pages that are not there yet.
const TIMES: usize = 4;

fn room(byte: u8) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let failed = |_| Error::new(Code::OutOfMemory, format!("{BYTES} bytes to measure copies with"));
    bytes.try_reserve_exact(BYTES).map_err(failed)?;
    bytes.resize(BYTES, byte);
    Ok(bytes)
}

/// Bytes a second that so many threads copy together, reads and writes counted; `None` for a thread of each core.
///
/// # Errors
/// `OutOfMemory`.
pub fn copy_rate(threads: Option<usize>) -> Result<f64> {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let share = BYTES.div_ceil(threads.unwrap_or_else(cores).max(1));
    let (from, mut to) = (room(1)?, room(0)?);
    let mut rate = 0.0f64;
    for _ in 0..TIMES {
        let begun = Instant::now();
        thread::scope(|scope| {
            for (from, to) in from.chunks(share).zip(to.chunks_mut(share)) {
                scope.spawn(move || to.copy_from_slice(from));
            }
        });
        rate = rate.max(2.0 * BYTES as f64 / begun.elapsed().as_secs_f64().max(1e-9));
    }
    std::hint::black_box(&to);
    Ok(rate)
}
