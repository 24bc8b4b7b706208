//! Times an encoder: `encode MODEL THREADS`, then lines `BATCH SEQ RUNS` on stdin, each answered by the
//! milliseconds of every run on one line. A program of its own, so that another can be timed in turns with it
//! (benches/encoders/run.py).

use rlx_core::runtime::session::TensorRef;
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use rlx_native::devices::{self, OpenOptions};
use rlx_native::network::{CheckpointFiles, Network, run};
use std::io::{BufRead, Write};
use std::time::Instant;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, threads] = args.as_slice() else {
        return Err(Error::usage("expected MODEL THREADS"));
    };
    let threads = threads.parse().map_err(|_| Error::usage("THREADS is no number"))?;
    let files = CheckpointFiles::open(model.as_ref())?;
    let row = devices::find("cpu")?;
    let device = (row.open)(&OpenOptions { threads: Some(threads), adapter: None })?;
    let (network, facts) = Network::of(files.checkpoint(), files.maps(), None)?;
    let options = CompileOptions::default();
    let mut session = network.open(row, device, &options, &mut |_, _| {})?;
    println!("{}", session.info().adapter);
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        let [batch, seq, runs] = numbers[..] else {
            return Err(Error::usage("expected BATCH SEQ RUNS"));
        };
        let words = |f: &dyn Fn(u64) -> u32| -> Vec<u8> {
            (0..batch * seq).flat_map(|i| f(i).to_le_bytes()).collect()
        };
        let ids = words(&|i| (i * 7919 % facts.vocab) as u32);
        let (ones, zeros, dims) = (words(&|_| 1), words(&|_| 0), [batch, seq]);
        let tensor = |bytes| TensorRef { dtype: DType::U32, dims: &dims, bytes };
        let inputs = [
            ("input_ids", tensor(ids.as_slice())),
            ("token_type_ids", tensor(&zeros)),
            ("attention_mask", tensor(&ones)),
        ];
        let mut times = Vec::new();
        for _ in 0..runs {
            let begin = Instant::now();
            run(&mut session, "encode", &inputs)?;
            times.push(format!("{:.4}", begin.elapsed().as_secs_f64() * 1e3));
        }
        println!("{}", times.join(" "));
        std::io::stdout().flush().map_err(|e| Error::internal(format!("stdout: {e}")))?;
    }
    Ok(())
}
