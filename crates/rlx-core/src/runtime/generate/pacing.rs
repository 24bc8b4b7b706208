//! How a prompt is cut for a device that others use too.
//!
//! There are two cuts, because two things wait. A page's compositor gets its turn between submissions, so a
//! chunk is submitted in short pieces of a few layers each. A cancel and a progress bar wait for whole
//! chunks, which may take longer. Chunks are not made of few rows, because these use only a fraction of a
//! large device (64 rows of an 8 B model take an H200 45 ms, 512 take it 187).

/// Most milliseconds of a submission.
const SUBMISSION_MS: f64 = 50.0;

/// Most milliseconds of a chunk: its rows grow as long as they are expected to take less.
const CHUNK_MS: f64 = 250.0;

/// Milliseconds of work that are queued in chunks: the device stays busy this long without a poll.
const QUEUE_MS: f64 = 200.0;

/// Rows of the first chunk, and of the shortest.
const FIRST_ROWS: usize = 64;

/// Pieces of the first chunk, whose time is not known.
const FIRST_PIECES: u32 = 8;

/// How long a device takes for a prompt's rows, as measured so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pacing {
    /// Most rows of a chunk.
    most: usize,
    /// Rows of the next chunks.
    rows: usize,
    /// Expected milliseconds of such a chunk, once one was measured.
    ms: Option<f64>,
}

impl Pacing {
    /// Without a measurement. A chunk has at most `most` rows.
    pub fn new(most: usize) -> Self {
        Pacing { most, rows: FIRST_ROWS.min(most), ms: None }
    }

    /// Rows of the next chunks.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many submissions a chunk of this many rows is cut into.
    pub fn pieces(&self, rows: usize) -> u32 {
        match self.ms {
            None => FIRST_PIECES,
            Some(ms) => (ms * rows as f64 / self.rows as f64 / SUBMISSION_MS) as u32 + 1,
        }
    }

    /// How many chunks are in flight, at most `most`: one that runs and one that waits, or more if they are short.
    pub fn in_flight(&self, most: usize) -> usize {
        let fit = self.ms.map_or(0.0, |ms| QUEUE_MS / ms.max(1.0));
        (fit as usize).clamp(2, most.max(2)).min(most)
    }

    /// Notes that a chunk of `rows` took `ms`.
    pub fn took(&mut self, rows: usize, ms: f64) {
        // A prompt's short rest reads every weight for few rows, so its time says nothing about whole chunks.
        if 2 * rows < self.rows {
            return;
        }
        // The time grows at most in proportion to the rows.
        let expected = |n: usize| ms * n as f64 / rows as f64;
        if expected(self.rows) > 2.0 * CHUNK_MS {
            self.rows = (self.rows / 2).max(FIRST_ROWS.min(self.most));
        }
        while self.rows < self.most && expected((2 * self.rows).min(self.most)) <= CHUNK_MS {
            self.rows = (2 * self.rows).min(self.most);
        }
        self.ms = Some(expected(self.rows));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(most: usize, chunks: &[(usize, f64)]) -> Pacing {
        let mut pacing = Pacing::new(most);
        chunks.iter().for_each(|&(rows, ms)| pacing.took(rows, ms));
        pacing
    }

    #[test]
    fn rows_grow_as_far_as_their_time_and_shrink_above_twice_of_it() {
        let rows = |chunks: &[(usize, f64)]| after(512, chunks).rows();
        assert_eq!(rows(&[]), 64);
        assert_eq!(rows(&[(64, 1.0)]), 512);
        assert_eq!(rows(&[(64, 45.0)]), 256);
        assert_eq!(rows(&[(64, 45.0), (256, 105.0)]), 512);
        assert_eq!(rows(&[(64, 126.0)]), 64);
        assert_eq!(rows(&[(64, 1.0), (512, 400.0)]), 512, "it fits better than nothing known");
        assert_eq!(rows(&[(64, 1.0), (512, 501.0)]), 256);
        // A slow device never takes fewer than a tile, nor a small program more than its rows.
        assert_eq!(rows(&[(64, 1e6), (64, 1e6)]), 64);
        assert_eq!(after(16, &[(16, 1e6)]).rows(), 16);
        assert_eq!(after(300, &[(64, 0.0)]).rows(), 300);
    }

    #[test]
    fn what_a_prompt_leaves_over_teaches_nothing() {
        assert_eq!(after(512, &[(64, 1.0), (2, 5.0)]), after(512, &[(64, 1.0)]));
    }

    #[test]
    fn a_submission_takes_its_time_at_most() {
        assert_eq!(after(512, &[]).pieces(64), 8);
        assert_eq!(after(512, &[(64, 1.0)]).pieces(512), 1);
        let slow = after(512, &[(64, 640.0)]);
        assert_eq!((slow.pieces(64), slow.pieces(13)), (13, 3));
        let large = after(512, &[(64, 45.0), (256, 105.0), (512, 187.0)]);
        assert_eq!((large.pieces(512), large.pieces(2)), (4, 1));
    }

    #[test]
    fn short_chunks_wait_behind_each_other_and_long_ones_behind_one() {
        assert_eq!(after(512, &[]).in_flight(4), 2);
        assert_eq!(after(512, &[(64, 0.0)]).in_flight(4), 4);
        assert_eq!(after(512, &[(64, 8.0)]).in_flight(4), 3);
        assert_eq!(after(512, &[(64, 640.0)]).in_flight(4), 2);
        assert_eq!(after(512, &[(64, 8.0)]).in_flight(1), 1, "a device that works in `poll`");
    }
}
