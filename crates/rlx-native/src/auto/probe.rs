//! What a device is timed with: two products of packed weights, one after the other as in a feed-forward layer, for
//! one row, which is a step of a token, and for the rows of a prompt. A token passes them as often as a small model has
//! layers, so that what a submission costs by itself counts as much as it does there. Weights and rows are zeros.

use crate::block_on::block_on;
use crate::load::milliseconds;
use rlx_core::compile::CompilePipeline;
use rlx_core::ir::GraphModule;
use rlx_core::ir::lir::Program;
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::{Bytes, Device, Submission, Write, WriteTo};
use rlx_core::runtime::session::load::placements;
use rlx_core::runtime::session::{Opening, Session};
use rlx_core::target::{CompileOptions, ProgramActivations};
use rlx_core::types::{BlockFormat, DType, Shape, Type};
use rlx_core::{Error, Result};
use std::sync::Arc;

/// Elements of a row, and of the row between both products: those of a model of a billion parameters.
const WIDTH: u64 = 2048;
const INNER: u64 = 8192;
/// The names of both programs.
const NAMES: [&str; 2] = ["token", "prompt"];
/// How often a token passes both products.
pub const LAYERS: usize = 16;
/// Rows of a prompt.
pub const PROMPT: u64 = 128;
/// Steps that take so many milliseconds together are enough for a clock.
const ENOUGH_MS: f64 = 5.0;
/// Milliseconds after which no further run of a program begins.
const MOST_MS: f64 = 60.0;
/// Most steps of a run: each has its rows in memory until it is done.
const MOST_STEPS: u32 = 64;
/// Bytes of zeros that are put at once.
const PIECE: u64 = 1 << 20;

/// Milliseconds of a layer for one row, and for [`PROMPT`] rows.
pub type Times = [f64; 2];

fn graph(name: &str, rows: u64, layers: usize) -> String {
    let mut text = format!(
        "func @{name} {{
  weight %up : tensor<{INNER}x{WIDTH}xq4_k>
  weight %down : tensor<{WIDTH}x{INNER}xq4_k>
  input %x : tensor<{rows}x{WIDTH}xf32>
"
    );
    let mut x = "x".to_owned();
    for i in 0..layers {
        let (inner, y) = (2 * i, 2 * i + 1);
        text += &format!(
            "  %{inner} = matmul %{x}, %up -> tensor<{rows}x{INNER}xf32>
  %{y} = matmul %{inner}, %down -> tensor<{rows}x{WIDTH}xf32>
"
        );
        x = y.to_string();
    }
    text + &format!("  return y = %{x}\n}}\n")
}

/// Times the device, in some tens of milliseconds after its kernels are compiled. Nothing more is begun on a device
/// whose one prompt took longer than `limit_ms`: it has lost.
///
/// # Errors
/// As the compiler and the device.
pub fn measure(device: &Arc<dyn Device>, limit_ms: f64) -> Result<Times> {
    let mut clock = Clock { session: open(device)?, limit_ms };
    // The prompt first: it tells a slow device apart in one step.
    let prompt = clock.step(1, PROMPT)?;
    Ok([clock.step(0, 1)? / LAYERS as f64, prompt])
}

/// Both programs on the device, over the same weights.
fn open(device: &Arc<dyn Device>) -> Result<Session> {
    let target = device.target();
    let ProgramActivations { decode, prompts } = target.policy.activations;
    let mut programs = Vec::new();
    let [token, prompt] = NAMES;
    for (name, rows, layers, activations) in
        [(token, 1, LAYERS, decode), (prompt, PROMPT, 1, prompts)]
    {
        let options = CompileOptions { activations, ..CompileOptions::default() };
        let pipeline = CompilePipeline::new(target.clone()).with_options(options);
        let module = GraphModule::parse(&graph(name, rows, layers))?;
        programs.push((name.to_owned(), pipeline.compile_module(module)?.lir));
    }
    let matrix = |dims: [u64; 2]| Type::tensor(DType::Block(BlockFormat::Q4K), Shape::of(&dims));
    let bytes = matrix([INNER, WIDTH]).bytes()?;
    let locate = &mut |name: &str| Some((0, if name == "up" { 0 } else { bytes }, bytes));
    let all: Vec<&Program> = programs.iter().map(|(_, p)| &**p).collect();
    let plan = WeightPlan::new(&all, &target.limits, locate)?;
    for (_, program) in &mut programs {
        plan.bind(Arc::make_mut(program))?;
    }
    let mut opening = Opening::of_programs(device.clone(), plan, Vec::new(), programs)?;
    block_on(|cx| opening.poll_ready(cx))?;
    let zeros = vec![0; PIECE as usize];
    for place in placements(opening.weights().plan(), 0) {
        let mut at = 0;
        while at < place.bytes {
            let n = (place.bytes - at).min(PIECE);
            let piece = &zeros[..n as usize];
            block_on(|cx| opening.loader().poll_put(&place.to, at, Bytes::Slice(piece), cx))?;
            at += n;
        }
    }
    block_on(|cx| opening.poll(cx))?;
    Ok(opening.finish())
}

struct Clock {
    session: Session,
    limit_ms: f64,
}

impl Clock {
    /// Milliseconds of so many steps of a program.
    fn time(&self, program: usize, rows: u64, steps: u32) -> Result<f64> {
        let begin = milliseconds();
        let mut tickets = Vec::new();
        for _ in 0..steps {
            let bytes = vec![0; (4 * rows * WIDTH) as usize];
            let writes = [Write { to: WriteTo::Input(0), offset: 0, bytes }];
            tickets.push(self.session.submit(NAMES[program], &Submission::new(&writes))?);
        }
        for ticket in tickets {
            block_on(|cx| self.session.poll(ticket, cx))?;
        }
        Ok(milliseconds() - begin)
    }

    /// Milliseconds of a step: the least of some runs, because other programs disturb single ones.
    fn step(&mut self, program: usize, rows: u64) -> Result<f64> {
        self.time(program, rows, 1)?; // kernels compile, memory is touched, and the device wakes up
        let begin = milliseconds();
        let (mut steps, mut least) = (1, self.time(program, rows, 1)?);
        while milliseconds() - begin < MOST_MS && least < self.limit_ms {
            if least * f64::from(steps) < ENOUGH_MS && steps < MOST_STEPS {
                steps *= 2;
            }
            least = least.min(self.time(program, rows, steps)? / f64::from(steps));
        }
        if least > 0.0 {
            return Ok(least);
        }
        Err(Error::internal("the clock stood still while the device was timed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{OpenOptions, find};

    #[test]
    fn the_cpu_is_timed_and_a_limit_ends_it() -> Result<()> {
        let device = (find("cpu")?.open)(&OpenOptions::default())?;
        let times = measure(&device, 0.0)?;
        assert!(times.iter().all(|ms| *ms > 0.0 && ms.is_finite()), "{times:?}");
        Ok(())
    }
}
