//! Kernels that make every element of one result on its own: a function `value(i)` of its index.

use super::element::{Element, once};
use super::indices::Words;
use crate::kernels::emit::{Emit, fill};
use crate::kernels::{Launch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Slice;

/// What differs between such kernels.
pub(in crate::kernels) struct Each<'a> {
    /// The entry point: the operator's name.
    pub entry: &'static str,
    /// Four lines of the header: formula, shapes, bytes, numerics.
    pub head: [String; 4],
    /// Functions that `body` calls.
    pub functions: Vec<String>,
    /// Statements that return the bits of element `i`.
    pub body: String,
    /// Where results go.
    pub result: &'a Slice,
    /// Elements of the result, and their type; movement of 64-bit elements sees halves of them.
    pub n: u64,
    pub element: Element,
}

impl Each<'_> {
    /// The launch: an invocation a word.
    ///
    /// # Errors
    /// `Unsupported` for sizes above 32 bits or too many step constants.
    pub fn launch(self, mut words: Words, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
        let y = emit.write(self.result)?;
        let (n, start) = (words.size(self.n)?, words.bits(y.word()));
        let per = self.element.per_word();
        let store = if per == 1 {
            format!("if at < {n} {{ {}[{start} + at] = value(at); }}", y.var)
        } else {
            format!(
                "let first = at * {per}u;\n    if first >= {n} {{ return; }}\n    var bits = 0u;\n    \
                 for (var e = 0u; e < min({per}u, {n} - first); e++) {{\n        \
                 bits |= value(first + e) << (e * {}u);\n    }}\n    {}[{start} + at] = bits;",
                32 / per,
                y.var
            )
        };
        if words.0.len() > super::indices::MOST_WORDS {
            return Err(unsupported(format!("{} of so many axes and operands", self.entry)));
        }
        let [formula, shapes, bytes, numerics] = &self.head;
        let functions = once(self.functions);
        let wgsl = fill(
            wgsl!("each.wgsl"),
            &[
                ("formula", formula),
                ("shapes", shapes),
                ("bytes", bytes),
                ("numerics", numerics),
                ("bindings", &emit.bindings()),
                ("functions", &functions),
                ("body", &self.body),
                ("entry", self.entry),
                ("store", &store),
            ],
        );
        let groups = self.n.div_ceil(per).div_ceil(64);
        Ok(Some(Launch { wgsl, entry: self.entry, words: words.0, groups }))
    }
}
