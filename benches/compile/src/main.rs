//! Prints, as JSON, milliseconds and bytes of every case: median and least of the runs that the
//! first argument asks for, and the least of each pass.

use rlx_bench_compile::{case, heap, module, options, run};
use rlx_core::compile::CompilePipeline;
use rlx_core::passes::{PassTrace, Watch};
use std::time::Instant;

/// Least milliseconds of each pass, in the order they run; a pass that runs again is counted whole.
fn passes(n: usize, runs: usize) -> rlx_core::Result<Vec<(&'static str, f64)>> {
    let mut least: Vec<(&'static str, f64)> = Vec::new();
    for _ in 0..runs {
        let Some((policy, spec, target)) = case(n) else { break };
        let start = Instant::now();
        let clock = || start.elapsed().as_secs_f64() * 1e3;
        let module = module(policy);
        let mut rows: Vec<(&'static str, f64)> = vec![("blocks", clock())];
        let mut each = |t: PassTrace| {
            let ms = t.ms.unwrap_or(0.0);
            match rows.iter_mut().find(|r| r.0 == t.pass) {
                Some(row) => row.1 += ms,
                None => rows.push((t.pass, ms)),
            }
        };
        let mut watch = Watch { each: Some(&mut each), clock: Some(&clock), ..Watch::default() };
        let pipeline = CompilePipeline::new(target).with_options(options());
        pipeline.compile_program_watched(&module, &spec, &mut watch)?;
        for (name, ms) in rows {
            match least.iter_mut().find(|r| r.0 == name) {
                Some(row) => row.1 = row.1.min(ms),
                None => least.push((name, ms)),
            }
        }
    }
    Ok(least)
}

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
        let passes: Vec<String> =
            passes(n, runs)?.iter().map(|(name, ms)| format!("\"{name}\": {ms:.3}")).collect();
        rows.push(format!(
            "    {{ \"policy\": \"{}\", \"program\": \"{}\", \"target\": \"{}\", \"steps\": {}, \"ms_median\": {:.2}, \"ms_least\": {:.2}, \"peak_heap_bytes\": {peak}, \"pass_ms_least\": {{ {} }} }}",
            case.0.name(),
            case.1.name,
            case.2.name,
            program.steps.len(),
            ms[ms.len() / 2],
            ms[0],
            passes.join(", "),
        ));
    }
    println!("[\n{}\n]", rows.join(",\n"));
    Ok(())
}
