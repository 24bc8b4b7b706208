//! `sdpa`: attention without a cache, in tiles of queries and keys.

use crate::kernels::elements::element::{Element, once};
use crate::kernels::elements::indices::{Words, dims, repeated};
use crate::kernels::emit::{Emit, fill};
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{HeadLayout, Mask, Op, Sdpa};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Queries of a workgroup: few where there are few workgroups, else a tile that reads keys and values for four times
/// as many and multiplies four times as much with what it has read.
const QUERIES: [u64; 2] = [16, 64];
/// The widest head of values that a tile has registers for.
const TILE_WIDTH: u64 = 128;
/// Workgroups that a tile has to leave: about half the cores of a large GPU, each of which is used better.
const ENOUGH: u64 = 64;
/// The widest head of values: a thread keeps an eighth of it.
const MOST_WIDTH: usize = 512;

/// Tensors of f32, f16 or bf16, with any mask; halves with an even width of values.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known = [
        "heads",
        "kv_heads",
        "head_dim",
        "v_head_dim",
        "mask",
        "window",
        "scale",
        "softcap",
        "layout",
    ];
    takes::knows(op, &known)?;
    let Op::Sdpa(op) = op else { return Err("it takes attention".into()) };
    for (i, ty) in operands.iter().enumerate() {
        // A mask may be of booleans.
        if Element::of(ty.dtype).is_none() || (i < 3 && !ty.dtype.is_float()) {
            return Err(takes::not(i, ty));
        }
    }
    if op.v_head_dim > MOST_WIDTH {
        return Err(format!("its kernel takes values up to a width of {MOST_WIDTH}"));
    }
    let half = operands.first().and_then(|q| Element::of(q.dtype)).is_some_and(Element::is_half);
    if half && !op.v_head_dim.is_multiple_of(2) {
        return Err(format!("its kernel takes halves of an even width, not {}", op.v_head_dim));
    }
    Ok(())
}

/// Elements from one batch, place and head to the next, and places.
struct Layout {
    batch: u64,
    place: u64,
    head: u64,
    places: u64,
}

impl Layout {
    fn of(layout: HeadLayout, x: &Slice, heads: u64, width: u64) -> Result<Layout> {
        let sizes = dims(&x.ty)?;
        let places = match layout {
            HeadLayout::Bshd => sizes[1],
            HeadLayout::Bhsd => sizes[2],
        };
        let (place, head) = match layout {
            HeadLayout::Bshd => (heads * width, width),
            HeadLayout::Bhsd => (width, places * width),
        };
        Ok(Layout { batch: heads * places * width, place, head, places })
    }
}

pub(super) fn sdpa(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Sdpa(op) = &step.op else { return Err(mismatch(step)) };
    let [q, k, v, mask @ ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let (heads, kv_heads) = (op.heads as u64, op.kv_heads as u64);
    let (e, ev) = (op.head_dim as u64, op.v_head_dim as u64);
    if y.bytes == 0 {
        return Ok(None);
    }
    let layouts = [(q, heads, e), (k, kv_heads, e), (v, kv_heads, ev), (y, heads, ev)]
        .map(|(x, heads, width)| Layout::of(op.layout, x, heads, width));
    let [ql, kl, vl, yl] = layouts;
    let (ql, kl, vl, yl) = (ql?, kl?, vl?, yl?);
    let batch = dims(&q.ty)?[0];
    let [few, many] = QUERIES;
    let tiled = ev <= TILE_WIDTH && batch * heads * ql.places.div_ceil(many) >= ENOUGH;
    let queries = if tiled { many } else { few };
    let tiles = ql.places.div_ceil(queries);
    let element = Element::of(y.ty.dtype);
    let element = element.ok_or_else(|| unsupported(format!("attention of {}", y.ty.dtype)))?;
    let mut words = Words::default();
    let mut functions = vec![element.helpers().to_owned()];
    for (name, x) in [("q", q), ("k", k), ("v", v)] {
        let place = emit.read(x)?;
        let start = words.bits(place.word());
        functions.push(element.loader(name, &place, &start));
    }
    let (s_q, s_k) = (words.size(ql.places)?, words.size(kl.places)?);
    let seen = seen(
        op,
        mask.first(),
        (&s_q, &s_k, queries),
        [batch, heads, ql.places, kl.places],
        &mut words,
        emit,
    )?;
    functions.extend(seen.functions);
    let y_at = emit.write(y)?;
    let y_start = words.bits(y_at.word());
    let per = element.per_word();
    let store: Vec<String> = (0..4 / per)
        .map(|w| {
            let bits: Vec<String> = (0..per)
                .map(|e| {
                    let lane = ["x", "y", "z", "w"][(w * per + e) as usize];
                    let bits = element.bits(&format!("v.{lane}"));
                    if e == 0 { bits } else { format!("({bits} << {}u)", e * 16) }
                })
                .collect();
            let (at, var) = (w * per, &y_at.var);
            format!(
                "if d + {at}u < EV {{ {var}[{y_start} + (y_base + d + {at}u) / {per}u] = {}; }}",
                bits.join(" | ")
            )
        })
        .collect();
    let cap = match op.softcap {
        Some(softcap) => {
            let cap = words.bits(softcap.to_bits());
            format!(
                "score = bitcast<f32>({cap}) * tanh(clamp(score / bitcast<f32>({cap}), -15.0, 15.0));"
            )
        }
        None => String::new(),
    };
    let scale = format!("bitcast<f32>({})", words.bits((op.score_scale() as f32).to_bits()));
    let number = |n: u64| n.to_string();
    let mut values = vec![
        ("score", seen.formula),
        ("mask_shape", seen.shape),
        ("type", y.ty.dtype.name().to_owned()),
        ("e", number(e)),
        ("ev", number(ev)),
        ("chunks", number(ev.div_ceil(32))),
        ("bindings", emit.bindings()),
        ("functions", once(functions)),
        ("range", seen.range),
        ("mask", seen.text),
        ("cap", cap),
        ("scale", scale),
        ("store", store.join("\n        ")),
        ("groups", words.size(batch * heads * tiles)?),
        ("tiles", words.size(tiles)?),
        ("heads", words.size(heads)?),
        ("per_kv", words.size(heads / kv_heads.max(1))?),
        ("s_q", s_q),
    ];
    let names = [
        ["q_batch", "q_head", "q_place"],
        ["k_batch", "k_head", "k_place"],
        ["v_batch", "v_head", "v_place"],
        ["y_batch", "y_head", "y_place"],
    ];
    for (names, own) in names.iter().zip([&ql, &kl, &vl, &yl]) {
        for (name, n) in names.iter().zip([own.batch, own.head, own.place]) {
            values.push((*name, words.size(n)?));
        }
    }
    let values: Vec<(&str, &str)> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let text = if tiled { wgsl!("sdpa_tile.wgsl") } else { wgsl!("sdpa.wgsl") };
    let wgsl = fill(text, &values);
    Ok(Some(Launch { wgsl, entry: "sdpa", words: words.0, groups: batch * heads * tiles }))
}

/// What a mask says, as text.
struct Seen {
    functions: Vec<String>,
    /// Statements that set `start` and `end`, the keys that some query of the tile sees.
    range: String,
    /// Statements that set `bits` of a `score`, where the `query` sees the `key`.
    text: String,
    formula: String,
    shape: String,
}

fn seen(
    op: &Sdpa,
    mask: Option<&Slice>,
    (s_q, s_k, queries): (&str, &str, u64),
    sizes: [u64; 4],
    words: &mut Words,
    emit: &mut Emit<'_>,
) -> Result<Seen> {
    let all = format!("let start = 0u;\n    let end = {s_k};");
    // Queries are the last places of the keys.
    let ahead = format!("{s_k} - {s_q}");
    let causal = format!("let end = min({s_k}, {ahead} + q0 + {queries}u);");
    let mut out = Seen {
        functions: Vec::new(),
        range: all,
        text: "bits = bitcast<u32>(score);".into(),
        formula: "scale q k^T".into(),
        shape: "no mask".into(),
    };
    match (op.mask, mask) {
        (Mask::None, _) => {}
        (Mask::Causal, _) => {
            out.range = format!("let start = 0u;\n    {causal}");
            out.text = format!("if key <= {ahead} + query {{ bits = bitcast<u32>(score); }}");
            out.shape = "a query sees no later key".into();
        }
        (Mask::Window(window), _) => {
            // A window as long as keys are is none.
            let window = words.size(window.min(sizes[3]))?;
            out.range = format!(
                "let first = {ahead} + q0;\n    \
                 let start = (max(first, {window}) - {window}) / 32u * 32u;\n    {causal}"
            );
            out.text = format!(
                "let place = {ahead} + query;\n                \
                 if key <= place && key + {window} >= place {{ bits = bitcast<u32>(score); }}"
            );
            out.shape = "a query sees no later key, nor one before its window".into();
        }
        (Mask::Custom, Some(mask)) => {
            let element = Element::of(mask.ty.dtype);
            let element = element.ok_or_else(|| unsupported(format!("a mask of {}", mask.ty)))?;
            let place = emit.read(mask)?;
            let start = words.bits(place.word());
            out.functions.push(element.loader("mask", &place, &start));
            let value = format!("load_mask(b * {s_k} + key)");
            let held = if mask.ty.dtype.is_float() { format!("{value} >= 0.5") } else { value };
            out.text = format!("if {held} {{ bits = bitcast<u32>(score); }}");
            out.shape = format!("mask {}[B, S_k]", mask.ty.dtype);
        }
        (Mask::Bias, Some(mask)) => {
            let element = Element::of(mask.ty.dtype);
            let element = element.ok_or_else(|| unsupported(format!("a bias of {}", mask.ty)))?;
            let place = emit.read(mask)?;
            let start = words.bits(place.word());
            out.functions.push(element.loader("mask", &place, &start));
            let strides = repeated(&dims(&mask.ty)?, &sizes);
            let mut at = Vec::new();
            for (name, stride) in ["b", "h", "query", "key"].iter().zip(strides) {
                at.push(format!("{name} * {}", words.signed(stride)?));
            }
            out.text = format!(
                "let bias = load_mask({});\n                \
                 bits = select(bitcast<u32>(score + bias), UNSEEN, bitcast<u32>(bias) == UNSEEN);",
                at.join(" + ")
            );
            out.formula = "scale q k^T + bias".into();
            out.shape = format!("bias {}[B, H, S_q, S_k], which may repeat", mask.ty.dtype);
        }
        (Mask::Custom | Mask::Bias, None) => {
            return Err(unsupported("attention whose mask is no operand".into()));
        }
    }
    if op.softcap.is_some() {
        out.formula = out.formula.replace("scale q k^T", "softcap tanh(scale q k^T / softcap)");
    }
    Ok(out)
}
