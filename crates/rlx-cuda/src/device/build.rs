//! A program's functions, launches and inputs.

use super::{Built, CudaDevice, State, unknown};
use crate::driver::Driver;
use crate::kernels::kernels;
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
        program.one_slot("cuda")?;
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
        let (mut launches, mut new) = (Vec::new(), Vec::new());
        for (i, step) in program.steps.iter().enumerate() {
            for kernel in kernels(&program, step, &plan)? {
                let function = match s.functions.get(&kernel.source) {
                    Some(&id) => id,
                    None => {
                        let id = s.ids.next();
                        s.functions.insert(kernel.source.clone(), id);
                        new.push((id, kernel.source.clone(), kernel.entry));
                        id
                    }
                };
                launches.push((i as u32, function, kernel));
            }
        }
        if let Err(e) = self.compile(&new) {
            for (id, source, _) in &new {
                s.functions.remove(source);
                self.driver.forget(*id);
            }
            return Err(e);
        }
        let inputs = self.create_all(s, program.inputs.iter().map(|i| i.bytes))?;
        Ok(Built { model: m, program, launches, inputs })
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
