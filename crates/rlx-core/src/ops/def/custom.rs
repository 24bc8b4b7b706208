//! Operators that users bring: a type rule and a reference, no row in any table.

use crate::error::Result;
use crate::ops::{Attrs, Emit, Op};
use crate::types::{Type, ValueId};
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// What a user's operator says. It must be pure: equal operands give equal results.
pub trait CustomOperator: fmt::Debug + Send + Sync {
    /// The name in text IR; no operator of RLX's own has it.
    fn name(&self) -> &str;

    /// Attributes in print order. Two operators are equal when names and attributes are.
    fn attrs(&self) -> Attrs {
        Attrs::none()
    }

    /// The type rule: results of these operands, or why there are none.
    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>>;

    /// The reference: bytes of each result, little-endian and row-major.
    fn run(&self, operands: &[(&Type, &[u8])]) -> Result<Vec<Vec<u8>>>;

    /// The same results from RLX's operators, for targets that know no other; `None` if there are
    /// none, and then only targets that run references run it.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let _ = (e, operands);
        Ok(None)
    }
}

/// A user's operator in a graph.
#[derive(Clone, Debug)]
pub struct Custom(pub Arc<dyn CustomOperator>);

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name() && self.0.attrs() == other.0.attrs()
    }
}

impl From<Custom> for Op {
    fn from(op: Custom) -> Op {
        Op::Custom(op)
    }
}

/// Makes an operator of printed attributes.
pub type MakeCustom = fn(&Attrs) -> Result<Custom>;

/// The user's operators that text IR may name. A value that is passed, not a global.
#[derive(Clone, Debug, Default)]
pub struct CustomSet(BTreeMap<String, MakeCustom>);

impl CustomSet {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one; chain it. A later one of the same name replaces the earlier.
    #[must_use]
    pub fn with(mut self, name: &str, make: MakeCustom) -> Self {
        self.0.insert(name.to_string(), make);
        self
    }

    /// How to make the operator of that name.
    pub fn get(&self, name: &str) -> Option<MakeCustom> {
        self.0.get(name).copied()
    }
}
