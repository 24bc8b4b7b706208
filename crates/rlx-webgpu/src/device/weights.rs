//! A model's weight buffers.

use super::{Buffer, Model, Pending, WebGpuDevice, unknown};
use crate::gpu::{Gpu, Usage};
use crate::kernels::Book;
use rlx_core::Result;
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::{ModelId, Ticket};
use rlx_core::types::DType;
use std::sync::Arc;

impl<G: Gpu> WebGpuDevice<G> {
    /// As [`Device::allocate`](rlx_core::runtime::device::Device::allocate).
    pub(super) fn allocate_model(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        self.alive()?;
        for b in &plan.buffers {
            self.fits("a weight buffer", b.bytes, "plan for this device's limits")?;
        }
        let mut s = self.state.lock();
        let s = &mut *s;
        let waiting = self.waiting(s, &plan.entries)?;
        self.gpu.push_scopes();
        let buffers = plan
            .buffers
            .iter()
            .map(|b| self.create(s, b.bytes, Usage::Storage, "weights"))
            .collect();
        let formats = plan.entries.iter().filter_map(|e| match e.ty.dtype {
            DType::Block(format) => Book::of(format),
            DType::Scalar(_) => None,
        });
        let mut books: Vec<(Book, Buffer)> = Vec::new();
        for book in formats {
            if books.iter().all(|b| b.0 != book) {
                let bytes: Vec<u8> = book.words().iter().flat_map(|w| w.to_le_bytes()).collect();
                let buffer = self.create(s, bytes.len() as u64, Usage::Storage, "codebook");
                self.gpu.write_buffer(buffer.id, 0, &bytes);
                books.push((book, buffer));
            }
        }
        let scopes = s.ids.next();
        self.gpu.pop_scopes(scopes);
        let m = ModelId(s.ids.next());
        s.models.insert(m, Model { plan, buffers, books, waiting });
        Ok((m, s.ticket(Pending::Scopes(scopes))))
    }

    /// As [`Device::extend`](rlx_core::runtime::device::Device::extend).
    pub(super) fn extend_model(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        self.alive()?;
        let mut s = self.state.lock();
        let s = &mut *s;
        let model = s.models.get(&m).ok_or_else(|| unknown("model", m.0))?;
        model.plan.begins(&plan)?;
        let known = model.plan.entries.len();
        let more = &plan.buffers[model.plan.buffers.len()..];
        for b in more {
            self.fits("a weight buffer", b.bytes, "plan for this device's limits")?;
        }
        let waiting = self.waiting(s, &plan.entries[known..])?;
        self.gpu.push_scopes();
        let buffers: Vec<Buffer> =
            more.iter().map(|b| self.create(s, b.bytes, Usage::Storage, "weights")).collect();
        let scopes = s.ids.next();
        self.gpu.pop_scopes(scopes);
        if let Some(model) = s.models.get_mut(&m) {
            model.waiting.extend(waiting);
            model.buffers.extend(buffers);
            model.plan = plan;
        }
        Ok(s.ticket(Pending::Scopes(scopes)))
    }
}
