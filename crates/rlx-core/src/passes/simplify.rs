//! Rewrite nodes to fewer or simpler ones, where the result is the same to the bit.
//!
//! ```text
//! %t = transpose %x {perm = [1, 0]}
//! %u = map %t {f = neg}                    =>      %y = map %x {f = neg}
//! %y = transpose %u {perm = [1, 0]}
//! ```
//!
//! Two themes, a file each: [`algebra`] (identities of arithmetic, casts, bounds) and [`movement`]
//! (reshapes, transposes, slices and the like). Rules run in sweeps until none matches. What a
//! frontend wrote or another pass left costs a launch, a read and a write a node; most of these
//! cost nothing once they are gone.
//!
//! Exact means: the same bits on every element, NaN for NaN. So `x * 0` is 0 for integers alone,
//! `x + 0.0` stays (it turns -0.0 into 0.0) while `x + -0.0` and `x - 0.0` go.
//!
//! Movement goes towards inputs, and only where it meets another of its kind and joins it; nothing
//! ever moves towards results, so the rules cannot chase each other. A node that others read too is
//! not computed twice: movement passes only what has one reader.
//!
//! Runs after nothing; what it orphans `dce` takes, and constants it makes room for `fold`. Leaves
//! alone: nodes with several results, regions or states; views of states (see [`sweep`]).

mod algebra;
mod movement;

use super::Context;
use super::sweep::{Rule, sweep};
use crate::error::Result;
use crate::ir::mir::Graph;

/// In this order; the first that matches changes the node.
const RULES: &[Rule] = &[
    algebra::zip,
    algebra::map,
    algebra::cast,
    algebra::clamp,
    algebra::select,
    algebra::operands_repeat_by_themselves,
    movement::reshape,
    movement::transpose,
    movement::reverse,
    movement::slice,
    movement::concat,
    movement::expand,
    movement::nothing_moves,
    movement::reduce_of_one,
    movement::towards_inputs,
];

/// Sweeps at most: each walk takes all of a chain, so few are needed. A graph in which movement has
/// farther to go is right at every step, and the next run takes it on.
const SWEEPS: usize = 64;

/// Simplifies in place; returns the number of nodes that changed, those of regions too.
///
/// # Errors
/// `Internal` for a rule that emits what is no operator of one result.
pub fn simplify(g: &mut Graph, _: &mut Context<'_>) -> Result<usize> {
    let mut changed = 0;
    for _ in 0..SWEEPS {
        match sweep(g, RULES)? {
            0 => break,
            n => changed += n,
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("simplify", super::simplify);
    }
}
