//! `sort` and `top_k`: a block sorts a tile of a run, then launches merge neighbouring lists, of which `top_k` keeps
//! the first k. An element comes with its index, which ends every tie: all orders of merging give one result.

use super::elements::{computed, stored};
use super::emit::{Argument, Emit, Memory};
use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::units::unit;
use super::walk::{around, dims};
use super::{Context, Kernel, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// The most elements of a tile; each thread has two.
const TILE: u64 = 1024;

/// Floats and integers.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis", "descending", "k"])?;
    match operands.first() {
        Some(x) if stored(x.dtype).is_some() => Ok(()),
        _ => Err("its kernel takes floats and integers".into()),
    }
}

/// What is sorted: runs along an axis, of which the first elements in order are kept.
struct Runs<'a> {
    step: &'a Step,
    x: &'a Slice,
    /// Where runs begin: places before the axis and behind it.
    outer: u64,
    inner: u64,
    /// Elements of a run, and how many are kept.
    n: u64,
    kept: u64,
    descending: bool,
}

/// Sorted lists of every run, in scratch memory.
#[derive(Clone, Copy)]
struct Lists {
    /// Bytes from the start.
    at: u64,
    /// Lists of a run.
    count: u64,
    /// Elements of a run that a list is of, and how many of them it has.
    span: u64,
    len: u64,
}

pub(super) fn sort(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let x = &step.operands[0];
    let sizes = dims(x)?;
    let (axis, descending, most) = match &step.op {
        Op::Sort(op) => (op.axis, op.descending, u64::MAX),
        Op::TopK(op) => (sizes.len().saturating_sub(1), true, op.k),
        _ => return Err(mismatch(step)),
    };
    let (outer, n, inner) = around(&sizes, axis)?;
    let runs = Runs { step, x, outer, inner, n, kept: most.min(n), descending };
    if outer * inner == 0 || runs.kept == 0 {
        return Ok(Vec::new());
    }
    word(x.ty.shape.elements()?)?;
    let tile = n.next_power_of_two().clamp(64, TILE);
    let lists =
        |at, span: u64| Lists { at, count: n.div_ceil(span), span, len: span.min(runs.kept) };
    let mut from = lists(0, tile);
    // Two places take turns, each with room for the lists of any pass.
    let room = outer * inner * from.count.next_power_of_two() * from.len * runs.pair();
    let mut launches = vec![runs.tiles(cx.emit(step), from, room)?];
    while from.count > 1 {
        let to = lists(room - from.at, from.span.saturating_mul(2));
        launches.push(runs.merge(cx.emit(step), from, to, 2 * room)?);
        from = to;
    }
    Ok(launches)
}

impl Runs<'_> {
    /// Bytes of an element with its index.
    fn pair(&self) -> u64 {
        if matches!(self.x.ty.dtype, DType::F64 | DType::I64) { 16 } else { 8 }
    }

    /// Defines what both kernels read, and the results where these are the last lists.
    fn describe(&self, emit: &mut Emit<'_>, numbers: &mut Numbers, lists: Lists) -> Result<()> {
        let none = || unsupported(format!("sorts of {}", self.x.ty.dtype));
        let kind = computed(self.x.ty.dtype).ok_or_else(none)?;
        emit.argument(self.x)?;
        let results = self.step.results.as_slice();
        let (mut parameters, mut store) = (String::new(), String::new());
        if lists.count == 1 {
            let [values @ .., indices] = results else { return Err(mismatch(self.step)) };
            emit.argument(indices)?;
            parameters += ", u32* __restrict__ indices";
            store += "indices[at] = pair.index;";
            if let [values] = values {
                emit.argument(values)?;
                parameters += ", UNIT* __restrict__ values";
                store += " values[at] = ((const UNIT*)x)[PLACE(run, N, pair.index)];";
            }
        } else {
            emit.arguments.push(Argument { memory: Memory::Scratch, offset: lists.at });
            parameters += ", Pair* __restrict__ lists";
        }
        emit.define("TYPE", stored(self.x.ty.dtype).ok_or_else(none)?);
        emit.define("UNIT", unit(self.x.ty.dtype.block_bytes() as u64));
        emit.define("KEY", format_args!("KeyOf<{kind}>::type"));
        emit.define("ORDERED(key)", if self.descending { "(~(key))" } else { "(key)" });
        emit.define("IS_LAST", u32::from(lists.count == 1));
        emit.define("RESULTS", parameters);
        emit.define("STORE", store);
        emit.define("RUNS", numbers.size(self.outer * self.inner)?);
        emit.define("N", numbers.size(self.n)?);
        emit.define("KEPT", numbers.size(self.kept)?);
        let inner = numbers.divisor(self.inner)?;
        emit.define("INNER", inner.name());
        emit.define("BY_INNER(i)", inner.quotient("i"));
        Ok(())
    }

    fn tiles(&self, mut emit: Emit<'_>, to: Lists, room: u64) -> Result<Kernel> {
        let mut numbers = Numbers::default();
        self.describe(&mut emit, &mut numbers, to)?;
        emit.size("TILE", to.span)?;
        let tiles = numbers.divisor(to.count)?;
        emit.define("TILES", tiles.name());
        emit.define("BY_TILES(i)", tiles.quotient("i"));
        emit.define("LEN", numbers.size(to.len)?);
        let blocks = self.outer * self.inner * to.count;
        let scratch = if to.count == 1 { 0 } else { room };
        let text = include_str!("sort.cu");
        let kernel = self.kernel(emit, &numbers, ("sort", text), [blocks, to.span / 2])?;
        Ok(Kernel { scratch, ..kernel })
    }

    fn merge(&self, mut emit: Emit<'_>, from: Lists, to: Lists, scratch: u64) -> Result<Kernel> {
        let mut numbers = Numbers::default();
        self.describe(&mut emit, &mut numbers, to)?;
        emit.arguments.push(Argument { memory: Memory::Scratch, offset: from.at });
        let count = self.outer * self.inner * from.count * from.len;
        emit.define("COUNT", numbers.size(count)?);
        emit.define("SPAN", numbers.size(from.span)?);
        let (lists, len) = (numbers.divisor(from.count)?, numbers.divisor(from.len)?);
        emit.define("LISTS", lists.name());
        emit.define("BY_LISTS(i)", lists.quotient("i"));
        emit.define("LEN", len.name());
        emit.define("BY_LEN(i)", len.quotient("i"));
        emit.define("NEXT_LISTS", numbers.size(to.count)?);
        emit.define("NEXT_LEN", numbers.size(to.len)?);
        let text = include_str!("sort_merge.cu");
        let blocks = count.div_ceil(256);
        let kernel = self.kernel(emit, &numbers, ("sort_merge", text), [blocks, 256])?;
        Ok(Kernel { scratch, ..kernel })
    }

    fn kernel(
        &self,
        mut emit: Emit<'_>,
        numbers: &Numbers,
        (entry, text): (&'static str, &str),
        [blocks, threads]: [u64; 2],
    ) -> Result<Kernel> {
        emit.numbers(numbers);
        emit.line(include_str!("keys.cuh"));
        emit.elements();
        let text = [include_str!("sort_pairs.cuh"), text].concat();
        emit.kernel(entry, &text, [blocks, 1, 1], threads as u32)
    }
}
