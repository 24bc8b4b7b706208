//! From a graph to StableHLO text, which an XLA device compiles.
//!
//! An operator's lowering is a row of [`ROWS`]: its name, a function `takes` that says which forms it has, and one
//! that writes its lines with the [`Builder`]. To add an operator, write both in the file of its group and add the row:
//! the target's claims are made of the same list, so that the compiler decomposes, or names in an error, what no row
//! takes. Operands come as [`Node`]'s values with their types; results are returned in the operator's order.
//!
//! Parameters of `main` are the graph's, in order. Results are its outputs, then the last version of every state in
//! the order of the states' parameters; a state's parameter gives its memory to that result. Packed tensors and states
//! are bytes without axes, as the file has them; [`formats`] decodes them where they are read.

mod attention;
mod blocks;
mod builder;
mod codebooks;
mod control;
mod elementwise;
mod exchange;
mod experts;
mod formats;
mod functions;
mod gather;
mod kv_write;
mod matmul;
mod movement;
mod norms;
mod products;
mod random;
mod recurrent;
mod reductions;
mod rope;
mod sample;
mod scan;
mod sdpa;
mod takes;
mod views;
mod windows;

pub use builder::El;
pub(crate) use builder::{Builder, V};
pub(crate) use formats::FORMATS;

use rlx_core::ir::mir::Graph;
use rlx_core::ir::verify::verify;
use rlx_core::ops::{Alias, Op};
use rlx_core::target::{KernelClaim, KernelRow, Takes, Target};
use rlx_core::types::{DType, Scalar, Type};
use rlx_core::{Code, Error, Result};
use std::fmt::Write as _;

/// Writes an operator's lines; its results.
type Lower = fn(&mut Builder, &Node<'_>) -> Result<Vec<V>>;

/// An operator: its name, which forms of it are taken, and what builds it.
const fn row(op: &'static str, takes: Takes, build: Lower) -> KernelRow<Lower> {
    KernelRow::new(op, takes, build)
}

/// Every operator.
const ROWS: &[KernelRow<Lower>] = &[
    row("gather", gather::takes, gather::gather),
    row("take_rows", gather::takes_rows, gather::take_rows),
    row("rms_norm", norms::takes, norms::rms_norm),
    row("rms_norm_add", norms::takes, norms::rms_norm_add),
    row("gated_rms_norm", norms::takes, norms::gated_rms_norm),
    row("layer_norm", norms::takes_standard, norms::layer_norm),
    row("group_norm", norms::takes_standard, norms::group_norm),
    row("grouped_matmul", experts::takes, experts::grouped_matmul),
    row("weighted_sum", experts::takes_sum, experts::weighted_sum),
    row("gated_delta_net", recurrent::takes, recurrent::gated_delta_net),
    row("selective_scan", recurrent::takes, recurrent::selective_scan),
    row("causal_conv1d", recurrent::takes, recurrent::causal_conv1d),
    row("matmul", matmul::takes, matmul::matmul),
    row("rope", rope::takes, rope::rope),
    row("kv_write", kv_write::takes, kv_write::kv_write),
    row("attention", attention::takes, attention::attention),
    row("sample", sample::takes, sample::sample),
    row("predict", blocks::takes, blocks::predict),
    row("unmask", blocks::takes, blocks::unmask),
    row("map", elementwise::takes, elementwise::map),
    row("zip", elementwise::takes, elementwise::zip),
    row("compare", elementwise::takes, elementwise::compare),
    row("select", elementwise::takes, elementwise::select),
    row("cast", elementwise::takes, elementwise::cast),
    row("clamp", elementwise::takes, elementwise::clamp),
    row("elementwise_region", elementwise::takes, elementwise::region),
    row("slice", movement::takes, movement::slice),
    row("concat", movement::takes, movement::concat),
    row("transpose", movement::takes, movement::transpose),
    row("expand", movement::takes, movement::expand),
    row("reverse", movement::takes, movement::reverse),
    row("roll", movement::takes, movement::roll),
    row("pad", movement::takes, movement::pad),
    row("iota", movement::takes, movement::iota),
    row("gather_elements", movement::takes, movement::gather_elements),
    row("scatter_add", movement::takes, movement::scatter_add),
    row("state_write", movement::takes, movement::state_write),
    row("reduce", reductions::takes, reductions::reduce),
    row("softmax", reductions::takes, reductions::softmax),
    row("cumsum", reductions::takes, reductions::cumsum),
    row("sort", reductions::takes, reductions::sort),
    row("top_k", reductions::takes, reductions::top_k),
    row("argmax", reductions::takes, reductions::extreme),
    row("argmin", reductions::takes, reductions::extreme),
    row("batch_matmul", products::takes, products::batch_matmul),
    row("dot_general", products::takes, products::dot_general),
    row("sdpa", sdpa::takes, sdpa::sdpa),
    row("conv", windows::takes, windows::conv),
    row("conv_transpose", windows::takes, windows::conv_transpose),
    row("pool", windows::takes, windows::pool),
    row("im2col", windows::takes, windows::im2col),
    row("interpolate", windows::takes, windows::interpolate),
    row("random_uniform", random::takes, random::uniform),
    row("random_normal", random::takes, random::normal),
    row("all_reduce", exchange::takes_sum, exchange::all_reduce),
    row("all_gather", exchange::takes_all, exchange::all_gather),
];

/// What the lowerings take.
pub(crate) const CLAIMS: &[KernelClaim] = &KernelRow::claims::<{ ROWS.len() }>(ROWS);

/// A node of the graph, as its lowering sees it.
pub(crate) struct Node<'a> {
    /// What it does.
    pub op: &'a Op,
    /// Its operands' values.
    pub values: Vec<V>,
    /// Their types.
    pub types: Vec<&'a Type>,
    /// Types of its results.
    pub results: Vec<&'a Type>,
}

impl<'a> Node<'a> {
    /// Operand `i`.
    fn value(&self, i: usize) -> Result<&V> {
        self.values.get(i).ok_or_else(|| self.mismatch())
    }

    /// The type of operand `i`.
    fn ty(&self, i: usize) -> Result<&'a Type> {
        self.types.get(i).copied().ok_or_else(|| self.mismatch())
    }

    /// Sizes of operand `i`, in elements.
    fn dims(&self, i: usize) -> Result<Vec<u64>> {
        self.ty(i)?.shape.static_dims()
    }

    /// Sizes of result `i`.
    fn result(&self, i: usize) -> Result<Vec<u64>> {
        self.results.get(i).ok_or_else(|| self.mismatch())?.shape.static_dims()
    }

    /// The element type of result `i`.
    fn result_el(&self, i: usize) -> Result<El> {
        el(self.results.get(i).ok_or_else(|| self.mismatch())?.dtype)
    }

    /// The error of a node that came to another operator's lowering, or has other operands than it takes.
    fn mismatch(&self) -> Error {
        Error::internal(format!("{} came to another operator's lowering", self.op.name()))
    }
}

/// A graph as text, and what the device has to know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// StableHLO.
    pub text: String,
    /// How many results it has.
    pub results: usize,
    /// Parameters that are states: their numbers, in order.
    pub states: Vec<usize>,
}

/// How a value of this type is kept: its element type and sizes. Packed tensors are bytes.
///
/// # Errors
/// `BadGraph` for a type with symbols.
pub fn storage(ty: &Type) -> Result<(El, Vec<u64>)> {
    // No size of a value overflows from here on.
    let bytes = ty.bytes()?;
    match ty.dtype {
        DType::Block(_) => Ok((El::U8, vec![bytes])),
        dtype => Ok((el(dtype)?, ty.shape.static_dims()?)),
    }
}

/// The element type of a scalar type; of a packed one that of its bytes.
fn el(dtype: DType) -> Result<El> {
    Ok(match dtype {
        DType::Block(_) => El::U8,
        DType::Scalar(scalar) => match scalar {
            Scalar::F64 => El::F64,
            Scalar::F32 => El::F32,
            Scalar::F16 => El::F16,
            Scalar::Bf16 => El::Bf16,
            Scalar::I64 => El::I64,
            Scalar::I32 => El::I32,
            Scalar::I16 => El::I16,
            Scalar::I8 => El::I8,
            Scalar::U32 => El::U32,
            Scalar::U8 => El::U8,
            Scalar::Bool => El::Bool,
            Scalar::C64 => El::C64,
        },
    })
}

/// Writes a graph that was legalised for one device of this crate.
///
/// # Errors
/// As [`lower_for`].
pub fn lower(graph: &Graph) -> Result<Module> {
    lower_for(graph, crate::target::plain())
}

/// Writes a graph that was legalised for this target. Devices that run it together are its replicas, each with
/// arguments of its own.
///
/// # Errors
/// `Unsupported` for a node that nothing lowers, with its label; `BadGraph` for unbound symbols, and for a graph that
/// breaks a rule of all graphs.
pub fn lower_for(graph: &Graph, target: &Target) -> Result<Module> {
    verify(graph)?;
    let mut b = Builder::new(crate::target::decoded_at_once(target));
    let mut values: Vec<Option<V>> = vec![None; graph.types.len()];
    let finals = graph.final_states();
    let states: Vec<usize> = finals.iter().map(|f| f.0).collect();
    let mut params = Vec::new();
    for (i, p) in graph.params.iter().enumerate() {
        let (el, dims) = storage(graph.ty(p.value)).map_err(|e| e.at(p.name.clone()))?;
        let v = Builder::named(&format!("%a{i}"), el, &dims);
        let mut text = format!("%a{i}: {}", v.ty());
        if let Some(n) = finals.iter().position(|f| f.0 == i) {
            let _ = write!(text, " {{tf.aliasing_output = {} : i32}}", graph.outputs.len() + n);
        }
        params.push(text);
        values[p.value.0 as usize] = Some(v);
    }
    body(&mut b, graph, &mut values, target)?;
    let results = graph.outputs.iter().map(|o| o.value).chain(finals.iter().map(|f| f.1));
    let results: Option<Vec<V>> =
        results.map(|v| values.get(v.0 as usize).cloned().flatten()).collect();
    let results =
        results.ok_or_else(|| Error::bad_graph("the graph returns what nothing makes"))?;
    let result_types: Vec<String> = results.iter().map(V::ty).collect();
    b.finish(&results);
    let text = format!(
        "module {{\n  func.func public @main({}) -> ({}) {{\n{}  }}\n}}\n",
        params.join(", "),
        result_types.join(", "),
        b.into_text()
    );
    Ok(Module { text, results: results.len(), states })
}

/// Writes the nodes of a graph whose parameters have values.
fn body(b: &mut Builder, graph: &Graph, values: &mut [Option<V>], target: &Target) -> Result<()> {
    for node in &graph.nodes {
        let operands: Option<Vec<V>> =
            node.inputs.iter().map(|v| values.get(v.0 as usize).cloned().flatten()).collect();
        let operands = operands.ok_or_else(|| {
            Error::bad_graph(format!("{} reads what nothing makes", node.op.name()))
                .at(node.label.clone())
        })?;
        let seen = Node {
            op: &node.op,
            values: operands,
            types: node.inputs.iter().map(|&v| graph.ty(v)).collect(),
            results: node.outputs.iter().map(|&v| graph.ty(v)).collect(),
        };
        let results = one(b, &seen, target)
            .map_err(|e| if e.at.is_empty() { e.at(node.label.clone()) } else { e })?;
        if results.len() != node.outputs.len() {
            return Err(seen.mismatch().at(node.label.clone()));
        }
        for (&v, result) in node.outputs.iter().zip(results) {
            let (el, dims) = storage(graph.ty(v))?;
            if (el, &dims) != (result.el, &result.dims) {
                let what =
                    format!("{} became {}, not {}", node.op.name(), result.ty(), graph.ty(v));
                return Err(Error::internal(what).at(node.label.clone()));
            }
            values[v.0 as usize] = Some(result);
        }
    }
    Ok(())
}

/// Writes one node.
fn one(b: &mut Builder, node: &Node<'_>, target: &Target) -> Result<Vec<V>> {
    let is_view = matches!(node.op.alias(&node.types), Alias::View { .. });
    if let Some(v) = views::constant(b, node)? {
        return Ok(vec![v]);
    }
    let row = ROWS.iter().find(|row| row.claim.op == node.op.name());
    let taken = row.ok_or_else(|| "it has no lowering".into());
    let taken = taken.and_then(|row| (row.claim.takes)(node.op, &node.types, target).map(|()| row));
    match taken {
        Ok(row) => (row.build)(b, node),
        Err(_) if is_view => Ok(vec![views::view(b, node)?]),
        Err(why) => {
            let what = format!("XLA does not run {}: {why}", node.op.name());
            Err(Error::new(Code::Unsupported, what))
        }
    }
}
