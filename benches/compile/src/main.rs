//! Prints, as JSON, milliseconds and bytes of every case: median and least of the runs that the
//! first argument asks for.

use rlx_bench_compile::{case, heap, run};
use std::time::Instant;

fn main() -> rlx_core::Result<()> {
    let runs = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(21);
    let mut rows = Vec::new();
    for n in 0.. {
        let Some(case) = case(n) else { break };
        let (program, peak) = heap::peak(|| run(&case));
        let program = program?;
        let mut ms: Vec<f64> = Vec::new();
        for _ in 0..runs {
            let start = Instant::now();
            let again = run(&case)?;
            ms.push(start.elapsed().as_secs_f64() * 1e3);
            assert_eq!(again.fingerprint, program.fingerprint, "one input, one program");
        }
        ms.sort_by(f64::total_cmp);
        rows.push(format!(
            "    {{ \"policy\": \"{}\", \"program\": \"{}\", \"target\": \"{}\", \"steps\": {}, \"ms_median\": {:.2}, \"ms_least\": {:.2}, \"peak_heap_bytes\": {peak} }}",
            case.0.name(),
            case.1.name,
            case.2.name,
            program.steps.len(),
            ms[ms.len() / 2],
            ms[0],
        ));
    }
    println!("[\n{}\n]", rows.join(",\n"));
    Ok(())
}
