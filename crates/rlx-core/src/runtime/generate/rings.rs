//! Caches that are rings: those of layers with a window, which have the last positions only.
//!
//! A prompt that departs from the one before goes on from the last token that both have. Of the positions that its
//! first new row sees a ring may have lost some to later ones, which an answer wrote: then it goes on from nothing.

/// What has been written to the rings of a session.
#[derive(Clone)]
pub(super) struct Rings {
    /// Positions that a ring has beyond its window; `None` without rings.
    spare: Option<usize>,
    /// Positions written since the rings were begun: each from 0 to here, some more than once.
    written: usize,
}

impl Rings {
    /// Of a model whose rings have so many positions beyond their windows.
    pub fn new(spare: Option<u64>) -> Self {
        let spare = spare.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        Rings { spare, written: 0 }
    }

    /// Fewest tokens whose rows a prompt can go on from, unless it goes on from none.
    pub fn least(&self) -> usize {
        self.spare.map_or(0, |spare| self.written.saturating_sub(spare))
    }

    /// Notes that a prompt goes on from the rows of so many tokens.
    pub fn begin(&mut self, reused: usize) {
        if reused == 0 {
            self.written = 0;
        }
    }

    /// Notes a submission that writes all positions before `end`.
    pub fn submit(&mut self, end: usize) {
        self.written = self.written.max(end);
    }
}

#[cfg(test)]
mod tests {
    use super::Rings;

    #[test]
    fn a_prompt_goes_on_where_nothing_that_it_sees_was_overwritten() {
        let mut rings = Rings::new(Some(10));
        rings.submit(25);
        assert_eq!(rings.least(), 15);
        // It goes on from 18 tokens: what was written behind them is still there.
        rings.begin(18);
        rings.submit(20);
        assert_eq!(rings.least(), 15);
        rings.begin(0);
        rings.submit(8);
        assert_eq!(rings.least(), 0);
        let mut none = Rings::new(None);
        none.submit(1000);
        assert_eq!(none.least(), 0);
    }
}
