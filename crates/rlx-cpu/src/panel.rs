//! Panels: 16 rows of a weight, word by word.
//!
//! ```text
//! rows     row 0: block 0, block 1, …    row 1: block 0, …                       as in the file
//! panel    block 0: word 0 of rows 0..16, word 1 of rows 0..16, …, odd bytes of rows 0..16; block 1: …
//! ```
//!
//! A block's words are its 4-byte pieces. The 1 or 2 bytes that are left over (at the block's start or
//! end, as the format has its scale) follow behind them. A scalar type's block is one element. Nothing is
//! decoded, and 16 rows have as many bytes as before; rows behind the last whole panel stay as they are.

use rlx_core::types::{BlockFormat as B, DType};

/// Rows of a panel.
pub(crate) const ROWS: usize = 16;

/// How a type's blocks are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bytes of a block.
    pub(crate) block: usize,
    /// Bytes that are no words: 0, 1 or 2.
    odd: usize,
    /// Where they are.
    odd_at: usize,
}

impl Cut {
    pub(crate) fn of(dtype: DType) -> Cut {
        let block = dtype.block_bytes();
        let odd = block % 4;
        let at_end = matches!(dtype, DType::Block(B::Q6K | B::Q3K | B::Tq1_0 | B::Tq2_0));
        Cut { block, odd, odd_at: if at_end { block - odd } else { 0 } }
    }

    fn words(&self) -> usize {
        self.block / 4
    }

    /// Where word `i` starts in a block of a row.
    fn word_at(&self, i: usize) -> usize {
        4 * i + if self.odd_at == 0 { self.odd } else { 0 }
    }

    /// One block of up to 16 rows, `stride` bytes apart, to a panel's block. Missing rows are zero.
    pub(crate) fn pack(&self, rows: &[u8], stride: usize, panel: &mut [u8]) {
        let count = rows.len().div_ceil(stride.max(1)).min(ROWS);
        if count < ROWS {
            panel[..ROWS * self.block].fill(0);
        }
        for r in 0..count {
            let row = &rows[r * stride..][..self.block];
            for i in 0..self.words() {
                panel[4 * (ROWS * i + r)..][..4].copy_from_slice(&row[self.word_at(i)..][..4]);
            }
            let at = 4 * ROWS * self.words() + self.odd * r;
            panel[at..at + self.odd].copy_from_slice(&row[self.odd_at..][..self.odd]);
        }
    }

    /// Row `r` of a panel's block.
    pub(crate) fn unpack(&self, panel: &[u8], r: usize, row: &mut [u8]) {
        for i in 0..self.words() {
            row[self.word_at(i)..][..4].copy_from_slice(&panel[4 * (ROWS * i + r)..][..4]);
        }
        let at = 4 * ROWS * self.words() + self.odd * r;
        row[self.odd_at..][..self.odd].copy_from_slice(&panel[at..at + self.odd]);
    }

    /// Whole rows to panels: `rows` and `out` are equally long. What is no whole panel is copied.
    pub(crate) fn arrange(&self, rows: &[u8], row_bytes: usize, out: &mut [u8]) {
        let panel = ROWS * row_bytes;
        let mut panels = out.chunks_exact_mut(panel);
        for (rows, out) in rows.chunks_exact(panel).zip(&mut panels) {
            self.arrange_panel(rows, row_bytes, out);
        }
        let rest = panels.into_remainder();
        rest.copy_from_slice(&rows[rows.len() - rest.len()..]);
    }

    fn arrange_panel(&self, rows: &[u8], row_bytes: usize, out: &mut [u8]) {
        for (b, out) in out.chunks_exact_mut(ROWS * self.block).enumerate() {
            self.pack(&rows[b * self.block..], row_bytes, out);
        }
    }

    /// The same in place, through one panel of scratch memory.
    pub(crate) fn arrange_in_place(&self, bytes: &mut [u8], row_bytes: usize) {
        let mut rows = vec![0; ROWS * row_bytes];
        for panel in bytes.chunks_exact_mut(ROWS * row_bytes) {
            rows.copy_from_slice(panel);
            self.arrange_panel(&rows, row_bytes, panel);
        }
    }

    /// Undoes [`arrange_in_place`](Self::arrange_in_place).
    pub(crate) fn restore_in_place(&self, bytes: &mut [u8], row_bytes: usize) {
        let mut from = vec![0; ROWS * row_bytes];
        for panel in bytes.chunks_exact_mut(ROWS * row_bytes) {
            from.copy_from_slice(panel);
            for (b, blocks) in from.chunks_exact(ROWS * self.block).enumerate() {
                for r in 0..ROWS {
                    self.unpack(
                        blocks,
                        r,
                        &mut panel[r * row_bytes + b * self.block..][..self.block],
                    );
                }
            }
        }
    }

    /// Blocks `first..` of row `r` of arranged bytes, as many as `out` has room for.
    pub(crate) fn read_row(
        &self,
        bytes: &[u8],
        row_bytes: usize,
        r: usize,
        first: usize,
        out: &mut [u8],
    ) {
        let panel = ROWS * row_bytes;
        match bytes.chunks_exact(panel).nth(r / ROWS) {
            None => {
                let at = r * row_bytes + first * self.block;
                out.copy_from_slice(&bytes[at..at + out.len()]);
            }
            Some(panel) => {
                let blocks = panel.chunks_exact(ROWS * self.block).skip(first);
                for (block, out) in blocks.zip(out.chunks_exact_mut(self.block)) {
                    self.unpack(block, r % ROWS, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_hold_every_byte_of_every_type_and_give_it_back() {
        let scalars = [DType::F32, DType::F16, DType::BF16];
        for dtype in scalars.into_iter().chain(B::ALL.iter().copied().map(DType::Block)) {
            let cut = Cut::of(dtype);
            for (rows, blocks) in [(16, 1), (37, 3), (5, 2)] {
                let row_bytes = blocks * cut.block;
                let original: Vec<u8> =
                    (0..rows * row_bytes).map(|i| (i * 7 + i / 251) as u8).collect();
                let mut arranged = vec![0; original.len()];
                cut.arrange(&original, row_bytes, &mut arranged);
                let mut in_place = original.clone();
                cut.arrange_in_place(&mut in_place, row_bytes);
                assert_eq!(in_place, arranged, "{dtype}");
                for r in 0..rows {
                    let mut row = vec![0; row_bytes];
                    cut.read_row(&arranged, row_bytes, r, 0, &mut row);
                    assert_eq!(row, original[r * row_bytes..][..row_bytes], "{dtype} row {r}");
                }
                cut.restore_in_place(&mut in_place, row_bytes);
                assert_eq!(in_place, original, "{dtype}");
            }
        }
    }
}
