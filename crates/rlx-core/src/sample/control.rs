//! The control block: where a session is, in 64 bytes that live on the device.
//!
//! Sampling, the last step of a program, advances it; every other step only reads it. So the
//! commands of one decode step are the commands of every decode step.

/// Words in the control block.
pub const WORDS: usize = 16;
/// Word index: rows in the KV cache before this submission.
pub const PAST: usize = 0;
/// Word index: real rows of this submission.
pub const LEN: usize = 1;
/// Word index: the last sampled id.
pub const TOKEN: usize = 2;
/// Word index: tokens sampled so far in this generation.
pub const STEP: usize = 3;
/// Word index: [`RUNNING`], [`STOPPED`] or [`FULL`].
pub const DONE: usize = 4;
/// Word index: tokens to sample at most in this generation.
pub const LIMIT: usize = 5;
/// Word index: count of all ids ever sampled in this session; wraps at 2^32.
pub const RING: usize = 6;
/// Word index: rows the KV cache can hold.
pub const CAPACITY: usize = 7;

/// [`DONE`]: the generation goes on.
pub const RUNNING: u32 = 0;
/// [`DONE`]: a stop id was sampled.
pub const STOPPED: u32 = 1;
/// [`DONE`]: the limit or the context's capacity is reached.
pub const FULL: u32 = 2;

const _: () = {
    use crate::ops::def::control_block;
    assert!(
        PAST == control_block::PAST && LEN == control_block::LEN && DONE == control_block::DONE
    );
    assert!(RUNNING == control_block::RUNNING);
};

/// The control block as a value; words 8..16 are reserved and zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Rows in the KV cache before this submission.
    pub past: u32,
    /// Real rows of this submission.
    pub len: u32,
    /// The last sampled id.
    pub token: u32,
    /// Tokens sampled so far in this generation.
    pub step: u32,
    /// [`RUNNING`], [`STOPPED`] or [`FULL`].
    pub done: u32,
    /// Tokens to sample at most in this generation.
    pub limit: u32,
    /// Count of all ids ever sampled in this session; wraps at 2^32.
    pub ring: u32,
    /// Rows the KV cache can hold.
    pub capacity: u32,
}

impl Control {
    /// The block as the device sees it.
    pub fn to_words(&self) -> [u32; WORDS] {
        let mut words = [0; WORDS];
        words[PAST] = self.past;
        words[LEN] = self.len;
        words[TOKEN] = self.token;
        words[STEP] = self.step;
        words[DONE] = self.done;
        words[LIMIT] = self.limit;
        words[RING] = self.ring;
        words[CAPACITY] = self.capacity;
        words
    }

    /// The block from the device's words; the reserved ones are not looked at.
    pub fn from_words(words: &[u32; WORDS]) -> Self {
        Self {
            past: words[PAST],
            len: words[LEN],
            token: words[TOKEN],
            step: words[STEP],
            done: words[DONE],
            limit: words[LIMIT],
            ring: words[RING],
            capacity: words[CAPACITY],
        }
    }

    /// The row that the token sampled next will have in the KV cache: with the seed, what its
    /// random number depends on.
    pub fn position(&self) -> u32 {
        self.past.wrapping_add(self.len)
    }

    /// Takes the sampled `id`: the rows of this submission are past, the next one has one row.
    ///
    /// A block that is done stays as it is: steps submitted ahead of a stop change nothing.
    pub fn advance(&mut self, id: u32, is_stop: bool) {
        if self.done != RUNNING {
            return;
        }
        self.past = self.position();
        self.len = 1;
        self.token = id;
        self.step = self.step.wrapping_add(1);
        self.ring = self.ring.wrapping_add(1);
        self.done = if is_stop {
            STOPPED
        } else if self.step >= self.limit || self.past >= self.capacity {
            FULL
        } else {
            RUNNING
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Control = Control {
        past: 3,
        len: 5,
        token: 9,
        step: 0,
        done: RUNNING,
        limit: 4,
        ring: u32::MAX,
        capacity: 100,
    };

    #[test]
    fn words_round_trip_in_the_order_of_the_layout() {
        let words = START.to_words();
        assert_eq!(words, [3, 5, 9, 0, 0, 4, u32::MAX, 100, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Control::from_words(&words), START);
    }

    #[test]
    fn advance_moves_the_rows_into_the_past_and_the_ring_wraps() {
        let mut c = START;
        c.advance(42, false);
        assert_eq!(c, Control { past: 8, len: 1, token: 42, step: 1, ring: 0, ..START });
        c.advance(43, false);
        assert_eq!(c, Control { past: 9, len: 1, token: 43, step: 2, ring: 1, ..START });
    }

    #[test]
    fn a_stop_id_ends_it_even_at_the_limit() {
        let mut c = Control { limit: 1, ..START };
        c.advance(42, true);
        assert_eq!((c.done, c.token, c.step), (STOPPED, 42, 1));
    }

    #[test]
    fn the_limit_and_the_capacity_end_it() {
        let mut c = Control { limit: 1, ..START };
        c.advance(42, false);
        assert_eq!(c.done, FULL);
        let mut c = Control { capacity: 8, ..START };
        c.advance(42, false);
        assert_eq!(c.done, FULL);
        let mut c = Control { capacity: 9, ..START };
        c.advance(42, false);
        assert_eq!(c.done, RUNNING);
    }

    #[test]
    fn a_block_that_is_done_does_not_change() {
        for done in [STOPPED, FULL] {
            let mut c = Control { done, ..START };
            c.advance(42, true);
            assert_eq!(c, Control { done, ..START });
        }
    }
}
