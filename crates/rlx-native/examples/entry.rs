//! Times the entries of a model: `entry MODEL DEVICE THREADS [f32|f16|bf16]`, then lines `ENTRY RUNS FOLDER` on stdin.
//! The inputs are `FOLDER/NAME.npy`. The milliseconds of every run are answered on one line, and the outputs of the
//! last one written to `FOLDER/out/NAME.npy`; with the word `kept` behind it inputs and outputs stay on the device, and
//! outputs are waited for. Where RUNS is `launches`, the answer is instead what each launch of a third run took on a
//! GPU: its label, kernel and nanoseconds, with tabs between them and between launches. A program of its own, so that
//! another can be timed in turns with it and both be checked against each other (benches/vision/models.py,
//! benches/encoders/run.py, benches/cuda/encoders.py).

use rlx_core::runtime::device::{Copy, Memory};
use rlx_core::runtime::session::{DeviceTensor, Session, Tensor, TensorRef};
use rlx_core::target::{CompileOptions, Precision};
use rlx_core::{Code, Error, Result};
use rlx_native::block_on::block_on;
use rlx_native::devices::{self, OpenOptions};

use rlx_native::network::{CheckpointFiles, Network, run};
use rlx_native::npy::Array;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

fn io(e: std::io::Error, path: &Path) -> Error {
    Error::new(Code::Io, e.to_string()).at(path.display().to_string())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, device, threads, floats @ ..] = args.as_slice() else {
        return Err(Error::usage("expected MODEL DEVICE THREADS [f32|f16|bf16]"));
    };
    let precision = match floats.first().map_or("f32", String::as_str) {
        "f32" => Precision::F32,
        "f16" => Precision::F16,
        "bf16" => Precision::Bf16,
        other => return Err(Error::usage(format!("{other} is none of f32, f16, bf16"))),
    };
    let threads = threads.parse().map_err(|_| Error::usage("THREADS is no number"))?;
    let files = CheckpointFiles::open(model.as_ref())?;
    let row = devices::find(device)?;
    let device = (row.open)(&OpenOptions { threads: Some(threads), ..OpenOptions::default() })?;
    let (network, _) = Network::of(files.checkpoint(), files.maps(), None)?;
    let mut options = CompileOptions::default();
    let network = network.in_floats(precision, &mut options);
    let mut session = network.open(row, device, &options, &mut |_, _| {})?;
    println!("{}", session.info().adapter);
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [entry, runs, folder, ref how @ ..] = words[..] else {
            return Err(Error::usage("expected ENTRY RUNS FOLDER [kept]"));
        };
        let kept = how == ["kept"];
        let folder = Path::new(folder);
        let mut given = Vec::new();
        for input in session.inputs(entry)? {
            let path = folder.join(format!("{}.npy", input.name));
            let bytes = std::fs::read(&path).map_err(|e| io(e, &path))?;
            given.push((input.name.clone(), Array::parse(&bytes)?.as_integers(input.ty.dtype)));
        }
        let inputs: Vec<(&str, TensorRef<'_>)> = given
            .iter()
            .map(|(name, a)| {
                (name.as_str(), TensorRef { dtype: a.dtype, dims: &a.dims, bytes: &a.bytes })
            })
            .collect();
        if runs == "launches" {
            println!("{}", launches(&mut session, entry, &inputs)?);
            continue;
        }
        let runs: u32 = runs.parse().map_err(|_| Error::usage("RUNS is no number"))?;
        let (mut times, mut outputs) = (Vec::new(), Vec::new());
        let there = if kept { place(&mut session, entry, &inputs)? } else { Vec::new() };
        for _ in 0..runs {
            let begin = Instant::now();
            outputs = if kept {
                keep(&mut session, entry, &there)?
            } else {
                run(&mut session, entry, &inputs)?
            };
            times.push(format!("{:.4}", begin.elapsed().as_secs_f64() * 1e3));
        }
        let to = folder.join("out");
        std::fs::create_dir_all(&to).map_err(|e| io(e, &to))?;
        for t in &outputs {
            let path = to.join(format!("{}.npy", t.name));
            let file = Array::to_file(t.dtype, &t.dims, &t.bytes)?;
            std::fs::write(&path, file).map_err(|e| io(e, &path))?;
        }
        println!("{}", times.join(" "));
        std::io::stdout().flush().map_err(|e| io(e, Path::new("stdout")))?;
    }
    Ok(())
}

/// The inputs as tensors of the device: copies of what a run wrote.
fn place(
    session: &mut Session,
    entry: &str,
    inputs: &[(&str, TensorRef<'_>)],
) -> Result<Vec<(String, DeviceTensor)>> {
    run(session, entry, inputs)?;
    let device = session.device().clone();
    let last = session.programs().last().ok_or_else(|| Error::internal("no program ran"))?;
    let (program, names) =
        (last.0, last.1.inputs.iter().map(|i| i.name.clone()).collect::<Vec<_>>());
    let mut there = Vec::new();
    for (name, given) in inputs {
        let i = names.iter().zip(0..).find(|(n, _)| n == name).map(|(_, i)| i);
        let i = i.ok_or_else(|| Error::internal(format!("the program has no input {name}")))?;
        let bytes = given.bytes.len().next_multiple_of(4) as u64;
        let make = |s| {
            let (tensor, made) = device.tensor(s, bytes)?;
            block_on(|cx| device.poll(made, cx))?;
            let (from, to) = (Memory::Input(program, i), Memory::Tensor(tensor));
            device.copy(s, &[Copy { from, from_offset: 0, to, to_offset: 0, bytes }])?;
            Ok(tensor)
        };
        there.push(((*name).into(), session.adopt(name, given.dtype, given.dims, make)?));
    }
    Ok(there)
}

/// A run whose inputs and outputs stay on the device.
fn keep(
    session: &mut Session,
    entry: &str,
    inputs: &[(String, DeviceTensor)],
) -> Result<Vec<Tensor>> {
    let inputs: Vec<(&str, &DeviceTensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let names: Vec<String> = session.outputs(entry)?.iter().map(|o| o.name.clone()).collect();
    let mut run = session.start(entry, &inputs)?;
    let kept: Vec<_> = names.iter().map(|name| run.keep(session, name)).collect::<Result<_>>()?;
    let rest = block_on(|cx| run.poll(session, cx))?;
    drop(kept);
    Ok(rest)
}

/// The answer to `launches`.
fn launches(
    session: &mut Session,
    entry: &str,
    inputs: &[(&str, TensorRef<'_>)],
) -> Result<String> {
    for _ in 0..2 {
        run(session, entry, inputs)?;
    }
    let device = session.device().clone();
    device.time_launches(true)?;
    let ran = run(session, entry, inputs);
    device.time_launches(false)?;
    ran?;
    let mut out = Vec::new();
    for submission in block_on(|cx| device.poll_times(cx))? {
        let program = session.programs().find(|(id, _)| *id == submission.program);
        let Some((_, program)) = program else { continue };
        for launch in &submission.launches {
            let label = program.steps.get(launch.step as usize).map_or("", |s| &s.label);
            let [begin, end] = launch.ns;
            out.push(format!("{label}\t{}\t{}", launch.kernel, end.saturating_sub(begin)));
        }
    }
    Ok(out.join("\t"))
}
