//! Attention over parts of its positions, where heads, and tiles of rows, alone are too few.
//!
//! ```text
//! %y = attention %q, %k, %v, %ctl      =>      %acc, %stats = attention_split %q, %k, %v, %ctl {splits}
//!                                              %y = attention_join %acc, %stats {splits}
//! ```
//!
//! The join of several rows also has `%q` and `%ctl`. Costs a step and two values; pays where a target has more
//! workers than there are key and value heads times tiles of rows, since each worker reads its positions once.
//! There are as many splits as make the parts that the target asks for, and no more than the capacity has so many
//! parts' positions for; how they cut what a row sees is the operator's business, on the device.
//!
//! Runs behind the fusions that make or read attention, and before legalisation. Leaves alone: more
//! rows than the target asks for, rows that are not f32, heads that are enough, short caches, and targets that
//! do not run both operators.

use super::Context;
use crate::error::Result;
use crate::ir::mir::{Graph, Node};
use crate::ops::{Attention, AttentionJoin, AttentionSplit, Op};
use crate::target::Splits;
use alloc::format;
use alloc::vec::Vec;

/// Splits in place; returns the number of attentions split.
pub fn split_attention(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut split = 0;
    let mut nodes = Vec::with_capacity(g.nodes.len());
    // Bodies of control flow have no states, so no attention.
    for node in core::mem::take(&mut g.nodes) {
        match parts(g, cx, &node) {
            None => nodes.push(node),
            Some(parts) => {
                split += 1;
                nodes.extend(parts);
            }
        }
    }
    g.nodes = nodes;
    Ok(split)
}

/// What is attended to, and by how many rows.
struct Sizes {
    rows: u64,
    kv_heads: u64,
    /// Query heads of each.
    group: u64,
    head_dim: u64,
    capacity: u64,
}

/// Splits of each key and value head, and the fewest positions of one; `None` where attention stays whole.
fn splits(wanted: &Splits, sizes: &Sizes) -> Option<(u64, u64)> {
    let &Sizes { rows, kv_heads, group, head_dim, capacity } = sizes;
    if rows == 1 {
        let splits = wanted.parts.div_ceil(kv_heads);
        let splits = splits.min(capacity / (wanted.spare * wanted.least).max(1));
        let fits = capacity >= wanted.capacity
            && head_dim.is_multiple_of(wanted.multiple)
            && group <= wanted.group
            && group * head_dim <= wanted.width;
        return fits.then_some((splits, wanted.least));
    }
    let wanted = wanted.rows.filter(|wanted| rows <= wanted.most)?;
    let tiles = rows.div_ceil(AttentionSplit::tile(rows, group));
    let most = tiles.saturating_mul(capacity / wanted.least.max(1));
    // Where all rows are live, each tile has one split at least.
    let splits = (wanted.parts / kv_heads).min(most).max(tiles);
    (capacity / wanted.least.max(1) > 1).then_some((splits, wanted.least))
}

/// The two nodes that stand for an attention that is split.
fn parts(g: &mut Graph, cx: &Context<'_>, node: &Node) -> Option<[Node; 2]> {
    let Op::Attention(whole) = &node.op else { return None };
    let &[kv_heads, capacity, head_dim] =
        g.ty(*node.inputs.get(1)?).shape.static_dims().ok()?.as_slice()
    else {
        return None;
    };
    let wanted = cx.target.attention_splits?;
    if kv_heads == 0 || head_dim == 0 {
        return None;
    }
    let &[rows, width] = g.ty(*node.inputs.first()?).shape.static_dims().ok()?.as_slice() else {
        return None;
    };
    let group = width / head_dim / kv_heads;
    let sizes = Sizes { rows, kv_heads, group, head_dim, capacity };
    let (splits, least) = splits(&wanted, &sizes).filter(|(splits, _)| *splits > 1)?;
    let (splits, least) = (splits as usize, least as usize);
    // Sinks weigh where the splits meet.
    let (sinks, whole) = (whole.sinks, Attention { sinks: false, ..whole.clone() });
    let (inputs, sink) = node.inputs.split_at_checked(4)?;
    let op = Op::from(AttentionSplit { whole, splits, least });
    let join = Op::from(AttentionJoin { splits, sinks });
    // The type rule says which rows it takes.
    let types: Vec<_> = inputs.iter().map(|&v| g.ty(v)).collect();
    let results = op.infer(&types).ok()?;
    let mut joined: Vec<_> = results.iter().collect();
    // The rows of several are counted.
    let counting = if rows > 1 { [inputs[0], inputs[3]].to_vec() } else { Vec::new() };
    joined.extend(counting.iter().chain(sink).map(|&v| g.ty(v)));
    let made = join.infer(&joined).ok()?;
    let y = *node.outputs.first()?;
    let runs = cx.fuses(g, &op, inputs) && cx.path(&join, &joined).is_ok();
    if !runs || !made.iter().eq([g.ty(y)]) {
        return None;
    }
    let results: Vec<_> = results.into_iter().map(|ty| g.value(ty)).collect();
    let joined = [&results, &counting, sink].concat();
    let label = format!("{}_split", node.label);
    Some([
        Node::new(op, inputs, &results, label),
        Node::new(join, &joined, &[y], node.label.clone()),
    ])
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("split_attention", super::split_attention);
    }
}
