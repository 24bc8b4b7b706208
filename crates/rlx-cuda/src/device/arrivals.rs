//! Weights whose rows are rearranged once they are there: [`planes`] says which and how.

use super::{Buffer, CudaDevice, State};
use crate::driver::{At, Driver, Launch, Parameter, Work};
use crate::kernels::planes;
use rlx_core::plan::Entry;
use rlx_core::runtime::device::{ModelId, Placed};
use rlx_core::types::DType;
use rlx_core::{Error, Result};

/// A weight of which some bytes are not there yet.
pub(super) struct Waiting {
    buffer: u32,
    from: u64,
    to: u64,
    missing: u64,
    dtype: DType,
    k: u64,
    rows: u32,
}

/// The weights among these whose rows are to lie in planes.
///
/// # Errors
/// `Internal` for more rows than a launch has blocks.
pub(super) fn waiting(entries: &[Entry]) -> Result<Vec<Waiting>> {
    let mut all = Vec::new();
    for e in entries {
        let Some((k, rows)) = planes::rows(&e.ty).filter(|r| r.1 > 0) else { continue };
        let many =
            |_| Error::internal(format!("{} has {rows} rows, a launch fewer blocks", e.name));
        let rows = i32::try_from(rows).map_err(many)? as u32;
        let (from, to) = (e.offset, e.offset + e.bytes);
        let dtype = e.ty.dtype;
        all.push(Waiting { buffer: e.buffer, from, to, missing: e.bytes, dtype, k, rows });
    }
    Ok(all)
}

impl<D: Driver> CudaDevice<D> {
    /// Counts the bytes that were put, and rearranges each weight that has all of its bytes now.
    pub(super) fn arrived(&self, s: &mut State, m: ModelId, at: Placed, bytes: u64) -> Result<()> {
        let Some(model) = s.models.get_mut(&m) else { return Ok(()) };
        let Some(&memory) = model.buffers.get(at.buffer as usize) else { return Ok(()) };
        for w in model.waiting.iter_mut().filter(|w| w.buffer == at.buffer) {
            let own = w.to.min(at.offset + bytes).saturating_sub(w.from.max(at.offset));
            w.missing = w.missing.saturating_sub(own);
        }
        let all = std::mem::take(&mut model.waiting);
        let (whole, waiting): (Vec<_>, _) = all.into_iter().partition(|w| w.missing == 0);
        model.waiting = waiting;
        whole.iter().try_for_each(|w| self.rearrange(s, w, memory))
    }

    fn rearrange(&self, s: &mut State, w: &Waiting, memory: Buffer) -> Result<()> {
        let source = planes::source(w.dtype, w.k)?;
        let function = match s.functions.get(&source) {
            Some(&id) => id,
            None => {
                let id = s.ids.next();
                self.driver.compile(id, &source, "planes")?;
                s.functions.insert(source, id);
                id
            }
        };
        let list = s.ids.next();
        let launch = Launch {
            function,
            grid: [w.rows, 1, 1],
            threads: planes::THREADS,
            shared: 0,
            arguments: vec![Parameter::Place(At { buffer: memory.id, offset: w.from })],
            early: false,
        };
        self.driver.record(list, &[Work::Launch(launch)])?;
        let queued = self.driver.submit(list);
        self.driver.drop_list(list);
        queued
    }
}
