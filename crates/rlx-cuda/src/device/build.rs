//! A program's functions, launches and inputs.

use super::{Buffer, Built, CudaDevice, Model, Part, State, unknown};
use crate::driver::Driver;
use crate::kernels::{Card, Work, work_of};
use rlx_core::ir::lir::Program;
use rlx_core::runtime::device::ModelId;
use rlx_core::{Code, Error, Result};
use std::sync::Arc;
use std::thread;

/// Most kernels that are compiled at once.
const COMPILERS: usize = 8;

impl<D: Driver> CudaDevice<D> {
    pub(super) fn build_program(
        &self,
        s: &mut State,
        m: ModelId,
        program: Arc<Program>,
    ) -> Result<Built> {
        program.one_slot(&self.target.name)?;
        if program.arena_segments.len() > 1 {
            let what = format!(
                "program {} has several arena segments, which this device does not run",
                program.name
            );
            return Err(
                Error::new(Code::Unsupported, what).hint("compile it for this device's own target")
            );
        }
        let plan = s.models.get(&m).ok_or_else(|| unknown("model", m.0))?.plan.clone();
        let (mut parts, mut new, mut scratch, mut counts) = (Vec::new(), Vec::new(), 0, 0);
        let card = Card::of(&self.driver);
        for (i, work) in work_of(&program, &plan, (card, &self.target))? {
            scratch = scratch.max(work.scratch());
            let kernel = match work {
                Work::Kernel(kernel) => kernel,
                Work::Product(product) => {
                    parts.push((i, Part::Product(product)));
                    continue;
                }
                Work::Exchange(exchange) => {
                    parts.push((i, Part::Exchange(exchange)));
                    continue;
                }
            };
            counts = counts.max(kernel.counts);
            let function = match s.functions.get(&kernel.source) {
                Some(&id) => id,
                None => {
                    let id = s.ids.next();
                    s.functions.insert(kernel.source.clone(), id);
                    new.push((id, kernel.source.clone(), kernel.entry));
                    id
                }
            };
            parts.push((i, Part::Kernel(function, kernel)));
        }
        if self.driver.fills() {
            // The machine that these kernels are for may be older, and may have the library where this one has none.
            for card in card.others() {
                for (_, work) in work_of(&program, &plan, (card, &self.target))? {
                    if let Work::Kernel(kernel) = work {
                        self.driver.fill(&kernel.source, kernel.entry)?;
                    }
                }
            }
        }
        if let Err(e) = self.compile(&new) {
            for (id, source, _) in &new {
                s.functions.remove(source);
                self.driver.forget(*id);
            }
            return Err(e);
        }
        let scratch = self.shared(s, m, scratch, |model| &mut model.scratch)?;
        let counts = self.shared(s, m, counts, |model| &mut model.counts)?;
        let inputs = self.create_all(s, program.inputs.iter().map(|i| i.bytes))?;
        Ok(Built { model: m, program, parts, scratch, counts, inputs })
    }

    /// Zeroed memory of a model with so many bytes, which programs share: what is queued runs in one order.
    fn shared(
        &self,
        s: &mut State,
        m: ModelId,
        bytes: u64,
        list: fn(&mut Model) -> &mut Vec<Buffer>,
    ) -> Result<Option<Buffer>> {
        if bytes == 0 {
            return Ok(None);
        }
        let made = s.models.get_mut(&m).map(list).into_iter().flatten();
        if let Some(large) = made.map(|b| *b).find(|b| b.bytes >= bytes) {
            return Ok(Some(large));
        }
        let buffer = self.create(s, bytes)?;
        if let Some(model) = s.models.get_mut(&m) {
            list(model).push(buffer);
        }
        Ok(Some(buffer))
    }

    /// Compiles functions, several at once.
    fn compile(&self, new: &[(u32, String, &'static str)]) -> Result<()> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(COMPILERS);
        let share = new.len().div_ceil(threads).max(1);
        thread::scope(|scope| {
            let each = |part: &[(u32, String, &'static str)]| {
                part.iter()
                    .try_for_each(|(id, source, entry)| self.driver.compile(*id, source, entry))
            };
            let all: Vec<_> =
                new.chunks(share).map(|part| scope.spawn(move || each(part))).collect();
            let gone = || Error::internal("a thread that compiles kernels ended");
            all.into_iter().try_for_each(|t| t.join().map_err(|_| gone())?)
        })
    }
}
