//! Times convolutions, resizing and what encoders do beside them: `convolutions THREADS`, then lines `CASE RUNS` on
//! stdin, each answered by the milliseconds of every run on one line. A program of its own, so that another can be
//! timed in turns with it.

#[path = "../../../tests/support/load.rs"]
#[allow(dead_code)]
mod load;

use load::{Hand, fill, wait};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{
    Conv, ConvTranspose, HeadLayout, Interpolate, Interpolation, Mask, MatMul, Op, Pool, PoolKind,
    Sdpa, Window,
};
use rlx_core::plan::{WeightPlan, plan};
use rlx_core::runtime::device::{Device, SharedBytes, Submission, Write as DeviceWrite, WriteTo};
use rlx_core::runtime::session::{Opening, Session};
use rlx_core::target::CompileOptions;
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Error, Result};
use rlx_cpu::{CpuDevice, CpuOptions};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Instant;

/// The operator of a case, and the sizes of its operands: inputs, then weights from `weights` on.
fn case(name: &str) -> Result<(Op, Vec<Vec<u64>>, usize)> {
    let conv = |window, groups| Op::from(Conv { window, groups, bias: true });
    let square =
        |stride: u64, pad: u64| Window::new(2).stride(&[stride; 2]).pad(&[pad; 2], &[pad; 2]);
    let resize = |mode, antialias| {
        Op::from(Interpolate { size: vec![256, 256], mode, align_corners: false, antialias })
    };
    let sdpa = |mask| {
        Op::from(Sdpa {
            heads: 6,
            kv_heads: 6,
            head_dim: 64,
            v_head_dim: 64,
            mask,
            scale: None,
            softcap: None,
            layout: HeadLayout::Bshd,
        })
    };
    let big = vec![vec![1, 3, 1024, 1024]];
    Ok(match name {
        "patches 224" => {
            let dims = vec![vec![1, 3, 224, 224], vec![384, 3, 14, 14], vec![384]];
            (conv(square(14, 0), 1), dims, 1)
        }
        "patches 518" => {
            let dims = vec![vec![1, 3, 518, 518], vec![384, 3, 14, 14], vec![384]];
            (conv(square(14, 0), 1), dims, 1)
        }
        "3x3" => {
            (conv(square(1, 1), 1), vec![vec![1, 64, 128, 128], vec![64, 64, 3, 3], vec![64]], 1)
        }
        "1x1" => {
            (conv(square(1, 0), 1), vec![vec![1, 256, 64, 64], vec![256, 256, 1, 1], vec![256]], 1)
        }
        "depthwise" => {
            (conv(square(1, 1), 64), vec![vec![1, 64, 128, 128], vec![64, 1, 3, 3], vec![64]], 1)
        }
        "sound 1" => (
            conv(Window::new(1).stride(&[5]), 1),
            vec![vec![1, 1, 160_000], vec![512, 1, 10], vec![512]],
            1,
        ),
        "sound 2" => (
            conv(Window::new(1).stride(&[2]), 1),
            vec![vec![1, 512, 31_999], vec![512, 512, 3], vec![512]],
            1,
        ),
        "positions" => (
            conv(Window::new(1).pad(&[64], &[64]), 16),
            vec![vec![1, 768, 499], vec![768, 48, 128], vec![768]],
            1,
        ),
        "up 2x2" => {
            let op =
                ConvTranspose { window: square(2, 0), extra: vec![0; 2], groups: 1, bias: true };
            (op.into(), vec![vec![1, 256, 64, 64], vec![256, 64, 2, 2], vec![64]], 1)
        }
        "up 4x4" => {
            let op =
                ConvTranspose { window: square(2, 1), extra: vec![0; 2], groups: 1, bias: true };
            (op.into(), vec![vec![1, 64, 64, 64], vec![64, 64, 4, 4], vec![64]], 1)
        }
        "max pool" => {
            let window = square(2, 1);
            let op = Pool { kind: PoolKind::Max, kernel: vec![3; 2], window, count_padding: false };
            (op.into(), vec![vec![1, 64, 112, 112]], 1)
        }
        "bilinear" => (resize(Interpolation::Linear, false), big, 1),
        "bilinear antialias" => (resize(Interpolation::Linear, true), big, 1),
        "bicubic antialias" => (resize(Interpolation::Cubic, true), big, 1),
        "attention 197" => (sdpa(Mask::None), vec![vec![1, 197, 6, 64]; 3], 3),
        "attention 1370" => (sdpa(Mask::None), vec![vec![1, 1370, 6, 64]; 3], 3),
        "attention 4096 bias" => {
            let mut dims = vec![vec![1, 4096, 6, 64]; 3];
            dims.push(vec![1, 6, 4096, 4096]);
            (sdpa(Mask::Bias), dims, 4)
        }
        _ => {
            // `matmul ROWS K N`.
            let numbers: Vec<u64> = name.split(' ').flat_map(str::parse).collect();
            let [m, k, n] = numbers[..] else {
                return Err(Error::usage(format!("no case {name}")));
            };
            (MatMul::plain().into(), vec![vec![m, k], vec![n, k]], 1)
        }
    })
}

/// A session with one program of the case.
fn open(device: &Arc<dyn Device>, name: &str) -> Result<Session> {
    let (op, dims, weights) = case(name)?;
    let mut g = Graph::new("run");
    let mut seed = 1u32;
    let mut file: Vec<u8> = vec![0; 64];
    let (mut starts, mut values, mut inputs) = (vec![], vec![], vec![]);
    for (i, dims) in dims.iter().enumerate() {
        let kind = if i < weights { ParamKind::Input } else { ParamKind::Weight };
        let ty = Type::tensor(DType::F32, Shape::of(dims));
        values.push(g.param(kind, &format!("v{i}"), ty));
        let bytes = (0..dims.iter().product::<u64>()).flat_map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((seed >> 8) as f32 / (1 << 23) as f32 - 1.0).to_le_bytes()
        });
        if kind == ParamKind::Input {
            inputs.push(bytes.collect::<Vec<u8>>());
        } else {
            starts.push((format!("v{i}"), file.len() as u64));
            file.extend(bytes);
            file.resize(file.len().next_multiple_of(64) + 64, 0);
        }
    }
    let y = g.push1(op, &values, "y")?;
    g.output("y", y);
    let mut program = plan(g, &[], device.target(), &CompileOptions::default())?;
    let whole = file.len() as u64;
    let weights = WeightPlan::new(&[&program], &device.target().limits, |name| {
        let at = starts.iter().find(|s| s.0 == name)?.1;
        Some((0, at, whole - at))
    })?;
    weights.bind(&mut program)?;
    let writes: Vec<DeviceWrite> = (0..)
        .zip(inputs)
        .filter_map(|(i, bytes)| {
            let to = WriteTo::Input(program.input(&format!("v{i}"))? as u32);
            Some(DeviceWrite { to, offset: 0, bytes })
        })
        .collect();
    let programs = vec![("run".into(), Arc::new(program))];
    let opening = Opening::of_programs(device.clone(), weights, vec![], programs)?;
    let file: SharedBytes = Arc::new(file);
    let session = fill(opening, &[file], Hand::Pieces(usize::MAX))?;
    let ticket = session.submit("run", &Submission::new(&writes))?;
    wait(|cx| session.poll(ticket, cx))?;
    Ok(session)
}

fn main() -> Result<()> {
    let threads = std::env::args().nth(1).and_then(|t| t.parse().ok());
    let device = CpuDevice::new(CpuOptions { threads, ..CpuOptions::default() })?;
    let device: Arc<dyn Device> = Arc::new(device);
    println!("{}", device.info().adapter);
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        let Some((name, runs)) = line.rsplit_once(' ') else {
            return Err(Error::usage("expected CASE RUNS"));
        };
        let session = open(&device, name)?;
        let runs: usize = runs.parse().map_err(|_| Error::usage("RUNS is no number"))?;
        let mut times = Vec::new();
        for _ in 0..runs {
            let begin = Instant::now();
            // Inputs keep their bytes from the first submission on.
            let ticket = session.submit("run", &Submission::new(&[]))?;
            wait(|cx| session.poll(ticket, cx))?;
            times.push(format!("{:.4}", begin.elapsed().as_secs_f64() * 1e3));
        }
        println!("{}", times.join(" "));
        std::io::stdout().flush().map_err(|e| Error::internal(format!("stdout: {e}")))?;
    }
    Ok(())
}
