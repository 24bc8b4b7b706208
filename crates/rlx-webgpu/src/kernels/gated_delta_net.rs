//! `gated_delta_net` and `delta_net`: linear attention whose matrices are a state. Here are both operators and the
//! form that goes row by row; `delta_chunks` is the form for prompts.

use super::delta_chunks;
use super::emit::{Emit, fill};
use super::scalar;
use super::takes::{self, Taken};
use super::{Context, Launch, mismatch, word};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{GatedDeltaNet, Op, Unary};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// Columns of a matrix that a workgroup has, and parts that it cuts a column in, each a thread's.
const TILE: u64 = 16;
const PARTS: u64 = 16;
/// The longest key: a thread has a part of a column in registers.
const LONGEST: usize = 256;

/// One sequence that goes on from a state, by a control block, and a gate for each head.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["state_size", "carry", "tiled"])?;
    takes::floats_and_caches(operands)?;
    let Op::GatedDeltaNet(op) = op else { return Err("it takes a gated delta net".into()) };
    if !op.carry || operands.len() != 7 {
        return Err("its kernel needs a state that is carried on, and a control block".into());
    }
    if operands[0].shape.rank() != 3 || operands[3].shape.rank() != 2 {
        return Err("its kernel has one sequence, and one gate a head".into());
    }
    short(op.state_size)
}

/// Tensors of f32.
pub(super) fn takes_layer(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["key_heads", "state_size", "eps", "tiled"])?;
    takes::floats_and_caches(operands)?;
    let Op::DeltaNet(op) = op else { return Err("it takes a layer's delta net".into()) };
    short(op.state_size)
}

fn short(n: usize) -> Taken {
    if n <= LONGEST { Ok(()) } else { Err(format!("its kernel has keys of at most {LONGEST}")) }
}

/// What differs between the two operators.
struct Form {
    rule: GatedDeltaNet,
    key_heads: u64,
    /// Where a row's queries, keys and values start, and words from one row to the next.
    starts: [(u32, u64); 3],
    /// Arrays of those, of what makes the gates, and of what else there is of a head.
    arrays: [String; 3],
    gates: [u32; 4],
    /// WGSL of `exp(g)` and of `beta` at word `at` of a row's gates.
    decay: String,
    beta: String,
    helpers: String,
    eps: Option<f32>,
}

/// `[heads, n, width]` of the state.
fn matrices(state: &Slice) -> Result<[u64; 3]> {
    let dims = state.ty.shape.static_dims()?;
    dims.try_into().map_err(|_| Error::internal(format!("{} has no matrices", state.ty)))
}

fn float(var: &str, at: &str) -> String {
    format!("bitcast<f32>({var}[{at}])")
}

pub(super) fn gated_delta_net(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let (Op::GatedDeltaNet(op), [q, k, v, g, beta, state, ctl]) = (&step.op, &step.operands[..])
    else {
        return Err(mismatch(step));
    };
    let [heads, n, width] = matrices(state)?;
    let dims = q.ty.shape.static_dims()?;
    let [rows, key_heads, _] = dims.as_slice() else { return Err(mismatch(step)) };
    let places = [emit.read(q)?, emit.read(k)?, emit.read(v)?];
    let (g, beta) = (emit.read(g)?, emit.read(beta)?);
    let row = [key_heads * n, key_heads * n, heads * width];
    let form = Form {
        rule: op.clone(),
        key_heads: *key_heads,
        starts: [0, 1, 2].map(|i| (places[i].word(), row[i])),
        arrays: places.map(|p| p.var),
        gates: [g.word(), beta.word(), 0, 0],
        decay: format!("exp(max({}, -90.0))", float(&g.var, "step.a + at")),
        beta: float(&beta.var, "step.b + at"),
        helpers: String::new(),
        eps: None,
    };
    let entries = ["gated_delta_net", "gated_delta_net_chunks"];
    launch(&form, *rows, [state, ctl], &step.results[0], entries, emit)
}

pub(super) fn delta_net(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let (Op::DeltaNet(op), [qkv, a, b, decay, dt, state, ctl]) = (&step.op, &step.operands[..])
    else {
        return Err(mismatch(step));
    };
    let [_, n, _] = matrices(state)?;
    let (rows, columns) = super::matrix(qkv)?;
    let qkv = emit.read(qkv)?;
    let keys = op.key_heads as u64 * n;
    let start = |skipped: u64| word(u64::from(qkv.word()) + skipped).map(|at| (at, columns));
    let [a, b, decay, dt] = [emit.read(a)?, emit.read(b)?, emit.read(decay)?, emit.read(dt)?];
    let function = |name: &str, f: Unary| {
        let (helpers, text) = scalar::unary(f)?;
        Some(format!("{helpers}fn {name}(x: f32) -> f32 {{ return {text}; }}\n"))
    };
    let helpers = function("softplus", Unary::Softplus).zip(function("sigmoid", Unary::Sigmoid));
    let (softplus, sigmoid) =
        helpers.ok_or_else(|| Error::internal("WGSL has softplus and sigmoid"))?;
    let form = Form {
        rule: op.rule(),
        key_heads: op.key_heads as u64,
        starts: [start(0)?, start(keys)?, start(2 * keys)?],
        arrays: [0; 3].map(|_| qkv.var.clone()),
        gates: [a.word(), b.word(), decay.word(), dt.word()],
        decay: format!(
            "exp(max({} * softplus({} + {}), -90.0))",
            float(&decay.var, "step.decay + head"),
            float(&a.var, "step.a + at"),
            float(&dt.var, "step.dt + head"),
        ),
        beta: format!("sigmoid({})", float(&b.var, "step.b + at")),
        helpers: softplus + &sigmoid,
        eps: Some(op.eps),
    };
    let entries = ["delta_net", "delta_net_chunks"];
    launch(&form, rows, [state, ctl], &step.results[0], entries, emit)
}

/// The two entries are the names of the form for single rows and of the form for chunks.
fn launch(
    form: &Form,
    rows: u64,
    [state, ctl]: [&Slice; 2],
    y: &Slice,
    [entry, of_chunks]: [&'static str; 2],
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let [heads, n, width] = matrices(state)?;
    if rows * heads * width == 0 {
        return Ok(None);
    }
    let (state, ctl, y) = (emit.write(state)?, emit.read(ctl)?, emit.write(y)?);
    let [(q, q_row), (k, k_row), (v, v_row)] = form.starts;
    let [a, b, decay, dt] = form.gates;
    let eps = form.eps.unwrap_or(0.0).to_bits();
    let words = vec![
        word(rows)?,
        q,
        k,
        v,
        word(q_row)?,
        word(k_row)?,
        word(v_row)?,
        eps,
        a,
        b,
        decay,
        dt,
        state.word(),
        ctl.word(),
        y.word(),
        0,
    ];
    let text = |n: u64| n.to_string();
    let [q, k, v] = &form.arrays;
    let key_head = if form.rule.tiled { "head % KEY_HEADS" } else { "head / (HEADS / KEY_HEADS)" };
    let length = |square: &str| match form.eps {
        Some(_) => format!("inverseSqrt({square} + step.eps)"),
        None => "1.0".into(),
    };
    let (template, entry, tile, parts, mut own) = if delta_chunks::suit(rows, n) {
        let own = delta_chunks::texts();
        (wgsl!("delta_chunks.wgsl"), of_chunks, delta_chunks::TILE, delta_chunks::PARTS, own)
    } else {
        (wgsl!("gated_delta_net.wgsl"), entry, TILE, PARTS, Vec::new())
    };
    own.extend(part(n.div_ceil(4 * parts)));
    let reads =
        fill(wgsl!("delta_reads.wgsl"), &[("q", q.as_str()), ("k", k), ("state", &state.var)]);
    let root = format!("{:e}", 1.0 / (n as f32).sqrt());
    let sizes = [heads, form.key_heads, n, width, tile, parts, tile * parts].map(text);
    let names = ["heads", "key_heads", "n", "width", "tile", "parts", "threads"];
    let mut sizes: Vec<(&str, &str)> =
        names.into_iter().zip(sizes.iter().map(String::as_str)).collect();
    let bindings = emit.bindings();
    sizes.push(("bindings", &bindings));
    let head = fill(wgsl!("delta_step.wgsl"), &sizes);
    let (of_q, of_k) = (length("products.y"), length("products.x"));
    let shared: [(&str, &str); 17] = [
        ("name", entry),
        ("entry", entry),
        ("step", &head),
        ("root", &root),
        ("helpers", &form.helpers),
        ("reads", &reads),
        ("key_head", key_head),
        ("state", &state.var),
        ("ctl", &ctl.var),
        ("q", q),
        ("k", k),
        ("v", v),
        ("y", &y.var),
        ("decay", &form.decay),
        ("beta", &form.beta),
        ("of_q", &of_q),
        ("of_k", &of_k),
    ];
    let own = own.iter().map(|(name, text)| (*name, text.as_str()));
    let values: Vec<(&str, &str)> = shared.into_iter().chain(sizes).chain(own).collect();
    let groups = heads * width.div_ceil(tile);
    Ok(Some(Launch { wgsl: fill(template, &values), entry, words, groups }))
}

/// Values of placeholders: how a thread loads, uses and stores its part of a column, which is `each` quads.
///
/// They are in variables `m0`, `m1`, ...: an array that a loop walks may end up in memory, and its reads one
/// behind the other.
fn part(each: u64) -> Vec<(&'static str, String)> {
    let quads = |line: &dyn Fn(u64) -> String| (0..each).map(line).collect::<Vec<_>>().join("\n");
    let numbers =
        |of: &dyn Fn(u64) -> String, with: &str| (0..4).map(of).collect::<Vec<_>>().join(with);
    let load = |e: u64| {
        let cell = |i: u64| format!("cell(matrix, (first + {e}u) * 4u + {i}u, inside)");
        format!("var m{e} = vec4f({});", numbers(&cell, ", "))
    };
    let store = |e: u64| {
        let keep = |i: u64| format!("keep(matrix, (first + {e}u) * 4u + {i}u, m{e}[{i}]);");
        numbers(&keep, "\n")
    };
    let dots = |e: u64| {
        let [k, q] = ["keys", "queries"].map(|x| format!("dot(m{e}, {x}[at_quad + {e}u])"));
        format!("sum += vec2f({k}, {q});")
    };
    vec![
        ("each", each.to_string()),
        ("load", quads(&load)),
        ("store", quads(&store)),
        ("dots", quads(&dots)),
        ("fade", quads(&|e| format!("m{e} *= decay;"))),
        ("change", quads(&|e| format!("m{e} += keys[at_quad + {e}u] * change;"))),
    ]
}
