//! Times attention of several rows on this machine's GPU, whole and in splits, and compares their results.
//!
//!   cargo run --release -p rlx-webgpu --example attention_rows -- [--adapter NAME] [--rows 8,64] [--past 0,512,4096]
//!     [--parts 256,512] [--rounds 7] [--launches 20]
//!
//! Shapes are those of llama-3.2-1b and llama-0.6b, over caches of f16 in a program of 64 rows. A line has the
//! milliseconds of one layer from a submission of `launches` of them to the end of a fence, the least and the median
//! of the rounds, in which all forms take turns; the process's own milliseconds, which a software driver works in,
//! where the system tells them; and how far the results are from those of the whole, at most, in parts of the largest.

mod run;

use rlx_core::ir::lir::{Slice, Space};
use rlx_core::ops::{Attention, AttentionJoin, AttentionSplit};
use rlx_core::plan::WeightPlan;
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Error, Result};
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{Gpu, Usage};
use rlx_webgpu::kernels::{BindingResource, Context, kernel};
use rlx_webgpu::tuning::Tuning;
use run::{Memory, Rng, Run, arena, step};

/// Name, elements of a head, heads of q, and of keys and values.
const SHAPES: [(&str, u64, u64, u64); 2] = [("64 in 4", 64, 32, 8), ("128 in 2", 128, 16, 8)];
/// Rows that the program has room for.
const ROOM: u64 = 64;
/// Fewest positions of a split, as the target has it.
const LEAST: u64 = 128;

struct Options {
    adapter: Option<String>,
    rows: Vec<u64>,
    past: Vec<u64>,
    parts: Vec<u64>,
    rounds: usize,
    launches: usize,
}

fn options() -> Result<Options> {
    let mut options = Options {
        adapter: None,
        rows: vec![8, 64],
        past: vec![0, 512, 4096],
        parts: vec![256, 512],
        rounds: 7,
        launches: 20,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| Error::usage(format!("{word} wants a value")))?;
        let number = |s: &str| s.parse().map_err(|_| Error::usage(format!("{s} is no number")));
        let numbers = || value.split(',').map(number).collect::<Result<Vec<u64>>>();
        match word.as_str() {
            "--adapter" => options.adapter = Some(value),
            "--rows" => options.rows = numbers()?,
            "--past" => options.past = numbers()?,
            "--parts" => options.parts = numbers()?,
            "--rounds" => options.rounds = number(&value)? as usize,
            "--launches" => options.launches = number(&value)? as usize,
            other => return Err(Error::usage(format!("{other} is no option"))),
        }
    }
    Ok(options)
}

/// Milliseconds that this process's threads have worked.
fn worked() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name in brackets: the 12th and 13th are ticks of a hundredth, of its own code and the kernel's.
    let mut ticks = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut tick = || ticks.next()?.parse::<f64>().ok();
    Some((tick()? + tick()?) * 10.0)
}

struct Form {
    name: String,
    list: u32,
    times: Vec<f64>,
    worked: Vec<f64>,
    y: Vec<f32>,
}

impl Form {
    fn time(&mut self, run: &mut Run, launches: usize) {
        let (id, start, before) = (run.id(), std::time::Instant::now(), worked());
        run.gpu.submit(&[self.list]);
        run.gpu.fence(id);
        run.wait(|gpu, cx| gpu.poll_fence(id, cx));
        self.times.push(start.elapsed().as_secs_f64() * 1e3 / launches as f64);
        let own = worked().zip(before).map(|(after, before)| after - before);
        self.worked.extend(own.map(|ms| ms / launches as f64));
    }
}

/// Memory of a layer: the arena, then states in the order of a step's operands.
struct Layer {
    arena: Memory,
    states: Vec<Memory>,
    operands: Vec<Slice>,
    y_at: u64,
}

fn layer(run: &mut Run, (e, heads, kv): (u64, u64, u64), capacity: u64) -> Result<Layer> {
    let mut rng = Rng(e);
    let cache = Type::state(DType::F16, Shape::of(&[kv, capacity, e]));
    let q = arena(0, Type::tensor(DType::F32, Shape::of(&[ROOM, heads * e])))?;
    let y_at = q.bytes.next_multiple_of(256);
    // Results, and 1,024 workgroups' sums of 32 queries.
    let memory = run.buffer(y_at + q.bytes + 1024 * 32 * (e + 2) * 4 + 4096, Usage::Storage);
    let bytes: Vec<u8> = (0..ROOM * heads * e).flat_map(|_| rng.float().to_le_bytes()).collect();
    run.gpu.write_buffer(memory.id, 0, &bytes);
    let (mut states, mut operands) = (Vec::new(), vec![q]);
    for index in 0..2 {
        let bytes = cache.bytes()?;
        let buffer = run.buffer(bytes, Usage::Storage);
        let halves = (0..bytes / 2).flat_map(|_| half::f16::from_f32(rng.float()).to_le_bytes());
        run.gpu.write_buffer(buffer.id, 0, &halves.collect::<Vec<u8>>());
        states.push(buffer);
        operands.push(Slice { space: Space::State, index, offset: 0, ty: cache.clone(), bytes });
    }
    let ty = Type::state(DType::U32, Shape::of(&[16]));
    operands.push(Slice { space: Space::State, index: 2, offset: 0, ty, bytes: 64 });
    states.push(run.buffer(64, Usage::Storage));
    Ok(Layer { arena: memory, states, operands, y_at })
}

fn shape(run: &mut Run, options: &Options, of: (&str, u64, u64, u64)) -> Result<()> {
    let (name, e, heads, kv) = of;
    let capacity = options.past.iter().max().unwrap_or(&0) + ROOM;
    let layer = layer(run, (e, heads, kv), capacity)?;
    let memory = |bound: &BindingResource| match bound {
        BindingResource::State(i) => layer.states[*i as usize],
        _ => layer.arena,
    };
    let wgsl = run.gpu.info().wgsl;
    let plan = WeightPlan::default();
    let cx = Context { plan: &plan, rows_control: None, wgsl, tuning: Tuning::usual(wgsl) };
    let whole = Attention::causal(e as usize, 1.0 / (e as f32).sqrt());
    let tiles = ROOM.div_ceil(AttentionSplit::tile(ROOM, heads / kv));
    let y_bytes = layer.operands[0].bytes;
    let mut forms = Vec::new();
    for parts in [0].iter().chain(&options.parts) {
        let steps = if *parts == 0 {
            vec![step(whole.clone(), layer.operands.clone(), layer.y_at)?]
        } else {
            let splits = (parts / kv).min(tiles * (capacity / LEAST)).max(tiles) as usize;
            let split = AttentionSplit { whole: whole.clone(), splits, least: LEAST as usize };
            let at = layer.y_at + y_bytes.next_multiple_of(256);
            let split = step(split, layer.operands.clone(), at)?;
            let mut halves = split.results.clone();
            halves.extend([layer.operands[0].clone(), layer.operands[3].clone()]);
            let join = AttentionJoin { splits, sinks: false };
            vec![split, step(join, halves, layer.y_at)?]
        };
        let mut commands = Vec::new();
        for step in &steps {
            let made = kernel(step, &cx)?.ok_or_else(|| Error::internal("nothing to do"))?;
            commands.push(run.launch(&made, memory)?);
        }
        let list = run.id();
        run.gpu.record(list, &commands.repeat(options.launches));
        let name = if *parts == 0 { "whole".into() } else { format!("{parts} parts") };
        forms.push(Form { name, list, times: Vec::new(), worked: Vec::new(), y: Vec::new() });
    }
    for &past in &options.past {
        for &rows in &options.rows {
            let words = [past as u32, rows as u32].map(u32::to_le_bytes);
            run.gpu.write_buffer(layer.states[2].id, 0, words.as_flattened());
            for form in &mut forms {
                form.time(run, options.launches);
                let y = run.read(layer.arena, layer.y_at, rows * heads * e * 4)?;
                form.y = y.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
                form.times.clear();
                form.worked.clear();
            }
            for _ in 0..options.rounds {
                forms.iter_mut().for_each(|form| form.time(run, options.launches));
            }
            let want = forms[0].y.clone();
            let largest = want.iter().fold(0.0f32, |m, y| m.max(y.abs()));
            for form in &mut forms {
                form.times.sort_by(f64::total_cmp);
                form.worked.sort_by(f64::total_cmp);
                let off = want.iter().zip(&form.y).map(|(a, b)| (a - b).abs());
                let off = off.fold(0.0f32, |m, x| if x > m || x.is_nan() { x } else { m });
                let own = form.worked.first().map_or(f64::NAN, |ms| *ms);
                println!(
                    "{name:<9} {rows:>3} rows behind {past:>5}  {:<10} {:>9.4} {:>9.4} ms  worked {own:>8.3}  off {:.1e}",
                    form.name,
                    form.times[0],
                    form.times[form.times.len() / 2],
                    off / largest
                );
            }
        }
    }
    forms.iter().for_each(|form| run.gpu.free_list(form.list));
    layer.states.iter().chain([&layer.arena]).for_each(|m| run.gpu.destroy_buffer(m.id));
    run.gpu.take_error().map_or(Ok(()), Err)
}

fn main() -> Result<()> {
    let options = options()?;
    let gpu = NativeGpu::new(options.adapter.as_deref())?;
    let info = gpu.info();
    println!("{}, {}; {:?}", info.adapter, info.driver, info.wgsl);
    let mut run = Run { gpu, next: 0 };
    for of in SHAPES {
        shape(&mut run, &options, of)?;
    }
    Ok(())
}
