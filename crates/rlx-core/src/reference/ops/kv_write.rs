//! New rows of a cache.

use crate::error::{Code, Error, Result};
use crate::reference::view::scalar_bytes;
use crate::reference::{View, arity};
use crate::sample::{Control, control};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

pub(crate) fn run(operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [cache, x, ctl] = operands else { return Err(arity("kv_write")) };
    Ok(vec![write(cache, &x.f64s()?, &ctl.control()?)?])
}

/// The cache with rows `0..len` of `x` at positions `past..past + len` of every head.
pub(crate) fn write(cache: &View<'_>, x: &[f64], ctl: &Control) -> Result<Vec<u8>> {
    let mut out = cache.bytes.to_vec();
    let [heads, capacity, head_dim] = cache.dims()?;
    let width = heads * head_dim;
    if ctl.done != control::RUNNING || width == 0 {
        return Ok(out);
    }
    let rows = (ctl.len as usize).min(x.len() / width);
    let past = ctl.past as usize;
    if past.checked_add(rows).is_none_or(|end| end > capacity) {
        return Err(Error::new(
            Code::ContextFull,
            format!("{rows} rows from position {past} do not fit a cache of {capacity}"),
        ));
    }
    for i in 0..rows {
        for head in 0..heads {
            let row = &x[i * width + head * head_dim..][..head_dim];
            let first = (head * capacity + past + i) * head_dim;
            let bytes = scalar_bytes(cache.ty.dtype, row)?;
            let first = first * cache.ty.dtype.block_bytes();
            out[first..][..bytes.len()].copy_from_slice(&bytes);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::ops::KvWrite;
    use crate::reference::testing::*;
    use crate::types::DType;

    #[test]
    fn rows_go_to_their_position_in_every_head_and_rows_from_len_on_nowhere() {
        for dtype in [DType::F32, DType::F16] {
            // 2 heads, capacity 3, head_dim 2; 2 rows of which 1 is real, at position 1.
            let cache = cache(dtype, &[2, 3, 2], &[0.0; 12]);
            let x = f32s(&[2, 4], &[1.0, 2.0, 3.0, 4.0, 9.0, 9.0, 9.0, 9.0]);
            let y = run1(KvWrite, &[&cache, &x, &control(1, 1, 0)]);
            assert_eq!(y, [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
        }
    }

    #[test]
    fn a_control_block_that_is_done_writes_nothing() {
        let cache = cache(DType::F32, &[1, 2, 2], &[7.0; 4]);
        let x = f32s(&[1, 2], &[1.0, 2.0]);
        assert_eq!(run1(KvWrite, &[&cache, &x, &control(0, 1, 1)]), [7.0; 4]);
        assert_eq!(run1(KvWrite, &[&cache, &x, &control(2, 1, 2)]), [7.0; 4]);
    }

    #[test]
    fn a_row_past_the_capacity_is_an_error() {
        let cache = cache(DType::F32, &[1, 2, 2], &[7.0; 4]);
        let e = fails(KvWrite, &[&cache, &f32s(&[1, 2], &[1.0; 2]), &control(2, 1, 0)]);
        assert_eq!(e.what, "1 rows from position 2 do not fit a cache of 2");
    }
}
