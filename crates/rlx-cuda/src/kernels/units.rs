//! Elements that are moved as they are: units of 1 to 16 bytes, of any scalar type and of packed rows.

use super::walk::{Walk, dims};
use rlx_core::Result;
use rlx_core::ir::lir::Slice;
use rlx_core::types::DType;

/// The type of a unit of so many bytes, a power of 2 up to 16.
pub(super) fn unit(bytes: u64) -> &'static str {
    match bytes {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "uint4",
    }
}

/// Bytes of a unit that a tensor is moved by, and its sizes in such units: packed rows are moved by bytes.
///
/// # Errors
/// `Internal` for a size that is no number, or packed rows of no whole blocks.
pub(super) fn sizes(slice: &Slice) -> Result<(u64, Vec<u64>)> {
    let mut sizes = dims(slice)?;
    let dtype = slice.ty.dtype;
    if let (DType::Block(_), Some(last)) = (dtype, sizes.last_mut()) {
        let bytes = dtype.row_bytes(*last);
        *last = bytes.ok_or_else(|| rlx_core::Error::internal("a row of no whole blocks"))?;
        return Ok((1, sizes));
    }
    Ok((dtype.block_bytes() as u64, sizes))
}

impl Walk {
    /// The same walk by larger units, where every tensor has elements of the last axis side by side. `bytes`: of an
    /// element. `starts`: the byte that each tensor begins at. The new unit's bytes.
    pub fn widen(&mut self, bytes: u64, starts: &[u64]) -> u64 {
        let Some((&last, _)) = self.dims.split_last() else { return bytes };
        if self.strides.iter().any(|s| s.last() != Some(&1)) {
            return bytes;
        }
        let fits = |wide: u64| {
            let by = (wide / bytes) as i64;
            let outer = |s: &Vec<i64>| s[..s.len() - 1].iter().all(|stride| stride % by == 0);
            last % (wide / bytes) == 0
                && starts.iter().all(|start| start % wide == 0)
                && self.strides.iter().all(outer)
        };
        let wide = [16, 8, 4, 2].into_iter().find(|&wide| wide > bytes && fits(wide));
        let Some(wide) = wide else { return bytes };
        let by = wide / bytes;
        if let Some(last) = self.dims.last_mut() {
            *last /= by;
        }
        for strides in &mut self.strides {
            let outer = strides.len() - 1;
            strides[..outer].iter_mut().for_each(|stride| *stride /= by as i64);
        }
        wide
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_as_large_as_sizes_strides_and_starts_allow() {
        let walk = |last, strides: &[i64]| Walk {
            dims: vec![3, last],
            strides: strides.iter().map(|&s| vec![s, 1]).collect(),
        };
        let mut whole = walk(8, &[16, 8]);
        assert_eq!((whole.widen(4, &[64, 0]), &whole), (16, &walk(2, &[4, 2])));
        let mut odd = walk(7, &[16, 8]);
        assert_eq!((odd.widen(4, &[64, 0]), &odd), (4, &walk(7, &[16, 8])));
        assert_eq!(walk(8, &[16, 8]).widen(4, &[64, 8]), 8, "a start of 8 bytes");
        assert_eq!(walk(8, &[18, 8]).widen(4, &[0, 0]), 8, "rows of 72 bytes");
        let mut apart = Walk { dims: vec![8], strides: vec![vec![2], vec![1]] };
        assert_eq!(apart.widen(4, &[0, 0]), 4, "elements apart");
    }
}
