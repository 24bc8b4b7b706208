//! How fast a card copies its memory: what kernels that wait for memory are compared with.

use super::{At, Driver};
use rlx_core::{Error, Result};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Bytes that are copied at once: more than a card's caches hold.
pub const BYTES: u64 = 256 << 20;
/// How long copies are timed, about.
const TIME: Duration = Duration::from_millis(100);
/// The buffers and the read: the driver is this measurement's own, so that every number is free.
const FROM: u32 = 1;
const TO: u32 = 2;
const READ: u32 = 3;

/// Bytes a second that are read and written, both counted, by copies of so many bytes.
///
/// # Errors
/// `OutOfMemory` where there is no room for two buffers of them; what the device meets.
pub fn copy_rate(driver: &impl Driver, bytes: u64) -> Result<f64> {
    driver.create(FROM, bytes)?;
    let seconds = driver.create(TO, bytes).and_then(|()| seconds(driver, bytes));
    driver.destroy(FROM);
    driver.destroy(TO);
    Ok(2.0 * bytes as f64 / seconds?.max(1e-9))
}

/// Seconds of a copy.
fn seconds(driver: &impl Driver, bytes: u64) -> Result<f64> {
    let [from, to] = [FROM, TO].map(|buffer| At { buffer, offset: 0 });
    let run = |times: u32| {
        let begun = Instant::now();
        for _ in 0..times {
            driver.copy(from, to, bytes)?;
        }
        // A read of nothing is there once everything before it has run.
        driver.read(READ, &[])?;
        while driver.poll_read(READ)?.is_none() {
            yield_now();
        }
        Ok::<Duration, Error>(begun.elapsed())
    };
    run(1)?;
    let once = run(1)?;
    let times = (TIME.as_secs_f64() / once.as_secs_f64()).clamp(1.0, 256.0) as u32;
    if times == 1 {
        return Ok(once.as_secs_f64());
    }
    // What waiting costs by itself is in both.
    Ok(run(1 + times)?.saturating_sub(run(1)?).as_secs_f64() / f64::from(times))
}
