//! `sdpa`: attention without a cache, in tiles of queries and keys.
//!
//! Of 64 queries and 64 keys with heads of `E` and `V` elements a workgroup multiplies `64 * 64 * (E + V)` times. For
//! these it reads 64 rows each of q, k and v; a thread reads 12 floats of the workgroup's memory for 32 products. Every
//! sum has a name of its own: a driver keeps arrays that loops index in memory and not in registers.

use crate::kernels::elements::element::{Element, once};
use crate::kernels::elements::indices::{Words, dims, repeated};
use crate::kernels::emit::{Emit, Place, fill};
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Space, Step};
use rlx_core::ops::{HeadLayout, Mask, Op, Sdpa};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Queries of a workgroup. More of them share what is read of keys and values; fewer make more workgroups.
const QUERIES: [u64; 3] = [64, 32, 16];
/// Workgroups that a large GPU has something to do with.
const ENOUGH: u64 = 128;
/// The columns of values that a workgroup makes at most. Wider heads are made in parts, each from scores of its own.
const PART: u64 = 128;
/// Queries of a thread, and their components in two vectors.
const OWN: u64 = 8;
const LANES: [&str; 4] = ["x", "y", "z", "w"];

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

/// How a kernel reads and writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Binding {
    /// Elements one by one, from arrays of words.
    Words,
    /// Four floats at a time, from arrays of 16 bytes.
    Quads,
}

impl Binding {
    /// Quads, where every row of q, k, v and y is whole ones.
    fn of(op: &Sdpa, tensors: [&Slice; 4], emit: &Emit<'_>) -> Binding {
        let whole = |x: &&Slice| x.ty.dtype == DType::F32 && emit.in_quads(x);
        let rows = op.head_dim.is_multiple_of(4) && op.v_head_dim.is_multiple_of(4);
        if rows && tensors.iter().all(whole) { Binding::Quads } else { Binding::Words }
    }

    /// `fn four_<name>(i: u32, e: u32) -> vec4f`: elements `i..i + 4` of a tensor, which are `e..e + 4` of a row of
    /// `width`; 0 past its end.
    fn reader(
        self,
        name: &str,
        x: &Slice,
        width: u64,
        words: &mut Words,
        emit: &mut Emit<'_>,
    ) -> Result<String> {
        if self == Binding::Quads {
            let Place { var, byte } = emit.read_quads(x)?;
            let start = words.bits(byte / 16);
            return Ok(format!(
                "fn four_{name}(i: u32, e: u32) -> vec4f {{ return bitcast<vec4f>({var}[{start} + i / 4u]); }}\n"
            ));
        }
        let element = Element::of(x.ty.dtype);
        let element = element.ok_or_else(|| unsupported(format!("attention of {}", x.ty.dtype)))?;
        let place = emit.read(x)?;
        let start = words.bits(place.word());
        let each = LANES.iter().enumerate().map(|(j, lane)| {
            format!("if e + {j}u < {width}u {{ out.{lane} = load_{name}(i + {j}u); }}")
        });
        let each = each.collect::<Vec<_>>().join("\n    ");
        Ok(element.loader(name, &place, &start)
            + &format!(
                "fn four_{name}(i: u32, e: u32) -> vec4f {{\n    var out = vec4f();\n    {each}\n    return out;\n}}\n"
            ))
    }

    /// `fn load_<name>(i: u32)`: an element of a mask or a bias.
    fn mask_loader(
        self,
        name: &str,
        mask: &Slice,
        words: &mut Words,
        emit: &mut Emit<'_>,
    ) -> Result<String> {
        let element = Element::of(mask.ty.dtype);
        let element = element.ok_or_else(|| unsupported(format!("a mask of {}", mask.ty)))?;
        // The arena is bound once, as what the other tensors in it are read as.
        if self == Binding::Quads && mask.space == Space::Arena {
            let place = emit.read_in_quads(mask)?;
            let start = words.bits(place.word());
            return Ok(element.loader_in_quads(name, &place, &start));
        }
        let place = emit.read(mask)?;
        let start = words.bits(place.word());
        Ok(element.loader(name, &place, &start))
    }

    /// `fn store(i: u32, e: u32, v: vec4f)`: elements `i..i + 4` of the result, which are `e..e + 4` of a row of
    /// `width`.
    fn writer(
        self,
        y: &Slice,
        width: u64,
        words: &mut Words,
        emit: &mut Emit<'_>,
    ) -> Result<String> {
        let lines = if self == Binding::Quads {
            let Place { var, byte } = emit.write_quads(y)?;
            let start = words.bits(byte / 16);
            format!("if e < {width}u {{ {var}[{start} + i / 4u] = bitcast<vec4u>(v); }}")
        } else {
            let element = Element::of(y.ty.dtype);
            let element = element.ok_or_else(|| unsupported(format!("attention of {}", y.ty)))?;
            let (place, per) = (emit.write(y)?, element.per_word() as usize);
            let start = words.bits(place.word());
            let word = |(w, lanes): (usize, &[&str])| {
                let bits = lanes.iter().enumerate().map(|(j, lane)| {
                    let bits = element.bits(&format!("v.{lane}"));
                    if j == 0 { bits } else { format!("({bits} << {}u)", j * 16) }
                });
                let (bits, at) = (bits.collect::<Vec<_>>().join(" | "), w * per);
                let var = &place.var;
                format!(
                    "if e + {at}u < {width}u {{ {var}[{start} + (i + {at}u) / {per}u] = {bits}; }}"
                )
            };
            LANES.chunks(per).enumerate().map(word).collect::<Vec<_>>().join("\n    ")
        };
        Ok(format!("fn store(i: u32, e: u32, v: vec4f) {{\n    {lines}\n}}\n"))
    }
}

/// Lines of WGSL, one for each of `0..n`.
fn lines(n: u64, line: &dyn Fn(u64) -> String) -> String {
    (0..n).map(line).collect::<Vec<_>>().join("\n        ")
}

/// Of a pair of vectors that have an element for each of a thread's queries, that of query `i`.
fn of(pair: &str, i: u64) -> String {
    format!("{pair}{}.{}", i / 4, LANES[(i % 4) as usize])
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
    let parts = ev.div_ceil(PART);
    // Fours of columns that a thread has, and fours of keys whose values have room beside their weights.
    let columns = ev.min(PART).div_ceil(64);
    let key_fours = 8 / columns;
    let groups = |queries: u64| batch * heads * parts * ql.places.div_ceil(queries);
    let queries = QUERIES.into_iter().find(|&n| groups(n) >= ENOUGH).unwrap_or(QUERIES[2]);
    let binding = Binding::of(op, [q, k, v, y], emit);
    let mut words = Words::default();
    let element = Element::of(y.ty.dtype);
    let mut functions = vec![element.map_or("", Element::helpers).to_owned()];
    for (name, x, width) in [("q", q, e), ("k", k, e), ("v", v, ev)] {
        functions.push(binding.reader(name, x, width, &mut words, emit)?);
    }
    let (s_q, s_k) = (words.size(ql.places)?, words.size(kl.places)?);
    let sizes = [batch, heads, ql.places, kl.places];
    let seen = seen(op, mask, (&s_q, &s_k, queries), sizes, binding, &mut words, emit)?;
    functions.extend(seen.functions);
    functions.push(binding.writer(y, ev, &mut words, emit)?);
    let scale = format!("bitcast<f32>({})", words.bits((op.score_scale() as f32).to_bits()));
    let cap = match op.softcap {
        Some(softcap) => {
            let cap = format!("bitcast<f32>({})", words.bits(softcap.to_bits()));
            format!(" s = {cap} * tanh(clamp(s / {cap}, vec4f(-15.0), vec4f(15.0)));")
        }
        None => String::new(),
    };
    let scores = |i: u64| {
        let (held, held_i) = (&seen.held, format!("held{i}"));
        let before = seen.before.replace("{i}", &i.to_string());
        format!(
            "{before}let {held_i} = {};\n        {{ var s = s{i} * {scale};{cap} {}s{i} = select(vec4f(LOWEST), s, {held_i}); }}",
            held.replace("{i}", &i.to_string()),
            seen.add.replace("{i}", &i.to_string()),
        )
    };
    let weigh = |i: u64| format!("s{i} = select(vec4f(), exp(s{i} - {}), held{i});", of("most", i));
    let score_products = |j: u64| {
        let add = lines(OWN, &|i| format!("s{i} += {} * k;", of("q", i)));
        format!(
            "{{ let q0 = planes[p][{j}][low]; let q1 = planes[p][{j}][high]; let k = planes[p + 8u][{j}][keys];\n        {add} }}"
        )
    };
    let value_products = |j: u64| {
        let read = |n: u64| format!("let v{n} = planes[p + {}u][{j}][c]; ", key_fours * (n + 1));
        let read = (0..columns).map(read).collect::<String>();
        let add = lines(OWN, &|i| {
            let one = |n: u64| format!("sum{i}_{n} += {} * v{n};", of("w", i));
            (0..columns).map(one).collect::<Vec<_>>().join(" ")
        });
        format!(
            "{{ let w0 = planes[p][{j}][low]; let w1 = planes[p][{j}][high]; {read}\n        {add} }}"
        )
    };
    let keep_weights = |j: u64| {
        let lane = LANES[j as usize];
        let four = |from: u64| {
            (from..from + 4).map(|i| format!("s{i}.{lane}")).collect::<Vec<_>>().join(", ")
        };
        format!(
            "planes[p][{j}][(r * 2u) ^ (p % 8u)] = vec4f({}); planes[p][{j}][(r * 2u + 1u) ^ (p % 8u)] = vec4f({});",
            four(0),
            four(4)
        )
    };
    let sums = |line: &dyn Fn(u64, u64) -> String| {
        lines(OWN, &|i| (0..columns).map(|n| line(i, n)).collect::<Vec<_>>().join(" "))
    };
    let store = lines(OWN, &|i| {
        let one = |n: u64| {
            format!(
                "store(y_row + {0}u + c * 4u, column0 + {0}u + c * 4u, sum{i}_{n} * {1});",
                n * 64,
                of("share", i)
            )
        };
        let all = (0..columns).map(one).collect::<Vec<_>>().join(" ");
        format!(
            "{{ let query = q0 + r * 8u + {i}u; if query < {s_q} {{ let y_row = y_base + query * Y_PLACE; {all} }} }}"
        )
    });
    let number = |n: u64| n.to_string();
    let mut values = vec![
        ("score", seen.formula),
        ("mask_shape", seen.shape),
        ("type", y.ty.dtype.name().to_owned()),
        ("e", number(e)),
        ("ev", number(ev)),
        ("e_fours", words.size(e.div_ceil(4))?),
        ("part", number(ev.min(PART))),
        ("columns", number(columns)),
        ("key_fours", number(key_fours)),
        ("queries", number(queries)),
        ("threads", number(queries / OWN * 16)),
        ("bindings", emit.bindings()),
        ("functions", once(functions)),
        ("range", seen.range),
        ("sums", sums(&|i, n| format!("var sum{i}_{n} = vec4f();"))),
        ("score_products", lines(4, &score_products)),
        ("scores", seen.of_tile + &lines(OWN, &scores)),
        ("weigh", lines(OWN, &weigh)),
        ("fade", sums(&|i, n| format!("sum{i}_{n} *= {};", of("fade", i)))),
        ("keep_weights", lines(4, &keep_weights)),
        ("value_products", lines(4, &value_products)),
        ("groups", words.size(groups(queries))?),
        ("tiles", words.size(ql.places.div_ceil(queries))?),
        ("parts", format!("{parts}u")),
        ("heads", words.size(heads)?),
        ("per_kv", words.size(heads / kv_heads.max(1))?),
        ("s_q", s_q),
        ("s_k", s_k),
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
    let place = values.last().map_or(String::new(), |(_, place)| place.clone());
    values.push(("store", store.replace("Y_PLACE", &place)));
    let values: Vec<(&str, &str)> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let wgsl = fill(wgsl!("sdpa.wgsl"), &values);
    Ok(Some(Launch { wgsl, entry: "sdpa", words: words.0, groups: groups(queries) }))
}

/// What a mask says, as text. `{i}` is one of a thread's queries.
struct Seen {
    functions: Vec<String>,
    /// Statements that set `start` and `end`, the keys that some query of the tile sees.
    range: String,
    /// Statements before the scores of a thread's 4 `keys`.
    of_tile: String,
    /// Statements before the scores of a query.
    before: String,
    /// Statements that change its scores `s`.
    add: String,
    /// Which of the keys it sees.
    held: String,
    formula: String,
    shape: String,
}

/// The size of a tensor's last axis.
fn last(x: &Slice) -> Result<u64> {
    dims(&x.ty)?.last().copied().ok_or_else(|| unsupported("a mask without axes".into()))
}

fn seen(
    op: &Sdpa,
    masks: &[Slice],
    (s_q, s_k, queries): (&str, &str, u64),
    sizes: [u64; 4],
    binding: Binding,
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
        of_tile: String::new(),
        before: String::new(),
        add: String::new(),
        held: "in_keys".into(),
        formula: "scale q k^T".into(),
        shape: "no mask".into(),
    };
    // Keys that are there.
    let near = format!("let near = min(keys, vec4u({s_k} - 1u));\n        ");
    let each = |at: &dyn Fn(&str) -> String| {
        let four = LANES.map(|lane| format!("load_mask({})", at(lane)));
        four.join(", ")
    };
    match (op.mask, masks) {
        (Mask::None, _) => {}
        (Mask::Causal, _) => {
            out.range = format!("let start = 0u;\n    {causal}");
            out.of_tile = format!("let place = {ahead} + q0 + r * 8u;\n        ");
            out.held = "in_keys & (keys <= vec4u(place + {i}u))".into();
            out.shape = "a query sees no later key".into();
        }
        (Mask::Window(window), _) => {
            // A window as long as keys are is none.
            let window = words.size(window.min(sizes[3]))?;
            out.range = format!(
                "let first_place = {ahead} + q0;\n    \
                 let start = max(first_place, {window}) - {window};\n    {causal}"
            );
            out.of_tile = format!("let place = {ahead} + q0 + r * 8u;\n        ");
            out.held = format!(
                "in_keys & (keys <= vec4u(place + {{i}}u)) & (keys + {window} >= vec4u(place + {{i}}u))"
            );
            out.shape = "a query sees no later key, nor one before its window".into();
        }
        (Mask::Custom, [mask]) => {
            out.functions.push(binding.mask_loader("mask", mask, words, emit)?);
            let four = each(&|lane| format!("b * {s_k} + near.{lane}"));
            let held = if mask.ty.dtype.is_float() {
                format!("vec4f({four}) >= vec4f(0.5)")
            } else {
                format!("vec4<bool>({four})")
            };
            out.of_tile = format!("{near}let masked = in_keys & ({held});\n        ");
            out.held = "masked".into();
            out.shape = format!("mask {}[B, S_k]", mask.ty.dtype);
        }
        (Mask::Bias, [mask]) => {
            out.functions.push(binding.mask_loader("mask", mask, words, emit)?);
            let mut at = Vec::new();
            for (name, stride) in
                ["b", "h", "query", "near"].iter().zip(repeated(&dims(&mask.ty)?, &sizes))
            {
                at.push(format!("{name} * {}", words.signed(stride)?));
            }
            out.of_tile = format!("{near}let bias_keys = {};\n        ", at[3]);
            out.before = format!(
                "let bias{{i}} = bias_of({} + {}, min(q0 + r * 8u + {{i}}u, {s_q} - 1u), bias_keys);\n        ",
                at[0], at[1]
            );
            let four = each(&|lane| format!("row + keys.{lane}"));
            out.functions.push(format!(
                "fn bias_of(first: u32, query: u32, keys: vec4u) -> vec4f {{\n    \
                 let row = first + {};\n    return vec4f({four});\n}}\n",
                at[2]
            ));
            out.add = "s += bias{i}; ".into();
            out.held = "in_keys & (bitcast<vec4u>(bias{i}) != vec4u(UNSEEN))".into();
            out.formula = "scale q k^T + bias".into();
            out.shape = format!("bias {}[B, H, S_q, S_k], which may repeat", mask.ty.dtype);
        }
        (Mask::Grid, [rows, columns]) => {
            let [r, c] = [last(rows)?, last(columns)?];
            out.functions.push(binding.mask_loader("row", rows, words, emit)?);
            // Four keys are of one row.
            let fours = c.is_multiple_of(4);
            let quads = columns.ty.dtype == DType::F32 && emit.in_quads(columns);
            let lanes = |line: &dyn Fn(&str) -> String| LANES.map(line).join(", ");
            let sum = if fours && (binding == Binding::Words || quads) {
                out.functions.push(binding.reader("columns", columns, c, words, emit)?);
                "vec4f(load_row(row + rows.x)) + four_columns(column + columns.x, columns.x)".into()
            } else {
                out.functions.push(binding.mask_loader("column", columns, words, emit)?);
                let one = |lane: &str| {
                    format!("load_row(row + rows.{lane}) + load_column(column + columns.{lane})")
                };
                format!("vec4f({})", lanes(&one))
            };
            let (r, c) = (words.size(r)?, words.size(c)?);
            out.functions.push(format!(
                "fn grid_of(query: u32, rows: vec4u, columns: vec4u) -> vec4f {{\n    \
                 let row = query * {r};\n    let column = query * {c};\n    return {sum};\n}}\n"
            ));
            out.of_tile = format!(
                "{near}let key_rows = near / {c};\n        let key_columns = near % {c};\n        \
                 let queries = own * {s_q};\n        "
            );
            out.before = format!(
                "let bias{{i}} = grid_of(queries + min(q0 + r * 8u + {{i}}u, {s_q} - 1u), key_rows, key_columns);\n        "
            );
            out.add = "s += bias{i}; ".into();
            out.held = "in_keys & (bitcast<vec4u>(bias{i}) != vec4u(UNSEEN))".into();
            out.formula = "scale q k^T + rows + columns".into();
            let (of_rows, of_columns) = (rows.ty.dtype, columns.ty.dtype);
            out.shape = format!("rows {of_rows}[B, H, S_q, R], columns {of_columns}[B, H, S_q, C]");
        }
        (Mask::Custom | Mask::Bias | Mask::Grid, _) => {
            return Err(unsupported("attention whose mask is no operand".into()));
        }
    }
    if op.softcap.is_some() {
        out.formula = out.formula.replace("scale q k^T", "softcap tanh(scale q k^T / softcap)");
    }
    Ok(out)
}
