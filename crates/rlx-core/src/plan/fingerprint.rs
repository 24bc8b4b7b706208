//! A content hash that is the same in every process, on every platform, native and wasm.

use crate::ir::lir::{ControlDecl, Program, Slice};
use core::fmt::{self, Write};

/// FNV-1a, 64 bits: the content is ours, so collisions by malice are no concern.
pub(crate) struct Hasher(u64);

/// The hash of these texts.
pub fn hash<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let mut hasher = Hasher::new();
    texts.for_each(|text| hasher.text(text));
    hasher.finish()
}

impl Hasher {
    pub fn new() -> Self {
        Hasher(0xcbf2_9ce4_8422_2325)
    }

    pub fn text(&mut self, text: &str) {
        self.line(format_args!("{text}"));
    }

    /// Hashes a formatted text without building a string.
    fn line(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a hasher never fails.
        let _ = self.write_fmt(text);
        // No text contains this separator, so "ab" "c" and "a" "bc" differ.
        self.byte(0xff);
    }

    fn byte(&mut self, b: u8) {
        self.0 = (self.0 ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }

    fn slice(&mut self, s: &Slice) {
        self.line(format_args!("{:?} {} {} {}", s.space, s.index, s.offset, s.ty));
    }

    /// A hash of the steps with every attribute and address, weights, states, inputs, outputs. A constant's
    /// name is a hash of its bytes, so the hash covers its contents too.
    pub fn program(&mut self, p: &Program) {
        self.text(&p.name);
        for s in &p.steps {
            self.line(format_args!(
                "{}{} {} {}",
                s.op.name(),
                s.op.attrs(),
                s.phase.name(),
                s.label
            ));
            if let Some(part) = s.part {
                self.line(format_args!("rows {}+{} of {}", part.first, part.rows, part.of));
            }
            if let Some(per) = s.live {
                self.line(format_args!("live {per}"));
            }
            for body in &s.regions {
                self.line(format_args!("{body}"));
            }
            s.operands.iter().chain(&s.results).for_each(|x| self.slice(x));
        }
        for w in &p.weights {
            self.line(format_args!("{} {}", w.name, w.ty));
        }
        for s in &p.states {
            self.line(format_args!("{} {}", s.name, s.ty));
        }
        if let Some(ControlDecl { state, slots, tokens }) = p.control {
            self.line(format_args!("control {state} {slots} {tokens}"));
        }
        for i in &p.inputs {
            self.line(format_args!("{} {}", i.name, i.ty));
        }
        for o in &p.outputs {
            self.text(&o.name);
            self.slice(&o.slice);
        }
        self.line(format_args!("{:?} {}", p.arena_segments, p.alignment));
    }

    pub fn finish(&self) -> u64 {
        self.0
    }
}

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|b| self.byte(b));
        Ok(())
    }
}
