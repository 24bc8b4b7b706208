//! Words of the control block, as arrays.

use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::sample::control;

/// The most that positions are counted to. What stands beyond is refused by the engine.
const MOST: i64 = 1 << 30;

/// The control block of a step.
#[derive(Clone, Copy)]
pub(super) struct Control(pub Reg);

impl Control {
    /// A word, u32.
    pub fn word(self, t: &mut Tape, i: usize) -> Reg {
        t.element(self.0, control::WORDS as i64, i as i64)
    }

    /// A word that counts rows, i32.
    fn rows(self, t: &mut Tape, i: usize) -> Reg {
        let word = self.word(t, i);
        let most = t.integer(Kind::U32, MOST);
        let word = t.minimum(word, most);
        t.cast(word, Kind::I32)
    }

    /// Rows before this submission, i32.
    pub fn past(self, t: &mut Tape) -> Reg {
        self.rows(t, control::PAST)
    }

    /// Real rows of this submission, i32.
    pub fn len(self, t: &mut Tape) -> Reg {
        self.rows(t, control::LEN)
    }

    /// Whether the generation goes on.
    pub fn runs(self, t: &mut Tape) -> Reg {
        let done = self.word(t, control::DONE);
        let running = t.integer(Kind::U32, control::RUNNING.into());
        t.eq(done, running)
    }

    /// Positions of `n` rows, i32.
    pub fn positions(self, t: &mut Tape, n: i64) -> Reg {
        let (past, rows) = (self.past(t), t.arange(Kind::I32, n));
        t.add(past, rows)
    }

    /// For each of `n` rows whether it may change a state: it is real, and the generation goes on.
    pub fn writes(self, t: &mut Tape, n: i64) -> Reg {
        let (rows, len, runs) = (t.arange(Kind::I32, n), self.len(t), self.runs(t));
        let real = t.lt(rows, len);
        t.op(Code::LogicalAnd, &[real, runs])
    }
}
