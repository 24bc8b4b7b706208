//! MIR as text, one node a line. `parse.rs` reads it back.

use super::mir::{Graph, ParamKind, ValueId};
use crate::sorted::Map;
use alloc::format;
use alloc::string::String;
use core::fmt;

impl ParamKind {
    /// The keyword in text IR.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Weight => "weight",
            Self::State => "state",
        }
    }
}

impl fmt::Display for Graph {
    /// ```text
    /// func @decode {
    ///   weight %token_embd.weight : tensor<32000x2048xq4_k>
    ///   state %ctl : state<16xu32>
    ///   %0 = token %ctl -> tensor<1xu32>
    ///   %1 = gather %token_embd.weight, %0 -> tensor<1x2048xf32> // embed
    ///   return token = %1
    /// }
    /// ```
    ///
    /// The regions of control flow stand in brackets behind the node that has them:
    ///
    /// ```text
    ///   %2 = if %0, %1 -> tensor<4xf32> [ // clip
    ///     func @then {
    ///       …
    ///     }
    ///     func @else {
    ///       …
    ///     }
    ///   ]
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        function(self, f, 0)
    }
}

/// One function, `depth` regions deep.
pub(super) fn function(g: &Graph, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    let pad = depth * 4;
    let mut names: Map<ValueId, String> = Map::new();
    writeln!(f, "{:pad$}func @{} {{", "", g.name)?;
    for p in &g.params {
        names.insert(p.value, format!("%{}", p.name));
        writeln!(f, "{:pad$}  {} %{} : {}", "", p.kind.keyword(), p.name, g.ty(p.value))?;
    }
    let mut next = 0;
    for node in &g.nodes {
        write!(f, "{:pad$}  ", "")?;
        for (i, v) in node.outputs.iter().enumerate() {
            let name = format!("%{next}");
            next += 1;
            write!(f, "{}{name}", if i > 0 { ", " } else { "" })?;
            names.insert(*v, name);
        }
        write!(f, " = {}", node.op.name())?;
        for (i, v) in node.inputs.iter().enumerate() {
            let name = names.get(v).map_or("%undefined", String::as_str);
            write!(f, "{}{name}", if i > 0 { ", " } else { " " })?;
        }
        write!(f, "{} ->", node.op.attrs())?;
        for (i, v) in node.outputs.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { " " }, g.ty(*v))?;
        }
        if !node.regions.is_empty() {
            f.write_str(" [")?;
        }
        if !node.label.is_empty() {
            write!(f, " // {}", node.label)?;
        }
        writeln!(f)?;
        for body in &node.regions {
            function(body, f, depth + 1)?;
        }
        if !node.regions.is_empty() {
            writeln!(f, "{:pad$}  ]", "")?;
        }
    }
    write!(f, "{:pad$}  return", "")?;
    for (i, o) in g.outputs.iter().enumerate() {
        let name = names.get(&o.value).map_or("%undefined", String::as_str);
        write!(f, "{} {} = {name}", if i > 0 { "," } else { "" }, o.name)?;
    }
    writeln!(f, "\n{:pad$}}}", "")
}
