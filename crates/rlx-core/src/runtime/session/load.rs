//! Loading weights: from ranges of files to a device, without IO.
//!
//! A loader first waits for memory, because some devices report a lack of memory only then. After that, bytes may
//! come in any order; a table per shard says where its ranges go. Small tensors that others are made from stay
//! on the host, and those that a tensor is packed of do until both are there.

#[cfg(feature = "parallel")]
mod shares;

use crate::error::{Error, Result};
use crate::ir::recipe::Recipe;
use crate::order;
use crate::plan::{Entry, Origin, PACKED, Piece, WeightPlan};
use crate::reference::make::make;
use crate::runtime::device::{AnyId, Bytes, Device, ModelId, Placed, Ticket};
#[cfg(feature = "parallel")]
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::task::{Context, Poll, ready};

/// Bytes of a packed tensor that a device is given at once.
const SLICE: usize = 4 << 20;

/// Where a range of a shard goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A device buffer.
    Device(Placed),
    /// The host, under this name.
    Host(String),
    /// A device buffer, which gets the first `run` bytes of every `stride`.
    #[cfg(feature = "parallel")]
    Rows {
        /// Where the first goes.
        at: Placed,
        /// Bytes that go there.
        run: u64,
        /// Bytes from the start of one run to that of the next.
        stride: u64,
    },
    /// The same for another rank of a group than the first.
    #[cfg(feature = "parallel")]
    Rank(u32, Box<Destination>),
}

/// A range of a shard and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bytes from the file's start.
    pub file_offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Where it goes.
    pub to: Destination,
}

/// The pieces of a weight, and where on the device each goes.
fn pieces(entry: &Entry) -> Vec<(Piece, Placed)> {
    let mut at = entry.offset;
    let place = |piece: Piece| {
        let to = Placed { buffer: entry.buffer, offset: at };
        at += piece.bytes;
        (piece, to)
    };
    entry.pieces().into_iter().map(place).collect()
}

/// The ranges of a shard that the plan needs, sorted by file offset.
pub fn placements(plan: &WeightPlan, shard: u32) -> Vec<Placement> {
    let mut out = of_plan(plan, shard);
    #[cfg(feature = "parallel")]
    for (rank, plan) in (1..).zip(shares::plans(plan)) {
        let wrapped = |p: Placement| {
            let to = Destination::Rank(rank, Box::new(p.to));
            Placement { to, ..p }
        };
        out.extend(of_plan(&plan, shard).into_iter().map(wrapped));
    }
    order::sort_by_key(&mut out, |p| p.file_offset);
    out
}

/// The same of one rank, in no order.
fn of_plan(plan: &WeightPlan, shard: u32) -> Vec<Placement> {
    let mut out = Vec::new();
    #[cfg(feature = "parallel")]
    for (e, rows) in plan.entries.iter().filter_map(|e| Some((e, e.rows()?))) {
        if rows.shard == shard {
            let at = Placed { buffer: e.buffer, offset: e.offset };
            let to = Destination::Rows { at, run: rows.run, stride: rows.stride };
            out.push(Placement { file_offset: rows.offset, bytes: rows.span(), to });
        }
    }
    for e in &plan.entries {
        for (piece, at) in pieces(e).into_iter().filter(|(piece, _)| piece.shard == shard) {
            let to = Destination::Device(at);
            out.push(Placement { file_offset: piece.offset, bytes: piece.bytes, to });
        }
    }
    for h in plan.host.iter().filter(|h| h.shard == shard) {
        let to = Destination::Host(h.name.clone());
        out.push(Placement { file_offset: h.offset, bytes: h.bytes, to });
    }
    out
}

/// A packed tensor, and what of it goes where: the next one last.
struct Packing {
    bytes: Vec<u8>,
    to: Vec<(Placed, Range<usize>)>,
}

/// Adds where bytes of a packed tensor go, from one of its bytes on, as slices that a device takes at once.
fn slices(at: Placed, from: u64, bytes: u64, to: &mut Vec<(Placed, Range<usize>)>) {
    for skip in (0..bytes).step_by(SLICE) {
        let n = (bytes - skip).min(SLICE as u64);
        let start = (from + skip) as usize;
        to.push((Placed { offset: at.offset + skip, ..at }, start..start + n as usize));
    }
}

/// Loads weights to a device. Dropping it before [`keep`](Self::keep) frees them.
pub struct Loader {
    device: Arc<dyn Device>,
    plan: Arc<WeightPlan>,
    model: ModelId,
    /// The ticket of the weights' memory, until it has answered.
    memory: Option<Ticket>,
    /// Bytes of host tensors so far.
    host: BTreeMap<String, Vec<u8>>,
    /// Weights that the host makes, not yet on the device.
    computed: Vec<usize>,
    /// Tensors that are not packed yet.
    unpacked: Vec<usize>,
    /// The packed tensor that is on its way to the device.
    packing: Option<Packing>,
    /// File bytes still to come.
    missing: u64,
    kept: bool,
    #[cfg(feature = "parallel")]
    shares: shares::Shares,
}

impl Loader {
    /// Asks the device for the memory of a plan's weights.
    ///
    /// # Errors
    /// Errors that the device returns at once; later ones come from [`poll_ready`](Self::poll_ready).
    pub fn new(device: Arc<dyn Device>, plan: WeightPlan) -> Result<Self> {
        let plan = Arc::new(plan);
        let (model, ticket) = device.allocate(plan.clone())?;
        let loader = Self::of(device, plan, model, Some(ticket));
        #[cfg(feature = "parallel")]
        let loader = loader.with_ranks();
        Ok(loader)
    }

    fn of(
        device: Arc<dyn Device>,
        plan: Arc<WeightPlan>,
        model: ModelId,
        memory: Option<Ticket>,
    ) -> Self {
        let is_made = |e: &Entry| matches!(e.origin, Origin::Made(_));
        let files: u64 = plan.entries.iter().filter(|e| !is_made(e)).map(|e| e.bytes).sum();
        Loader {
            model,
            memory,
            host: BTreeMap::new(),
            computed: (0..plan.entries.len()).filter(|&i| is_made(&plan.entries[i])).collect(),
            unpacked: (0..plan.packed.len()).collect(),
            packing: None,
            missing: files + plan.host.iter().map(|h| h.bytes).sum::<u64>(),
            kept: false,
            #[cfg(feature = "parallel")]
            shares: shares::Shares::default(),
            device,
            plan,
        }
    }

    /// Waits until the weights' memory is there. Bytes may be put only then.
    ///
    /// # Errors
    /// Errors of the device, such as `OutOfMemory`.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(ticket) = self.memory {
            let answer = ready!(self.device.poll(ticket, cx));
            self.memory = None;
            answer?;
        }
        Poll::Ready(Ok(()))
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The device's id of the weights, for a host that writes the buffers itself.
    pub fn model(&self) -> ModelId {
        self.model
    }

    /// The plan, shared.
    pub fn shared_plan(&self) -> Arc<WeightPlan> {
        self.plan.clone()
    }

    /// The plan that is being filled.
    pub fn plan(&self) -> &WeightPlan {
        &self.plan
    }

    /// Puts bytes of a shard's range to its destination, as [`placements`] lists it, from byte `skip` on.
    pub fn poll_put(
        &mut self,
        to: &Destination,
        skip: u64,
        bytes: Bytes<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let n = bytes.as_slice().len() as u64;
        match to {
            #[cfg(feature = "parallel")]
            Destination::Rank(..) | Destination::Rows { .. } => {
                return self.poll_put_share(to, skip, bytes, cx);
            }
            Destination::Device(at) => {
                let at = Placed { buffer: at.buffer, offset: at.offset + skip };
                match self.device.poll_put(self.model, at, bytes, cx) {
                    Poll::Ready(Ok(())) => {}
                    other => return other,
                }
            }
            Destination::Host(name) => {
                self.host.entry(name.clone()).or_default().extend_from_slice(bytes.as_slice());
                // What the device has no room for yet waits here until more comes, or the end.
                if let Poll::Ready(Err(e)) = self.poll_packed(cx) {
                    return Poll::Ready(Err(e));
                }
            }
        }
        self.missing = self.missing.saturating_sub(n);
        Poll::Ready(Ok(()))
    }

    /// Packs every tensor whose parts are there, and gives it to the device.
    fn poll_packed(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if let Some(packing) = &mut self.packing {
                while let Some((at, range)) = packing.to.last() {
                    let bytes = Bytes::Slice(&packing.bytes[range.clone()]);
                    ready!(self.device.poll_put(self.model, *at, bytes, cx))?;
                    self.missing = self.missing.saturating_sub(range.len() as u64);
                    packing.to.pop();
                }
                self.packing = None;
            }
            match self.next_packed() {
                Ok(None) => return Poll::Ready(Ok(())),
                Ok(packing) => self.packing = packing,
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }

    /// The next tensor whose parts are both there. Parts that no other tensor needs go.
    fn next_packed(&mut self) -> Result<Option<Packing>> {
        let (plan, host) = (self.plan.clone(), &self.host);
        let part = |(name, piece): &(String, Piece)| {
            host.get(name).filter(|bytes| bytes.len() as u64 == piece.bytes)
        };
        let parts = |i: usize| {
            let packing = &plan.packed[i].packing;
            Some((part(&packing.values)?, part(&packing.scales)?))
        };
        let found = self.unpacked.iter().position(|&i| parts(i).is_some());
        let Some(i) = found.map(|at| self.unpacked.swap_remove(at)) else { return Ok(None) };
        let packed = &plan.packed[i];
        let Some((values, scales)) = parts(i) else { return Ok(None) };
        let bytes = packed.packing.pack(values, scales)?;
        let mut to = Vec::new();
        #[cfg(feature = "parallel")]
        let bytes = shares::of_packed(&plan.entries, packed.place, bytes, &mut to)?;
        for (piece, at) in plan.entries.iter().flat_map(pieces) {
            let from = piece.offset.checked_sub(packed.place.offset);
            let own =
                |from: &u64| piece.shard == PACKED && from + piece.bytes <= packed.place.bytes;
            let Some(from) = from.filter(own) else { continue };
            slices(at, from, piece.bytes, &mut to);
        }
        to.reverse();
        for (name, _) in [&packed.packing.values, &packed.packing.scales] {
            let needs = |i: &usize| {
                let packing = &plan.packed[*i].packing;
                packing.values.0 == *name || packing.scales.0 == *name
            };
            if !self.unpacked.iter().any(needs) {
                self.host.remove(name);
            }
        }
        Ok(Some(Packing { bytes, to }))
    }

    /// Counts bytes that the host wrote to device buffers itself.
    pub fn note_written(&mut self, bytes: u64) {
        self.missing = self.missing.saturating_sub(bytes);
    }

    /// Makes the weights that are no copies of the file's bytes, and gives them to the device.
    ///
    /// # Errors
    /// `BadFile` if bytes are missing; errors of the device.
    pub fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        #[cfg(feature = "parallel")]
        if let Err(e) = ready!(self.poll_finish_shares(cx)) {
            return Poll::Ready(Err(e));
        }
        if let Err(e) = ready!(self.poll_packed(cx)) {
            return Poll::Ready(Err(e));
        }
        if self.missing > 0 {
            return Poll::Ready(Err(Error::bad_file(format!(
                "{} bytes of weights never arrived",
                self.missing
            ))
            .hint("load again; the source ended early")));
        }
        while let Some(&i) = self.computed.last() {
            let entry = self.plan.entries[i].clone();
            let bytes = match self.compute(i) {
                Ok(bytes) => bytes,
                Err(e) => return Poll::Ready(Err(e)),
            };
            let at = Placed { buffer: entry.buffer, offset: entry.offset };
            match self.device.poll_put(self.model, at, Bytes::Slice(&bytes), cx) {
                Poll::Ready(Ok(())) => {
                    self.computed.pop();
                }
                other => return other,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Bytes of the weight at entry `i`, which the host makes.
    fn compute(&self, i: usize) -> Result<Vec<u8>> {
        let entry = &self.plan.entries[i];
        match &entry.origin {
            Origin::Made(recipe) => make(recipe, &|name| self.host.get(name).map(Vec::as_slice)),
            _ => Err(Error::internal(format!("{} comes from a file", entry.name))),
        }
    }

    /// The tensors that the host keeps, by the names of their weights.
    pub(super) fn take_host(&mut self) -> BTreeMap<String, Vec<u8>> {
        let mut kept = BTreeMap::new();
        for entry in &self.plan.entries {
            if let Origin::Made(Recipe::Tensor { name, .. }) = &entry.origin
                && let Some(bytes) = self.host.get(name)
            {
                kept.insert(entry.name.clone(), bytes.clone());
            }
        }
        self.host.clear();
        kept
    }

    /// The id of the weights, which the caller must free from now on. Call it after
    /// [`poll_finish`](Self::poll_finish) answered.
    pub fn keep(&mut self) -> ModelId {
        self.kept = true;
        self.model
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if !self.kept {
            self.device.free(AnyId::Model(self.model));
        }
    }
}
