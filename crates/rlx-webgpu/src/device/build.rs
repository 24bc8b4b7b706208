//! A program's pipelines, constants and inputs.

use super::{Built, Launch, State, WebGpuDevice, unknown};
use crate::gpu::{BindingKind, Gpu, Usage};
use crate::kernels::{self, Access, Kernel, RowsControl, STEP_BYTES};
use rlx_core::ir::lir::{Program, Step};
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::ModelId;
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

/// What a step launches.
#[derive(Clone, Debug, PartialEq)]
pub struct Shader {
    /// The text.
    pub wgsl: String,
    /// Workgroups along each axis.
    pub groups: [u32; 3],
}

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
            let Some(kernel) = self.kernel(&program, step, &plan)? else { continue };
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

    /// The kernel of a program's step, as this device has it; none for a step that computes nothing.
    ///
    /// # Errors
    /// `Unsupported` for a step that no kernel takes.
    fn kernel(&self, program: &Program, step: &Step, plan: &WeightPlan) -> Result<Option<Kernel>> {
        // Kernels skip rows where a token has one; those of experts know how many a token has.
        let rows_control = program
            .control
            .filter(|_| step.live.is_some())
            .map(|c| RowsControl { state: c.state, rows: c.tokens });
        let wgsl = self.used(self.wgsl.get());
        let tuning = self.tuning.get().on(wgsl);
        kernels::kernel(step, &kernels::Context { plan, rows_control, wgsl, tuning })
    }

    /// The shader of each step of a program whose weights have their places in `plan`; none for a step that computes
    /// nothing.
    ///
    /// # Errors
    /// As the build of the program, but for what a device runs out of.
    pub fn shaders(&self, program: &Program, plan: &WeightPlan) -> Result<Vec<Option<Shader>>> {
        let each = program.steps.iter().map(|step| {
            let kernel = self.kernel(program, step, plan)?;
            Ok(kernel.map(|k| Shader { wgsl: k.wgsl, groups: k.groups }))
        });
        each.collect()
    }

    fn pipeline(&self, s: &mut State, kernel: &Kernel) -> u32 {
        if let Some(&id) = s.pipelines.get(&kernel.wgsl) {
            return id;
        }
        let id = s.ids.next();
        let mut kinds = vec![BindingKind::Uniform];
        kinds.extend(kernel.memory.iter().map(|m| match m.1 {
            Access::Read => BindingKind::Read,
            Access::ReadWrite => BindingKind::ReadWrite,
        }));
        match &kernel.form {
            Some(form) => {
                self.gpu.create_pipeline_of(id, &kernel.wgsl, kernel.entry, &kinds, form);
            }
            None => self.gpu.create_pipeline(id, &kernel.wgsl, kernel.entry, &kinds),
        }
        s.pipelines.insert(kernel.wgsl.clone(), id);
        id
    }
}
