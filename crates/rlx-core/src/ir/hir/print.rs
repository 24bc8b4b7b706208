//! HIR as text, one block a line. `parse/hir.rs` reads it back.

use super::{Block, Module, Tensor};
use crate::ir::print::function;
use core::fmt;

/// A tensor by its name.
struct Name<'a>(&'a Module, Tensor);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Tensor::Result(n) => write!(f, "%{n}"),
            Tensor::Param(n) => match self.0.params.get(n as usize) {
                Some(p) => write!(f, "%{}", p.name),
                None => f.write_str("%undefined"),
            },
        }
    }
}

impl fmt::Display for Module {
    /// ```text
    /// module @llama {policy = fusable, context = 512, vocab = 600} {
    ///   weight %token_embd.weight : tensor<600x64xf16>
    ///   %0 = ids // ids
    ///   %1 = embedding %0, %token_embd.weight // token_embd
    ///   %2 = mir.map %1 {f = silu} // act
    ///   tap layer.embed = %1
    ///   return y = %2
    /// }
    /// ```
    ///
    /// An operator of MIR has `mir.` before its name. Types of results do not stand here: the
    /// lowering finds them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "module @{} {{policy = {}", self.name, self.fusion_policy.name())?;
        if self.context != 0 || self.vocab != 0 {
            write!(f, ", context = {}, vocab = {}", self.context, self.vocab)?;
        }
        writeln!(f, "}} {{")?;
        for p in &self.params {
            writeln!(f, "  {} %{} : {}", p.kind.keyword(), p.name, p.ty)?;
        }
        for node in &self.nodes {
            f.write_str("  ")?;
            for (i, &x) in node.outputs.iter().enumerate() {
                write!(f, "{}{}", if i > 0 { ", " } else { "" }, Name(self, x))?;
            }
            let mir = if matches!(node.block, Block::Op(..)) { "mir." } else { "" };
            write!(f, " = {mir}{}", node.block.name())?;
            for (i, &x) in node.inputs.iter().enumerate() {
                write!(f, "{}{}", if i > 0 { ", " } else { " " }, Name(self, x))?;
            }
            write!(f, "{}", node.block.attrs())?;
            let regions = match &node.block {
                Block::Op(_, regions) => regions.as_slice(),
                _ => &[],
            };
            if !regions.is_empty() {
                f.write_str(" [")?;
            }
            if !node.label.is_empty() {
                write!(f, " // {}", node.label)?;
            }
            writeln!(f)?;
            for body in regions {
                function(body, f, 1)?;
            }
            if !regions.is_empty() {
                writeln!(f, "  ]")?;
            }
        }
        for (name, x) in &self.taps {
            writeln!(f, "  tap {name} = {}", Name(self, *x))?;
        }
        f.write_str("  return")?;
        for (i, (name, x)) in self.outputs.iter().enumerate() {
            write!(f, "{} {name} = {}", if i > 0 { "," } else { "" }, Name(self, *x))?;
        }
        writeln!(f, "\n}}")
    }
}
