//! Casts that passes insert: at most one of a value to a type.

use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::Cast;
use crate::sorted::Map;
use crate::types::{DType, Kind, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Casts there are already.
#[derive(Default)]
pub(super) struct Casts(Map<(ValueId, DType), ValueId>);

/// The label of a node that is a part of another's work.
pub(super) fn part(label: &str, name: &str) -> String {
    if label.is_empty() { name.into() } else { format!("{label}/{name}") }
}

/// True for a tensor of f16 or bf16.
pub(super) fn is_narrow(ty: &Type) -> bool {
    ty.kind == Kind::Tensor && matches!(ty.dtype, DType::F16 | DType::BF16)
}

impl Casts {
    /// `v` with elements of `to`, by a new node at the end of `nodes` unless there is one.
    pub fn get(
        &mut self,
        g: &mut Graph,
        nodes: &mut Vec<Node>,
        v: ValueId,
        to: DType,
        label: &str,
    ) -> ValueId {
        if g.ty(v).dtype == to {
            return v;
        }
        if let Some(&there) = self.0.get(&(v, to)) {
            return there;
        }
        let y = g.value(Type { dtype: to, ..g.ty(v).clone() });
        nodes.push(Node::new(Cast { to }, &[v], &[y], part(label, to.name())));
        self.0.insert((v, to), y);
        y
    }
}
