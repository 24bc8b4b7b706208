//! `rope`, `kv_write` and `rope_kv_write`: one shader with the parts that the operator has, and one for
//! caches of blocks.

use super::emit::{Emit, fill};
use super::kv::{Kv, Rows};
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, mismatch, unsupported, word};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Op, RopeStyle};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// A matrix of f32, and for `rope_kv_write` caches of any type that caches have.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["style", "head_dim", "ring"])?;
    takes::floats_and_caches(operands)?;
    takes::matrix(operands)
}

/// Rows of f32 for a cache of any type that caches have.
pub(super) fn takes_kv_write(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["ring"])?;
    takes::floats_and_caches(operands)
}

/// What is turned into a result.
struct Turned<'a> {
    x: &'a Slice,
    y: &'a Slice,
}

/// What is written into a cache, turned or as it is.
struct Cached<'a> {
    x: &'a Slice,
    cache: &'a Slice,
}

struct Table<'a> {
    slice: &'a Slice,
    style: RopeStyle,
}

pub(super) fn rope(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Rope(op) = &step.op else { return Err(mismatch(step)) };
    let [x, table, ctl] = step.operands.as_slice() else { return Err(arity(step)) };
    let q = Turned { x, y: &step.results[0] };
    let table = Table { slice: table, style: op.style };
    launch("rope", op.head_dim, false, Some(table), Some(q), None, None, ctl, emit)
}

pub(super) fn kv_write(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::KvWrite(op) = &step.op else { return Err(mismatch(step)) };
    let [cache, x, ctl] = step.operands.as_slice() else { return Err(arity(step)) };
    let (_, _, head_dim) = cache_dims(cache)?;
    let written = Some(Cached { x, cache });
    launch("kv_write", head_dim as usize, op.ring, None, None, None, written, ctl, emit)
}

pub(super) fn rope_kv_write(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::RopeKvWrite(op) = &step.op else { return Err(mismatch(step)) };
    let [q, k, v, table, k_cache, v_cache, ctl] = step.operands.as_slice() else {
        return Err(arity(step));
    };
    launch(
        "rope_kv_write",
        op.head_dim,
        op.ring,
        Some(Table { slice: table, style: op.style }),
        Some(Turned { x: q, y: &step.results[0] }),
        Some(Cached { x: k, cache: k_cache }),
        Some(Cached { x: v, cache: v_cache }),
        ctl,
        emit,
    )
}

fn arity(step: &Step) -> Error {
    Error::internal(format!("{} has {} operands", step.op.name(), step.operands.len()))
}

/// `[heads, capacity, head_dim]` of a cache.
pub(super) fn cache_dims(cache: &Slice) -> Result<(u64, u64, u64)> {
    match cache.ty.shape.static_dims()?.as_slice() {
        [heads, capacity, dim] => Ok((*heads, *capacity, *dim)),
        _ => Err(Error::internal(format!("{} is no cache", cache.ty))),
    }
}

/// Rows of the low table: a table of context C has L low rows, the power of two at or above
/// sqrt(C), and ceil(C / L) <= L high ones, so L is the largest power of two below their sum.
pub(super) fn low_rows(rows: u64) -> u64 {
    rows.next_power_of_two() / 2
}

fn launch(
    entry: &'static str,
    head_dim: usize,
    ring: bool,
    table: Option<Table<'_>>,
    q: Option<Turned<'_>>,
    k: Option<Cached<'_>>,
    v: Option<Cached<'_>>,
    ctl: &Slice,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    if !head_dim.is_multiple_of(2) {
        return Err(unsupported(format!("heads of {head_dim} elements, an odd number")));
    }
    let e = head_dim as u64;
    let any = [q.as_ref().map(|q| q.x), k.as_ref().map(|k| k.x), v.as_ref().map(|v| v.x)];
    let (rows, _) = matrix(
        any.into_iter()
            .flatten()
            .next()
            .ok_or_else(|| Error::internal(format!("{entry} has nothing to do")))?,
    )?;
    let width = |x: Option<&Slice>| x.map_or(Ok(0), |x| matrix(x).map(|m| m.1));
    let q_width = width(q.as_ref().map(|q| q.x))?;
    let v_width = width(v.as_ref().map(|v| v.x))?;
    if rows * (q_width + v_width) == 0 {
        return Ok(None);
    }
    let ctl = emit.read(ctl)?;
    let (mut half, mut low, mut table_word) = (0, 1, 0);
    let mut table_var = ctl.var.clone();
    let mut turn = String::new();
    if let Some(table) = &table {
        let place = emit.read(table.slice)?;
        let dims = table.slice.ty.shape.static_dims()?;
        let [table_rows, table_half, _] = dims.as_slice() else {
            return Err(Error::internal(format!("{} is no rope table", table.slice.ty)));
        };
        (half, low, table_word) = (*table_half, low_rows(*table_rows), place.word());
        table_var = place.var;
        turn = pairs(table.style).into();
    }
    let mut writers = String::new();
    let mut body = String::new();
    let kv = v.as_ref().map_or(Kv::F32, |v| Kv::of(v.cache));
    let blocks = kv.words().is_some();
    if k.as_ref().is_some_and(|k| Kv::of(k.cache) != kv) {
        return Err(unsupported("caches of two types".into()));
    }
    if blocks && !head_dim.is_multiple_of(64) {
        return Err(unsupported(format!("caches of {} for heads of {e}, whole 64 fit", kv.name())));
    }
    // What an invocation gives that has nothing for a block.
    let nothing = if blocks { " Made(vec2f(), NOWHERE)" } else { "" };
    let mut store_blocks = String::new();
    let (mut q_word, mut q_out) = (0, 0);
    if let Some(q) = &q {
        let (x, y) = (emit.read(q.x)?, emit.write(q.y)?);
        (q_word, q_out) = (x.word(), y.word());
        writers += &turned("q", &element_of(&x.var));
        body += &format!(
            "if e < step.q_width {{\n        let i = row * step.q_width + e;\n        \
             let d = e % step.head_dim;\n        \
             let p = turn_q(step.q + i - d, d, position);\n        \
             {0}[step.q_out + i] = bitcast<u32>(p.x);\n        \
             {0}[step.q_out + i + 1u] = bitcast<u32>(p.y);\n        return{nothing};\n    }}\n    ",
            y.var
        );
    }
    let capacity = v.as_ref().map_or(Ok(0), |v| cache_dims(v.cache).map(|dims| dims.1))?;
    let held = Rows::of(ring, capacity);
    let (mut k_word, mut v_word, mut k_cache, mut v_cache) = (0, 0, 0, 0);
    if v.is_some() {
        // A ring has a row for every position.
        let room = if ring { "" } else { " || position >= step.capacity" };
        body += &format!(
            "if {}[step.ctl + 4u] != 0u{room} {{ return{nothing}; }}\n    \
             let c = e - step.q_width;\n    ",
            ctl.var
        );
    }
    let store = |cache: &str, base: &str, kv: Kv| {
        let row = held.row("position");
        let at = format!(
            "((h / step.head_dim) * step.capacity + {row}) * step.head_dim + h % step.head_dim"
        );
        match kv {
            Kv::F32 => format!(
                "let o = {base} + {at};\n        {cache}[o] = bitcast<u32>(p.x);\n        \
                 {cache}[o + 1u] = bitcast<u32>(p.y);\n        return;"
            ),
            Kv::F16 => {
                format!("{cache}[{base} + ({at}) / 2u] = pack2x16float(p);\n        return;")
            }
            // Two blocks are 64 elements.
            Kv::Q8_0 | Kv::Q4_0 => {
                let words = kv.words().unwrap_or(0);
                format!("return Made(p, {base} + ({at}) / 64u * {words}u);")
            }
        }
    };
    if let Some(k) = &k {
        let (x, cache) = (emit.read(k.x)?, emit.write(k.cache)?);
        (k_word, k_cache) = (x.word(), cache.word());
        writers += &turned("k", &element_of(&x.var));
        body += &format!(
            "if c < step.k_width {{\n        let h = c;\n        let d = h % step.head_dim;\n        \
             let p = turn_k(step.k + row * step.k_width + h - d, d, position);\n        {}\n    }}\n    ",
            store(&cache.var, "step.k_cache", Kv::of(k.cache))
        );
        store_blocks += &format!(
            "if e < step.q_width + step.k_width {{\n        {}[to] = bits;\n        return;\n    }}\n    ",
            cache.var
        );
    }
    if let Some(v) = &v {
        let (x, cache) = (emit.read(v.x)?, emit.write(v.cache)?);
        (v_word, v_cache) = (x.word(), cache.word());
        let skipped = if k.is_some() { "c - step.k_width" } else { "c" };
        body += &format!(
            "let h = {skipped};\n    if h >= step.k_width {{ return{nothing}; }}\n    \
             let i = step.v + row * step.k_width + h;\n    \
             let p = bitcast<vec2f>(vec2u({0}[i], {0}[i + 1u]));\n    {1}",
            x.var,
            store(&cache.var, "step.v_cache", kv)
        );
        store_blocks += &format!("{}[to] = bits;", cache.var);
    }
    let words = vec![
        word(rows)?,
        word(e)?,
        word(half)?,
        word(low)?,
        table_word,
        ctl.word(),
        q_word,
        q_out,
        word(q_width)?,
        k_word,
        v_word,
        word(v_width)?,
        k_cache,
        v_cache,
        word(capacity)?,
    ];
    let wgsl = fill(
        if blocks { wgsl!("rope_blocks.wgsl") } else { wgsl!("rope.wgsl") },
        &[
            ("name", entry),
            ("kv", kv.name()),
            ("kv_bytes", if kv == Kv::F16 { "2" } else { "4" }),
            ("maker", &kv.maker(64)),
            ("words", &kv.words().unwrap_or(0).to_string()),
            ("store", &store_blocks),
            ("bindings", &emit.bindings()),
            ("angle", &angle(&table_var)),
            ("turn", &turn),
            ("writers", &writers),
            ("entry", entry),
            ("ctl", &ctl.var),
            ("body", &body),
        ],
    );
    // The shader counts k and v of a row even where there is only one of them.
    let pairs = rows * (q_width + 2 * v_width) / 2;
    Ok(Some(Launch { wgsl, entry, words, groups: pairs.div_ceil(64) }))
}

/// An element of a head as it stands in the array `var`.
pub(super) fn element_of(var: &str) -> impl Fn(&str) -> String {
    move |at| format!("bitcast<f32>({var}[head + {at}])")
}

/// `fn angle(position, pair) -> vec2f`: cosine and sine, of a table in the array `var`.
pub(super) fn angle(var: &str) -> String {
    fill(wgsl!("rope_turn.wgsl"), &[("table", var)])
}

/// `fn partner(d) -> vec2u`: the other dimension of d's pair and the pair's number.
pub(super) fn pairs(style: RopeStyle) -> &'static str {
    match style {
        RopeStyle::Adjacent => {
            "fn partner(d: u32) -> vec2u { return vec2u(d ^ 1u, d / 2u); }\n\
             fn is_first(d: u32) -> bool { return d % 2u == 0u; }\n"
        }
        RopeStyle::Half => {
            "fn partner(d: u32) -> vec2u {\n    \
             return select(vec2u(d - step.half, d - step.half), vec2u(d + step.half, d), d < step.half);\n}\n\
             fn is_first(d: u32) -> bool { return d < step.half; }\n"
        }
    }
}

/// `fn turn_<name>(head, d, position) -> vec2f`: dimensions d and d + 1 of a head, turned. `element` is WGSL of
/// what is at a dimension of the head that starts at word `head`.
pub(super) fn turned(name: &str, element: &dyn Fn(&str) -> String) -> String {
    let (one, other) = (element("d"), element("p.x"));
    // No branch: a load behind one waits for those before it.
    format!(
        "fn turn_one_{name}(head: u32, d: u32, position: u32) -> f32 {{\n    \
         let x = {one};\n    \
         let p = partner(min(d, 2u * step.half - 1u));\n    let cs = angle(position, p.y);\n    \
         let other = {other};\n    \
         let turned = x * cs.x + select(other, -other, is_first(d)) * cs.y;\n    \
         return select(x, turned, d < 2u * step.half);\n}}\n\
         fn turn_{name}(head: u32, d: u32, position: u32) -> vec2f {{\n    \
         return vec2f(turn_one_{name}(head, d, position), turn_one_{name}(head, d + 1u, position));\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlx_core::ops::{RopeScaling, RopeTable};

    #[test]
    fn low_rows_of_a_table_follow_from_all_its_rows() {
        for context in 1..5000 {
            let op = RopeTable { base: 1e4, dims: 2, context, scaling: RopeScaling::None };
            assert_eq!(low_rows(op.low_rows() + op.high_rows()), op.low_rows(), "{context}");
        }
    }
}
