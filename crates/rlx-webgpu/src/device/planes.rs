//! Weights whose rows are rearranged once they are there: [`planes`] says which and how.

use super::{Buffer, State, WebGpuDevice};
use crate::gpu::{Binding, BindingKind, Command, Gpu, Usage};
use crate::kernels::{Kernel, STEP_BYTES, planes};
use core::task::{Context, Poll};
use rlx_core::Result;
use rlx_core::plan::Entry;
use rlx_core::runtime::device::ModelId;

/// Bytes of a buffer.
pub(super) struct Range {
    pub buffer: u32,
    pub from: u64,
    pub to: u64,
}

/// A weight of which some bytes are not there yet.
pub(super) struct Waiting {
    own: Range,
    missing: u64,
    kernel: Kernel,
    pipeline: u32,
}

impl Waiting {
    /// How many of these bytes are its own.
    fn own(&self, put: &Range) -> u64 {
        if put.buffer != self.own.buffer {
            return 0;
        }
        self.own.to.min(put.to).saturating_sub(self.own.from.max(put.from))
    }
}

impl<G: Gpu> WebGpuDevice<G> {
    /// Those of these weights whose rows are to lie in planes.
    pub(super) fn waiting(&self, s: &mut State, entries: &[Entry]) -> Result<Vec<Waiting>> {
        let mut waiting = Vec::new();
        for e in entries {
            let Some((k, rows)) = planes::rows(&e.ty).filter(|r| r.1 > 0) else { continue };
            let kernel = planes::kernel(k, e.offset, rows)?;
            let pipeline = match s.planes.get(&k) {
                Some(&id) => id,
                None => {
                    let id = s.ids.next();
                    let kinds = [BindingKind::Uniform, BindingKind::ReadWrite];
                    self.gpu.create_pipeline(id, &kernel.wgsl, kernel.entry, &kinds);
                    s.planes.insert(k, id);
                    id
                }
            };
            let own = Range { buffer: e.buffer, from: e.offset, to: e.offset + e.bytes };
            waiting.push(Waiting { own, missing: e.bytes, kernel, pipeline });
        }
        Ok(waiting)
    }

    /// Whether bytes may be put: what is to rearrange them is compiled.
    pub(super) fn poll_planes(
        &self,
        s: &State,
        m: ModelId,
        put: &Range,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(model) = s.models.get(&m) else { return Poll::Ready(Ok(())) };
        for w in model.waiting.iter().filter(|w| w.own(put) > 0) {
            match self.gpu.poll_pipeline(w.pipeline, cx) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Counts bytes that were put, and rearranges the weights that are whole by that.
    pub(super) fn arrived(&self, s: &mut State, m: ModelId, put: &Range) {
        let Some(model) = s.models.get_mut(&m) else { return };
        let Some(&memory) = model.buffers.get(put.buffer as usize) else { return };
        for w in &mut model.waiting {
            w.missing = w.missing.saturating_sub(w.own(put));
        }
        let all = core::mem::take(&mut model.waiting);
        let (whole, waiting): (Vec<_>, _) = all.into_iter().partition(|w| w.missing == 0);
        model.waiting = waiting;
        for w in whole {
            self.rearrange(s, &w, memory);
        }
    }

    fn rearrange(&self, s: &mut State, w: &Waiting, memory: Buffer) {
        let constants = self.create(s, STEP_BYTES, Usage::Uniform, "planes");
        let bytes: Vec<u8> = w.kernel.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.gpu.write_buffer(constants.id, 0, &bytes);
        let (bind_group, list) = (s.ids.next(), s.ids.next());
        let whole = |b: Buffer| Binding { buffer: b.id, offset: 0, size: b.bytes };
        self.gpu.create_bind_group(bind_group, w.pipeline, &[whole(constants), whole(memory)]);
        let (pipeline, groups) = (w.pipeline, w.kernel.groups);
        self.gpu.record(list, &[Command::Dispatch { pipeline, bind_group, groups }]);
        self.gpu.submit(&[list]);
        self.gpu.free_list(list);
        self.gpu.free_bind_group(bind_group);
        self.destroy(s, [constants]);
    }
}
