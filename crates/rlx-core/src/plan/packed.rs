//! Tensors that the host packs while loading: blocks of MXFP4, whose values and scales are tensors of their own in a
//! file. A packed tensor is as good as a range of a file [`PACKED`], which has all of them and which the loader makes.

use super::weights::Piece;
use crate::error::{Error, Result};
use crate::formats::microscaled;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// The number of the file that has the packed tensors.
pub const PACKED: u32 = u32::MAX;

/// Where the bytes of a tensor are.
#[derive(Clone, Debug, PartialEq)]
pub enum Located {
    /// In a file.
    File(Piece),
    /// In two tensors of files.
    Packed(Packing),
}

impl From<(u32, u64, u64)> for Located {
    /// A shard, the first byte in it, and how many.
    fn from((shard, offset, bytes): (u32, u64, u64)) -> Self {
        Located::File(Piece { shard, offset, bytes })
    }
}

impl Located {
    /// Bytes of the tensor; `None` where two tensors do not fit each other.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Located::File(piece) => Some(piece.bytes),
            Located::Packed(packing) => packing.bytes(),
        }
    }
}

/// A tensor that is made of two.
#[derive(Clone, Debug, PartialEq)]
pub struct Packing {
    /// Its values, 16 bytes a block: name and place.
    pub values: (String, Piece),
    /// Its scales, a byte a block.
    pub scales: (String, Piece),
    /// Blocks of a row.
    pub row: u64,
    /// Its first row in these tensors.
    pub first: u64,
    /// Rows of these tensors from one of its rows to the next, 1 or more.
    pub step: u64,
}

impl Packing {
    /// Bytes of the tensor; `None` unless both tensors are whole rows, as many as there are of each kind.
    pub fn bytes(&self) -> Option<u64> {
        let blocks = self.scales.1.bytes;
        let group = self.row.checked_mul(self.step)?;
        let whole = blocks.checked_mul(microscaled::VALUES as u64)? == self.values.1.bytes
            && self.first < self.step
            && blocks.checked_rem(group)? == 0;
        if whole { (blocks / self.step).checked_mul(microscaled::BLOCK as u64) } else { None }
    }

    /// The tensor of these values and scales.
    ///
    /// # Errors
    /// `Internal` for other sizes than were planned.
    pub fn pack(&self, values: &[u8], scales: &[u8]) -> Result<Vec<u8>> {
        self.pack_rows(values, scales, 0..usize::MAX)
    }

    /// Of these values and scales those rows of the tensor that it has.
    ///
    /// # Errors
    /// `Internal` for other sizes than were planned.
    pub fn pack_rows(&self, values: &[u8], scales: &[u8], rows: Range<usize>) -> Result<Vec<u8>> {
        let wrong = || Error::internal("a packed tensor has other parts than were planned");
        let whole = self.values.1.bytes == values.len() as u64
            && self.scales.1.bytes == scales.len() as u64;
        if self.bytes().is_none() || !whole {
            return Err(wrong());
        }
        let row = self.row as usize;
        let all = scales.chunks_exact(row).zip(values.chunks_exact(row * microscaled::VALUES));
        let own = all.skip(self.first as usize).step_by(self.step as usize);
        let own = own.skip(rows.start).take(rows.len());
        let mut out = Vec::with_capacity(own.len() * row * microscaled::BLOCK);
        for (scales, values) in own {
            for (scale, values) in scales.iter().zip(values.as_chunks().0) {
                out.extend(microscaled::block(*scale, values));
            }
        }
        Ok(out)
    }
}

/// A tensor that the host packs.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// Its name.
    pub name: String,
    /// What of.
    pub packing: Packing,
    /// Its place in the file of packed tensors.
    pub place: Piece,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn packing(blocks: u64, row: u64, first: u64, step: u64) -> Packing {
        let piece = |bytes| Piece { shard: 0, offset: 0, bytes };
        let (values, scales) = (("v".into(), piece(16 * blocks)), ("s".into(), piece(blocks)));
        Packing { values, scales, row, first, step }
    }

    #[test]
    fn rows_are_taken_in_turn() {
        // Four rows of two blocks, of which every second one is taken.
        let scales: Vec<u8> = (10..18).collect();
        let values = vec![0; 8 * 16];
        for (first, expected) in [(0, [10, 11, 14, 15]), (1, [12, 13, 16, 17])] {
            let packed = packing(8, 2, first, 2).pack(&values, &scales).unwrap();
            let got: Vec<u8> = packed.chunks(17).map(|block| block[0]).collect();
            assert_eq!(got, expected);
            let second = packing(8, 2, first, 2).pack_rows(&values, &scales, 1..9).unwrap();
            assert_eq!(second, packed[34..]);
        }
    }

    #[test]
    fn sizes_that_are_no_whole_rows_have_no_bytes() {
        assert_eq!(packing(8, 2, 0, 1).bytes(), Some(8 * 17));
        assert_eq!(packing(8, 2, 1, 2).bytes(), Some(4 * 17));
        let wrong = [(8, 3, 0, 1), (8, 2, 0, 3), (8, 2, 2, 2), (8, 0, 0, 1), (8, 2, 0, 0)];
        for (blocks, row, first, step) in wrong {
            assert_eq!(packing(blocks, row, first, step).bytes(), None, "{row} {first} {step}");
        }
        assert_eq!(packing(8, u64::MAX, 0, 2).bytes(), None);
        let mut other = packing(8, 2, 0, 1);
        other.values.1.bytes += 1;
        assert_eq!(other.bytes(), None);
        assert!(packing(8, 2, 0, 1).pack(&[0; 128], &[0; 7]).is_err());
    }
}
