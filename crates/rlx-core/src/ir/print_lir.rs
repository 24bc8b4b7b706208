//! LIR as text: what a program needs, then one step a line with the place of every operand.
//! `parse/lir.rs` reads it back.

use super::lir::{ALIGNMENT, ControlDecl, Part, Phase, Program, Slice, Space, WeightUse};
use super::print::function;
use super::recipe::Recipe;
use core::fmt;

impl fmt::Display for Space {
    /// The keyword in text: `weight`, `state`, `arena`, `input`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Weight => "weight",
            Self::State => "state",
            Self::Arena => "arena",
            Self::Input => "input",
        })
    }
}

impl fmt::Display for Slice {
    /// `arena+512 : tensor<1x64xf32>`, `weight[3] : tensor<64x64xq4_k>`; an offset of 0 is left
    /// out where there is an index. Segments of the arena from the second on are `arena[1]+512`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.space)?;
        if self.space != Space::Arena || self.index > 0 {
            write!(f, "[{}]", self.index)?;
        }
        if self.space == Space::Arena || self.offset != 0 {
            write!(f, "+{}", self.offset)?;
        }
        write!(f, " : {}", self.ty)
    }
}

impl fmt::Display for WeightUse {
    /// `blk.0.attn_q.weight : tensor<64x64xq4_k>`, or of one that is made
    /// `"…" : tensor<…> = rope_table rope_freqs.weight : tensor<32xf32> {base = 10000.0, …}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.made {
            None => write!(f, "{} : {}", self.name, self.ty),
            Some(recipe) => write!(f, "\"{}\" : {} = {recipe}", self.name, self.ty),
        }
    }
}

impl fmt::Display for Recipe {
    /// `cast a : tensor<64xf16> {to = f32}`; what is made of what is made stands in parentheses:
    /// `zip (cast a : tensor<64xf16> {to = f32}), (constant {…}) {f = add}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, of) = match self {
            Self::Tensor { name, ty } => return write!(f, "{name} : {ty}"),
            Self::Made { op, of, .. } => (op, of),
        };
        f.write_str(op.name())?;
        for (k, operand) in of.iter().enumerate() {
            f.write_str(if k > 0 { ", " } else { " " })?;
            match operand {
                Self::Tensor { .. } => write!(f, "{operand}")?,
                Self::Made { .. } => write!(f, "({operand})")?,
            }
        }
        write!(f, "{}", op.attrs())
    }
}

impl fmt::Display for Program {
    /// ```text
    /// program @decode {
    ///   state[0] ctl : state<16xu32>
    ///   control state[0] slots 1 tokens 32
    ///   weight token_embd.weight : tensor<600x64xf16>
    ///   arena 2048 bytes, 1984 live, 8192 unshared
    ///   fingerprint 0f9e…
    ///   0: token state[0] : state<16xu32> -> arena+0 : tensor<1xu32> // ids
    ///   9: epilogue sample arena+64 : … -> state[1] : …
    ///   return token = arena+64 : tensor<1xu32>
    /// }
    /// ```
    ///
    /// `live 2` behind an operator: of result 0 only the first two rows for each token that is there are computed.
    ///
    /// A step's phase stands before the operator where it is not `steady`. `{:#}` prints the graph
    /// the steps were made from behind the steps, as a function; of a program with runtime symbols
    /// also their bounds, and the graph before they were bound.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program @{} {{", self.name)?;
        for (i, input) in self.inputs.iter().enumerate() {
            writeln!(f, "  input[{i}] {} : {}", input.name, input.ty)?;
        }
        for (i, state) in self.states.iter().enumerate() {
            writeln!(f, "  state[{i}] {} : {}", state.name, state.ty)?;
        }
        if let Some(ControlDecl { state, slots, tokens }) = self.control {
            writeln!(f, "  control state[{state}] slots {slots} tokens {tokens}")?;
        }
        // Steps name a weight by its number in the model's plan, which is not known here.
        for weight in &self.weights {
            writeln!(f, "  weight {weight}")?;
        }
        writeln!(
            f,
            "  arena {} bytes, {} live, {} unshared",
            self.arena_bytes, self.largest_live_bytes, self.unshared_bytes
        )?;
        if self.alignment != ALIGNMENT {
            writeln!(f, "  alignment {}", self.alignment)?;
        }
        if self.arena_segments.len() > 1 {
            f.write_str("  segments")?;
            for (i, bytes) in self.arena_segments.iter().enumerate() {
                write!(f, "{} {bytes}", if i > 0 { "," } else { "" })?;
            }
            writeln!(f)?;
        }
        writeln!(f, "  fingerprint {:016x}", self.fingerprint)?;
        for (i, step) in self.steps.iter().enumerate() {
            write!(f, "  {i}:")?;
            if step.phase != Phase::Steady {
                write!(f, " {}", step.phase.name())?;
            }
            write!(f, " {}", step.op.name())?;
            for (k, operand) in step.operands.iter().enumerate() {
                write!(f, "{}{operand}", if k > 0 { ", " } else { " " })?;
            }
            write!(f, "{}", step.op.attrs())?;
            if let Some(Part { first, rows, of }) = step.part {
                write!(f, " rows {first}, {rows} of {of}")?;
            }
            if let Some(per) = step.live {
                write!(f, " live {per}")?;
            }
            f.write_str(" ->")?;
            for (k, result) in step.results.iter().enumerate() {
                write!(f, "{}{result}", if k > 0 { ", " } else { " " })?;
            }
            if !step.regions.is_empty() {
                f.write_str(" [")?;
            }
            if !step.label.is_empty() {
                write!(f, " // {}", step.label)?;
            }
            writeln!(f)?;
            for body in &step.regions {
                function(body, f, 1)?;
            }
            if !step.regions.is_empty() {
                writeln!(f, "  ]")?;
            }
        }
        f.write_str("  return")?;
        for (i, o) in self.outputs.iter().enumerate() {
            write!(f, "{} {} = {}", if i > 0 { "," } else { "" }, o.name, o.slice)?;
        }
        writeln!(f)?;
        if f.alternate() {
            function(&self.graph, f, 0)?;
            if let Some(template) = &self.template {
                f.write_str("  bounds")?;
                for (i, (symbol, n)) in template.bounds.iter().enumerate() {
                    write!(f, "{} {symbol} = {n}", if i > 0 { "," } else { "" })?;
                }
                writeln!(f)?;
                function(&template.graph, f, 0)?;
            }
        }
        writeln!(f, "}}")
    }
}
