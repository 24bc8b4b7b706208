//! Copies whose innermost axis is another one on each side, by tiles: both sides are read and written by whole lines.

use super::emit::{Argument, Emit};
use super::numbers::Numbers;
use super::units::unit;
use super::walk::Walk;
use super::{Kernel, word};
use rlx_core::Result;

/// Elements along each side of a tile.
const SIDE: u64 = 32;

/// The least elements along both axes for which tiles are worth it: fewer leave most of a tile's threads idle.
const LEAST: u64 = 16;

/// The launch of a copy, if it is such a one. `walk` has the strides of x and y; elements have so many bytes.
pub(super) fn tiles(
    walk: &Walk,
    bytes: u64,
    mut emit: Emit<'_>,
    arguments: &[Argument],
) -> Result<Option<Kernel>> {
    let [from, to] = walk.strides.as_slice() else { return Ok(None) };
    let inner = |strides: &[i64]| strides.iter().position(|&s| s == 1);
    let (Some(column), Some(row)) = (inner(from), inner(to)) else { return Ok(None) };
    let (columns, rows) = (walk.dims[column], walk.dims[row]);
    let one_way = from.iter().chain(to).all(|&stride| stride > 0);
    if column == row || columns.min(rows) < LEAST || !one_way || bytes > 8 {
        return Ok(None);
    }
    for strides in [from, to] {
        let last = walk.dims.iter().zip(strides);
        let last = last.map(|(n, stride)| (n - 1).saturating_mul(stride.unsigned_abs()));
        word(last.fold(0, u64::saturating_add))?;
    }
    let others = |list: &[i64]| -> Vec<i64> {
        let kept = list.iter().enumerate().filter(|(axis, _)| ![column, row].contains(axis));
        kept.map(|(_, &s)| s).collect()
    };
    let kept = walk.dims.iter().enumerate().filter(|(axis, _)| ![column, row].contains(axis));
    let outer: Vec<u64> = kept.map(|(_, &n)| n).collect();
    let batch = Walk::new(&outer, &[others(from), others(to)]);
    let batches: u64 = outer.iter().product();
    let (across, down) = (columns.div_ceil(SIDE), rows.div_ceil(SIDE));
    let mut numbers = Numbers::default();
    emit.arguments.extend(arguments);
    emit.define("COLUMNS", numbers.size(columns)?);
    emit.define("ROWS", numbers.size(rows)?);
    emit.define("ROW_STRIDE", numbers.signed(from[row])?);
    emit.define("COLUMN_STRIDE", numbers.signed(to[column])?);
    let (across_by, down_by) = (numbers.divisor(across)?, numbers.divisor(down)?);
    emit.define("ACROSS", across_by.name());
    emit.define("DOWN", down_by.name());
    emit.define("BY_ACROSS(i)", across_by.quotient("i"));
    emit.define("BY_DOWN(i)", down_by.quotient("i"));
    let (text, at) = batch.text("c", "batch", &mut numbers)?;
    emit.define("INDICES", text);
    emit.define("FROM", &at[0]);
    emit.define("TO", &at[1]);
    emit.define("UNIT", unit(bytes));
    emit.numbers(&numbers);
    let blocks = across.saturating_mul(down).saturating_mul(batches);
    emit.kernel("transpose", include_str!("transpose.cu"), [blocks, 1, 1], 256).map(Some)
}
