//! rope        each pair (a, b) of a head turns by the position's angle     arXiv:2104.09864
//! shapes      x, y f32[s, heads e]   table f32[rows, dims / 2, 2]   caches [kv heads, capacity, e]
//! bytes       8 per element; the table is read twice a row
//! shares      heads of y; with the cache writes also heads of each cache
//! numerics    cos and sin from two table rows by the addition theorem, in f32

use super::kv_write::Cache;
use super::{Kernel, Planned, claim, control, dims};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Rope, RopeKvWrite, RopeStyle};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// The table, and how heads turn by it.
struct Rotation {
    style: RopeStyle,
    head_dim: usize,
    /// Pairs that turn.
    half: usize,
    /// Rows of the low table; the high one follows.
    low: usize,
    rows: usize,
}

impl Rotation {
    fn new(style: RopeStyle, head_dim: usize, table: &Slice) -> Result<Rotation> {
        let [rows, half, _] = dims(table)?;
        // With C positions the low table has L rows, the power of two with L / 2 < sqrt(C) <= L,
        // and the high one ceil(C / L), at least 1 and at most L: so L < rows <= 2 L.
        let low = rows.next_power_of_two() / 2;
        if low == 0 || 2 * half > head_dim {
            return Err(Error::internal(format!("rope: no table is {}", table.ty)));
        }
        Ok(Rotation { style, head_dim, half, low, rows })
    }

    /// Cosine and sine of every pair at `position`.
    fn angles(&self, table: &[f32], position: usize, out: &mut Vec<[f32; 2]>) {
        let row = |r: usize| table[r * 2 * self.half..][..2 * self.half].as_chunks::<2>().0;
        let high = (self.low + position / self.low).min(self.rows - 1);
        out.clear();
        out.extend(
            row(high)
                .iter()
                .zip(row(position % self.low))
                .map(|([ca, sa], [cb, sb])| [ca * cb - sa * sb, sa * cb + ca * sb]),
        );
    }

    /// Turns one head in place.
    fn turn(&self, angles: &[[f32; 2]], head: &mut [f32]) {
        match self.style {
            RopeStyle::Adjacent => {
                for ([a, b], [cos, sin]) in head.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
            RopeStyle::Half => {
                let (first, second) = head.split_at_mut(self.half);
                for ((a, b), [cos, sin]) in first.iter_mut().zip(second).zip(angles) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
        }
    }

    /// Turns the share's columns of result 0, copied from operand 0.
    fn turn_result(&self, cx: &mut Cx<'_>, x: &[f32], i: usize, angles: &[[f32; 2]]) {
        let (columns, rows) = (cx.result(0).columns::<f32>(), cx.result(0).rows.len());
        let width = x.len() / rows.max(1);
        let y = cx.result(0).row::<f32>(i);
        y.copy_from_slice(&x[i * width..][columns]);
        y.chunks_exact_mut(self.head_dim).for_each(|head| self.turn(angles, head));
    }
}

std::thread_local! {
    static ANGLES: RefCell<(Vec<[f32; 2]>, Vec<f32>)> = RefCell::default();
}

struct Turn(Rotation);

pub(super) fn takes(op: &Rope, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Rope { style: _, head_dim: _ } = op;
    claim::floats(operands)?;
    claim::matrix(operands)
}

pub(super) fn plan(op: &Rope, step: &Step) -> Result<Planned> {
    let [rows, width] = dims(&step.operands[0])?;
    let rotation = Rotation::new(op.style, op.head_dim, &step.operands[1])?;
    Ok(Planned::new(Turn(rotation), &[Split::Columns(4 * op.head_dim)], rows * width))
}

impl Kernel for Turn {
    fn run(&self, cx: &mut Cx<'_>) {
        let (x, table, ctl) = (cx.slice::<f32>(0), cx.slice::<f32>(1), control(cx.slice(2)));
        ANGLES.with_borrow_mut(|(angles, _)| {
            let rows = cx.result(0).rows.end;
            for i in 0..cx.real(rows) {
                self.0.angles(table, ctl.past + i, angles);
                self.0.turn_result(cx, x, i, angles);
            }
        });
    }
}

struct TurnAndWrite {
    rotation: Rotation,
    cache: Cache,
    seq: usize,
}

pub(super) fn takes_with_writes(
    op: &RopeKvWrite,
    operands: &[&Type],
    _: &Target,
) -> Result<(), String> {
    let RopeKvWrite { style: _, head_dim: _, ring: _ } = op;
    claim::floats_and_caches(operands)?;
    claim::matrix(operands)
}

pub(super) fn plan_with_writes(op: &RopeKvWrite, step: &Step) -> Result<Planned> {
    let [seq, width] = dims(&step.operands[0])?;
    let rotation = Rotation::new(op.style, op.head_dim, &step.operands[3])?;
    let cache = Cache::new(&step.operands[4], op.ring)?;
    let values = Cache::new(&step.operands[5], op.ring)?;
    if values != cache || cache.head_dim != op.head_dim {
        return Err(Error::internal(
            "rope_kv_write: the caches differ, or have other sizes than the heads",
        ));
    }
    let work = seq * (width + 2 * cache.heads * cache.head_dim);
    let splits = [Split::Columns(4 * op.head_dim), Split::Rows, Split::Rows];
    Ok(Planned::new(TurnAndWrite { rotation, cache, seq }, &splits, work))
}

impl Kernel for TurnAndWrite {
    fn run(&self, cx: &mut Cx<'_>) {
        let [q, k, v] = [0, 1, 2].map(|i| cx.slice::<f32>(i));
        let (table, ctl, level) = (cx.slice::<f32>(3), control(cx.slice(6)), cx.level);
        let (e, heads) = (self.cache.head_dim, self.cache.heads);
        ANGLES.with_borrow_mut(|(angles, head)| {
            for i in 0..ctl.len.min(self.seq) {
                let position = ctl.past + i;
                self.rotation.angles(table, position, angles);
                if !cx.result(0).is_empty() {
                    self.rotation.turn_result(cx, q, i, angles);
                }
                if ctl.done {
                    continue;
                }
                for h in cx.result(1).rows.clone() {
                    head.clear();
                    head.extend_from_slice(&k[(i * heads + h) * e..][..e]);
                    self.rotation.turn(angles, head);
                    self.cache.put(level, cx.result(1), h, position, head);
                }
                for h in cx.result(2).rows.clone() {
                    let value = &v[(i * heads + h) * e..][..e];
                    self.cache.put(level, cx.result(2), h, position, value);
                }
            }
        });
    }
}
