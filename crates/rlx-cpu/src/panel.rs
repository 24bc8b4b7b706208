//! Panels: 16 rows of a weight, word by word.
//!
//! ```text
//! rows     row 0: block 0, block 1, …    row 1: block 0, …                       as in the file
//! panel    odd bytes of block 0 of rows 0..16; of block 1; …
//!          block 0: word 0 of rows 0..16, word 1 of rows 0..16, …; block 1: …
//! ```
//!
//! A block's words are its 4-byte pieces, in the order in which kernels read them: memory is read in one
//! stream, which is fetched ahead. The 1 or 2 bytes that are left over (at the block's start or end, as
//! the format has its scale) stand before the words of all blocks, so that a vector of words is one cache
//! line, and that they have come with the stream when they are read. A scalar type's block is one
//! element. Nothing is decoded, and 16 rows have as many bytes as before; rows behind the last whole panel
//! stay as they are.

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
    /// The block's words as they stand in a panel, if in another order.
    order: Option<&'static [u8]>,
}

/// `q6_k`: each half's scales, then per 32 elements the words of top bits and both of low ones.
const Q6_K: [u8; 52] = {
    let mut order = [0; 52];
    let mut i = 0;
    while i < 52 {
        let (half, at) = (i / 26, i % 26);
        order[i] = if at < 2 {
            48 + 2 * half + at
        } else {
            let (part, which, word) = ((at - 2) / 12, (at - 2) % 12 / 4, (at - 2) % 4);
            match which {
                0 => 32 + 8 * half + 4 * part + word,
                1 => 16 * half + 4 * part + word,
                _ => 16 * half + 8 + 4 * part + word,
            }
        } as u8;
        i += 1;
    }
    order
};

impl Cut {
    pub(crate) fn of(dtype: DType) -> Cut {
        let block = dtype.block_bytes();
        let odd = block % 4;
        let at_end = matches!(dtype, DType::Block(B::Q6K | B::Q3K | B::Tq1_0 | B::Tq2_0));
        let order = matches!(dtype, DType::Block(B::Q6K)).then_some(&Q6_K[..]);
        Cut { block, odd, odd_at: if at_end { block - odd } else { 0 }, order }
    }

    fn words(&self) -> usize {
        self.block / 4
    }

    /// Where a panel's word `i` starts in a block of a row.
    fn word_at(&self, i: usize) -> usize {
        let i = self.order.and_then(|order| order.get(i)).map_or(i, |i| usize::from(*i));
        4 * i + if self.odd_at == 0 { self.odd } else { 0 }
    }

    /// Where word `i` of block `b` of row `r` stands in a panel of `blocks`.
    fn place(&self, blocks: usize, b: usize, i: usize, r: usize) -> usize {
        ROWS * self.odd * blocks + 4 * (ROWS * (b * self.words() + i) + r)
    }

    /// Where the odd bytes of block `b` of row `r` stand in a panel.
    fn odd_place(&self, b: usize, r: usize) -> usize {
        self.odd * (ROWS * b + r)
    }

    /// Up to 16 rows of `row_bytes` to a panel. Missing rows are zero.
    pub(crate) fn pack(&self, rows: &[u8], row_bytes: usize, panel: &mut [u8]) {
        let blocks = row_bytes / self.block;
        if rows.len() < panel.len() {
            panel.fill(0);
        }
        for (r, row) in rows.chunks_exact(row_bytes).take(ROWS).enumerate() {
            for (b, block) in row.chunks_exact(self.block).enumerate() {
                for i in 0..self.words() {
                    let word = &block[self.word_at(i)..][..4];
                    panel[self.place(blocks, b, i, r)..][..4].copy_from_slice(word);
                }
                let odd = &block[self.odd_at..][..self.odd];
                panel[self.odd_place(b, r)..][..self.odd].copy_from_slice(odd);
            }
        }
    }

    /// Block `b` of row `r` of a panel.
    fn unpack(&self, panel: &[u8], b: usize, r: usize, block: &mut [u8]) {
        let blocks = panel.len() / (ROWS * self.block);
        for i in 0..self.words() {
            let at = self.place(blocks, b, i, r);
            block[self.word_at(i)..][..4].copy_from_slice(&panel[at..][..4]);
        }
        let at = self.odd_place(b, r);
        block[self.odd_at..][..self.odd].copy_from_slice(&panel[at..at + self.odd]);
    }

    /// Whole rows to panels: `rows` and `out` are equally long. What is no whole panel is copied.
    pub(crate) fn arrange(&self, rows: &[u8], row_bytes: usize, out: &mut [u8]) {
        let panel = ROWS * row_bytes;
        let mut panels = out.chunks_exact_mut(panel);
        for (rows, out) in rows.chunks_exact(panel).zip(&mut panels) {
            self.pack(rows, row_bytes, out);
        }
        let rest = panels.into_remainder();
        rest.copy_from_slice(&rows[rows.len() - rest.len()..]);
    }

    /// The same in place, through one panel of scratch memory.
    pub(crate) fn arrange_in_place(&self, bytes: &mut [u8], row_bytes: usize) {
        let mut rows = vec![0; ROWS * row_bytes];
        for panel in bytes.chunks_exact_mut(ROWS * row_bytes) {
            rows.copy_from_slice(panel);
            self.pack(&rows, row_bytes, panel);
        }
    }

    /// Undoes [`arrange_in_place`](Self::arrange_in_place).
    pub(crate) fn restore_in_place(&self, bytes: &mut [u8], row_bytes: usize) {
        let mut from = vec![0; ROWS * row_bytes];
        for panel in bytes.chunks_exact_mut(ROWS * row_bytes) {
            from.copy_from_slice(panel);
            for (r, row) in panel.chunks_exact_mut(row_bytes).enumerate() {
                for (b, block) in row.chunks_exact_mut(self.block).enumerate() {
                    self.unpack(&from, b, r, block);
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
                for (b, block) in (first..).zip(out.chunks_exact_mut(self.block)) {
                    self.unpack(panel, b, r % ROWS, block);
                }
            }
        }
    }
}

#[cfg(feature = "internals")]
#[allow(missing_docs)]
pub mod tests {
    use super::*;

    pub fn panels_hold_every_byte_of_every_type_and_give_it_back() {
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
