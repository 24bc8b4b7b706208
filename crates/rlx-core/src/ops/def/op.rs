//! Any operator: `enum Op`, made of the rows of `ops/table.rs`, and its delegation to their structs.

use crate::error::{Error, Result};
use crate::ops::table::operators;
use crate::ops::*;
use crate::types::{Binding, Type, ValueId};
use alloc::format;
use alloc::vec::Vec;

macro_rules! define {
    ($($(#[doc = $doc:literal])* $(#[cfg($gate:meta)])? $op:ident,)*) => {
        /// An operator with its attributes.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {
            $($(#[doc = $doc])* $(#[cfg($gate)])? $op($op),)*
            /// A user's operator.
            Custom(Custom),
        }

        impl Op {
            /// Every operator's name, but for custom ones.
            pub const NAMES: &'static [&'static str] = &[$($(#[cfg($gate)])? $op::NAME),*];

            /// Every operator's name with its class, but for custom ones, which are compute.
            pub const CLASSES: &'static [(&'static str, Class)] =
                &[$($(#[cfg($gate)])? ($op::NAME, $op::CLASS)),*];

            /// The name in text IR.
            pub fn name(&self) -> &str {
                match self {
                    $($(#[cfg($gate)])? Op::$op(_) => $op::NAME,)*
                    Op::Custom(op) => op.0.name(),
                }
            }
            /// What kind of work it is.
            pub fn class(&self) -> Class {
                match self {
                    $($(#[cfg($gate)])? Op::$op(_) => $op::CLASS,)*
                    Op::Custom(_) => Class::Compute,
                }
            }
            /// Attributes in print order.
            pub fn attrs(&self) -> Attrs {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.attrs(),)*
                    Op::Custom(op) => op.0.attrs(),
                }
            }
            /// The type rule. Errors name the operator.
            pub fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.infer(operands),)*
                    Op::Custom(op) => op.0.infer(operands),
                }
            }
            /// Names of its regions.
            pub fn regions(&self) -> &'static [&'static str] {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.regions(),)*
                    Op::Custom(_) => &[],
                }
            }
            /// The type rule with the types of the node's regions. Errors name the operator.
            pub fn infer_regions(
                &self,
                operands: &[&Type],
                regions: &[Signature],
            ) -> Result<Vec<Type>> {
                if regions.len() != self.regions().len() {
                    return Err(Error::bad_graph(format!(
                        "{} has {} regions, got {}",
                        self.name(),
                        self.regions().len(),
                        regions.len()
                    )));
                }
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.infer_regions(operands, regions),)*
                    Op::Custom(op) => op.0.infer(operands),
                }
            }
            #[cfg(feature = "decompose")]
            fn parts(
                &self,
                e: &mut dyn Emit,
                operands: &[ValueId],
            ) -> Result<Option<Vec<ValueId>>> {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.decompose(e, operands),)*
                    Op::Custom(op) => op.0.decompose(e, operands),
                }
            }
            /// What result 0 may share with an operand; `operands` are the types that the type
            /// rule accepted.
            pub fn alias(&self, operands: &[&Type]) -> Alias {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.alias(operands),)*
                    Op::Custom(_) => Alias::None,
                }
            }
            /// Replaces symbols of attributes by their sizes. Errors on overflow.
            pub fn bind(&mut self, binding: &Binding) -> Result<()> {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.bind(binding),)*
                    Op::Custom(_) => Ok(()),
                }
            }
            /// `(operand, result)` pairs of states that are written.
            pub fn writes(&self) -> &'static [(usize, usize)] {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.writes(),)*
                    Op::Custom(_) => &[],
                }
            }
            /// The operand that is the control block, of so many operands.
            pub fn control(&self, operands: usize) -> Option<usize> {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.control(operands),)*
                    Op::Custom(_) => None,
                }
            }
            /// Which rows of an operand the results need.
            pub fn row_use(&self, operand: usize, operands: &[&Type]) -> RowUse {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.row_use(operand, operands),)*
                    Op::Custom(_) => RowUse::All,
                }
            }
            /// The operator of a printed name and attributes. Errors name what is unknown.
            pub fn from_text(name: &str, attrs: &Attrs) -> Result<Op> {
                match name {
                    $($(#[cfg($gate)])? $op::NAME => $op::from_attrs(attrs).map(Op::$op),)*
                    _ => Err(Error::bad_graph(format!("unknown operator {name}"))
                        .hint(format!("known: {}", Self::NAMES.join(", ")))),
                }
            }
        }
        $($(#[cfg($gate)])? impl From<$op> for Op { fn from(op: $op) -> Op { Op::$op(op) } })*
    };
}

operators!(define);

impl Op {
    /// The same results from simpler operators; `None` for a primitive.
    ///
    /// A build without the feature `decompose` has only the parts that executors of language models
    /// have kernels for: other forms of the operator itself, and operators it was fused of.
    ///
    /// # Errors
    /// From the type rules of the parts.
    pub fn decompose(
        &self,
        e: &mut dyn Emit,
        operands: &[ValueId],
    ) -> Result<Option<Vec<ValueId>>> {
        #[cfg(feature = "decompose")]
        return self.parts(e, operands);
        #[cfg(not(feature = "decompose"))]
        match self {
            Op::GroupedMatMul(op) => op.decompose(e, operands),
            Op::MatMul(op) => op.decompose(e, operands),
            Op::ResidualRmsNorm(op) => op.decompose(e, operands),
            Op::RmsNorm(op) => op.decompose(e, operands),
            Op::RopeAttentionSplit(op) => op.decompose(e, operands),
            Op::RopeKvWrite(op) => op.decompose(e, operands),
            Op::Custom(op) => op.0.decompose(e, operands),
            _ => Ok(None),
        }
    }
}
