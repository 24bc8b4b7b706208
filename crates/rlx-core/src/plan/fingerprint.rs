//! A content hash that is the same in every process, on every platform, native and wasm.

use crate::ir::lir::{Program, Slice};
use alloc::format;

/// FNV-1a, 64 bits: the content is ours, so collisions by malice are no concern.
pub(crate) struct Hasher(u64);

impl Hasher {
    pub fn new() -> Self {
        Hasher(0xcbf2_9ce4_8422_2325)
    }

    pub fn text(&mut self, text: &str) {
        for &b in text.as_bytes() {
            self.0 = (self.0 ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        // A separator that no text holds: "ab" "c" and "a" "bc" differ.
        self.0 = (self.0 ^ 0xff).wrapping_mul(0x0100_0000_01b3);
    }

    fn slice(&mut self, s: &Slice) {
        self.text(&format!("{:?} {} {} {}", s.space, s.index, s.offset, s.ty));
    }

    /// Steps with every attribute and address, weights, states, inputs, outputs. A constant's name
    /// is a hash of its bytes, so its content is in here too.
    pub fn program(&mut self, p: &Program) {
        self.text(&p.name);
        for s in &p.steps {
            self.text(&format!("{}{} {} {}", s.op.name(), s.op.attrs(), s.phase.name(), s.label));
            if let Some(part) = s.part {
                self.text(&format!("rows {}+{} of {}", part.first, part.rows, part.of));
            }
            for body in &s.regions {
                self.text(&format!("{body}"));
            }
            s.operands.iter().chain(&s.results).for_each(|x| self.slice(x));
        }
        for w in &p.weights {
            self.text(&format!("{} {}", w.name, w.ty));
        }
        for s in &p.states {
            self.text(&format!("{} {}", s.name, s.ty));
        }
        for i in &p.inputs {
            self.text(&format!("{} {}", i.name, i.ty));
        }
        for o in &p.outputs {
            self.text(&o.name);
            self.slice(&o.slice);
        }
        self.text(&format!("{:?} {}", p.segments, p.alignment));
    }

    pub fn finish(&self) -> u64 {
        self.0
    }
}
