//! `cargo run --release -p rlx-bench-bandwidth BYTES THREADS`
//!
//! Prints JSON: the median and the best of the passes in bytes a second.

use rlx_bench_bandwidth::read;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [bytes, threads] = args.as_slice() else { return Err("BYTES THREADS".into()) };
    let (bytes, threads): (usize, usize) = (bytes.parse()?, threads.parse()?);
    let rates = read(bytes, threads, Duration::from_millis(1500))?;
    println!(
        "{{\"bytes\":{bytes},\"threads\":{threads},\"median_bytes_per_s\":{:.0},\"best_bytes_per_s\":{:.0},\"passes\":{}}}",
        rates.median, rates.best, rates.passes
    );
    Ok(())
}
