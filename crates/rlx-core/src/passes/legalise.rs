//! Make every node something the target runs.
//!
//! ```text
//! %y = layer_norm %x, %g, %b      =>      %m = reduce %x {f = mean, …}       no kernel: its parts
//!                                         …
//! %y = map %x {f = silu}          =>      %w = cast %x {to = f32}            no kernel for f16:
//!   (f16)                                 %z = map %w {f = silu}             in f32, rounded back
//!                                         %y = cast %z {to = f16}
//! ```
//!
//! What the target claims stays, unless the options say that an operator runs by its parts, or it would
//! run on the oracle's loops and its parts have kernels. Parts are legalised in turn, at most 16 times,
//! and carry the label of what they stand for. What then is still unclaimed is one error with every node
//! in it. Regions are legalised like the graph.
//!
//! Before that: weights of types that no kernel reads are an error that names them, and matmuls of
//! packed weights get int8 activations where the options ask (`int8.rs`), or f16 (`halves.rs`).
//!
//! Leaves alone: what the host makes of weights while loading, which is no step (`plan/constants.rs`); and
//! everything, if no claim is made and no kind is forced.

use super::Context;
use super::casts::{Casts, is_narrow, part};
use super::dispatch::{Route, Unsupported};
use super::halves::halves;
use super::int8::int8;
use crate::error::{Code, Error, Result};
use crate::ir::mir::{Emitter, Graph, Node, ParamKind, ValueId};
use crate::ops::{Cast, Class, Op};
use crate::plan::at_load;
use crate::sorted::Map;
use crate::target::{DispatchPolicy, Path};
use crate::types::{DType, Type};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How often parts are looked at for parts of their own.
const ROUNDS: usize = 16;
/// A part with a larger result costs more memory than the oracle's loops, which make no such tensor: for
/// experts it is a copy of one matrix of weights for each row.
const PART_BYTES: u64 = 256 << 20;

/// Legalises in place; returns the number of matmuls that now read int8 and of nodes that were
/// widened or decomposed.
///
/// # Errors
/// `Unsupported` with every weight whose type the target cannot read, or every node that it does
/// not run; `BadGraph` from a decomposition that gives other types than its operator, or has no end.
pub fn legalise(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    readable(g, cx)?;
    let changed = int8(g, cx)? + halves(g, cx)? + lower(g, cx)?;
    let missing = &cx.dispatch.unsupported;
    if missing.is_empty() {
        return Ok(changed);
    }
    let lines: Vec<String> =
        missing.iter().map(|u| format!("{}: {}: {}", u.node, u.form, u.why)).collect();
    let (target, n) = (&cx.target.name, lines.len());
    let operators = if n == 1 { "operator" } else { "operators" };
    Err(Error::new(
        Code::Unsupported,
        format!("the {target} device does not run {n} {operators}: {}", lines.join("; ")),
    )
    .hint("another target, or other element types"))
}

/// Fails on weights that no kernel of the target reads.
fn readable(g: &Graph, cx: &Context<'_>) -> Result<()> {
    let mut missing: Vec<String> = Vec::new();
    unreadable(g, cx, &mut missing);
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = cx.target.formats.iter().map(|f| f.name()).collect();
    Err(Error::new(
        Code::Unsupported,
        format!("the {} device cannot read {}", cx.target.name, missing.join(", ")),
    )
    .hint(format!("it reads f32, f16, bf16, {}", names.join(", "))))
}

fn unreadable(g: &Graph, cx: &Context<'_>, missing: &mut Vec<String>) {
    for node in &g.nodes {
        for body in &node.regions {
            unreadable(body, cx, missing);
        }
        let weights = node.inputs.get(super::weights(&node.op)).unwrap_or_default();
        for &w in weights {
            let dtype = g.ty(w).dtype;
            if dtype.is_block() && !cx.target.reads(dtype) {
                let param = g.params.iter().find(|p| p.value == w);
                let name = param.map_or(&node.label, |p| &p.name);
                let line = format!("{name} is {dtype}");
                // A tied embedding is read twice and named once.
                if !missing.contains(&line) {
                    missing.push(line);
                }
            }
        }
    }
}

/// Lowers until nothing changes; what is left goes to the report. Returns the number of changes.
pub(super) fn lower(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut made_of = Map::new();
    let mut changed = 0;
    let loaded = at_load(g, cx.options.whole_weights)?;
    for round in 0.. {
        let first = round == 0;
        let now = Round { cx, made_of: &mut made_of, loaded: &loaded, first }.graph(g)?;
        // Parts may be loops, whose straight form has parts again.
        #[cfg(feature = "control_flow")]
        let now = now + super::control_flow::resolve(g, cx)?;
        changed += now;
        if now == 0 {
            break;
        }
        if round == ROUNDS {
            let what = format!("after {ROUNDS} rounds operators still decompose");
            return Err(Error::bad_graph(what).hint("a custom operator that is a part of itself?"));
        }
    }
    let mut left = Vec::new();
    unclaimed(g, cx, &made_of, &loaded, &mut left)?;
    for u in &left {
        if !made_of.contains_key(&u.node) {
            cx.dispatch.note(&u.kind, Route::Unsupported, &u.why);
        }
    }
    cx.dispatch.unsupported = left;
    Ok(changed)
}

/// Nodes that the target does not run, with the reason.
fn unclaimed(
    g: &mut Graph,
    cx: &Context<'_>,
    made_of: &Map<String, String>,
    loaded: &[bool],
    out: &mut Vec<Unsupported>,
) -> Result<()> {
    for i in 0..g.nodes.len() {
        let mut regions = core::mem::take(&mut g.nodes[i].regions);
        for body in &mut regions {
            unclaimed(body, cx, made_of, &[], out)?;
        }
        g.nodes[i].regions = regions;
        let node = &g.nodes[i];
        let types: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
        let Err(mut why) = cx.path(&node.op, &types) else { continue };
        if is_loaded(node, loaded) {
            continue;
        }
        match wanted(cx, node.op.name()) {
            DispatchPolicy::ForceNative => why += ", and the options ask for a kernel",
            _ => why += ", and there is nothing it decomposes into",
        }
        if let Some(whole) = made_of.get(&node.label) {
            why += &format!("; it is a part of {whole}");
        }
        let types: Vec<String> = types.iter().map(|t| t.to_string()).collect();
        let form = format!("{}{} {}", node.op.name(), node.op.attrs(), types.join(", "));
        let (kind, label) = (node.op.name().to_string(), node.label.clone());
        out.push(Unsupported { node: label, kind, form: form.trim_end().to_string(), why });
    }
    Ok(())
}

/// The policy of one kind of operator.
fn wanted(cx: &Context<'_>, kind: &str) -> DispatchPolicy {
    let dispatch = &cx.options.dispatch;
    if dispatch.force_native.iter().any(|k| k == kind) {
        DispatchPolicy::ForceNative
    } else if dispatch.force_common.iter().any(|k| k == kind) {
        DispatchPolicy::ForceCommon
    } else {
        dispatch.policy
    }
}

/// Whether what a node makes is there once weights are loaded: it is no step, and needs no kernel.
fn is_loaded(node: &Node, loaded: &[bool]) -> bool {
    node.outputs.iter().all(|v| loaded.get(v.0 as usize) == Some(&true))
}

/// One look at every node.
struct Round<'a, 'b> {
    cx: &'a mut Context<'b>,
    /// Of a part's label: the operator it is a part of.
    made_of: &'a mut Map<String, String>,
    /// Of the graph's values, whether they are there once weights are loaded.
    loaded: &'a [bool],
    /// Whether nodes are counted for the report.
    first: bool,
}

impl Round<'_, '_> {
    fn graph(&mut self, g: &mut Graph) -> Result<usize> {
        let mut changed = 0;
        // What stands for a value that lost its node.
        let mut stands: Map<ValueId, ValueId> = Map::new();
        let mut casts = Casts::default();
        let mut nodes = Vec::with_capacity(g.nodes.len());
        for mut node in core::mem::take(&mut g.nodes) {
            for v in &mut node.inputs {
                *v = stands.get(v).copied().unwrap_or(*v);
            }
            let loaded = core::mem::take(&mut self.loaded); // a body has values of its own
            for body in &mut node.regions {
                changed += self.graph(body)?;
            }
            self.loaded = loaded;
            let kind = node.op.name().to_string();
            let types: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
            let claim = self.cx.path(&node.op, &types);
            let claim = claim.or_else(|why| match is_loaded(&node, loaded) {
                true => Ok(Path::HostConstant),
                false => Err(why),
            });
            let want = wanted(self.cx, &kind);
            let forced = want == DispatchPolicy::ForceCommon
                && !matches!(claim, Ok(Path::View | Path::HostConstant));
            // What the heavy operators gain by a kernel pays for two casts; a map does not.
            let heavy = matches!(node.op.class(), Class::Compute | Class::Reduction);
            let widens = match claim {
                Ok(Path::Loops) => heavy && !forced,
                Ok(_) => false,
                Err(_) => !forced,
            };
            if widens && let Some(results) = self.widens(g, &node) {
                self.note(&kind, Route::Widened, "its kernel takes f32 only");
                widen(g, &mut nodes, &mut casts, node, results);
                changed += 1;
                continue;
            }
            let common = match (&claim, want) {
                (_, DispatchPolicy::ForceCommon) => forced,
                (Err(_), DispatchPolicy::PreferNative) => true,
                (Ok(Path::Loops), DispatchPolicy::PreferNative) => {
                    // A target of loops alone is the oracle.
                    !self.cx.target.claims.is_empty()
                        && node.regions.is_empty()
                        && self.has_kernels(&node.op, &types, ROUNDS)
                }
                _ => false,
            };
            if common && let Some((parts, results)) = decompose(g, &node)? {
                let why = match &claim {
                    Ok(_) if !forced => "it has no kernel, and its parts have",
                    Ok(_) => "the options ask for its parts",
                    Err(why) => why.as_str(),
                };
                self.note(&kind, Route::Common, why);
                for part in parts {
                    self.made_of.get_or_insert_with(part.label.clone(), || kind.clone());
                    nodes.push(part);
                }
                stands.extend(node.outputs.iter().copied().zip(results));
                changed += 1;
                continue;
            }
            if let Ok(path) = claim {
                let why = if forced { "it has no parts" } else { "" };
                self.note(&kind, Route::Claimed(path), why);
            }
            nodes.push(node);
        }
        for o in &mut g.outputs {
            o.value = stands.get(&o.value).copied().unwrap_or(o.value);
        }
        g.nodes = nodes;
        Ok(changed)
    }

    fn note(&mut self, kind: &str, route: Route, why: &str) {
        if self.first {
            self.cx.dispatch.note(kind, route, why);
        }
    }

    /// Whether an operator without a kernel stands for operators that have some, down to the last, and
    /// none of which makes more than [`PART_BYTES`].
    fn has_kernels(&self, op: &Op, operands: &[&Type], rounds: usize) -> bool {
        if rounds == 0 {
            return false;
        }
        let mut g = Graph::new("parts");
        let params = operands.iter().map(|&ty| g.param(ParamKind::Input, "x", ty.clone()));
        let params: Vec<ValueId> = params.collect();
        let mut emitter = Emitter { graph: &mut g, label: "" };
        if !matches!(op.decompose(&mut emitter, &params), Ok(Some(_))) {
            return false;
        }
        let small = |&v: &ValueId| g.ty(v).bytes().unwrap_or(0) <= PART_BYTES;
        g.nodes.iter().all(|part| {
            let types: Vec<&Type> = part.inputs.iter().map(|&v| g.ty(v)).collect();
            match self.cx.path(&part.op, &types) {
                _ if !part.regions.is_empty() || !part.outputs.iter().all(small) => false,
                Ok(Path::Loops) | Err(_) => self.has_kernels(&part.op, &types, rounds - 1),
                Ok(_) => true,
            }
        })
    }

    /// Types of the node's results in f32, if a kernel takes its narrow operands as f32 and the
    /// target casts there and back.
    fn widens(&self, g: &Graph, node: &Node) -> Option<Vec<Type>> {
        let narrow: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
        let wide = widened(&node.op, &narrow);
        if !node.regions.is_empty() || wide.iter().zip(&narrow).all(|(w, n)| w == *n) {
            return None;
        }
        let wide: Vec<&Type> = wide.iter().collect();
        if self.cx.path(&node.op, &wide) != Ok(Path::Native) {
            return None;
        }
        let results = node.op.infer(&wide).ok()?;
        let casts = |from: &Type, to: DType| self.cx.path(&Cast { to }.into(), &[from]).is_ok();
        let there = narrow.iter().zip(&wide).all(|(n, w)| n == w || casts(n, w.dtype));
        let back = results.len() == node.outputs.len()
            && results.iter().zip(&node.outputs).all(|(wide, &v)| {
                let ty = g.ty(v);
                let same_but_wide = is_narrow(ty)
                    && *wide == Type { dtype: DType::F32, ..ty.clone() }
                    && casts(wide, ty.dtype);
                wide == ty || same_but_wide
            });
        (there && back).then_some(results)
    }
}

/// Types of an operator's operands with narrow floats as f32; weights, which kernels read in any
/// float type, stay.
pub(super) fn widened(op: &Op, operands: &[&Type]) -> Vec<Type> {
    let weights = super::weights(op);
    let each = operands.iter().enumerate().map(|(i, &ty)| {
        let wide = is_narrow(ty) && !weights.contains(&i);
        if wide { Type { dtype: DType::F32, ..ty.clone() } } else { ty.clone() }
    });
    each.collect()
}

/// Puts the node between casts.
fn widen(
    g: &mut Graph,
    nodes: &mut Vec<Node>,
    casts: &mut Casts,
    mut node: Node,
    results: Vec<Type>,
) {
    let label = node.label.clone();
    let types: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
    let wide = widened(&node.op, &types);
    for (v, ty) in node.inputs.iter_mut().zip(wide) {
        *v = casts.get(g, nodes, *v, ty.dtype, &label);
    }
    let mut back = Vec::new();
    for (v, ty) in node.outputs.iter_mut().zip(results) {
        if *g.ty(*v) != ty {
            let to = g.ty(*v).dtype;
            let wide = g.value(ty);
            back.push(Node::new(Cast { to }, &[wide], &[*v], part(&label, to.name())));
            *v = wide;
        }
    }
    nodes.push(node);
    nodes.extend(back);
}

/// The nodes that stand for `node`, labelled as its parts, and their results.
fn decompose(g: &mut Graph, node: &Node) -> Result<Option<(Vec<Node>, Vec<ValueId>)>> {
    let at = |e: Error| if e.at.is_empty() { e.at(node.label.clone()) } else { e };
    debug_assert!(g.nodes.is_empty(), "the graph's nodes are taken");
    let mut emitter = Emitter { graph: g, label: &node.label };
    let results = node.op.decompose(&mut emitter, &node.inputs).map_err(at)?;
    let mut parts = core::mem::take(&mut g.nodes);
    let Some(results) = results else { return Ok(None) };
    let types = |values: &[ValueId]| values.iter().map(|&v| g.ty(v)).collect::<Vec<_>>();
    if types(&results) != types(&node.outputs) {
        return Err(Error::bad_graph(format!(
            "the parts of {} give other types than it does",
            node.op.name()
        ))
        .at(node.label.clone()));
    }
    for part in &mut parts {
        part.label = super::casts::part(&node.label, part.op.name());
    }
    Ok(Some((parts, results)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("legalise", super::legalise);
    }
}
