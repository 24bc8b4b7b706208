//! Simplification, folding, common subexpressions and dead nodes, until nothing changes.
//!
//! Each makes work for the others: a fold makes the constant that an identity looks for, an
//! identity makes two nodes equal, a merge leaves one of them dead, and a reader less lets a
//! movement pass.
//!
//! Honours `options.dce`, `options.constant_folding` and the names in `options.without`.

use super::{Context, cse, dce, fold, simplify};
use crate::error::{Error, Result};
use crate::ir::mir::Graph;

/// Rounds at most. Two or three are usual.
const ROUNDS: usize = 64;

/// Cleans in place; returns the number of changes of all passes together. A second run changes
/// nothing.
///
/// # Errors
/// `Internal` if the passes do not come to an end.
pub fn cleanup(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let options = cx.options;
    let wanted = |name: &str| !options.without.iter().any(|w| w == name);
    let mut total = 0;
    for _ in 0..ROUNDS {
        let mut changed = 0;
        if wanted("simplify") {
            changed += simplify::simplify(g, cx)?;
        }
        if options.constant_folding && wanted("fold") {
            changed += fold::fold(g, cx)?;
        }
        if wanted("cse") {
            changed += cse::cse(g, cx)?;
        }
        if options.dce && wanted("dce") {
            changed += dce::dce(g, cx)?;
        }
        if changed == 0 {
            return Ok(total);
        }
        total += changed;
    }
    Err(Error::internal("cleanup does not come to an end").at(alloc::format!("@{}", g.name)))
}
