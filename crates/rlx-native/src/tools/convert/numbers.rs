//! The numbers of a converted tensor, row by row, from the bytes of the folder's files.

use rlx_core::formats::decode_row;
use rlx_core::models::Checkpoint;
use rlx_core::models::convert::{Change, Converted, Numbers, View};
use rlx_core::plan::{Located, Piece};
use rlx_core::runtime::device::SharedBytes;
use rlx_core::types::DType;
use rlx_core::{Error, Result};

/// A folder's tensors.
pub struct Source<'a> {
    pub checkpoint: &'a Checkpoint<'a>,
    pub maps: &'a [SharedBytes],
}

/// What takes whole rows of a type.
type Put<'a> = dyn FnMut(DType, &[u8]) -> Result<()> + 'a;

/// Rows of one type that are gathered until there are enough to be written.
struct Slab<'a> {
    bytes: Vec<u8>,
    /// Bytes of a row, and of all rows that are put at once.
    row: usize,
    full: usize,
    dtype: DType,
    change: Change,
    put: &'a mut Put<'a>,
}

impl Slab<'_> {
    fn add(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let n = bytes.len().min(self.full - self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.bytes.len() == self.full {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        if !self.bytes.len().is_multiple_of(self.row) {
            return Err(Error::internal("a converted tensor ends inside a row"));
        }
        if self.change == Change::None {
            (self.put)(self.dtype, &self.bytes)?;
        } else {
            let size = self.dtype.row_bytes(1).unwrap_or(1).max(1) as usize;
            let mut numbers = vec![0.0; self.bytes.len() / size];
            decode_row(self.dtype, &self.bytes, &mut numbers)?;
            for x in &mut numbers {
                *x = match self.change {
                    Change::None => *x,
                    Change::Add(y) => *x + y,
                    Change::Decay => -x.exp(),
                };
            }
            let changed: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            (self.put)(DType::F32, &changed)?;
        }
        self.bytes.clear();
        Ok(())
    }
}

impl<'a> Source<'a> {
    /// Hands all rows of a tensor to `put`, in order, with the type that they have. At most about `elements` numbers
    /// are in memory at once.
    pub fn rows(&self, tensor: &Converted, elements: usize, put: &mut Put<'_>) -> Result<()> {
        match &tensor.numbers {
            Numbers::Values(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
                put(DType::F32, &bytes)
            }
            Numbers::Packed(weight) => self.packed(weight, tensor, elements, put),
            Numbers::Views(views) => {
                // Views that stand behind each other in one tensor have one type.
                let mut start = 0;
                while let Some(first) = views.get(start) {
                    let (dtype, _) = self.bytes(&first.tensor)?;
                    let same = |v: &&View| self.bytes(&v.tensor).is_ok_and(|b| b.0 == dtype);
                    let end = start + views[start..].iter().take_while(same).count();
                    let group = &views[start..end.max(start + 1)];
                    self.gather(tensor, group, dtype, elements, &mut |dtype, rows| {
                        put(dtype, rows)
                    })?;
                    start = end.max(start + 1);
                }
                Ok(())
            }
        }
    }

    fn gather(
        &self,
        tensor: &Converted,
        views: &[View],
        dtype: DType,
        elements: usize,
        put: &mut Put<'_>,
    ) -> Result<()> {
        let outside = |name: &str| Error::internal(format!("a view lies outside of tensor {name}"));
        let row = tensor.dims.last().copied().unwrap_or(1);
        let bytes = |n: u64| dtype.row_bytes(n).and_then(|n| usize::try_from(n).ok());
        let (row, size) = match (bytes(row), bytes(1)) {
            (Some(row), Some(size)) if size > 0 && row > 0 => (row, size),
            _ => return Err(outside(&tensor.name)),
        };
        let full = (elements * size / row).max(1) * row;
        let mut forward = |dtype: DType, rows: &[u8]| put(dtype, rows);
        let mut slab =
            Slab { bytes: Vec::new(), row, full, dtype, change: tensor.change, put: &mut forward };
        for view in views {
            let (_, all) = self.bytes(&view.tensor)?;
            view.runs(|at, len| {
                let (at, len) = (at as usize * size, len as usize * size);
                let run = all.get(at..at + len).ok_or_else(|| outside(&view.tensor))?;
                slab.add(run)
            })?;
        }
        slab.flush()
    }

    /// A tensor's type and bytes.
    fn bytes(&self, name: &str) -> Result<(DType, &'a [u8])> {
        let missing = || Error::internal(format!("tensor {name} is in no file of the folder"));
        let (dtype, _) = self.checkpoint.tensor(name).ok_or_else(missing)?;
        match self.checkpoint.locate(name) {
            Some(Located::File(piece)) => Ok((dtype, self.piece(piece).ok_or_else(missing)?)),
            _ => Err(missing()),
        }
    }

    fn piece(&self, Piece { shard, offset, bytes }: Piece) -> Option<&'a [u8]> {
        let map = self.maps.get(shard as usize)?;
        (**map).as_ref().get(offset as usize..offset.checked_add(bytes)? as usize)
    }

    /// Hands the rows of a weight that is packed of two tensors to `put`.
    fn packed(
        &self,
        weight: &str,
        tensor: &Converted,
        elements: usize,
        put: &mut Put<'_>,
    ) -> Result<()> {
        let missing = || Error::internal(format!("{weight} is not packed of the folder's tensors"));
        let Some(Located::Packed(packing)) = self.checkpoint.locate(weight) else {
            return Err(missing());
        };
        let values = self.piece(packing.values.1).ok_or_else(missing)?;
        let scales = self.piece(packing.scales.1).ok_or_else(missing)?;
        let (row, rows) = tensor.dims.split_last().ok_or_else(missing)?;
        let rows = rows.iter().product::<u64>() as usize;
        let most = (elements / (*row).max(1) as usize).max(1);
        for start in (0..rows).step_by(most) {
            let own = start..rows.min(start + most);
            put(tensor.dtype, &packing.pack_rows(values, scales, own)?)?;
        }
        Ok(())
    }
}
