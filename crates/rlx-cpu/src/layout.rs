//! Which weights stand in panels, and how they come there.
//!
//! A weight that only matmuls and gathers read is arranged in panels: in place once its last byte is there, or
//! on the way from a shared map, so there is one copy of it. Where the first program that reads it so is built
//! later, as a session builds them, it is arranged then. Other weights stay as they are in the file, in the map where
//! there is one.

use crate::aligned_bytes::AlignedBytes;
use crate::panel::{Cut, ROWS};
use crate::program::{self, WeightUse};
use crate::run::{WeightBytes, Weights};
use rlx_core::plan::{Entry, WeightPlan};
use rlx_core::runtime::device::{Bytes, Placed};
use rlx_core::types::DType;
use rlx_core::{Error, Result};

#[derive(Clone, Copy, Default)]
struct Weight {
    is_read_in_panels: bool,
    is_read_otherwise: bool,
    /// Bytes that have come.
    have: u64,
}

impl Weights {
    /// Memory for what a plan has behind the weights that are here; all of it, or an error.
    ///
    /// # Errors
    /// `OutOfMemory`; `Internal` for a weight that lies outside its buffer.
    pub(crate) fn extend(&mut self, plan: &WeightPlan) -> Result<()> {
        let inside = |e: &Entry| {
            let buffer = plan.buffers.get(e.buffer as usize);
            buffer.is_some_and(|b| e.offset.checked_add(e.bytes).is_some_and(|end| end <= b.bytes))
        };
        if !plan.entries.iter().all(inside) {
            return Err(Error::internal("a weight lies outside its buffer"));
        }
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let new = plan.buffers.iter().skip(self.buffers.len());
        let new = new.map(|b| AlignedBytes::new(size(b.bytes))).collect::<Result<Vec<_>>>()?;
        self.buffers.extend(new);
        self.entries.extend(plan.entries.iter().skip(self.entries.len()).map(|e| {
            let at = e.offset as usize;
            let range = at..at + e.bytes as usize;
            WeightBytes::Owned { buffer: e.buffer as usize, range, is_panels: false }
        }));
        Ok(())
    }
}

/// How a model's weights stand.
pub(crate) struct Layout {
    weights: Vec<Weight>,
}

impl Layout {
    pub(crate) fn new(plan: &WeightPlan) -> Layout {
        Layout { weights: vec![Weight::default(); plan.entries.len()] }
    }

    /// Room for what a plan has behind the model's own.
    pub(crate) fn extend(&mut self, plan: &WeightPlan) {
        self.weights.resize(plan.entries.len(), Weight::default());
    }

    /// Notes how a program reads the weights. One that stands in panels and is now read otherwise is
    /// put back; one that is here and is read in panels now, and not otherwise, is arranged.
    ///
    /// # Errors
    /// What `memory` answers.
    pub(crate) fn note<'a>(
        &mut self,
        plan: &WeightPlan,
        uses: &[WeightUse],
        memory: impl FnOnce() -> Result<&'a mut Weights>,
    ) -> Result<()> {
        let (mut back, mut forth) = (Vec::new(), Vec::new());
        for used in uses {
            let Some((entry, weight)) =
                plan.entries.get(used.entry).zip(self.weights.get_mut(used.entry))
            else {
                continue; // the program was not built
            };
            let fits = used.panels && row_bytes(entry).is_some_and(|n| fits(entry, n, used));
            if fits {
                weight.is_read_in_panels = true;
                forth.push(used.entry);
            } else if !weight.is_read_otherwise {
                weight.is_read_otherwise = true;
                back.push(used.entry);
            }
        }
        back.retain(|&i| self.weights[i].have > 0);
        forth.retain(|&i| {
            let weight = self.weights[i];
            !weight.is_read_otherwise && weight.have == plan.entries[i].bytes && weight.have > 0
        });
        if back.is_empty() && forth.is_empty() {
            return Ok(());
        }
        let memory = memory()?;
        for i in forth {
            // A program may read one several times.
            if memory.is_panels(i) {
                continue;
            }
            let entry = &plan.entries[i];
            let Some(row) = row_bytes(entry) else { continue };
            let map = match &memory.entries[i] {
                WeightBytes::Shared { map, range } => Some((map.clone(), range.clone())),
                WeightBytes::Owned { .. } => None,
            };
            let (buffer, at) = (entry.buffer as usize, entry.offset as usize);
            let range = at..at + entry.bytes as usize;
            let own =
                memory.buffers.get_mut(buffer).and_then(|b| b.bytes_mut().get_mut(range.clone()));
            let own = own.ok_or_else(|| Error::internal("a weight lies outside its buffer"))?;
            let cut = Cut::of(entry.ty.dtype);
            match map {
                Some((map, from)) => match (*map).as_ref().get(from) {
                    Some(bytes) => cut.arrange(bytes, row, own),
                    None => continue, // the map has shrunk
                },
                None => cut.arrange_in_place(own, row),
            }
            memory.entries[i] = WeightBytes::Owned { buffer, range, is_panels: true };
        }
        for i in back {
            if let WeightBytes::Owned { buffer, range, is_panels: is_panels @ true } =
                &mut memory.entries[i]
                && let Some(row) = row_bytes(&plan.entries[i])
            {
                let bytes = &mut memory.buffers[*buffer].bytes_mut()[range.clone()];
                Cut::of(plan.entries[i].ty.dtype).restore_in_place(bytes, row);
                *is_panels = false;
            }
        }
        Ok(())
    }

    /// Takes bytes of a weight.
    ///
    /// # Errors
    /// `Internal` for bytes that fit no weight.
    pub(crate) fn put(
        &mut self,
        plan: &WeightPlan,
        memory: &mut Weights,
        at: Placed,
        bytes: &Bytes<'_>,
    ) -> Result<()> {
        let source = bytes.as_slice();
        let end = at.offset.saturating_add(source.len() as u64);
        let wrong = || Error::internal(format!("{} bytes do not fit at {at:?}", source.len()));
        let i = plan.entries.iter().position(|e| {
            e.buffer == at.buffer && e.offset <= at.offset && end <= e.offset + e.bytes
        });
        let i = i.ok_or_else(wrong)?;
        let (entry, weight) = (&plan.entries[i], &mut self.weights[i]);
        let in_panels = weight.is_read_in_panels && !weight.is_read_otherwise;
        let row = row_bytes(entry).filter(|_| in_panels);
        weight.have += source.len() as u64;
        let is_whole = source.len() as u64 == entry.bytes;
        if let Bytes::Shared { map, offset, len } = bytes
            && is_whole
            && row.is_none()
            && is_aligned(entry, source)
        {
            let range = *offset..*offset + *len;
            memory.entries[i] = WeightBytes::Shared { map: map.clone(), range };
            return Ok(());
        }
        let WeightBytes::Owned { buffer, range, is_panels } = &mut memory.entries[i] else {
            return Err(Error::internal("a weight in a map was put twice"));
        };
        if *is_panels {
            return Err(Error::internal(format!("weight {} was put twice", entry.name)));
        }
        let own =
            memory.buffers.get_mut(*buffer).and_then(|b| b.bytes_mut().get_mut(range.clone()));
        let own = own.ok_or_else(wrong)?;
        let cut = Cut::of(entry.ty.dtype);
        match row {
            Some(row) if is_whole => {
                cut.arrange(source, row, own);
                *is_panels = true;
            }
            _ => {
                let start = (at.offset - entry.offset) as usize;
                own[start..start + source.len()].copy_from_slice(source);
                if let Some(row) = row
                    && weight.have == entry.bytes
                {
                    cut.arrange_in_place(own, row);
                    *is_panels = true;
                }
            }
        }
        Ok(())
    }
}

/// Blocks, f16 and bf16 are read byte by byte; f32 as what it is.
fn is_aligned(entry: &Entry, bytes: &[u8]) -> bool {
    match entry.ty.dtype {
        DType::Block(_) | DType::F16 | DType::BF16 => true,
        DType::Scalar(_) => bytes.as_ptr().addr().is_multiple_of(16),
    }
}

/// Bytes of a row of a matrix with at least a panel's rows, or of a bank of matrices that are whole panels.
fn row_bytes(entry: &Entry) -> Option<usize> {
    let panels = match entry.ty.shape.static_dims().ok()?[..] {
        [rows, _] => rows >= ROWS as u64,
        [matrices, rows, _] => matrices > 0 && rows > 0 && rows.is_multiple_of(ROWS as u64),
        _ => false,
    };
    program::row_bytes(&entry.ty).filter(|&row| panels && row > 0)
}

/// Whether the rows that are read are whole panels of the entry.
fn fits(entry: &Entry, row: usize, used: &WeightUse) -> bool {
    let panel = ROWS * row;
    used.dtype == entry.ty.dtype
        && used.row == row
        && used.offset.is_multiple_of(panel)
        && (used.end.is_multiple_of(panel) || used.end as u64 == entry.bytes)
}
