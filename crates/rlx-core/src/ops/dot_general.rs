//! Products over any axes [StableHLO dot_general].

use super::{Attrs, BatchMatMul, Class, Emit, Field, Operator, arity, rules};
use crate::error::{Error, Result};
use crate::order;
use crate::types::{Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `dot_general a, b -> [batch.., a's free axes.., b's free axes..]`: the sum of products over the
/// contracted axes, for each index of the batch axes. The i-th batch axis of `a` goes with the
/// i-th of `b`, and so do contracted axes; paired axes have one size. Free axes are the others, in
/// their order. Both are tensors of one float type, the result's.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DotGeneral {
    /// Batch axes of `a`.
    pub lhs_batch: Vec<usize>,
    /// Batch axes of `b`.
    pub rhs_batch: Vec<usize>,
    /// Contracted axes of `a`.
    pub lhs_contract: Vec<usize>,
    /// Contracted axes of `b`.
    pub rhs_contract: Vec<usize>,
}

impl DotGeneral {
    /// Axes of an operand of that rank that are neither batch nor contracted.
    pub fn free(batch: &[usize], contract: &[usize], rank: usize) -> Vec<usize> {
        (0..rank).filter(|i| !batch.contains(i) && !contract.contains(i)).collect()
    }
}

const LISTS: [&str; 4] = ["lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"];

/// Lists that print where they are not empty.
impl Field for DotGeneral {
    fn put(&self, _: &str, attrs: Attrs) -> Attrs {
        let lists = [&self.lhs_batch, &self.rhs_batch, &self.lhs_contract, &self.rhs_contract];
        LISTS
            .iter()
            .zip(lists)
            .filter(|(_, list)| !list.is_empty())
            .fold(attrs, |attrs, (name, list)| attrs.axes(name, list))
    }

    fn take(_: &str, _: &str, attrs: &Attrs) -> Result<Self> {
        let axes = |name: &str| -> Result<Vec<usize>> {
            let list = attrs.opt_ints(name)?.unwrap_or_default();
            Ok(list.into_iter().map(|i| usize::try_from(i).unwrap_or(usize::MAX)).collect())
        };
        Ok(DotGeneral {
            lhs_batch: axes(LISTS[0])?,
            rhs_batch: axes(LISTS[1])?,
            lhs_contract: axes(LISTS[2])?,
            rhs_contract: axes(LISTS[3])?,
        })
    }

    fn names(_: &'static str, out: &mut Vec<&'static str>) {
        out.extend(LISTS);
    }
}

impl Operator for DotGeneral {
    const NAME: &'static str = "dot_general";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = DotGeneral::NAME;
        arity(NAME, operands, 2)?;
        let [a, b] = operands else { return Err(Error::internal("dot_general: arity")) };
        let named = [("a", *a), ("b", *b)];
        let dtype = rules::same_floats(NAME, &named)?;
        let sides =
            [(a, &self.lhs_batch, &self.lhs_contract), (b, &self.rhs_batch, &self.rhs_contract)];
        for (ty, batch, contract) in sides {
            let mut axes: Vec<usize> = batch.iter().chain(contract).copied().collect();
            order::sort(&mut axes);
            let twice = axes.windows(2).any(|w| w[0] == w[1]);
            if twice || axes.last().is_some_and(|&i| i >= ty.shape.rank()) {
                return Err(Error::bad_graph(format!(
                    "{NAME}: axes {batch:?} and {contract:?} of {ty}; expected each once, and below {}",
                    ty.shape.rank()
                )));
            }
        }
        let pairs = [(&self.lhs_batch, &self.rhs_batch), (&self.lhs_contract, &self.rhs_contract)];
        for (left, right) in pairs {
            let fits = left.len() == right.len()
                && left.iter().zip(right).all(|(&i, &j)| a.shape.0.get(i) == b.shape.0.get(j));
            if !fits {
                let need = format!("axes {left:?} of a to have the sizes of axes {right:?} of b");
                return Err(rules::misfit(NAME, &named, &need));
            }
        }
        let mut dims = Vec::new();
        dims.extend(self.lhs_batch.iter().filter_map(|&i| a.shape.0.get(i).cloned()));
        for (ty, batch, contract) in sides {
            let free = DotGeneral::free(batch, contract, ty.shape.rank());
            dims.extend(free.into_iter().filter_map(|i| ty.shape.0.get(i).cloned()));
        }
        Ok(vec![Type::tensor(dtype, Shape(dims))])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [a, b] = *operands else { return Err(Error::internal("dot_general: arity")) };
        let named: [&Type; 2] = [e.ty(a), e.ty(b)];
        let result = self.infer(&named)?.swap_remove(0);
        let a = rows(e, a, &self.lhs_batch, &self.lhs_contract)?;
        let b = rows(e, b, &self.rhs_batch, &self.rhs_contract)?;
        let y = e.one(BatchMatMul { transpose_b: true }, &[a, b])?;
        Ok(Some(vec![e.reshape(y, &result.shape.0)?]))
    }
}

/// An operand as `[batch.., free axes in one, contracted axes in one]`.
fn rows(e: &mut dyn Emit, x: ValueId, batch: &[usize], contract: &[usize]) -> Result<ValueId> {
    let dims = e.dims(x);
    let free = DotGeneral::free(batch, contract, dims.len());
    let perm: Vec<usize> = batch.iter().chain(&free).chain(contract).copied().collect();
    let turned = e.transpose(x, &perm)?;
    let sizes = |axes: &[usize]| -> Vec<Dim> {
        axes.iter().filter_map(|&i| dims.get(i).cloned()).collect()
    };
    let mut shape = sizes(batch);
    shape.push(rules::product(&sizes(&free))?);
    shape.push(rules::product(&sizes(contract))?);
    e.reshape(turned, &shape)
}
