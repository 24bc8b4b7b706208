//! Which values share memory, and when each is needed.
//!
//! A view is its operand's bytes from an offset on; chains of views resolve to one root and one
//! offset. A state's next version is its operand. A result that is computed element by element reuses
//! the memory of an operand that is read there for the last time. The values that a region of control
//! flow captures are read by the node that has the region.

use super::arena::Span;
use crate::error::{Error, Result};
use crate::ir::mir::{Graph, ParamKind, ValueId};
use crate::ops::Alias;
use crate::types::{DType, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Where a value's bytes begin: a root and bytes into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub root: ValueId,
    pub offset: u64,
}

/// The memory and lifetimes of a graph's values.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Place of every value.
    pub places: Vec<Place>,
    /// Bytes of every value.
    pub bytes: Vec<u64>,
    /// Whether each node is a step: views, values made while loading, and empty values are not.
    pub steps: Vec<bool>,
    /// Roots in the arena.
    pub roots: Vec<ValueId>,
    /// The bytes and lifetime of each root, in node indices. They are exact, because nodes run in order.
    pub spans: Vec<Span>,
}

/// The alignment of a view's offset: the words that kernels address, or the element if it is longer.
pub(super) fn view_alignment(ty: &Type) -> u64 {
    match ty.dtype {
        DType::Scalar(s) => (s.bytes() as u64).max(4),
        DType::Block(_) => 4,
    }
}

/// The memory of every value. `made` says which ones the host makes while loading: they are not in the
/// arena.
///
/// # Errors
/// `BadGraph` for unbound symbols, or sizes whose sum overflows.
pub(super) fn liveness(g: &Graph, made: &[bool], alignment: u64) -> Result<Liveness> {
    let mut bytes = vec![0; g.types.len()];
    let mut total = 0u64;
    let defined = g.params.iter().map(|p| p.value);
    for v in defined.chain(g.nodes.iter().flat_map(|n| n.outputs.iter().copied())) {
        let n = g.ty(v).bytes()?;
        bytes[v.0 as usize] = n;
        // 63 bits, so that an offset plus a size does not overflow.
        total = total
            .checked_add(n.saturating_add(alignment))
            .filter(|&t| t <= u64::MAX / 2)
            .ok_or_else(|| {
                Error::bad_graph(format!("the bytes of all values overflow at {}", g.ty(v)))
            })?;
    }
    let at = |v: ValueId| v.0 as usize;
    let mut places: Vec<Place> =
        (0..g.types.len() as u32).map(|i| Place { root: ValueId(i), offset: 0 }).collect();
    let mut in_arena: Vec<bool> = made.iter().map(|&m| !m).collect();
    for p in &g.params {
        in_arena[at(p.value)] = false;
    }
    // Views and states first: a reader of a view reads its root.
    let mut steps = vec![false; g.nodes.len()];
    for (node, step) in g.nodes.iter().zip(&mut steps) {
        *step = node.outputs.iter().any(|&v| bytes[at(v)] > 0 && !made[at(v)]);
        for &(operand, result) in node.op.writes() {
            places[at(node.outputs[result])] = places[at(node.inputs[operand])];
        }
        let Alias::View { operand, byte_offset } = g.alias(node) else { continue };
        let (x, y) = (node.inputs[operand], node.outputs[0]);
        let Place { root, offset } = places[at(x)];
        let fits = byte_offset.checked_add(bytes[at(y)]).is_some_and(|end| end <= bytes[at(x)]);
        if !fits {
            return Err(Error::bad_graph(format!("{} is no part of {}", g.ty(y), g.ty(x)))
                .at(node.label.clone()));
        }
        if made[at(y)] {
            continue;
        }
        if (offset + byte_offset).is_multiple_of(view_alignment(g.ty(y))) {
            places[at(y)] = Place { root, offset: offset + byte_offset };
            *step = false;
        }
    }
    let mut last_read = vec![0usize; g.types.len()];
    for (i, node) in g.nodes.iter().enumerate() {
        for &v in &node.inputs {
            last_read[at(places[at(v)].root)] = i;
        }
    }
    for o in &g.outputs {
        last_read[at(places[at(o.value)].root)] = usize::MAX;
    }
    // In place: the result takes the operand's root at its last read. Nodes are visited in order, so that
    // a chain shares one root.
    let mut heirs: Vec<ValueId> = (0..g.types.len() as u32).map(ValueId).collect();
    for (i, node) in g.nodes.iter().enumerate().filter(|(i, _)| steps[*i]) {
        let Alias::Elementwise { operand } = g.alias(node) else { continue };
        let root = |v: ValueId| heirs[at(places[at(v)].root)];
        let (x, y) = (root(node.inputs[operand]), node.outputs[0]);
        let readers = node.inputs.iter().filter(|&&v| root(v) == x).count();
        let whole = bytes[at(node.inputs[operand])] == bytes[at(y)] && bytes[at(x)] == bytes[at(y)];
        if in_arena[at(x)] && last_read[at(x)] == i && whole && readers == 1 && bytes[at(y)] > 0 {
            last_read[at(x)] = last_read[at(y)].max(i);
            heirs[at(y)] = x;
        }
    }
    for place in &mut places {
        place.root = heirs[at(place.root)];
    }
    let (mut roots, mut spans) = (Vec::new(), Vec::new());
    for (i, node) in g.nodes.iter().enumerate() {
        for &v in &node.outputs {
            if places[at(v)].root == v && in_arena[at(v)] && bytes[at(v)] > 0 {
                let to = last_read[at(v)].max(i).min(g.nodes.len());
                roots.push(v);
                spans.push(Span { bytes: bytes[at(v)], from: i, to });
            }
        }
    }
    debug_assert!(
        g.params.iter().all(|p| p.kind != ParamKind::State || places[at(p.value)].root == p.value)
    );
    Ok(Liveness { places, bytes, steps, roots, spans })
}

/// The most bytes that live at one node, a lower bound of the arena, and that node.
pub(super) fn largest_live(spans: &[Span], nodes: usize) -> (u64, usize) {
    let (mut begins, mut ends) = (vec![0u64; nodes + 2], vec![0u64; nodes + 2]);
    for s in spans {
        begins[s.from] += s.bytes;
        ends[s.to + 1] += s.bytes;
    }
    let (mut live, mut most) = (0, (0, 0));
    for i in 0..=nodes {
        live = live + begins[i] - ends[i];
        if live > most.0 {
            most = (live, i);
        }
    }
    most
}
