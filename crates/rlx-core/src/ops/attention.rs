//! Causal and block-causal attention over a cache, with grouped heads (arXiv:1706.03762, arXiv:2305.13245,
//! arXiv:2503.09573).

use super::{
    BatchMatMul, Binary, Class, Comparison, Concat, Emit, Expand, Operator, RowUse, Slice, Softmax,
    StateRead, arity, attributes, control, control_block, expect, kv_write, matrix, writing,
};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Kind, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// `attention q [S, H * E], kcache [K, C, E], vcache [K, C, E], ctl, (sinks [H])? -> [S, H * E]`:
/// `softmax(cap(scale q k^T)) v` per head, where `cap(s) = softcap tanh(s / softcap)` if there is
/// one. Row `i` has position `p = past + i` and sees the cache's rows `0 ..= p`, or `p - window ..=
/// p` if there is a window. With blocks of `B` positions it also sees the rest of its own block, as far as this
/// submission has rows: up to the position before `min(past + len, (p / B + 1) B)`, so `B` of a whole context
/// hides nothing. Query head `h` reads key and value head `h * K / H`. Rows from `len` on are whatever the
/// executor leaves there: nothing reads them. `q` is of any float type, the
/// result's; both caches are of one type that [`KvWrite`](super::KvWrite) writes, and may be one cache.
///
/// In a ring the cache's row `p mod C` is position `p`'s. A ring has room for the positions that any row of a
/// submission sees: `C` is at least `window + len`.
///
/// With `half` a query of f32, and the weights `exp(s - max s)` of a softmax, are rounded to the 11 bits of an f16
/// before they are multiplied; the sum of the weights has them as they were. A query may exceed an f16's range, and a
/// weight below 2^-14 has fewer bits.
///
/// A head's sink, f32, is one more score of its softmax, unscaled, of a position without a value: it takes
/// weight from the others (gpt-oss; Xiao et al. 2023, arXiv:2309.17453).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Attention {
    /// Width of a head.
    pub head_dim: usize,
    /// Multiplies the scores, `1 / sqrt(E)` unless the model says otherwise.
    pub scale: f32,
    /// Rows that a row sees before its own, at most.
    pub window: Option<u64>,
    /// Bounds the scores.
    pub softcap: Option<f32>,
    /// Whether heads have sinks.
    pub sinks: bool,
    /// Positions of a block, all of which see each other, 1 or more; `None`: a row sees none behind its own.
    pub block: Option<u64>,
    /// Whether the caches are rings, which needs a window and no blocks.
    pub ring: bool,
    /// Whether queries and weights are rounded to 11 bits.
    pub half: bool,
}

attributes! { Attention { head_dim, scale, window, softcap, sinks, block, ring, half } }

impl Attention {
    /// Over all of the past, with scores as they are.
    pub fn causal(head_dim: usize, scale: f32) -> Attention {
        Attention {
            head_dim,
            scale,
            window: None,
            softcap: None,
            sinks: false,
            block: None,
            ring: false,
            half: false,
        }
    }

    /// Positions of the cache that the one at `position` sees where the first `held` have rows.
    pub fn seen(&self, position: usize, held: usize) -> Range<usize> {
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).max(1);
        // A block of one position is causal.
        let block = self.block.map_or(1, size);
        let end = (position / block).saturating_add(1).saturating_mul(block).min(held);
        let start = match self.window {
            Some(w) => position.saturating_sub(usize::try_from(w).unwrap_or(usize::MAX)),
            None => 0,
        };
        start.min(end)..end
    }

    /// Heads of queries and of keys, if the operands are what the operator `name` takes.
    pub(super) fn heads(&self, name: &str, operands: &[&Type]) -> Result<(u64, u64)> {
        arity(name, operands, 4 + usize::from(self.sinks))?;
        let &[q, k, v, ctl, ref sinks @ ..] = operands else {
            return Err(Error::internal("attention: arity was checked"));
        };
        control(name, ctl)?;
        if self.block == Some(0) {
            let what = format!("{name}: blocks of 0 positions, expected 1 or more");
            return Err(Error::bad_graph(what));
        }
        if self.ring && (self.window.is_none() || self.block.is_some()) {
            let what = format!("{name}: a ring of positions needs a window, and no blocks");
            return Err(Error::bad_graph(what));
        }
        if self.half && q.dtype != DType::F32 {
            return Err(Error::bad_graph(format!("{name}: half rounds queries of f32, not {q}")));
        }
        let (_, width) = matrix(name, "q", q)?;
        let e = self.head_dim as u64;
        let kv_heads = match k.shape.0.as_slice() {
            [h, _, w] if k.kind == Kind::State && w.as_static() == Some(e) => h.as_static(),
            _ => None,
        };
        let heads = width.as_static().map(|w| w / e.max(1));
        let sizes = heads.zip(kv_heads).filter(|&(h, kv)| {
            k == v
                && kv_write::holds_heads(k.dtype, k.shape.last().as_static())
                && (q.kind == Kind::Tensor && q.dtype.is_float())
                && (kv > 0 && h % kv == 0 && width.as_static() == h.checked_mul(e))
        });
        let (heads, kv_heads) = sizes.ok_or_else(|| {
            Error::bad_graph(format!(
                "{name}: q is {q}, k {k}, v {v}; expected whole heads of {e} and caches of floats, \
                 q8_0 or q4_0 whose heads divide the query's"
            ))
        })?;
        for sinks in sinks {
            expect(name, "sinks", sinks, &Type::tensor(DType::F32, Shape::of(&[heads])))?;
        }
        Ok((heads, kv_heads))
    }
}

impl Operator for Attention {
    const NAME: &'static str = "attention";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        self.heads("attention", operands)?;
        Ok(vec![operands[0].clone()])
    }

    /// Over the whole capacity of the caches, positions that a row does not see masked. What the
    /// cache holds there must be finite. For caches of floats whose sizes are known: nothing simpler
    /// decodes a state's blocks, or rounds weights that are relative to the largest.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[q, k, v, ctl, ref sinks @ ..] = operands else {
            return Err(Error::internal("attention: arity"));
        };
        let (ty, cache) = (e.ty(q).clone(), e.dims(k));
        if e.ty(k).dtype.is_block() || self.half {
            return Ok(None);
        }
        let sizes: Vec<u64> = cache.iter().filter_map(Dim::as_static).collect();
        let (&[kv_heads, capacity, width], Some(q_width)) =
            (sizes.as_slice(), ty.shape.last().as_static())
        else {
            return Ok(None);
        };
        let (heads, to) = (q_width / width, writing::wide(ty.dtype));
        let groups = heads / kv_heads;
        let seq = ty.shape.0[0].clone();
        // q [K, G, S, E]; k, v [K, 1, C, E].
        let wide = e.cast(q, to)?;
        let split = [seq.clone(), kv_heads.into(), groups.into(), width.into()];
        let wide = e.reshape(wide, &split)?;
        let wide = e.transpose(wide, &[1, 2, 0, 3])?;
        let mut read = |cache: ValueId| -> Result<ValueId> {
            let tensor = e.one(StateRead, &[cache])?;
            let tensor = e.cast(tensor, to)?;
            e.with_ones(tensor, &[1])
        };
        let (keys, values) = (read(k)?, read(v)?);
        let scores = e.one(BatchMatMul { transpose_b: true }, &[wide, keys])?;
        let scores = writing::scaled(e, scores, self.scale.into(), self.softcap)?;
        let past = e.control_word(ctl, control_block::PAST)?;
        let row = e.iota(&[seq.clone(), 1u64.into()], 0)?;
        let mut position = e.zip(Binary::Add, row, past)?;
        let mut column = e.iota(&[1u64.into(), capacity.into()], 1)?;
        let mut scores = scores;
        if self.ring {
            // Positions plus the capacity, so that none is below 0: a row of the ring has the latest that is held.
            let capacity = capacity as f64;
            let len = e.control_word(ctl, control_block::LEN)?;
            let held = e.zip(Binary::Add, past, len)?;
            let newest = e.zip_number(Binary::Add, held, capacity - 1.0)?;
            let back = e.zip(Binary::Sub, newest, column)?;
            let back = e.zip_number(Binary::Mod, back, capacity)?;
            column = e.zip(Binary::Sub, newest, back)?;
            position = e.zip_number(Binary::Add, position, capacity)?;
            let first = e.like(column, capacity)?;
            let is_held = e.compare(Comparison::Ge, column, first)?;
            scores = e.keep_where(is_held, scores, f64::NEG_INFINITY)?;
        }
        let mut last = position;
        if let Some(block) = self.block {
            let block = block.min(1 << 30) as f64;
            let within = e.zip_number(Binary::Mod, position, block)?;
            let first = e.zip(Binary::Sub, position, within)?;
            last = e.zip_number(Binary::Add, first, block - 1.0)?;
            let len = e.control_word(ctl, control_block::LEN)?;
            let held = e.zip(Binary::Add, past, len)?;
            let is_held = e.compare(Comparison::Lt, column, held)?;
            scores = e.keep_where(is_held, scores, f64::NEG_INFINITY)?;
        }
        let seen = e.compare(Comparison::Le, column, last)?;
        let mut scores = e.keep_where(seen, scores, f64::NEG_INFINITY)?;
        if let Some(window) = self.window {
            let window = window.min(1 << 30);
            let reach = e.zip_number(Binary::Add, column, window as f64)?;
            let near = e.compare(Comparison::Ge, reach, position)?;
            scores = e.keep_where(near, scores, f64::NEG_INFINITY)?;
        }
        // A sink is a column behind the last position's, whose weight is left out of the products.
        if let Some(&sinks) = sinks.first() {
            let wide = e.cast(sinks, to)?;
            let dims = [kv_heads.into(), groups.into(), seq.clone(), 1u64.into()];
            let each =
                e.reshape(wide, &[kv_heads.into(), groups.into(), 1u64.into(), 1u64.into()])?;
            let column = e.one(Expand { dims: Shape(dims.to_vec()) }, &[each])?;
            scores = e.one(Concat { axis: 3 }, &[scores, column])?;
        }
        let mut weights = e.one(Softmax { axis: 3 }, &[scores])?;
        if self.sinks {
            let len = Dim::from(capacity);
            weights = e.one(Slice { axis: 3, start: 0u64.into(), len, step: 1 }, &[weights])?;
        }
        let y = e.one(BatchMatMul::default(), &[weights, values])?;
        let y = e.transpose(y, &[2, 0, 1, 3])?;
        let y = e.reshape(y, &ty.shape.0)?;
        Ok(Some(vec![e.cast(y, ty.dtype)?]))
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 0 { RowUse::Same } else { RowUse::All }
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(3)
    }
}
