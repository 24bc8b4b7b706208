//! Casts that passes insert: at most one of a value to a type.

use crate::error::Result;
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Attrs, Op};
use crate::types::{DType, Kind, Type};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// Casts there are already.
#[derive(Default)]
pub(super) struct Casts(BTreeMap<(ValueId, DType), ValueId>);

/// The cast to an element type.
pub(super) fn cast(to: DType) -> Result<Op> {
    Op::from_text("cast", &Attrs::none().name("to", to.name()))
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
    ) -> Result<ValueId> {
        if g.ty(v).dtype == to {
            return Ok(v);
        }
        if let Some(&there) = self.0.get(&(v, to)) {
            return Ok(there);
        }
        let y = g.value(Type { dtype: to, ..g.ty(v).clone() });
        nodes.push(Node::new(cast(to)?, &[v], &[y], format!("{label}/{to}")));
        self.0.insert((v, to), y);
        Ok(y)
    }
}
