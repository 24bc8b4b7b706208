//! The weight plan: from ranges of files to ranges of device buffers.

use super::packed::{Located, PACKED, Packed, Packing};
#[cfg(feature = "parallel")]
use super::share::{Rows, Share};
use crate::error::{Code, Error, Result};
use crate::ir::lir::{Program, Space, WeightUse};
use crate::ir::recipe::{HOST_TENSOR_BYTES, Recipe, stays_on_host};
use crate::target::Limits;
use crate::types::{DType, Scalar, Shape, Type};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Most bytes of a buffer of several weights: several moderate allocations succeed where a huge one fails,
/// as on a 32-bit host. A larger tensor has a buffer of its own.
const FULL_BUFFER: u64 = 1 << 30;

/// A range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which shard, as the caller numbers them, or that of packed tensors.
    pub shard: u32,
    /// Bytes from the file's start.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// Where a weight's bytes come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// Copied from a file.
    File {
        /// Which shard, as the caller numbers them.
        shard: u32,
        /// Bytes from the file's start.
        offset: u64,
    },
    /// Copied from several ranges of files, concatenated: rows of tensors.
    Pieces(Vec<Piece>),
    /// Copied from runs of a file at equal distances, concatenated: a rank's part of each row of a tensor.
    #[cfg(feature = "parallel")]
    Rows(Rows),
    /// Made on the host, from small tensors that it has. A tensor itself is made so if the host keeps it.
    Made(Recipe),
}

/// One weight's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Name in the file, or of the constant.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where its bytes come from.
    pub origin: Origin,
    /// Index of the buffer.
    pub buffer: u32,
    /// Bytes from the buffer's start, aligned as the target asks.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Entry {
    /// Ranges of files that it is copied from, in order; none if the host makes it.
    pub fn pieces(&self) -> Vec<Piece> {
        match &self.origin {
            Origin::File { shard, offset } => {
                Vec::from([Piece { shard: *shard, offset: *offset, bytes: self.bytes }])
            }
            Origin::Pieces(pieces) => pieces.clone(),
            #[cfg(feature = "parallel")]
            Origin::Rows(_) => Vec::new(),
            Origin::Made(_) => Vec::new(),
        }
    }

    /// Runs of a file that it is copied from, if they are such at equal distances.
    #[cfg(feature = "parallel")]
    pub fn rows(&self) -> Option<Rows> {
        match self.origin {
            Origin::Rows(rows) => Some(rows),
            _ => None,
        }
    }

    /// How the file's bytes change while loading, in a recipe's words.
    pub fn transforms(&self) -> Vec<&'static str> {
        match &self.origin {
            Origin::File { .. } => Vec::from(["copy"]),
            Origin::Pieces(_) => Vec::from(["rows"]),
            #[cfg(feature = "parallel")]
            Origin::Rows(_) => Vec::from(["columns"]),
            Origin::Made(recipe) => recipe.transforms(),
        }
    }
}

/// A device buffer of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes, a multiple of 4.
    pub bytes: u64,
}

/// A tensor that the host must keep while loading, because a constant is made from it or a tensor packed of it.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Name in the file.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Which shard.
    pub shard: u32,
    /// Bytes from the file's start.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Every weight of a model, for all its programs.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct WeightPlan {
    /// Weights, in the order in which they were found.
    pub entries: Vec<Entry>,
    /// Buffers that hold them.
    pub buffers: Vec<Buffer>,
    /// Tensors that constants are made from, which are small, and those that are packed.
    pub host: Vec<HostTensor>,
    /// Tensors that the host packs, in the order of their places.
    pub packed: Vec<Packed>,
    /// Weights that are part of an entry.
    within: Vec<Within>,
    /// The plans of the other ranks of a group, from rank 1 on. They differ from this one, which is rank 0's, in where
    /// bytes come from and in nothing else.
    #[cfg(feature = "parallel")]
    pub ranks: Vec<WeightPlan>,
    /// Whose plan it is.
    #[cfg(feature = "parallel")]
    rank: u64,
}

/// A weight that is part of another entry.
#[derive(Clone, Debug, PartialEq)]
struct Within {
    name: String,
    entry: usize,
    offset: u64,
}

/// A weight that a program reads, and where it comes from.
struct Wanted<'a> {
    used: &'a WeightUse,
    origin: Origin,
    bytes: u64,
}

impl WeightPlan {
    /// Merges the weights of all programs of a model. `find` gives shard, offset and bytes of a tensor
    /// of the file. File bytes have one place: a weight that is part of another one is read there.
    ///
    /// # Errors
    /// `Unsupported` for a tensor above the target's binding limit, or a constant that needs a large tensor;
    /// `BadFile` for a tensor that the file does not have.
    pub fn new<L: Into<Located>>(
        programs: &[&Program],
        limits: &Limits,
        mut find: impl FnMut(&str) -> Option<L>,
    ) -> Result<WeightPlan> {
        Self::of(programs.iter().flat_map(|p| &p.weights), limits, &mut find, |_| false)
    }

    /// The plan of a group of so many ranks, each of which runs these programs over its own share of the weights.
    ///
    /// # Errors
    /// As [`new`](Self::new); `Internal` where the plans of two ranks would differ.
    #[cfg(feature = "parallel")]
    pub fn of_ranks<L: Into<Located>>(
        programs: &[&Program],
        limits: &Limits,
        ranks: u64,
        mut find: impl FnMut(&str) -> Option<L>,
    ) -> Result<WeightPlan> {
        let mut plan = WeightPlan::new(programs, limits, &mut find)?;
        for rank in 1..ranks {
            let own = WeightPlan { rank, ..WeightPlan::default() };
            let weights = programs.iter().flat_map(|p| &p.weights);
            let own = own.filled(weights, limits, &mut find, |_| false)?;
            let place = |e: &Entry| (e.name.clone(), e.ty.clone(), e.buffer, e.offset, e.bytes);
            let same = own.within == plan.within
                && own.buffers == plan.buffers
                && own.entries.iter().map(place).eq(plan.entries.iter().map(place));
            if !same {
                return Err(Error::internal(format!("rank {rank} has its weights elsewhere")));
            }
            plan.ranks.push(own);
        }
        Ok(plan)
    }

    /// The plan of the weights of programs that are compiled later, as [`new`](Self::new). The host keeps the tensors
    /// for which [`stays_on_host`] is true, and makes what those programs read of them.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_later<'a, L: Into<Located>>(
        weights: impl IntoIterator<Item = &'a WeightUse>,
        limits: &Limits,
        find: impl FnMut(&str) -> Option<L>,
    ) -> Result<WeightPlan> {
        Self::of(weights, limits, find, stays_on_host)
    }

    fn of<'a, L: Into<Located>>(
        weights: impl IntoIterator<Item = &'a WeightUse>,
        limits: &Limits,
        find: impl FnMut(&str) -> Option<L>,
        stays: impl Fn(&Type) -> bool,
    ) -> Result<WeightPlan> {
        WeightPlan::default().filled(weights, limits, find, stays)
    }

    fn filled<'a, L: Into<Located>>(
        self,
        weights: impl IntoIterator<Item = &'a WeightUse>,
        limits: &Limits,
        mut find: impl FnMut(&str) -> Option<L>,
        stays: impl Fn(&Type) -> bool,
    ) -> Result<WeightPlan> {
        let mut find = |name: &str| find(name).map(Into::into);
        let mut plan = self;
        let mut wanted: Vec<Wanted<'_>> = Vec::new();
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for used in weights {
            match known.get(used.name.as_str()) {
                Some(&at) if wanted[at].used == used => continue,
                Some(_) => {
                    let what = format!("{} is used as {} and as another type", used.name, used.ty);
                    return Err(Error::bad_graph(what));
                }
                None => known.insert(&used.name, wanted.len()),
            };
            let (mut origin, bytes) = (plan.origin(used, &mut find)?, used.ty.bytes()?);
            if let Origin::File { shard, offset } = origin
                && stays(&used.ty)
                && shard != PACKED
            {
                // Its bytes have one place to go to: the device gets them from the host.
                let piece = Piece { shard, offset, bytes };
                origin = Origin::Made(plan.host_tensor(&used.name, &used.ty, piece));
            }
            wanted.push(Wanted { used, origin, bytes });
        }
        // Weights of several pieces first: tensors that are pieces need no place of their own.
        let (several, single): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|w| matches!(w.origin, Origin::Pieces(_)));
        for w in several.into_iter().chain(single) {
            match plan.within(&w) {
                Some((entry, offset)) => {
                    plan.within.push(Within { name: w.used.name.clone(), entry, offset });
                }
                None => {
                    plan.place(&w.used.name, w.used.ty.clone(), w.origin, w.bytes, 0, limits)?;
                }
            }
        }
        Ok(plan)
    }

    /// Whether the host keeps the tensor of this name.
    fn keeps(&self, name: &str) -> bool {
        let tensor = |e: &Entry| matches!(e.origin, Origin::Made(Recipe::Tensor { .. }));
        self.entries.iter().any(|e| e.name == name && tensor(e))
    }

    /// The plan extended by what the host makes for one more program, in new buffers after the old ones; `None` if the
    /// plan has all of it.
    ///
    /// # Errors
    /// `Unsupported` for a new weight of a tensor that the host does not keep.
    pub fn extended(&self, program: &Program, limits: &Limits) -> Result<Option<WeightPlan>> {
        let mut plan = self.clone();
        let first = self.buffers.len();
        for used in program.weights.iter().filter(|w| self.locate(&w.name).is_none()) {
            let can = |recipe: &&Recipe| recipe.tensors().iter().all(|t| self.keeps(t.0));
            let Some(recipe) = used.made.as_ref().filter(can) else {
                let what = format!("the weight {} was not loaded with the others", used.name);
                return Err(Error::new(Code::Unsupported, what).at(program.name.clone()));
            };
            let (origin, bytes) = (Origin::Made(recipe.clone()), used.ty.bytes()?);
            plan.place(&used.name, used.ty.clone(), origin, bytes, first, limits)?;
        }
        Ok((plan.entries.len() > self.entries.len()).then_some(plan))
    }

    /// Where a weight comes from. Notes tensors that the host must keep.
    fn origin(
        &mut self,
        used: &WeightUse,
        find: &mut dyn FnMut(&str) -> Option<Located>,
    ) -> Result<Origin> {
        #[cfg(feature = "parallel")]
        if let (Some(share), None) = (Share::of(&used.name), &used.made)
            && share.runs > 1
            && find(&used.name).is_none()
        {
            return Ok(Origin::Rows(self.share(share, &used.ty, find)?));
        }
        let mut tensor = |name: &str, ty: &Type| -> Result<Piece> {
            #[cfg(feature = "parallel")]
            if let Some(share) = Share::of(name)
                && find(name).is_none()
            {
                let Rows { shard, offset, run, count, .. } = self.share(share, ty, find)?;
                if count != 1 {
                    let what =
                        format!("a weight is made from parts of the rows of {}", share.tensor);
                    return Err(Error::new(Code::Unsupported, what));
                }
                return Ok(Piece { shard, offset, bytes: run });
            }
            let located = find(name).ok_or_else(|| {
                Error::bad_file(format!("tensor {name} is missing"))
                    .hint("the file is incomplete, or of another model")
            })?;
            let (have, need) = (located.bytes(), ty.bytes()?);
            if have != Some(need) {
                let have = have.map_or_else(|| "no whole number of".into(), |n| format!("{n}"));
                return Err(Error::bad_file(format!(
                    "tensor {name} has {have} bytes, its type {ty} needs {need}"
                )));
            }
            Ok(match located {
                Located::File(piece) => piece,
                Located::Packed(packing) => self.pack(name, packing, need),
            })
        };
        let Some(recipe) = &used.made else {
            let Piece { shard, offset, .. } = tensor(&used.name, &used.ty)?;
            return Ok(Origin::File { shard, offset });
        };
        let mut sources = BTreeMap::new();
        for (name, ty) in recipe.tensors() {
            sources.insert(name, (tensor(name, ty)?, ty));
        }
        if let Some(runs) = recipe.runs() {
            let pieces = runs.iter().map(|run| {
                let source = sources.get(run.tensor.as_str()).map(|s| s.0);
                let source = source.ok_or_else(|| Error::internal("a run of no tensor"))?;
                Ok(Piece { offset: source.offset + run.from, bytes: run.bytes, ..source })
            });
            let pieces = pieces.collect::<Result<Vec<Piece>>>()?;
            return Ok(match pieces.as_slice() {
                [one] => Origin::File { shard: one.shard, offset: one.offset },
                _ => Origin::Pieces(pieces),
            });
        }
        for (name, (piece, ty)) in sources {
            if piece.bytes > HOST_TENSOR_BYTES {
                return Err(Error::new(
                    Code::Unsupported,
                    format!("a constant is made from {name} of {} bytes", piece.bytes),
                )
                .hint(format!("{HOST_TENSOR_BYTES} bytes is the most")));
            }
            if !self.host.iter().any(|h| h.name == name) {
                let Piece { shard, offset, bytes } = piece;
                let (name, ty) = (name.into(), ty.clone());
                self.host.push(HostTensor { name, ty, shard, offset, bytes });
            }
        }
        Ok(Origin::Made(recipe.clone()))
    }

    /// Where this rank's share of a tensor lies. `ty`: the share's type.
    #[cfg(feature = "parallel")]
    fn share(
        &mut self,
        share: Share<'_>,
        ty: &Type,
        find: &mut dyn FnMut(&str) -> Option<Located>,
    ) -> Result<Rows> {
        let located = find(share.tensor).ok_or_else(|| {
            Error::bad_file(format!("tensor {} is missing", share.tensor))
                .hint("the file is incomplete, or of another model")
        })?;
        let need = ty.bytes()?.checked_mul(share.ranks);
        let shared = share.within.map_or(located.bytes(), |w| Some(w.1));
        let (Some(_), Some(bytes), true) = (need, located.bytes(), shared == need) else {
            return Err(Error::bad_file(format!(
                "tensor {} has {:?} bytes, {} parts of type {ty} need {need:?}",
                share.tensor,
                located.bytes(),
                share.ranks
            )));
        };
        let whole = match located {
            Located::File(piece) => piece,
            Located::Packed(packing) => self.pack(share.tensor, packing, bytes),
        };
        share.rows(whole, self.rank)
    }

    /// Notes that the host has a tensor; how a weight is made that equals it. Two names may have the same bytes.
    fn host_tensor(&mut self, name: &str, ty: &Type, piece: Piece) -> Recipe {
        let Piece { shard, offset, bytes } = piece;
        let same = |h: &&HostTensor| (h.shard, h.offset, h.bytes) == (shard, offset, bytes);
        if let Some(there) = self.host.iter().find(same) {
            return Recipe::Tensor { name: there.name.clone(), ty: ty.clone() };
        }
        let (name, ty) = (String::from(name), ty.clone());
        self.host.push(HostTensor { name: name.clone(), ty: ty.clone(), shard, offset, bytes });
        Recipe::Tensor { name, ty }
    }

    /// The place of a packed tensor, whose parts the host must keep.
    fn pack(&mut self, name: &str, packing: Packing, bytes: u64) -> Piece {
        if let Some(packed) = self.packed.iter().find(|p| p.name == name) {
            return packed.place;
        }
        for (name, piece) in [&packing.values, &packing.scales] {
            if !self.host.iter().any(|h| h.name == *name) {
                let Piece { shard, offset, bytes } = *piece;
                let ty = Type::tensor(DType::Scalar(Scalar::U8), Shape::of(&[bytes]));
                self.host.push(HostTensor { name: name.clone(), ty, shard, offset, bytes });
            }
        }
        let end = self.packed.last().map_or(0, |p| p.place.offset + p.place.bytes);
        // Views lie at words.
        let place = Piece { shard: PACKED, offset: end.next_multiple_of(8), bytes };
        self.packed.push(Packed { name: name.into(), packing, place });
        place
    }

    /// The entry that has a weight's file bytes already, and the offset in it.
    fn within(&self, w: &Wanted<'_>) -> Option<(usize, u64)> {
        let Origin::File { shard, offset } = w.origin else { return None };
        let holds = |p: &Piece| {
            let at = offset.checked_sub(p.offset)?;
            (p.shard == shard && at + w.bytes <= p.bytes).then_some(at)
        };
        self.entries.iter().enumerate().find_map(|(i, e)| {
            let mut before = 0;
            for piece in e.pieces() {
                // A view must lie at a word, and at an element.
                if let Some(at) = holds(&piece).filter(|at| (before + at).is_multiple_of(8)) {
                    return Some((i, before + at));
                }
                before += piece.bytes;
            }
            None
        })
    }

    /// Gives a weight a place in the last buffer or in a new one, but never in a buffer before `first`.
    fn place(
        &mut self,
        name: &str,
        ty: Type,
        origin: Origin,
        bytes: u64,
        first: usize,
        limits: &Limits,
    ) -> Result<()> {
        let most = limits.binding.min(limits.buffer);
        if bytes > most {
            return Err(Error::new(
                Code::Unsupported,
                format!("tensor {name} has {bytes} bytes, this device binds at most {most}"),
            )
            .hint("use a smaller quantisation, or a device with larger bindings"));
        }
        let alignment = limits.alignment.max(4);
        let aligned = |n: u64| n.div_ceil(alignment) * alignment;
        let rounded = bytes.div_ceil(4) * 4;
        let offset = match self.buffers.last() {
            Some(b)
                if self.buffers.len() > first
                    && aligned(b.bytes) + rounded <= most.min(FULL_BUFFER) =>
            {
                aligned(b.bytes)
            }
            _ => {
                self.buffers.push(Buffer { bytes: 0 });
                0
            }
        };
        let buffer = self.buffers.len() as u32 - 1;
        // The branch above made sure there is a last buffer.
        if let Some(last) = self.buffers.last_mut() {
            last.bytes = offset + rounded;
        }
        self.entries.push(Entry { name: name.into(), ty, origin, buffer, offset, bytes });
        Ok(())
    }

    /// Fails unless another plan begins with all entries and buffers of this one.
    ///
    /// # Errors
    /// `Internal`.
    pub fn begins(&self, other: &WeightPlan) -> Result<()> {
        let (entries, buffers) = (self.entries.len(), self.buffers.len());
        let apart = |e: &Entry| e.buffer as usize >= buffers;
        let same = other.entries.get(..entries) == Some(&self.entries[..])
            && other.buffers.get(..buffers) == Some(&self.buffers[..])
            && other.entries[entries..].iter().all(apart);
        if same { Ok(()) } else { Err(Error::internal("a model's plan was extended by another's")) }
    }

    /// Index of the entry of that name.
    pub fn entry(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|e| e.name == name)
    }

    /// Index of the entry that has the weight of that name, and the offset in it.
    pub fn locate(&self, name: &str) -> Option<(usize, u64)> {
        let within = || self.within.iter().find(|w| w.name == name).map(|w| (w.entry, w.offset));
        self.entry(name).map(|e| (e, 0)).or_else(within)
    }

    /// Turns a program's weight numbers into entries of this plan.
    ///
    /// # Errors
    /// `Internal` if the program was not among those the plan was made from.
    pub fn bind(&self, program: &mut Program) -> Result<()> {
        let entries = self.entries.iter().enumerate().map(|(i, e)| (e.name.as_str(), i, 0));
        let within = self.within.iter().map(|w| (w.name.as_str(), w.entry, w.offset));
        let all: Vec<(&str, usize, u64)> = entries.chain(within).collect();
        let homes: BTreeMap<&str, usize> =
            all.iter().zip(0..).map(|(home, i)| (home.0, i)).collect();
        let numbers: Vec<(usize, u64)> = program
            .weights
            .iter()
            .map(|w| {
                homes
                    .get(w.name.as_str())
                    .map(|&i| (all[i].1, all[i].2))
                    .ok_or_else(|| Error::internal(format!("weight {} is not in the plan", w.name)))
            })
            .collect::<Result<_>>()?;
        let outputs = program.outputs.iter_mut().map(|o| &mut o.slice);
        let slices =
            program.steps.iter_mut().flat_map(|s| s.operands.iter_mut().chain(&mut s.results));
        for slice in slices.chain(outputs).filter(|s| s.space == Space::Weight) {
            let (entry, offset) = *numbers
                .get(slice.index as usize)
                .ok_or_else(|| Error::internal("the program is bound already"))?;
            slice.index = entry as u32;
            slice.offset += offset;
        }
        Ok(())
    }

    /// The entry that has a weight's bytes, and where they begin in it.
    pub fn home(&self, name: &str) -> Option<(usize, u64)> {
        let own = self.entries.iter().position(|e| e.name == name).map(|i| (i, 0));
        let within = || self.within.iter().find(|w| w.name == name).map(|w| (w.entry, w.offset));
        own.or_else(within)
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|b| b.bytes).sum()
    }
}
