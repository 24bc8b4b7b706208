//! New slices of a state.

use crate::error::{Error, Result};
use crate::ops::StateWrite;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for StateWrite {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [state, x, at] = operands else { return Err(arity("state_write")) };
        let (have, put) = (state.sizes()?, x.sizes()?);
        let missing = || Error::internal("state_write: no such axis");
        let (&most, &rows) =
            (have.get(self.axis).ok_or_else(missing)?, put.get(self.axis).ok_or_else(missing)?);
        let start =
            (at.words().first().copied().unwrap_or(0) as usize).min(most.saturating_sub(rows));
        let mut out = state.bytes.to_vec();
        let bytes = if state.ty.dtype == x.ty.dtype {
            x.bytes.to_vec()
        } else {
            scalar_bytes(state.ty.dtype, &x.f64s()?)?
        };
        // A run is what one index of the axes before `axis` has of x.
        let blocks: usize = have[..self.axis].iter().product();
        if blocks == 0 || most == 0 || rows == 0 {
            return Ok(vec![out]);
        }
        let slice = out.len() / (blocks * most);
        for (block, run) in bytes.chunks_exact((rows * slice).max(1)).enumerate() {
            let first = (block * most + start) * slice;
            out[first..][..run.len()].copy_from_slice(run);
        }
        Ok(vec![out])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::StateWrite;
    use crate::reference::testing::*;
    use crate::types::DType;

    #[test]
    fn slices_of_an_inner_axis_are_overwritten_in_every_block() {
        for dtype in [DType::F32, DType::F16] {
            let state = cache(dtype, &[2, 3, 2], &[0.0; 12]);
            let x = f32s(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
            let y = run1(StateWrite { axis: 1 }, &[&state, &x, &u32s(&[], &[1])]);
            assert_eq!(y, [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
        }
    }

    #[test]
    fn a_start_past_the_end_is_moved_back_until_the_slices_fit() {
        let state = cache(DType::F32, &[4], &[1.0, 2.0, 3.0, 4.0]);
        let x = f32s(&[2], &[8.0, 9.0]);
        let y = |at| run1(StateWrite { axis: 0 }, &[&state, &x, &u32s(&[1], &[at])]);
        assert_eq!(y(1), [1.0, 8.0, 9.0, 4.0]);
        assert_eq!(y(3), [1.0, 2.0, 8.0, 9.0]);
        assert_eq!(y(u32::MAX), [1.0, 2.0, 8.0, 9.0]);
    }

    #[test]
    fn more_slices_than_the_state_has_and_other_axes_are_refused() {
        let state = cache(DType::F32, &[2, 2], &[0.0; 4]);
        let at = u32s(&[1], &[0]);
        let e = fails(StateWrite { axis: 0 }, &[&state, &f32s(&[3, 2], &[0.0; 6]), &at]);
        assert_eq!(
            e.what,
            "state_write: state is state<2x2xf32>, x is tensor<3x2xf32>, at is tensor<1xu32>; \
             expected x to fit the state but for axis 0, and one u32"
        );
        fails(StateWrite { axis: 0 }, &[&state, &f32s(&[1, 1], &[0.0]), &at]);
        fails(StateWrite { axis: 2 }, &[&state, &f32s(&[1, 2], &[0.0; 2]), &at]);
        fails(StateWrite { axis: 0 }, &[&f32s(&[2, 2], &[0.0; 4]), &f32s(&[1, 2], &[0.0; 2]), &at]);
    }
}
