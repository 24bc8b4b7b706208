//! A program's pipelines, constants and inputs.

use super::{Built, Launch, State, WebGpuDevice, unknown};
use crate::gpu::{BindingKind, Gpu, Usage};
use crate::kernels::{self, Access, RowsControl, STEP_BYTES};
use rlx_core::ir::lir::Program;
use rlx_core::runtime::device::ModelId;
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

impl<G: Gpu> WebGpuDevice<G> {
    /// The program, and the scopes around its buffers.
    pub(super) fn build_program(
        &self,
        s: &mut State,
        m: ModelId,
        program: Arc<Program>,
    ) -> Result<(Built, u32)> {
        program.one_slot("webgpu")?;
        let plan = s.models.get(&m).ok_or_else(|| unknown("model", m.0))?.plan.clone();
        let mut launches = Vec::new();
        let mut constants: Vec<u8> = Vec::new();
        for (i, step) in program.steps.iter().enumerate() {
            // Kernels skip rows where a token has one; those of experts know how many a token has.
            let rows_control = program
                .control
                .filter(|_| step.live.is_some())
                .map(|c| RowsControl { state: c.state, rows: c.tokens });
            let wgsl = self.used(self.wgsl.get());
            let tuning = self.tuning.get().on(wgsl);
            let cx = kernels::Context { plan: &plan, rows_control, wgsl, tuning };
            let Some(kernel) = kernels::kernel(step, &cx)? else { continue };
            if kernel.memory.len() > self.target.limits.storage_buffers as usize {
                return Err(Error::new(
                    Code::Unsupported,
                    format!("a step binds {} buffers", kernel.memory.len()),
                )
                .at(step.label.clone())
                .hint("this GPU binds too few; use another device"));
            }
            constants.extend(kernel.words.iter().flat_map(|w| w.to_le_bytes()));
            constants.resize(constants.len().next_multiple_of(STEP_BYTES as usize), 0);
            let pipeline = self.pipeline(s, &kernel);
            let memory = kernel.memory.iter().map(|m| m.0).collect();
            let (step, groups) = (i as u32, kernel.groups);
            launches.push(Launch { step, kernel: kernel.entry, pipeline, memory, groups });
        }
        self.gpu.push_scopes();
        let buffer = self.create(s, constants.len() as u64, Usage::Uniform, "step constants");
        if !constants.is_empty() {
            self.gpu.write_buffer(buffer.id, 0, &constants);
        }
        let inputs = program
            .inputs
            .iter()
            .map(|i| self.create(s, i.bytes, Usage::Storage, &i.name))
            .collect();
        let scopes = s.ids.next();
        self.gpu.pop_scopes(scopes);
        Ok((Built { model: m, program, launches, constants: buffer, inputs }, scopes))
    }

    fn pipeline(&self, s: &mut State, kernel: &kernels::Kernel) -> u32 {
        if let Some(&id) = s.pipelines.get(&kernel.wgsl) {
            return id;
        }
        let id = s.ids.next();
        let mut kinds = vec![BindingKind::Uniform];
        kinds.extend(kernel.memory.iter().map(|m| match m.1 {
            Access::Read => BindingKind::Read,
            Access::ReadWrite => BindingKind::ReadWrite,
        }));
        self.gpu.create_pipeline(id, &kernel.wgsl, kernel.entry, &kinds);
        s.pipelines.insert(kernel.wgsl.clone(), id);
        id
    }
}
