//! What fused, what nearly did, and what that is worth.

use super::Context;
use super::json;
use crate::error::{Code, Error, Result};
use crate::ir::mir::{Graph, ParamKind};
use crate::ops::Op;
use crate::sorted::Set;
use crate::target::Path;
use crate::types::{Kind, Type};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Why a pattern that was nearly there did not fuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A result that the fused operator would not store is read by others.
    MultiConsumer,
    /// The addend of a product has more than one axis, and is repeated over rows all the same.
    BiasRankTooHigh,
    /// The target's kernel has not that scalar function.
    UnsupportedEpilogueActivation,
    /// Gate and up are products of different inputs.
    SwigluNotSharedInput,
    /// Parts that must be alike differ: biases, tables, control blocks, rows.
    PartsDiffer,
    /// A result is read before the fused operator could give it.
    ReadTooEarly,
    /// The target has no kernel for the fused operator with these types.
    NotFused,
}

impl Reason {
    /// The name in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::MultiConsumer => "MultiConsumer",
            Self::BiasRankTooHigh => "BiasRankTooHigh",
            Self::UnsupportedEpilogueActivation => "UnsupportedEpilogueActivation",
            Self::SwigluNotSharedInput => "SwigluNotSharedInput",
            Self::PartsDiffer => "PartsDiffer",
            Self::ReadTooEarly => "ReadTooEarly",
            Self::NotFused => "NotFused",
        }
    }
}

/// A pattern that nearly matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The pass.
    pub pattern: &'static str,
    /// Label of the node.
    pub node: String,
    /// Why not.
    pub reason: Reason,
    /// What was seen.
    pub context: String,
    /// What would change that.
    pub hint: &'static str,
}

impl fmt::Display for Miss {
    /// `residual at blk.0.sum: MultiConsumer, the product has another reader (…)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason.name();
        write!(f, "{} at {}: {reason}, {}", self.pattern, self.node, self.context)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, " ({})", self.hint) }
    }
}

/// What a graph costs to run once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Steps: views and constants are none.
    pub launches: u64,
    /// Bytes of what steps read and write. A weight counts once, a table by the rows taken of it,
    /// a state by its capacity where it is read and by what is written where it is written.
    pub bytes: u64,
    /// By the target's cost model, in microseconds.
    pub time_us: f64,
}

impl Traffic {
    /// Of a graph on a target; `None` while sizes are symbols. Bodies of control flow count once.
    pub(super) fn of(g: &Graph, cx: &Context<'_>) -> Option<Traffic> {
        let (mut launches, mut bytes) = (0u64, 0u64);
        count(g, cx, &mut launches, &mut bytes)?;
        Some(Traffic { launches, bytes, time_us: cx.target.cost.time_us(launches, bytes) })
    }

    fn json(&self) -> String {
        json::object(&[
            ("launches", self.launches.to_string()),
            ("bytes", self.bytes.to_string()),
            ("time_us", format!("{:.1}", self.time_us)),
        ])
    }
}

fn count(g: &Graph, cx: &Context<'_>, launches: &mut u64, bytes: &mut u64) -> Option<()> {
    let weights: Set<_> =
        g.params.iter().filter(|p| p.kind == ParamKind::Weight).map(|p| p.value).collect();
    let mut seen = Set::new();
    for node in &g.nodes {
        let types: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
        if matches!(cx.target.path(&node.op, &types), Ok(Path::View | Path::HostConstant)) {
            continue;
        }
        let mut results = 0u64;
        for &v in &node.outputs {
            let size = g.ty(v).bytes().ok()?;
            // A state is written in part: by as much as the operands that are no states hold.
            if g.ty(v).kind == Kind::Tensor {
                results = results.checked_add(size)?;
            }
        }
        let written: Set<usize> = node.op.writes().iter().map(|w| w.0).collect();
        let empty = results == 0 && written.is_empty();
        if empty {
            continue;
        }
        *launches += 1;
        *bytes = bytes.checked_add(results)?;
        for (i, &v) in node.inputs.iter().enumerate() {
            let weight = weights.contains(&v);
            let size = match (&node.op, g.ty(v).kind) {
                (Op::Gather(_), _) if i == 0 => results,
                (_, Kind::State) if written.contains(&i) => 0,
                _ if weight && !seen.insert(v) => 0,
                _ => g.ty(v).bytes().ok()?,
            };
            *bytes = bytes.checked_add(size)?;
        }
        for body in &node.regions {
            count(body, cx, launches, bytes)?;
        }
    }
    Some(())
}

/// What fusions did to one program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FusionReport {
    /// `(pass, changes)` in the order they ran; a pass of a fixed-point group once, with its sum.
    pub fused: Vec<(&'static str, usize)>,
    /// Near misses.
    pub missed: Vec<Miss>,
    /// Nodes before the first pass and after the last.
    pub nodes: (usize, usize),
    /// What a run costs before the fusions and after the last pass; absent while sizes are symbols.
    pub traffic: Option<(Traffic, Traffic)>,
}

impl FusionReport {
    /// Notes a near miss, once for a node.
    pub fn miss(
        &mut self,
        pattern: &'static str,
        node: &str,
        reason: Reason,
        context: impl Into<String>,
        hint: &'static str,
    ) {
        let miss = Miss { pattern, node: node.into(), reason, context: context.into(), hint };
        if !self.missed.contains(&miss) {
            self.missed.push(miss);
        }
    }

    /// Changes of a pass, 0 if it did not run.
    pub fn count(&self, pass: &str) -> usize {
        self.fused.iter().filter(|f| f.0 == pass).map(|f| f.1).sum()
    }

    /// Fails when something nearly fused.
    ///
    /// # Errors
    /// `Unsupported` with the number of misses and every one of them.
    pub fn assert_clean(&self) -> Result<()> {
        if self.missed.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = self.missed.iter().map(Miss::to_string).collect();
        Err(Error::new(
            Code::Unsupported,
            format!("{} fusions were missed: {}", lines.len(), lines.join("; ")),
        )
        .hint("change the graph as each says, or compile without assert_clean"))
    }

    /// One line of JSON: `{"nodes":[…],"traffic":…,"fused":{…},"misses":[…]}`.
    pub fn json(&self) -> String {
        let traffic = self.traffic.map(|(before, after)| {
            json::object(&[("before", before.json()), ("after", after.json())])
        });
        let mut fused: Vec<(&str, String)> = Vec::new();
        for (pass, _) in &self.fused {
            if !fused.iter().any(|f| f.0 == *pass) {
                fused.push((pass, self.count(pass).to_string()));
            }
        }
        let misses = self.missed.iter().map(|m| {
            json::object(&[
                ("pattern", json::text(m.pattern)),
                ("node", json::text(&m.node)),
                ("reason", json::text(m.reason.name())),
                ("context", json::text(&m.context)),
                ("hint", json::text(m.hint)),
            ])
        });
        json::object(&[
            ("nodes", json::array([self.nodes.0.to_string(), self.nodes.1.to_string()])),
            ("traffic", json::or_null(traffic)),
            ("fused", json::object(&fused)),
            ("misses", json::array(misses)),
        ])
    }
}

impl fmt::Display for FusionReport {
    /// A table: what a run costs, what each pass changed, what nearly fused.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, before: &str, after: &str| {
            writeln!(f, "  {name:<20} {before:>14} {after:>14}")
        };
        row(f, "", "before", "after")?;
        row(f, "nodes", &self.nodes.0.to_string(), &self.nodes.1.to_string())?;
        if let Some((a, b)) = self.traffic {
            row(f, "launches", &a.launches.to_string(), &b.launches.to_string())?;
            row(f, "bytes", &a.bytes.to_string(), &b.bytes.to_string())?;
            let us = |t: Traffic| format!("{:.1}", t.time_us);
            row(f, "us, by cost model", &us(a), &us(b))?;
        }
        writeln!(f, "  {:<20} {:>14}", "pass", "changes")?;
        for (pass, n) in &self.fused {
            writeln!(f, "  {pass:<20} {n:>14}")?;
        }
        writeln!(f, "  {} missed", self.missed.len())?;
        for miss in &self.missed {
            writeln!(f, "  {miss}")?;
        }
        Ok(())
    }
}
