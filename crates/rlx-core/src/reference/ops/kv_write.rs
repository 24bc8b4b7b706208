//! New rows of a cache.

use crate::error::{Code, Error, Result};
use crate::formats::activations::{encode_q4_0, encode_q8_0};
use crate::ops::KvWrite;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::sample::{Control, control};
use crate::types::{BlockFormat, DType};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for KvWrite {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [cache, x, ctl] = operands else { return Err(arity("kv_write")) };
        Ok(vec![write(cache, &x.f64s()?, &ctl.control()?, self.ring)?])
    }
}

/// The cache with rows `0..len` of `x` at positions `past..past + len` of every head.
pub(crate) fn write(cache: &View<'_>, x: &[f64], ctl: &Control, ring: bool) -> Result<Vec<u8>> {
    let mut out = cache.bytes.to_vec();
    let [heads, capacity, head_dim] = cache.dims()?;
    let width = heads * head_dim;
    if ctl.done != control::RUNNING || width == 0 {
        return Ok(out);
    }
    let rows = (ctl.len as usize).min(x.len() / width);
    let past = ctl.past as usize;
    if !ring && past.checked_add(rows).is_none_or(|end| end > capacity) || rows > capacity {
        return Err(Error::new(
            Code::ContextFull,
            format!("{rows} rows from position {past} do not fit a cache of {capacity}"),
        ));
    }
    for i in 0..rows {
        for head in 0..heads {
            let row = &x[i * width + head * head_dim..][..head_dim];
            let bytes = stored(cache.ty.dtype, row)?;
            let first = (head * capacity + past.wrapping_add(i) % capacity) * bytes.len();
            out[first..][..bytes.len()].copy_from_slice(&bytes);
        }
    }
    Ok(out)
}

/// A row as the cache holds it. Blocks are made of f32, as everywhere.
fn stored(dtype: DType, row: &[f64]) -> Result<Vec<u8>> {
    let DType::Block(format) = dtype else { return scalar_bytes(dtype, row) };
    let row: Vec<f32> = row.iter().map(|x| *x as f32).collect();
    let blocks = row.len() / dtype.block_elements();
    let mut bytes = vec![0; blocks * dtype.block_bytes()];
    match format {
        BlockFormat::Q4_0 => encode_q4_0(&row, &mut bytes)?,
        _ => encode_q8_0(&row, &mut bytes)?,
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use crate::ops::KvWrite;
    use crate::reference::testing::*;
    use crate::types::{BlockFormat, DType, Shape, Type};
    use alloc::vec;

    #[test]
    fn rows_go_to_their_position_in_every_head_and_rows_from_len_on_nowhere() {
        for dtype in [DType::F32, DType::F16] {
            // 2 heads, capacity 3, head_dim 2; 2 rows of which 1 is real, at position 1.
            let cache = cache(dtype, &[2, 3, 2], &[0.0; 12]);
            let x = f32s(&[2, 4], &[1.0, 2.0, 3.0, 4.0, 9.0, 9.0, 9.0, 9.0]);
            let y = run1(KvWrite::default(), &[&cache, &x, &control(1, 1, 0)]);
            assert_eq!(y, [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
        }
    }

    #[test]
    fn a_cache_of_q8_0_holds_blocks_with_an_f16_scale_and_rounded_quotients() {
        // 1 head of 64, capacity 2: the row at position 1 is two blocks.
        let empty = q8_0_cache(&[1, 2, 64], &[0.0; 128]);
        let mut x = [0.0f32; 64];
        // Largest 254: d is 2, and halves go away from zero.
        (x[0], x[1], x[2], x[3]) = (-254.0, 3.0, -5.0, 2.9);
        // Largest 1: d is 1 / 127, its f16 0x2008; the quotients are made before it is rounded.
        (x[32], x[33], x[63]) = (1.0, 0.5, -0.25);
        let y = &run(KvWrite::default(), &[&empty, &f32s(&[1, 64], &x), &control(1, 1, 0)])[0];
        assert_eq!(y.bytes.len(), 2 * 68);
        assert!(y.bytes[..68].iter().all(|b| *b == 0));
        let row = &y.bytes[68..];
        assert_eq!(row[..6], [0x00, 0x40, (-127i8) as u8, 2, (-3i8) as u8, 1]);
        assert_eq!(row[34..38], [0x08, 0x20, 127, 64]);
        assert_eq!(row[67] as i8, -32);
        let d = 1032.0 / 131_072.0; // 0x2008: (1 + 8 / 1024) 2^-7
        let decoded = y.f32s();
        assert_eq!(decoded[64..68], [-254.0, 4.0, -6.0, 2.0]);
        assert_eq!((decoded[96], decoded[97], decoded[127]), (127.0 * d, 64.0 * d, -32.0 * d));
    }

    #[test]
    fn a_cache_of_q4_0_holds_nibbles_around_8_with_the_sign_of_the_largest() {
        let empty = Value {
            ty: Type::state(DType::Block(BlockFormat::Q4_0), Shape::of(&[1, 2, 64])),
            bytes: vec![0; 72],
        };
        let mut x = [0.0f32; 64];
        // Largest -16: d is 2. Halves between two codes go up, and 9 is one code too many.
        (x[0], x[1], x[2], x[16], x[17]) = (-16.0, 15.0, 16.0, 3.0, -3.0);
        // Largest 4: d is -1 / 2.
        (x[32], x[63]) = (4.0, -1.0);
        let y = &run(KvWrite::default(), &[&empty, &f32s(&[1, 64], &x), &control(1, 1, 0)])[0];
        assert!(y.bytes[..36].iter().all(|b| *b == 0));
        let row = &y.bytes[36..];
        assert_eq!(row[..6], [0x00, 0x40, 0xa0, 0x7f, 0x8f, 0x88]);
        assert_eq!((row[18..20].to_vec(), row[20], row[35]), (vec![0x00, 0xb8], 0x80, 0xa8));
        let decoded = y.f32s();
        assert_eq!(decoded[64..67], [-16.0, 14.0, 14.0]);
        assert_eq!((decoded[80], decoded[81], decoded[96], decoded[127]), (4.0, -2.0, 4.0, -1.0));
    }

    #[test]
    fn a_cache_of_q8_0_is_refused_where_a_head_is_no_whole_blocks() {
        let cache = Value {
            ty: Type::state(DType::Block(BlockFormat::Q8_0), Shape::of(&[1, 2, 48])),
            bytes: vec![0; 102],
        };
        let e =
            fails(KvWrite::default(), &[&cache, &f32s(&[1, 48], &[0.0; 48]), &control(0, 1, 0)]);
        assert_eq!(
            e.what,
            "kv_write: cache is state<1x2x48xq8_0>, expected a state [heads, capacity, head_dim] of \
             floats, or of q8_0 or q4_0 with heads of whole blocks, to match x tensor<1x48xf32>"
        );
    }

    #[test]
    fn a_control_block_that_is_done_writes_nothing() {
        let cache = cache(DType::F32, &[1, 2, 2], &[7.0; 4]);
        let x = f32s(&[1, 2], &[1.0, 2.0]);
        assert_eq!(run1(KvWrite::default(), &[&cache, &x, &control(0, 1, 1)]), [7.0; 4]);
        assert_eq!(run1(KvWrite::default(), &[&cache, &x, &control(2, 1, 2)]), [7.0; 4]);
    }

    #[test]
    fn in_a_ring_a_row_takes_the_place_of_the_one_a_ring_before() {
        let old = cache(DType::F32, &[1, 3, 1], &[10.0, 11.0, 12.0]);
        let x = f32s(&[2, 1], &[1.0, 2.0]);
        let y = run1(KvWrite { ring: true }, &[&old, &x, &control(5, 2, 0)]);
        assert_eq!(y, [2.0, 11.0, 1.0]);
        let all = f32s(&[4, 1], &[0.0; 4]);
        let e = fails(KvWrite { ring: true }, &[&old, &all, &control(5, 4, 0)]);
        assert_eq!(e.what, "4 rows from position 5 do not fit a cache of 3");
    }

    #[test]
    fn a_row_past_the_capacity_is_an_error() {
        let cache = cache(DType::F32, &[1, 2, 2], &[7.0; 4]);
        let e = fails(KvWrite::default(), &[&cache, &f32s(&[1, 2], &[1.0; 2]), &control(2, 1, 0)]);
        assert_eq!(e.what, "1 rows from position 2 do not fit a cache of 2");
    }
}
