//! The choice of a mixture of experts: which experts a row goes to, and what each counts for.

use super::{
    Binary, Class, Comparison, Emit, GatherElements, Operator, Reduce, Reduction, RowUse, Softmax,
    TopK, Unary, arity, attributes, matrix, rules,
};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `route logits [M, E], (bias [E])? -> ids u32 [M, top_k], shares [M, top_k]`: the experts of each row,
/// the best first, ties to the lower id, and their shares of its result.
///
/// ```text
/// score    softmax of the row's logits, or sigmoid(logit)
/// choice   the logit; with a bias or groups score + bias
/// groups   E / groups experts in a row are a group, whose choice is the sum of its group_sum best; experts
///          outside the top_groups best groups are not chosen
/// share    the score; normalised divided by the sum of the row's shares, at least 1e-20; times scale
/// ```
///
/// Normalised shares of a softmax are the softmax of the chosen logits. Logits are of any float type, which
/// shares have too; the bias has that type or f32. Which experts a row with NaN goes to is not said, but
/// there are as many, and each is one of the E. DeepSeek-V3 (arXiv:2412.19437), section 2.1.2.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Experts of a row.
    pub top_k: usize,
    /// Scores are sigmoids of the logits, not their softmax.
    pub sigmoid: bool,
    /// Shares of a row are divided by their sum.
    pub normalise: bool,
    /// Multiplies the shares.
    pub scale: Option<f32>,
    /// Whether the choice has a bias.
    pub choice_bias: bool,
    /// Groups of experts.
    pub groups: usize,
    /// Groups that a row's experts come from.
    pub top_groups: usize,
    /// Experts whose scores are a group's.
    pub group_sum: usize,
}

attributes! { Route {
    top_k, sigmoid, normalise, scale, choice_bias, groups = 1, top_groups = 1, group_sum = 1,
} }

/// The least sum that shares are divided by.
pub const LEAST_SUM: f32 = 1e-20;

impl Route {
    /// The `top_k` largest of a softmax.
    pub fn softmax(top_k: usize) -> Self {
        Route {
            top_k,
            sigmoid: false,
            normalise: false,
            scale: None,
            choice_bias: false,
            groups: 1,
            top_groups: 1,
            group_sum: 1,
        }
    }

    /// Whether experts are chosen by their scores; otherwise by logits, which have the same order.
    pub fn chooses_by_score(&self) -> bool {
        self.choice_bias || self.has_groups()
    }

    /// Whether some groups are left out.
    pub fn has_groups(&self) -> bool {
        self.top_groups < self.groups
    }
}

impl Operator for Route {
    const NAME: &'static str = "route";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = Route::NAME;
        arity(NAME, operands, 1 + usize::from(self.choice_bias))?;
        let logits = operands[0];
        rules::float_tensor(NAME, "logits", logits)?;
        let (m, experts) = matrix(NAME, "logits", logits)?;
        let Route { top_k, groups, top_groups, group_sum, .. } = self;
        let in_group = match experts.as_static() {
            Some(n) if *groups > 0 && n.is_multiple_of(*groups as u64) => n / *groups as u64,
            Some(_) => 0,
            None if *groups == 1 => u64::MAX,
            None => 0,
        };
        let of_groups = in_group.saturating_mul(*top_groups as u64);
        let fits = (1..=*groups).contains(top_groups)
            && (1..=in_group).contains(&(*group_sum as u64))
            && (1..=of_groups).contains(&(*top_k as u64));
        if !fits {
            return Err(Error::bad_graph(format!(
                "{NAME}: logits is {logits}; expected E experts in {groups} equal groups of at least \
                 {group_sum}, and {top_k} experts, at least 1, to choose in {top_groups} of them"
            )));
        }
        if let Some(bias) = operands.get(1) {
            rules::vector(NAME, "bias", bias, &experts, logits.dtype)?;
        }
        let shape = Shape(vec![m, Dim::from(*top_k as u64)]);
        Ok(vec![Type::tensor(DType::U32, shape.clone()), Type::tensor(logits.dtype, shape)])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let Some(&logits) = operands.first() else { return Err(Error::internal("route: arity")) };
        let dtype = e.ty(logits).dtype;
        let logits = e.wide(logits)?;
        let scores = match self.sigmoid {
            true => e.map(Unary::Sigmoid, logits)?,
            false => e.one(Softmax { axis: 1 }, &[logits])?,
        };
        let mut choice = if self.chooses_by_score() { scores } else { logits };
        if let Some(&bias) = operands.get(1) {
            let bias = e.cast(bias, e.ty(choice).dtype)?;
            choice = e.zip(Binary::Add, choice, bias)?;
        }
        if self.has_groups() {
            choice = self.of_groups(e, choice)?;
        }
        let ids = e.one(TopK { k: self.top_k as u64 }, &[choice])?;
        let mut shares = e.one(GatherElements { axis: 1 }, &[scores, ids])?;
        if self.normalise {
            let sum = e.reduce(Reduction::Sum, shares, &[1])?;
            let sum = e.zip_number(Binary::Max, sum, LEAST_SUM.into())?;
            shares = e.zip(Binary::Div, shares, sum)?;
        }
        if let Some(scale) = self.scale {
            shares = e.zip_number(Binary::Mul, shares, scale.into())?;
        }
        Ok(Some(vec![ids, e.cast(shares, dtype)?]))
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 0 { RowUse::Same } else { RowUse::All }
    }
}

impl Route {
    /// `choice` with minus infinity for the experts of the groups that are left out.
    fn of_groups(&self, e: &mut dyn Emit, choice: ValueId) -> Result<ValueId> {
        let dims = e.dims(choice);
        let [m, experts] = dims.as_slice() else { return Err(Error::internal("route: shapes")) };
        let groups = Dim::from(self.groups as u64);
        // The type rule gives groups to a known number of experts.
        let each = experts.as_static().unwrap_or(0) / self.groups.max(1) as u64;
        let by_group = e.reshape(choice, &[m.clone(), groups.clone(), Dim::from(each)])?;
        let best = if self.group_sum == 1 {
            e.one(Reduce { f: Reduction::Max, axes: vec![2], keep: false }, &[by_group])?
        } else {
            let best = e.one(TopK { k: self.group_sum as u64 }, &[by_group])?;
            let best = e.one(GatherElements { axis: 2 }, &[by_group, best])?;
            e.one(Reduce { f: Reduction::Sum, axes: vec![2], keep: false }, &[best])?
        };
        // Which groups are among the best: one of the places is theirs.
        let best = e.one(TopK { k: self.top_groups as u64 }, &[best])?;
        let best = e.with_ones(best, &[1])?;
        let one = Dim::from(1u64);
        let group = e.iota(&[one.clone(), groups.clone(), one], 1)?;
        let is = e.compare(Comparison::Eq, best, group)?;
        let is = e.cast(is, DType::F32)?;
        let is = e.reduce(Reduction::Max, is, &[2])?;
        let zero = e.like(is, 0.0)?;
        let is = e.compare(Comparison::Gt, is, zero)?;
        let kept = e.keep_where(is, by_group, f64::NEG_INFINITY)?;
        e.reshape(kept, &dims)
    }
}
