//! Attention: each rank has some heads, of queries as of caches.

use super::{Held, Split};
use crate::error::{Code, Error, Result};
use crate::ir::mir::{Node, ValueId};
use crate::ops::{Attention, Rope};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

impl Split<'_> {
    pub(super) fn rope(&mut self, op: &Rope, node: &Node) -> Result<Vec<Held>> {
        let heads = self.has_own_heads(node.inputs[0], op.head_dim);
        self.first(node, |axis| axis == 1 && heads)
    }

    /// The error of key and value heads that the ranks do not divide.
    fn undivided(&self, heads: u64) -> Error {
        let fits: Vec<String> =
            (1..=heads).filter(|n| heads.is_multiple_of(*n)).map(|n| format!("{n}")).collect();
        let ranks = self.ranks.count;
        let what = format!(
            "a layer has {heads} heads of keys and values, {ranks} devices do not divide them"
        );
        Error::new(Code::Unsupported, what).hint(format!("take {} devices", fits.join(" or ")))
    }

    /// A cache before its first write: a rank's own heads, if the rows that are written are its own. One head of keys
    /// and values is every rank's.
    fn cache(&mut self, v: ValueId, own: bool) -> Result<Held> {
        let ty = self.g.ty(v);
        let heads = ty.shape.0.first().and_then(|d| d.as_static()).unwrap_or(0);
        if heads == 1 || self.kept.contains(&self.state_of(v).0) {
            return self.held(v);
        }
        let slice = self.slice_type(ty, 0).ok_or_else(|| self.undivided(heads))?;
        if let Some(held) = self.held[v.0 as usize] {
            return Ok(held);
        }
        let Some(p) = self.g.params.iter().find(|p| p.value == v).filter(|_| own) else {
            return self.held(v);
        };
        let held = Held::slice(self.out.param_once(p.kind, &p.name, slice)?, 0);
        self.held[v.0 as usize] = Some(held);
        Ok(held)
    }

    fn has_one_head(&self, cache: ValueId) -> bool {
        self.g.ty(cache).shape.0.first().and_then(|d| d.as_static()) == Some(1)
    }

    /// Whether the heads of a query's row are as many for each rank.
    fn has_own_heads(&self, q: ValueId, head_dim: usize) -> bool {
        let own = self.part(&self.g.ty(q).shape.last());
        own.is_some_and(|n| n.is_multiple_of(head_dim.max(1) as u64))
    }

    /// Rows as a cache takes them: those of its heads.
    fn rows(&mut self, v: ValueId, (of, cache): (ValueId, Held)) -> Result<ValueId> {
        let held = self.held(v)?;
        match (cache.axis, held.axis) {
            (Some(_), Some(1)) => Ok(held.value),
            (Some(_), _) => Err(self.keep(of)),
            (None, _) => self.together(held),
        }
    }

    pub(super) fn kv_write(&mut self, node: &Node) -> Result<Vec<Held>> {
        let own = self.held(node.inputs[1])?.axis == Some(1);
        let cache = self.cache(node.inputs[0], own)?;
        let rows = self.rows(node.inputs[1], (node.inputs[0], cache))?;
        let ctl = self.whole(node.inputs[2])?;
        let y = self.out.push1(node.op.clone(), &[cache.value, rows, ctl], &node.label)?;
        Ok(vec![Held { value: y, axis: cache.axis }])
    }

    pub(super) fn rope_kv_write(&mut self, node: &Node) -> Result<Vec<Held>> {
        let mut own = true;
        for &v in &node.inputs[..3] {
            own &= self.held(v)?.axis == Some(1);
        }
        let k = self.cache(node.inputs[4], own)?;
        let v = self.cache(node.inputs[5], own)?;
        // Queries of some heads may read the one head of keys and values.
        let q = self.held(node.inputs[0])?;
        let one = self.has_one_head(node.inputs[4]) && q.axis == Some(1);
        let mut inputs = Vec::with_capacity(7);
        inputs.push(if one { q.value } else { self.rows(node.inputs[0], (node.inputs[4], k))? });
        inputs.push(self.rows(node.inputs[1], (node.inputs[4], k))?);
        inputs.push(self.rows(node.inputs[2], (node.inputs[5], v))?);
        inputs.push(self.whole(node.inputs[3])?);
        inputs.extend([k.value, v.value]);
        inputs.push(self.whole(node.inputs[6])?);
        let y = self.out.push(node.op.clone(), &inputs, &node.label)?;
        let axes = [if one { Some(1) } else { k.axis.map(|_| 1) }, k.axis, v.axis];
        Ok(y.into_iter().zip(axes).map(|(value, axis)| Held { value, axis }).collect())
    }

    pub(super) fn attention(&mut self, op: &Attention, node: &Node) -> Result<Vec<Held>> {
        let caches = [self.held(node.inputs[1])?, self.held(node.inputs[2])?];
        let q = self.held(node.inputs[0])?;
        let sinks = node.inputs.get(4).copied().filter(|_| op.sinks);
        let mut own = caches.iter().all(|c| c.axis == Some(0));
        if caches.iter().all(|c| c.axis.is_none()) {
            own = self.has_one_head(node.inputs[1])
                && q.axis == Some(1)
                && self.has_own_heads(node.inputs[0], op.head_dim)
                && sinks.is_none_or(|s| self.can_own(s, 0));
            if !own {
                return self.all_whole(node);
            }
        }
        if !own || q.axis != Some(1) || sinks.is_some_and(|s| !self.can_own(s, 0)) {
            let e = self.keep(node.inputs[1]);
            self.keep(node.inputs[2]);
            return Err(e);
        }
        let mut inputs = vec![q.value, caches[0].value, caches[1].value];
        inputs.push(self.whole(node.inputs[3])?);
        if let Some(sinks) = sinks {
            inputs.push(self.own(sinks, 0)?);
        }
        let y = self.out.push1(node.op.clone(), &inputs, &node.label)?;
        Ok(vec![Held::slice(y, 1)])
    }
}
