//! `sdpa`: attention without a cache.
//!
//! A head of `S` queries and keys and `E` elements takes `4 S S E` operations, and reads `8 S E` elements at least. In
//! tiles of 64 queries on tensor cores its keys and values are read `S / 64` times, from a cache; a product of f32 is
//! three of theirs, and 16-bit floats are multiplied as they are. Few queries, wide heads and widths that are no whole
//! steps have a block for each query.

use super::elements::stored;
use super::takes::{self, Taken};
use super::tensor_axes::{Sizes, layout, product};
use super::{Context, Emit, Kernel, mismatch, unsupported, word};
use crate::driver::cuda::texts::{BULK_COPIES, WARPGROUPS};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{HeadLayout, Mask, Op, Sdpa};
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Scalar, Type};
use rlx_core::{Error, Result};

/// Threads of a block that is one row, and how many columns of values each may have in registers.
const THREADS: u64 = 128;
const MOST_EACH: u64 = 64;

/// Tensors of f32, f16 or bf16, with any mask.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(
        op,
        &[
            "heads",
            "kv_heads",
            "head_dim",
            "v_head_dim",
            "mask",
            "window",
            "scale",
            "softcap",
            "layout",
        ],
    )?;
    let Op::Sdpa(op) = op else { return Err("it takes attention".into()) };
    for (i, ty) in operands.iter().enumerate() {
        let is_flags = ty.kind == Kind::Tensor && ty.dtype == DType::Scalar(Scalar::Bool);
        if i < 3 || !is_flags {
            takes::is_float(i, ty)?;
        }
    }
    let most = THREADS * MOST_EACH;
    match op.v_head_dim as u64 <= most {
        true => Ok(()),
        false => Err(format!("its kernel takes values up to {most} wide, not {}", op.v_head_dim)),
    }
}

/// Elements from one batch, position and head of an operand to the next.
struct Steps {
    batch: u64,
    place: u64,
    head: u64,
}

/// How many sequences, queries and keys there are.
struct Counts {
    batch: u64,
    queries: u64,
    keys: u64,
}

fn counts(op: &Sdpa, step: &Step) -> Result<Counts> {
    let axis = match op.layout {
        HeadLayout::Bshd => 1,
        HeadLayout::Bhsd => 2,
    };
    let (q, k) =
        (step.operands[0].ty.shape.static_dims()?, step.operands[1].ty.shape.static_dims()?);
    Ok(Counts { batch: q[0], queries: q[axis], keys: k[axis] })
}

fn steps(op: &Sdpa, places: u64, heads: usize, width: usize) -> Result<Steps> {
    let (heads, width) = (heads as u64, width as u64);
    Ok(match op.layout {
        HeadLayout::Bshd => {
            let place = product(&[heads, width])?;
            Steps { batch: product(&[place, places])?, place, head: width }
        }
        HeadLayout::Bhsd => {
            let head = product(&[places, width])?;
            Steps { batch: product(&[head, heads])?, place: width, head }
        }
    })
}

/// Defines where rows of q, k, v and y stand, scores and what a mask makes of them. Arguments: q, k, v, y, masks.
fn describe(
    emit: &mut Emit<'_>,
    step: &Step,
    op: &Sdpa,
    of: &Counts,
    sizes: &mut Sizes,
) -> Result<()> {
    let [q, k, v, masks @ ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    for slice in [q, k, v, &step.results[0]].into_iter().chain(masks) {
        emit.argument(slice)?;
    }
    let named = |dtype: DType| stored(dtype).ok_or_else(|| unsupported(format!("{dtype}")));
    emit.elements();
    emit.define("T", named(q.ty.dtype)?);
    for (name, places, heads, width) in [
        ("Q", of.queries, op.heads, op.head_dim),
        ("K", of.keys, op.kv_heads, op.head_dim),
        ("V", of.keys, op.kv_heads, op.v_head_dim),
        ("Y", of.queries, op.heads, op.v_head_dim),
    ] {
        let at = steps(op, places, heads, width)?;
        emit.define(
            &format!("{name}_AT(b, i, h)"),
            format_args!(
                "(size_t(b) * {} + size_t(i) * {} + size_t(h) * {})",
                sizes.size(at.batch)?,
                sizes.size(at.place)?,
                sizes.size(at.head)?
            ),
        );
    }
    emit.size("HEADS", op.heads as u64)?;
    emit.size("GROUP", (op.heads / op.kv_heads.max(1)) as u64)?;
    emit.size("HEAD", op.head_dim as u64)?;
    emit.size("WIDTH", op.v_head_dim as u64)?;
    // Kernels add to positions.
    for n in [of.queries, of.keys] {
        word(n.saturating_mul(2))?;
    }
    emit.define_size("QUERIES", of.queries, sizes)?;
    emit.define_size("KEYS", of.keys, sizes)?;
    emit.number("SCALE", op.score_scale() as f32);
    if let Some(cap) = op.softcap {
        emit.number("SOFTCAP", cap);
    }
    if let Mask::Causal | Mask::Window(_) = op.mask {
        emit.define("CAUSAL", "");
        let window = if let Mask::Window(w) = op.mask { w.min(1 << 31) } else { 1 << 31 };
        emit.define_size("WINDOW", window, sizes)?;
    }
    mask(emit, op, of, masks, sizes)
}

/// Defines the parameters of masks, and `masked`, a score with what they add to it.
fn mask(
    emit: &mut Emit<'_>,
    op: &Sdpa,
    of: &Counts,
    masks: &[Slice],
    sizes: &mut Sizes,
) -> Result<()> {
    let pointer = |i: usize, x: &Slice| {
        let ty = stored(x.ty.dtype).ok_or_else(|| unsupported(format!("a mask of {}", x.ty)))?;
        Ok::<String, Error>(format!(", const {ty}* __restrict__ mask{i}"))
    };
    let parameters: Vec<String> =
        masks.iter().enumerate().map(|(i, x)| pointer(i, x)).collect::<Result<_>>()?;
    let body = match (op.mask, masks) {
        (Mask::Custom, [valid]) => {
            let at = format!("value_of(mask0[size_t(b) * {} + j])", sizes.size(of.keys)?);
            let seen = if valid.ty.dtype.is_float() { format!("{at} >= 0.5f") } else { at };
            format!("({seen} ? (score) : MINUS_INFINITY)")
        }
        (Mask::Bias, [bias]) => {
            let (dims, strides) = layout(&bias.ty)?;
            let mut terms = Vec::new();
            for (name, (&n, &step)) in ["b", "h", "i", "j"].iter().zip(dims.iter().zip(&strides)) {
                let step = if n == 1 { 0 } else { step };
                terms.push(format!("size_t({name}) * {}", sizes.size(step)?));
            }
            format!("((score) + value_of(mask0[{}]))", terms.join(" + "))
        }
        (Mask::Grid, [rows, columns]) => {
            let wide = |x: &Slice| x.ty.shape.last().as_static().unwrap_or(0).max(1);
            let (r, c) = (sizes.size(wide(rows))?, sizes.size(wide(columns))?);
            let row = "((size_t(b) * HEADS + (h)) * QUERIES + (i))";
            format!(
                "((score) + value_of(mask0[{row} * {r} + (j) / {c}]) + value_of(mask1[{row} * {c} + (j) % {c}]))"
            )
        }
        _ => "(score)".into(),
    };
    let names: Vec<String> = (0..masks.len()).map(|i| format!(", mask{i}")).collect();
    emit.define("MASK_PARAMETERS", parameters.concat());
    emit.define("MASK_ARGUMENTS", names.concat());
    emit.define("MASKED(score, b, h, i, j)", body);
    Ok(())
}

pub(super) fn sdpa(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Sdpa(op) = &step.op else { return Err(mismatch(step)) };
    let of = counts(op, step)?;
    if step.results[0].ty.shape.elements()? == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    let tile = keys_of_a_tile(&emit, step, op, &of)?;
    let mut sizes = if tile.is_some() { Sizes::InText } else { Sizes::given() };
    describe(&mut emit, step, op, &of, &mut sizes)?;
    emit.sizes(&sizes);
    emit.size("THREADS", THREADS)?;
    let own = product(&[of.batch, op.heads as u64])?;
    let parts = [include_str!("sdpa.cuh"), include_str!("sdpa_row.cuh")].concat();
    if let Some(keys) = tile {
        emit.size("TILE", keys)?;
        let is_short = step.operands[0].ty.dtype != DType::F32;
        emit.define("IS_SHORT", u8::from(is_short));
        let kind = halves(step, op);
        let panels = |n: usize| n.is_multiple_of(64);
        if let Some(kind) = kind
            && cx.card.warpgroups
            && panels(op.head_dim)
            && panels(op.v_head_dim)
        {
            emit.define("KIND", kind);
            let blocks = product(&[own, of.queries.div_ceil(QUERIES)])?;
            return Ok(vec![by_groups(emit, op, &parts, blocks)?]);
        }
        let (entry, products, text) = match kind {
            Some(kind) => {
                emit.define("KIND", kind);
                ("sdpa_halves", include_str!("halves_tile.cuh"), include_str!("sdpa_halves.cu"))
            }
            None => ("sdpa_tile", include_str!("tf32.cuh"), include_str!("sdpa_tile.cu")),
        };
        let shared = concat!(
            include_str!("four_lanes.cuh"),
            include_str!("sdpa_weights.cuh"),
            include_str!("sdpa_tile_amd.cuh")
        );
        let text = [products, &parts, shared, text].concat();
        let blocks = product(&[own, of.queries.div_ceil(QUERIES)])?;
        return Ok(vec![emit.kernel(entry, &text, [blocks, 1, 1], THREADS as u32)?.alone()]);
    }
    let text = [parts.as_str(), include_str!("sdpa.cu")].concat();
    let blocks = product(&[own, of.queries])?;
    Ok(vec![emit.kernel("sdpa", &text, [blocks, 1, 1], THREADS as u32)?])
}

/// By products of four warps, which have heads in panels of 64.
fn by_groups(mut emit: Emit<'_>, op: &Sdpa, parts: &str, blocks: u64) -> Result<Kernel> {
    emit.line(BULK_COPIES);
    emit.line(WARPGROUPS);
    // Two tiles of keys and two of values.
    let shared = 2 * 64 * (op.head_dim + op.v_head_dim) as u64 * 2;
    emit.size("PARTS", 1)?;
    emit.size("SHARED", shared)?;
    let own = concat!(
        include_str!("four_lanes.cuh"),
        include_str!("sdpa_weights.cuh"),
        include_str!("bulk.cuh"),
        include_str!("warpgroup.cuh"),
        include_str!("group_attention.cuh"),
        include_str!("sdpa_groups.cu")
    );
    let text = [include_str!("halves_tile.cuh"), parts, own].concat();
    let kernel = emit.kernel("sdpa_groups", &text, [blocks, 1, 1], THREADS as u32)?;
    Ok(Kernel { shared: word(shared)?, ..kernel.alone() })
}

/// Queries of a tile, and the fewest that are worth one.
const QUERIES: u64 = 64;
const FEWEST: u64 = 16;
/// Bytes of keys and values in shared memory.
const SHARED: u64 = 48 << 10;

/// The type of products of 16-bit floats, where heads are whole steps of theirs.
fn halves(step: &Step, op: &Sdpa) -> Option<&'static str> {
    let whole = op.head_dim.is_multiple_of(16) && op.v_head_dim.is_multiple_of(16);
    match step.operands[0].ty.dtype {
        DType::F16 if whole => Some("F16"),
        DType::BF16 if whole => Some("Bf16"),
        _ => None,
    }
}

/// How many keys a tile on tensor cores has at a time, where heads are whole steps of these and begin at whole 16
/// bytes.
fn keys_of_a_tile(emit: &Emit<'_>, step: &Step, op: &Sdpa, of: &Counts) -> Result<Option<u64>> {
    let (head, width) = (op.head_dim as u64, op.v_head_dim as u64);
    let whole = |n: u64| n > 0 && n.is_multiple_of(8) && n <= 128;
    if of.queries < FEWEST || !whole(head) || !whole(width) {
        return Ok(None);
    }
    for x in &step.operands[..3] {
        if !emit.place(x)?.offset.is_multiple_of(16) {
            return Ok(None);
        }
    }
    // Rows of keys and values are 8 and 4 floats longer than they have to be, those of halves 16 bytes.
    let bytes = |keys: u64| match halves(step, op) {
        Some(_) => keys * (head + width + 16) * 2,
        None => keys * (head + 8 + width + 4) * 4,
    };
    Ok(Some(if bytes(64) <= SHARED { 64 } else { 32 }))
}
