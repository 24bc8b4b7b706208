//! From a graph to a tape: every operator as calls of MLX.
//!
//! A row of the table has an operator's name, which forms of it are taken, and what writes it. To add one, write a file
//! with `takes` and a builder over [`Call`], and a row here; the target's claims are made of the rows.

mod attention;
mod control;
mod conv;
mod delta_net;
mod elementwise;
mod functions;
mod gather;
mod grouped_matmul;
mod indexed;
mod kv_write;
mod matmul;
mod movement;
mod norms;
mod predict;
mod products;
mod random;
mod reductions;
mod rope;
mod sample;
mod sdpa;
mod take_rows;
mod takes;
mod views;
mod windows;

use crate::tape::{Kind, Reg, Tape};
use crate::weights::Packed;
use rlx_core::ir::mir::{Graph, Node};
use rlx_core::ops::Op;
use rlx_core::target::{KernelClaim, KernelRow, Takes, Target};
use rlx_core::types::{DType, Type, ValueId};
use rlx_core::{Code as ErrorCode, Error, Result};
use takes::nothing_more;

/// A value of the graph on the tape.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// An array.
    Array(Reg),
    /// A packed weight.
    Packed(Packed<Reg>),
}

/// An operator with its operands, as a builder sees it.
pub(crate) struct Call<'a> {
    /// Where it is written.
    pub t: &'a mut Tape,
    /// The operator.
    pub op: &'a Op,
    /// What is known of the submissions.
    pub form: Form,
    values: Vec<Value>,
    /// Types of the operands.
    pub types: Vec<&'a Type>,
    /// Types of the results.
    pub results: Vec<&'a Type>,
}

impl Call<'_> {
    /// Operands.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Operand `i`.
    pub fn value(&self, i: usize) -> Result<&Value> {
        self.values.get(i).ok_or_else(|| Error::internal(format!("operand {i} is missing")))
    }

    /// Operand `i`, which is an array.
    pub fn x(&self, i: usize) -> Result<Reg> {
        match self.value(i)? {
            Value::Array(reg) => Ok(*reg),
            Value::Packed(_) => Err(refused(format!("operand {i} is packed"))),
        }
    }

    /// Operand `i` in another element type.
    pub fn cast(&mut self, i: usize, to: Kind) -> Result<Reg> {
        let x = self.x(i)?;
        Ok(if self.kind(i)? == to { x } else { self.t.cast(x, to) })
    }

    /// Sizes of operand `i`.
    pub fn dims(&self, i: usize) -> Result<Vec<i64>> {
        self.types.get(i).map_or_else(|| Err(Error::internal("no such operand")), |ty| dims(ty))
    }

    /// Element type of operand `i`.
    pub fn kind(&self, i: usize) -> Result<Kind> {
        self.types.get(i).map_or_else(|| Err(Error::internal("no such operand")), |ty| kind(ty))
    }

    /// Sizes of result `i`.
    pub fn out_dims(&self, i: usize) -> Result<Vec<i64>> {
        self.results.get(i).map_or_else(|| Err(Error::internal("no such result")), |ty| dims(ty))
    }

    /// Element type of result `i`.
    pub fn out_kind(&self, i: usize) -> Result<Kind> {
        self.results.get(i).map_or_else(|| Err(Error::internal("no such result")), |ty| kind(ty))
    }
}

/// What an operator's file was given that its `takes` refuses.
fn refused(what: String) -> Error {
    Error::new(ErrorCode::Unsupported, what)
}

/// Sizes of a type: MLX counts with 31 bits.
pub(crate) fn dims(ty: &Type) -> Result<Vec<i64>> {
    let size = |d: &rlx_core::types::Dim| {
        let n = d.as_static().filter(|&n| n < 1 << 31);
        n.map(|n| n as i64).ok_or_else(|| refused(format!("MLX has no array of {ty}")))
    };
    ty.shape.0.iter().map(size).collect()
}

fn kind(ty: &Type) -> Result<Kind> {
    Kind::of(ty.dtype).ok_or_else(|| refused(format!("MLX has no array of {ty}")))
}

/// Writes an operator: its results.
type Build = fn(&mut Call<'_>) -> Result<Vec<Reg>>;

/// An operator: its name, which forms of it are taken, and what builds it.
const fn row(op: &'static str, takes: Takes, build: Build) -> KernelRow<Build> {
    KernelRow::new(op, takes, build)
}

/// Every operator. Those that are views are never asked whether they are taken.
const ROWS: &[KernelRow<Build>] = &[
    row("reshape", nothing_more, views::reshape),
    row("token", nothing_more, views::token),
    row("canvas_ids", nothing_more, views::canvas_ids),
    row("state_read", nothing_more, views::state_read),
    row("gather", gather::takes, gather::gather),
    row("rms_norm", norms::takes, norms::rms_norm),
    row("rms_norm_add", norms::takes, norms::rms_norm_add),
    row("matmul", matmul::takes, matmul::matmul),
    row("rope", rope::takes, rope::rope),
    row("kv_write", kv_write::takes, kv_write::kv_write),
    row("attention", attention::takes, attention::attention),
    row("take_rows", take_rows::takes, take_rows::take_rows),
    row("sample", sample::takes, sample::sample),
    row("predict", predict::takes, predict::predict),
    row("unmask", predict::takes_unmask, predict::unmask),
    row("map", functions::takes_map, functions::map),
    row("zip", functions::takes_zip, functions::zip),
    row("elementwise_region", elementwise::takes_region, elementwise::region),
    row("grouped_matmul", grouped_matmul::takes, grouped_matmul::grouped_matmul),
    row("delta_net", delta_net::takes, delta_net::delta_net),
    row("gated_delta_net", delta_net::takes, delta_net::gated_delta_net),
    row("compare", elementwise::takes, elementwise::compare),
    row("select", elementwise::takes, elementwise::select),
    row("clamp", elementwise::takes_clamp, elementwise::clamp),
    row("cast", elementwise::takes_cast, elementwise::cast),
    row("slice", movement::takes, movement::slice),
    row("concat", movement::takes, movement::concat),
    row("transpose", movement::takes, movement::transpose),
    row("expand", movement::takes, movement::expand),
    row("reverse", movement::takes, movement::reverse),
    row("roll", movement::takes, movement::roll),
    row("pad", movement::takes, movement::pad),
    row("iota", movement::takes, movement::iota),
    row("constant", movement::takes, movement::constant),
    row("gather_elements", indexed::takes, indexed::gather_elements),
    row("scatter_add", indexed::takes, indexed::scatter_add),
    row("state_write", indexed::takes_write, indexed::state_write),
    row("reduce", reductions::takes, reductions::reduce),
    row("softmax", reductions::takes_softmax, reductions::softmax),
    row("cumsum", reductions::takes, reductions::cumsum),
    row("argmax", reductions::takes, reductions::arg),
    row("argmin", reductions::takes, reductions::arg),
    row("sort", reductions::takes_order, reductions::sort),
    row("top_k", reductions::takes_order, reductions::top_k),
    row("batch_matmul", products::takes, products::batch_matmul),
    row("dot_general", products::takes, products::dot_general),
    row("sdpa", sdpa::takes, sdpa::sdpa),
    row("layer_norm", norms::takes, norms::layer_norm),
    row("group_norm", norms::takes, norms::group_norm),
    row("conv", conv::takes, conv::conv),
    row("conv_transpose", conv::takes, conv::conv_transpose),
    row("pool", windows::takes, windows::pool),
    row("im2col", windows::takes, windows::im2col),
    row("interpolate", windows::takes_interpolate, windows::interpolate),
    row("random_uniform", random::takes, random::random),
    row("random_normal", random::takes, random::random),
];

/// What the lowerings take.
pub(crate) const CLAIMS: &[KernelClaim] = &KernelRow::claims::<{ ROWS.len() }>(ROWS);

/// What is known of submissions that a tape is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// The sampling parameters say that the best token is taken.
    pub greedy: bool,
    /// Attention sees no position behind so many rows of a cache. `None`: it may see all.
    pub positions: Option<i64>,
}

/// A graph as a tape, in words, and what its arguments and results are.
#[derive(Debug)]
pub(crate) struct Lowered {
    /// The tape.
    pub words: Vec<i64>,
    /// Results.
    pub results: usize,
    /// Arrays of each argument.
    pub arguments: Vec<usize>,
}

/// Lowers a graph without symbols. Results are its outputs, then the last version of each state.
///
/// # Errors
/// `Unsupported` for an operator that has no row, or a form of one that is not taken.
pub(crate) fn lower(graph: &Graph, target: &Target, form: Form) -> Result<Lowered> {
    let mut t = Tape::default();
    let mut values: Vec<Option<Value>> = vec![None; graph.types.len()];
    let mut arguments = Vec::with_capacity(graph.params.len());
    for p in &graph.params {
        let (value, arrays) = match graph.ty(p.value).dtype {
            DType::Block(format) => {
                let packed = Packed::of(format, || t.parameter());
                let arrays = packed.arrays().len();
                (Value::Packed(packed), arrays)
            }
            DType::Scalar(_) => (Value::Array(t.parameter()), 1),
        };
        arguments.push(arrays);
        values[p.value.0 as usize] = Some(value);
    }
    for node in &graph.nodes {
        let made = write(graph, node, target, &mut t, (&values, form))
            .map_err(|e| e.at(node.label.clone()))?;
        for (v, value) in node.outputs.iter().zip(made) {
            values[v.0 as usize] = Some(value);
        }
    }
    let outputs = graph.outputs.iter().map(|o| o.value);
    let results: Vec<ValueId> =
        outputs.chain(graph.final_states().into_iter().map(|s| s.1)).collect();
    let reg = |v: &ValueId| match &values[v.0 as usize] {
        Some(Value::Array(reg)) => Ok(*reg),
        Some(Value::Packed(_)) => Err(refused("a packed weight is returned".into())),
        None => Err(Error::internal("a result is not defined")),
    };
    let regs = results.iter().map(reg).collect::<Result<Vec<Reg>>>()?;
    Ok(Lowered { words: t.finish(&regs), arguments, results: regs.len() })
}

/// Writes a node.
fn write(
    graph: &Graph,
    node: &Node,
    target: &Target,
    t: &mut Tape,
    (values, form): (&[Option<Value>], Form),
) -> Result<Vec<Value>> {
    let types: Vec<&Type> = node.inputs.iter().map(|&v| graph.ty(v)).collect();
    let name = node.op.name();
    let refuse = |why: String| refused(format!("{} does not run {name}: {why}", target.name));
    target.claims(&node.op, &types).map_err(refuse)?;
    let row = ROWS.iter().find(|row| row.claim.op == name);
    let row = row.ok_or_else(|| refuse("it has no kernel".into()))?;
    let operands = node.inputs.iter().map(|v| {
        values[v.0 as usize].clone().ok_or_else(|| Error::internal("an operand is not defined"))
    });
    let operands = operands.collect::<Result<Vec<Value>>>()?;
    let results = node.outputs.iter().map(|&v| graph.ty(v)).collect();
    if let (Some(Value::Packed(packed)), Op::Slice(slice)) = (operands.first(), &node.op) {
        return Ok(vec![Value::Packed(views::packed_slice(t, packed, slice, types[0])?)]);
    }
    let mut call = Call { t, op: &node.op, form, values: operands, types, results };
    let made = if form.greedy && matches!(node.op, Op::Sample(_)) {
        sample::greedy(&mut call)?
    } else {
        (row.build)(&mut call)?
    };
    if made.len() != node.outputs.len() {
        return Err(Error::internal(format!("{name} was written with {} results", made.len())));
    }
    Ok(made.into_iter().map(Value::Array).collect())
}
