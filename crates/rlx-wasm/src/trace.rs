//! Times of a program's kernels on this device. Its memory is there, its weights' values are not: all are zero.
//!
//! A step takes as long with other values, but for what depends on them: which experts a row has (with zeros all rows
//! have the same ones), and a GPU's clock, which may be higher where bits do not change.

use crate::answer::{Object, text};
use crate::gpu::HostGpu;
use core::task::{Context, Poll, ready};
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::lower::PARAMS;
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::{
    AnyId, Device, ModelId, ProgramId, SessionId, Submission, Ticket, Write, WriteTo,
};
use rlx_core::runtime::work::{Position, Work};
use rlx_core::sample::{Control, SampleParams};
use rlx_core::{Code, Error, Result};
use rlx_webgpu::WebGpuDevice;
use std::sync::Arc;

/// Most launches whose times a set of WebGPU's queries holds.
const MOST_LAUNCHES: usize = 2048;

/// A program whose kernels can be timed, and all that it needs.
pub(crate) struct Traceable {
    pub program: Program,
    pub plan: WeightPlan,
    pub states: Vec<StateDecl>,
    /// Positions that its caches have; none where it has no caches.
    pub context: Option<u64>,
}

/// A program in memory of its own. Dropping it frees that.
pub(crate) struct Trace {
    device: Arc<WebGpuDevice<HostGpu>>,
    program: Arc<Program>,
    model: ModelId,
    session: Option<SessionId>,
    built: Option<ProgramId>,
    /// The control block and how the sampler chooses, before each run.
    writes: Vec<Write>,
    at: Position,
    /// What has not answered yet.
    waiting: Vec<Ticket>,
    bytes: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Memory and pipelines are being made.
    Making,
    /// It runs once without a clock: a browser clears memory when it is first used.
    Warming,
    Ready,
    Running,
}

impl Trace {
    /// Asks the device for the program's memory, behind `past` positions.
    ///
    /// # Errors
    /// Before anything is allocated: `Unsupported` where the device does not time launches, `Usage` for more positions
    /// than there are, `OutOfMemory` for a buffer that is larger than the device's.
    pub fn new(device: Arc<WebGpuDevice<HostGpu>>, of: Traceable, past: u64) -> Result<Trace> {
        device.time_launches(true).map_err(|e| {
            e.hint("the browser or this GPU lacks WebGPU's optional feature timestamp-query")
        })?;
        device.time_launches(false)?;
        let Traceable { program, plan, states, context } = of;
        let launches = program.steps.len();
        if launches > MOST_LAUNCHES {
            let what = format!("{launches} steps cannot be timed at once, {MOST_LAUNCHES} can");
            return Err(Error::new(Code::Unsupported, what));
        }
        let rows = program.control.map_or(1, |c| c.tokens);
        let room = context.unwrap_or(rows).saturating_sub(rows);
        if past > room {
            let what = format!("{past} positions before {rows} rows: there is room for {room}");
            return Err(
                Error::usage(what).hint("ask for fewer, or inspect with a larger contextLength")
            );
        }
        let limits = &device.target().limits;
        let most = limits.binding.min(limits.buffer);
        let sizes = states.iter().map(|s| s.bytes);
        let bytes = plan.bytes() + sizes.clone().sum::<u64>() + program.arena_bytes;
        let segments = program.arena_segments.iter().copied();
        if let Some(size) = sizes.chain(segments).find(|&n| n > most) {
            let what = format!("a buffer of {size} bytes: this GPU binds at most {most}");
            return Err(Error::new(Code::OutOfMemory, what).hint("use a smaller contextLength"));
        }
        let word = |n: u64| {
            u32::try_from(n).map_err(|_| Error::usage(format!("{n} is more than 2^32 - 1")))
        };
        let state = |state, words: &[u32]| {
            let bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            Write { to: WriteTo::State(state), offset: 0, bytes }
        };
        let mut writes = Vec::new();
        if let Some(control) = program.control {
            let (past, len) = (word(past)?, word(rows)?);
            let capacity = word(context.unwrap_or(rows))?;
            let block = Control { past, len, capacity, limit: u32::MAX, ..Control::default() };
            writes.push(state(control.state, &block.to_words()));
        }
        // Logits of zeros are all equal, and a draw among all tokens takes its longest way: the sampler takes the best.
        if let Some(at) = states.iter().position(|s| s.name == PARAMS) {
            writes.push(state(at as u32, &SampleParams::default().to_words()));
        }
        let (model, memory) = device.allocate(Arc::new(plan))?;
        let program = Arc::new(program);
        // From here on dropping it frees what is there.
        let mut trace = Trace {
            device,
            program,
            model,
            session: None,
            built: None,
            writes,
            at: Position { past, rows },
            waiting: vec![memory],
            bytes,
            stage: Stage::Making,
        };
        let arena = &trace.program.arena_segments;
        let (session, memory) = trace.device.session(model, &states, arena)?;
        trace.session = Some(session);
        let (built, pipelines) = trace.device.build(model, trace.program.clone())?;
        trace.built = Some(built);
        trace.waiting.extend([memory, pipelines]);
        Ok(trace)
    }

    /// Waits until it can be timed. What is traced, as JSON: `{"past", "rows", "bytes", "steps": [{"label", "operator",
    /// "read", "written", "operations"}]}`.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        if self.stage == Stage::Making {
            ready!(self.poll_waiting(cx))?;
            self.submit()?;
            self.stage = Stage::Warming;
        }
        ready!(self.poll_waiting(cx))?;
        self.stage = Stage::Ready;
        let steps: Vec<Object> = self.program.steps.iter().map(|s| self.about(s)).collect();
        let Position { past, rows } = self.at;
        let about = Object::new().with("past", &past).with("rows", &rows);
        Poll::Ready(Ok(about.with("bytes", &self.bytes).with("steps", &steps).text()))
    }

    fn about(&self, step: &rlx_core::ir::lir::Step) -> Object {
        let Work { read, written, operations } = Work::of(step, &self.program, self.at);
        let about = Object::new().with("label", &step.label).with("operator", &step.op.name());
        about.with("read", &read).with("written", &written).with("operations", &operations)
    }

    /// Times one run: `[{"step", "kernel", "begin", "end"}]` as JSON, nanoseconds after the first begin.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        if self.stage != Stage::Running {
            self.device.time_launches(true)?;
            let submitted = self.submit();
            self.device.time_launches(false)?;
            submitted?;
            self.stage = Stage::Running;
        }
        ready!(self.poll_waiting(cx))?;
        let times = ready!(self.device.poll_times(cx))?;
        self.stage = Stage::Ready;
        let launches = times.last().map_or(&[][..], |t| &t.launches);
        let zero = launches.iter().map(|l| l.ns[0]).min().unwrap_or(0);
        let each = launches.iter().map(|l| {
            let launch = Object::new().with("step", &l.step).with("kernel", &l.kernel);
            let [begin, end] = l.ns.map(|ns| ns.saturating_sub(zero));
            launch.with("begin", &begin).with("end", &end)
        });
        Poll::Ready(Ok(text(&each.collect::<Vec<_>>())))
    }

    fn submit(&mut self) -> Result<()> {
        let (Some(session), Some(built)) = (self.session, self.built) else {
            return Err(Error::internal("a program runs that was not built"));
        };
        let how = Submission { read: false, ..Submission::new(&self.writes) };
        self.waiting.push(self.device.submit_with(session, built, &how)?);
        Ok(())
    }

    /// Polls all tickets; one that fails for memory says how much was asked for.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some(&ticket) = self.waiting.last() {
            let answer = ready!(self.device.poll(ticket, cx));
            self.waiting.pop();
            if let Err(e) = answer {
                let hint = format!(
                    "{} bytes were asked for, beside what a loaded model has; free that one first",
                    self.bytes
                );
                return Poll::Ready(Err(if e.code == Code::OutOfMemory {
                    e.hint(hint)
                } else {
                    e
                }));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.device.free(AnyId::Session(session));
        }
        self.device.free(AnyId::Model(self.model));
    }
}
