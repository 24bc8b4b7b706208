//! How each operator of a program runs, and why.

use super::json;
use crate::target::{DispatchPolicy, Path};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// How a node came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// The target claims it: a kernel, loops, a view, or a constant made on the host.
    Claimed(Path),
    /// In f32, between casts: the target has no kernel for its element type.
    Widened,
    /// By the operators it stands for.
    Common,
    /// Not at all.
    Unsupported,
}

impl Route {
    /// The name in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claimed(path) => path.name(),
            Self::Widened => "widened",
            Self::Common => "common",
            Self::Unsupported => "unsupported",
        }
    }
}

impl DispatchPolicy {
    /// The name in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreferNative => "prefer_native",
            Self::ForceCommon => "force_common",
            Self::ForceNative => "force_native",
        }
    }
}

/// The nodes of one kind that run one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindReport {
    /// The operator's name.
    pub kind: String,
    /// How many, those of regions too.
    pub nodes: usize,
    /// How they run.
    pub route: Route,
    /// Why so; empty where nothing else was considered.
    pub why: String,
}

/// A node that the target does not run and nothing stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Its label.
    pub node: String,
    /// The operator's name.
    pub kind: String,
    /// The operator over the types of its operands, `map tensor<4xf16>`.
    pub form: String,
    /// Why not, and which lowering is missing.
    pub why: String,
}

/// How the operators of one program run. Kinds are those of the graph that came to legalisation;
/// what they decomposed into is listed only where it is unsupported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchReport {
    /// The target's name.
    pub backend: String,
    /// The policy.
    pub policy: DispatchPolicy,
    /// Names that are claimed; `None`: no claim was made, everything is taken to run.
    pub claim: Option<usize>,
    /// By kind and route, in the order they occur.
    pub kinds: Vec<KindReport>,
    /// What is left.
    pub unsupported: Vec<Unsupported>,
}

impl DispatchReport {
    /// An empty report.
    pub(super) fn new(backend: &str, policy: DispatchPolicy, claim: Option<usize>) -> Self {
        let (kinds, unsupported) = (Vec::new(), Vec::new());
        DispatchReport { backend: backend.into(), policy, claim, kinds, unsupported }
    }

    /// Counts a node.
    pub(super) fn note(&mut self, kind: &str, route: Route, why: &str) {
        let same = |k: &&mut KindReport| k.kind == kind && k.route == route && k.why == why;
        match self.kinds.iter_mut().find(same) {
            Some(row) => row.nodes += 1,
            None => {
                let (kind, why) = (kind.into(), why.into());
                self.kinds.push(KindReport { kind, nodes: 1, route, why });
            }
        }
    }

    /// Kinds of which some node runs by the operators it stands for.
    pub fn common(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        for row in self.kinds.iter().filter(|k| k.route == Route::Common) {
            if !out.contains(&row.kind.as_str()) {
                out.push(&row.kind);
            }
        }
        out
    }

    /// Whether every node runs.
    pub fn compile_ready(&self) -> bool {
        self.unsupported.is_empty()
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        let kinds = self.kinds.iter().map(|k| {
            json::object(&[
                ("kind", json::text(&k.kind)),
                ("nodes", k.nodes.to_string()),
                ("path", json::text(k.route.name())),
                ("why", json::text(&k.why)),
            ])
        });
        let unsupported = self.unsupported.iter().map(|u| {
            json::object(&[
                ("node", json::text(&u.node)),
                ("kind", json::text(&u.kind)),
                ("form", json::text(&u.form)),
                ("why", json::text(&u.why)),
            ])
        });
        json::object(&[
            ("backend", json::text(&self.backend)),
            ("policy", json::text(self.policy.name())),
            ("claim", json::or_null(self.claim)),
            ("kinds", json::array(kinds)),
            ("common", json::array(self.common().into_iter().map(json::text))),
            ("unsupported", json::array(unsupported)),
            ("compile_ready", self.compile_ready().to_string()),
        ])
    }
}

impl fmt::Display for DispatchReport {
    /// A table by kind, then what is left.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = self.claim.map_or_else(|| "everything".into(), |n| format!("{n} operators"));
        writeln!(f, "  {} claims {claim}; policy {}", self.backend, self.policy.name())?;
        writeln!(f, "  {:<20} {:>6} {:<14} why", "kind", "nodes", "path")?;
        for k in &self.kinds {
            let line = format!("  {:<20} {:>6} {:<14} {}", k.kind, k.nodes, k.route.name(), k.why);
            writeln!(f, "{}", line.trim_end())?;
        }
        for u in &self.unsupported {
            writeln!(f, "  not run: {}: {}: {}", u.node, u.form, u.why)?;
        }
        Ok(())
    }
}
