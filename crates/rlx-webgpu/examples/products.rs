//! Checks and times every form of the products of a prompt on this machine's GPU.
//!
//!   cargo run --release -p rlx-webgpu --example products -- [--adapter NAME] [--rows 512] [--rounds 7] [--small]
//!
//! Shapes are those of llama-3.2-1b and llama-3.1-8b; `--small` takes an eighth of each size, for software
//! drivers. A line has a form's error against f64 over the f32 x (root of the mean square of the differences, over
//! that of the results, of a sample of results) and its time: the least and the median of the rounds, in which all
//! forms take turns. Forms of integers are timed with the kernel that makes their blocks beside them.

mod run;

use rlx_core::formats::decode_row;
use rlx_core::ir::lir::{Slice, Space};
use rlx_core::ops::{Epilogue, MatMul, QuantizeRows, Unary};
use rlx_core::plan::{Buffer, Entry, Origin, WeightPlan};
use rlx_core::types::{BlockFormat, DType, Shape, Type};
use rlx_core::{Error, Result};
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{Gpu, Usage, Wgsl};
use rlx_webgpu::kernels::{BindingResource, Context, kernel, planes};
use rlx_webgpu::tuning::Tuning;
use run::{Rng, Run, arena, step};

/// Name, results, elements of a row, whether it is a gated product.
const SHAPES: [(&str, u64, u64, bool); 7] = [
    ("1b qkv", 3072, 2048, false),
    ("1b output", 2048, 2048, false),
    ("1b gate, up", 8192, 2048, true),
    ("1b down", 2048, 8192, false),
    ("8b output", 4096, 4096, false),
    ("8b gate, up", 14_336, 4096, true),
    ("8b down", 4096, 14_336, false),
];
const FORMATS: [BlockFormat; 4] =
    [BlockFormat::Q4K, BlockFormat::Q6K, BlockFormat::Q8_0, BlockFormat::Q4_0];
/// Results of a sample: rows, and columns of each.
const SAMPLE: [u64; 2] = [5, 24];
/// Launches of a timed submission.
const LAUNCHES: usize = 3;

/// A way to make a product: what x becomes, and whether f32 is multiplied as f16.
const FORMS: [(&str, Option<BlockFormat>, bool); 4] = [
    ("f32", None, false),
    ("f16", None, true),
    ("int8", Some(BlockFormat::Q8_0), false),
    ("int16", Some(BlockFormat::Q15_0), false),
];

struct Options {
    adapter: Option<String>,
    rows: u64,
    rounds: usize,
    small: bool,
}

fn options() -> Result<Options> {
    let mut options = Options { adapter: None, rows: 512, rounds: 7, small: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value =
            || words.next().ok_or_else(|| Error::usage(format!("{word} wants a value")));
        let number = |s: String| s.parse().map_err(|_| Error::usage(format!("{s} is no number")));
        match word.as_str() {
            "--adapter" => options.adapter = Some(value()?),
            "--rows" => options.rows = number(value()?)?,
            "--rounds" => options.rounds = number(value()?)? as usize,
            "--small" => options.small = true,
            other => return Err(Error::usage(format!("{other} is no option"))),
        }
    }
    Ok(options)
}

/// Milliseconds of a launch of the list: by the GPU's clock, or where it tells none from a submission to the
/// end of a fence.
fn time(run: &mut Run, list: u32, commands: usize) -> Result<f64> {
    let id = run.id();
    if run.gpu.info().timestamps {
        run.gpu.submit_timed(id, &[list]);
        let times = run.wait(|gpu, cx| gpu.poll_times(id, cx))?;
        let all = times.iter().map(|[from, to]| (to - from) as f64 / 1e6).sum::<f64>();
        return Ok(all / (times.len() / commands) as f64);
    }
    let start = std::time::Instant::now();
    run.gpu.submit(&[list]);
    run.gpu.fence(id);
    run.wait(|gpu, cx| gpu.poll_fence(id, cx));
    Ok(start.elapsed().as_secs_f64() * 1e3 / LAUNCHES as f64)
}

/// Blocks of random quants, whose scales make weights of about 0.02.
fn blocks(rng: &mut Rng, format: BlockFormat, bytes: usize) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        out.extend(rng.next().to_le_bytes());
    }
    out.truncate(bytes);
    // f16 numbers: 0.002, 0.0002 and 0.00001.
    let (large, small, least) = (0x1819u16, 0x0a8e_u16, 0x00a8_u16);
    let scales: &[(usize, u16)] = match format {
        BlockFormat::Q4K => &[(0, least), (2, small)],
        BlockFormat::Q6K => &[(208, least)],
        BlockFormat::Q8_0 => &[(0, small)],
        _ => &[(0, large)],
    };
    for block in out.chunks_exact_mut(format.bytes()) {
        for &(at, scale) in scales {
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    out
}

/// What a form takes, and how far its results are from those in f64.
struct Form {
    name: &'static str,
    list: u32,
    commands: usize,
    /// Of the launches that make blocks, none where there are none; and of all.
    times: Vec<f64>,
    error: f64,
}

fn product(
    run: &mut Run,
    options: &Options,
    format: BlockFormat,
    (name, n, k, glu): (&str, u64, u64, bool),
) -> Result<()> {
    let mut rng = Rng(n * 31 + k);
    let m = options.rows;
    let weight = Type::tensor(DType::Block(format), Shape::of(&[n, k]));
    let (each, segments) = (weight.bytes()?, if glu { 2 } else { 1 });
    let mut plan = WeightPlan::default();
    plan.buffers = vec![Buffer { bytes: each.next_multiple_of(256) * segments }];
    let mut data = Vec::new();
    let weights = run.buffer(plan.buffers[0].bytes, Usage::Storage);
    for i in 0..segments {
        let offset = i * each.next_multiple_of(256);
        let mut bytes = blocks(&mut rng, format, each as usize);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        run.gpu.write_buffer(weights.id, offset, &bytes);
        data.push(bytes);
        plan.entries.push(Entry {
            name: format!("w{i}"),
            ty: weight.clone(),
            origin: Origin::File { shard: 0, offset: 0 },
            buffer: 0,
            offset,
            bytes: each,
        });
    }
    let xs: Vec<f32> = (0..m * k).map(|_| rng.float()).collect();
    let blocks_at = (m * k * 4).next_multiple_of(256);
    let y_at = (blocks_at + m * k / 32 * 68).next_multiple_of(256);
    let memory = run.buffer(y_at + m * n * 4, Usage::Storage);
    let bytes: Vec<u8> = xs.iter().flat_map(|x| x.to_le_bytes()).collect();
    run.gpu.write_buffer(memory.id, 0, &bytes);
    let of = |bound: &BindingResource| match bound {
        BindingResource::Weights(_) => weights,
        _ => memory,
    };
    // As a device does once weights are there.
    for entry in &plan.entries {
        let Some((k, rows)) = planes::rows(&entry.ty) else { continue };
        let command = run.launch(&planes::kernel(k, entry.offset, rows)?, of)?;
        let list = run.id();
        run.gpu.record(list, &[command]);
        run.gpu.submit(&[list]);
        run.gpu.free_list(list);
    }

    let truth = truth(&xs, &data, format, [m, n, k]);
    let x = Type::tensor(DType::F32, Shape::of(&[m, k]));
    let epilogue = if glu { Epilogue::Glu(Unary::Silu) } else { Epilogue::None };
    let op = MatMul { segments: segments as usize, epilogue, ..MatMul::plain() };
    let own = run.gpu.info().wgsl;
    let mut forms = Vec::new();
    for (form, to, f16) in FORMS {
        if f16 && !own.f16 {
            continue;
        }
        let wgsl = Wgsl { f16, ..own };
        let cx = Context { plan: &plan, rows_control: None, wgsl, tuning: Tuning::usual(wgsl) };
        let mut commands = Vec::new();
        let mut operands = vec![arena(0, x.clone())?];
        if let Some(to) = to {
            let step = step(QuantizeRows::to(to), operands, blocks_at)?;
            let made = kernel(&step, &cx)?.ok_or_else(|| Error::internal("nothing to do"))?;
            commands.push(run.launch(&made, of)?);
            operands = step.results;
        }
        for (i, entry) in plan.entries.iter().enumerate() {
            let (ty, bytes) = (entry.ty.clone(), entry.bytes);
            operands.push(Slice { space: Space::Weight, index: i as u32, offset: 0, ty, bytes });
        }
        let step = step(op.clone(), operands, y_at)?;
        let made = kernel(&step, &cx)?.ok_or_else(|| Error::internal("nothing to do"))?;
        commands.push(run.launch(&made, of)?);
        let list = run.id();
        run.gpu.write_buffer(memory.id, y_at, &vec![0; (m * n * 4) as usize]);
        run.gpu.record(list, &commands.repeat(LAUNCHES));
        time(run, list, commands.len())?;
        let y = run.read(memory, y_at, m * n * 4)?;
        let y: Vec<f32> = y.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let (mut off, mut all) = (0.0, 0.0);
        for &(at, want) in &truth {
            off += (f64::from(y[at]) - want).powi(2);
            all += want * want;
        }
        let error = (off / all).sqrt();
        forms.push(Form { name: form, list, commands: commands.len(), times: Vec::new(), error });
    }
    for _ in 0..options.rounds {
        for form in &mut forms {
            form.times.push(time(run, form.list, form.commands)?);
        }
    }
    let operations = 2.0 * (m * n * k * segments) as f64;
    for form in &mut forms {
        form.times.sort_by(f64::total_cmp);
        let (least, median) = (form.times[0], form.times[form.times.len() / 2]);
        println!(
            "{name:<12} {:<5} {:<6} error {:.1e}  {least:>9.3} {median:>9.3} ms  {:>7.2} T/s",
            format.name(),
            form.name,
            form.error,
            operations / least / 1e9
        );
        run.gpu.free_list(form.list);
    }
    run.gpu.destroy_buffer(weights.id);
    run.gpu.destroy_buffer(memory.id);
    match run.gpu.take_error() {
        Some(e) => Err(e),
        None => Ok(()),
    }
}

/// Some results, by their place, in f64.
fn truth(
    xs: &[f32],
    weights: &[Vec<u8>],
    format: BlockFormat,
    [m, n, k]: [u64; 3],
) -> Vec<(usize, f64)> {
    let dtype = DType::Block(format);
    let row_bytes = dtype.row_bytes(k).unwrap_or(0) as usize;
    let mut out = Vec::new();
    for j in 0..SAMPLE[1] {
        let column = (j * (n - 1) / (SAMPLE[1] - 1)) as usize;
        let rows = weights.iter().map(|w| {
            let mut row = vec![0.0; k as usize];
            let bytes = &w[column * row_bytes..(column + 1) * row_bytes];
            decode_row(dtype, bytes, &mut row).expect("whole blocks");
            row
        });
        let rows: Vec<Vec<f32>> = rows.collect();
        for i in 0..SAMPLE[0] {
            let row = (i * (m - 1) / (SAMPLE[0] - 1)) as usize;
            let x = &xs[row * k as usize..(row + 1) * k as usize];
            let dot = |w: &Vec<f32>| {
                x.iter().zip(w).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
            };
            let y = match &rows[..] {
                [gate, up] => Unary::Silu.eval(dot(gate)) * dot(up),
                [only, ..] => dot(only),
                [] => 0.0,
            };
            out.push((row * n as usize + column, y));
        }
    }
    out
}

fn main() -> Result<()> {
    let options = options()?;
    let gpu = NativeGpu::new(options.adapter.as_deref())?;
    let info = gpu.info();
    println!("{}, {}; {:?}", info.adapter, info.driver, info.wgsl);
    println!("{} rows, {} rounds; timestamps {}", options.rows, options.rounds, info.timestamps);
    let mut run = Run { gpu, next: 0 };
    for (name, n, k, glu) in SHAPES {
        let (n, k) = if options.small { (n / 8, k / 8) } else { (n, k) };
        for format in FORMATS {
            product(&mut run, &options, format, (name, n, k, glu))?;
        }
    }
    Ok(())
}
