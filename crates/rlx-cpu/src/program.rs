//! A program ready to run: kernels picked from operators and types, places checked.

use crate::kernels::{self, Kernel};
use crate::place::{Output, Place, Space, Split};
use rlx_core::ir::lir;
use rlx_core::ops::Alias;
#[cfg(not(target_family = "wasm"))]
use rlx_core::ops::Op;
use rlx_core::plan::WeightPlan;
use rlx_core::sample::control;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};
use rlx_core::{Code, Error, Result};

/// A step with its kernel.
pub(crate) struct Step {
    /// The operator's name.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) name: &'static str,
    pub(crate) kernel: Box<dyn Kernel>,
    /// `None` for an operand that the step writes: only its result shows it.
    pub(crate) operands: Vec<Option<Place>>,
    pub(crate) results: Vec<Output>,
    /// Rows of the first result per token, if rows past the control block's `len` tokens need not be computed.
    pub(crate) limit: Option<usize>,
    /// Multiply-adds, roughly.
    work: u64,
    /// Most shares that have something to do.
    units: usize,
}

/// Multiply-adds of a share for a worker that pauses: under a millisecond on the slowest machine
/// that runs a page.
const SLICE_WORK: u64 = 1 << 20;
/// Multiply-adds from which on a share costs more than waking another worker for it.
const SHARE_WORK: u64 = 1 << 17;

impl Step {
    /// How many shares the step has for `workers` threads, one of which may pause between shares.
    ///
    /// Several for each worker, so that others do the work of a worker that starts late or is put
    /// aside. A small step is one share.
    pub(crate) fn shares(&self, workers: usize, pauses: bool) -> u32 {
        let shares = match workers as u64 {
            0 | 1 => 1,
            _ if self.work < SHARE_WORK / 2 => 1,
            n => (self.work / SHARE_WORK).clamp(n, 4 * n),
        };
        let slices = if pauses { self.work.div_ceil(SLICE_WORK) } else { 1 };
        shares.max(slices).clamp(1, self.units.max(1) as u64).min(1 << 16) as u32
    }
}

/// A weight that a step reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightUse {
    pub(crate) entry: usize,
    pub(crate) offset: usize,
    pub(crate) end: usize,
    pub(crate) dtype: DType,
    /// Bytes of a row, as the step reads it.
    pub(crate) row: usize,
    /// Whether the step's kernel reads panels.
    pub(crate) panels: bool,
}

/// Checked steps, and the sizes of memory that they were checked for.
pub(crate) struct Built {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) states: Vec<usize>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) arena_bytes: usize,
    pub(crate) weights: Vec<WeightUse>,
    pub(crate) outputs: Vec<Place>,
    /// The control block's state, if a step reads one.
    pub(crate) control: Option<usize>,
    /// True if the program changes no state and no output once its control block says `done`.
    pub(crate) idle_when_done: bool,
    /// Where it can be cut in two.
    pub(crate) cut: Option<lir::Cut>,
}

impl Built {
    /// Picks kernels and checks places.
    ///
    /// # Errors
    /// `Unsupported` for an operator or type without a kernel; `Internal` for a plan that breaks
    /// a rule.
    pub(crate) fn new(program: &lir::Program, plan: &WeightPlan, target: &Target) -> Result<Built> {
        program.one_slot("cpu")?;
        if program.arena_segments.len() > 1 || program.steps.iter().any(|s| s.part.is_some()) {
            return Err(Error::new(
                Code::Unsupported,
                format!(
                    "program {} has several arena segments or weights in parts, which this device does not run",
                    program.name
                ),
            )
            .hint("compile it for this device's own target"));
        }
        let sizes = |n: u64| {
            usize::try_from(n).map_err(|_| Error::internal("a size is above this machine's"))
        };
        let mut built = Built {
            name: program.name.clone(),
            steps: Vec::with_capacity(program.steps.len()),
            states: program.states.iter().map(|s| sizes(s.bytes)).collect::<Result<_>>()?,
            inputs: program.inputs.iter().map(|i| sizes(i.bytes)).collect::<Result<_>>()?,
            arena_bytes: sizes(program.arena_bytes)?,
            weights: Vec::new(),
            outputs: program.outputs.iter().map(|o| Place::new(&o.slice)).collect(),
            control: program.control.map(|c| c.state as usize),
            idle_when_done: false,
            cut: program.cut(),
        };
        for step in &program.steps {
            let at = || format!("@{}, {}", program.name, step.label);
            let step = built.step(step, target).map_err(|e| e.at(at()))?;
            built.check(&step, plan).map_err(|e| e.at(at()))?;
            built.steps.push(step);
        }
        for place in &built.outputs {
            built.inside(place, plan)?;
        }
        // If no step changes a state once the control block says `done`, and the host reads only states,
        // such a run has nothing to do.
        let in_states = built.outputs.iter().all(|o| matches!(o.space, Space::State(_)));
        let heed = program.steps.iter().all(heeds_done);
        built.idle_when_done = built.control.is_some() && in_states && heed;
        Ok(built)
    }

    fn step(&mut self, step: &lir::Step, target: &Target) -> Result<Step> {
        let planned = kernels::plan(step, target)?;
        if planned.splits.len() != step.results.len() {
            return Err(Error::internal(format!("{} has other results", step.op.name())));
        }
        let results: Vec<Output> = step
            .results
            .iter()
            .zip(planned.splits)
            .map(|(slice, split)| {
                let place = Place::new(slice);
                let rows = match split {
                    // A cache's rows are its heads.
                    Split::Rows if slice.ty.shape.rank() == 3 => slice.ty.shape.0[0].as_static(),
                    Split::Flat(_) => Some(1),
                    Split::Runs(n) | Split::Grid(n, _) => Some(n as u64),
                    _ => slice.ty.shape.rows()?.as_static(),
                };
                let rows = rows.unwrap_or(0) as usize;
                let row_bytes = place.bytes.checked_div(rows).unwrap_or(0);
                Ok(Output { place, rows, row_bytes, split })
            })
            .collect::<Result<_>>()?;
        let in_place = matches!(step.alias(), Alias::Elementwise { .. });
        let operands = step
            .operands
            .iter()
            .enumerate()
            .map(|(i, slice)| {
                let place = Place::new(slice);
                let is_written = step.op.writes().iter().any(|w| w.0 == i)
                    || (in_place && results.first().is_some_and(|r| r.place == place));
                (!is_written).then_some(place)
            })
            .collect();
        for (i, slice) in step.operands.iter().enumerate() {
            if slice.space == lir::Space::Weight {
                let Place { offset, bytes, .. } = Place::new(slice);
                self.weights.push(WeightUse {
                    entry: slice.index as usize,
                    offset,
                    end: offset.saturating_add(bytes),
                    dtype: slice.ty.dtype,
                    row: row_bytes(&slice.ty).unwrap_or(0),
                    panels: planned.panels.contains(&i),
                });
            }
            if step.op.writes().iter().any(|&(operand, result)| {
                operand == i && Place::new(slice) != results[result].place
            }) {
                return Err(Error::internal("a state's next version has another place"));
            }
        }
        let units = results.iter().map(|r| match r.split {
            Split::Rows | Split::Runs(_) => r.rows,
            Split::Columns(granule) | Split::Flat(granule) | Split::Grid(_, granule) => {
                r.row_bytes.div_ceil(granule.max(1))
            }
            Split::First => 1,
        });
        let units = units.max().unwrap_or(1);
        let limit = step.live.map(|rows| rows as usize);
        let (kernel, work) = (planned.kernel, planned.work);
        Ok(Step {
            #[cfg(not(target_family = "wasm"))]
            name: Op::NAMES.iter().find(|name| **name == step.op.name()).unwrap_or(&"custom"),
            kernel,
            operands,
            results,
            limit,
            work,
            units,
        })
    }

    /// The rules that [`run`](crate::run) relies on.
    fn check(&self, step: &Step, plan: &WeightPlan) -> Result<()> {
        for place in step.operands.iter().flatten() {
            self.inside(place, plan)?;
        }
        for (i, result) in step.results.iter().enumerate() {
            self.inside(&result.place, plan)?;
            let whole = result.rows.checked_mul(result.row_bytes) == Some(result.place.bytes);
            let writable = matches!(result.place.space, Space::Arena | Space::State(_));
            let shared = step.operands.iter().flatten().any(|o| o.overlaps(&result.place))
                || step.results[..i].iter().any(|r| r.place.overlaps(&result.place));
            if !whole || !writable || shared {
                return Err(Error::internal(format!(
                    "result {i} shares memory with another value, or is no whole rows: {:?}",
                    result.place
                )));
            }
        }
        Ok(())
    }

    fn inside(&self, place: &Place, plan: &WeightPlan) -> Result<()> {
        let size = match place.space {
            Space::Weight(i) => plan.entries.get(i).map(|e| e.bytes as usize),
            Space::State(i) => self.states.get(i).copied(),
            Space::Input(i) => self.inputs.get(i).copied(),
            Space::Arena => Some(self.arena_bytes),
        };
        let end = place.offset.checked_add(place.bytes);
        if size.zip(end).is_some_and(|(size, end)| end <= size) && place.offset.is_multiple_of(4) {
            return Ok(());
        }
        Err(Error::internal(format!("{place:?} lies outside its memory")))
    }
}

/// Bytes of a row along the last axis, if its size is known.
pub(crate) fn row_bytes(ty: &Type) -> Option<usize> {
    let last = ty.shape.last().as_static()?;
    ty.dtype.row_bytes(last).map(|n| n as usize)
}

/// Whether a step writes no state once the control block says `done`.
fn heeds_done(step: &lir::Step) -> bool {
    step.op.writes().is_empty() || step.op.control(step.operands.len()).is_some()
}

/// The control block's words at the start of a state's bytes: `(len, done)`.
pub(crate) fn len_and_done(bytes: &[u8]) -> (usize, bool) {
    let word = |i: usize| {
        bytes.get(4 * i..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
    };
    (word(control::LEN) as usize, word(control::DONE) != control::RUNNING)
}
