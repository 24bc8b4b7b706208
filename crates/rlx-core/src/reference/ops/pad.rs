//! Elements around a tensor.

use crate::error::{Error, Result};
use crate::ops::{Op, Pad, PadMode};
use crate::reference::index::{each_index, room, sizes, strides};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::types::{DType, Scalar};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Pad {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("pad")) };
        let dims = sizes(&x.ty.shape)?;
        let to = sizes(&Op::Pad(self.clone()).infer(&[x.ty])?[0].shape)?;
        let (strides, size) = (strides(&dims), x.ty.dtype.block_bytes());
        let value = match self.mode {
            PadMode::Constant(value) if x.ty.dtype == DType::Scalar(Scalar::C64) => {
                scalar_bytes(x.ty.dtype, &[value.into(), 0.0])?
            }
            PadMode::Constant(value) => scalar_bytes(x.ty.dtype, &[value.into()])?,
            _ => Vec::new(),
        };
        let mut out = room(to.iter().product::<usize>().saturating_mul(size))?;
        let mut bad = false;
        each_index(&to, |index| {
            let mut from = Some(0);
            for (axis, &i) in index.iter().enumerate() {
                let at = source(self.mode, i as i64 - self.low[axis] as i64, dims[axis] as i64);
                from = from.zip(at).map(|(from, at)| from + at * strides[axis]);
            }
            let bytes = match from {
                Some(at) => x.bytes.get(at * size..).and_then(|b| b.get(..size)),
                None => value.get(..size),
            };
            match bytes {
                Some(bytes) => out.extend_from_slice(bytes),
                None => bad = true,
            }
        });
        if bad { Err(Error::internal("pad: an index outside of x")) } else { Ok(vec![out]) }
    }
}

/// The index on an axis of `n` that index `i` repeats; `None` for the constant.
fn source(mode: PadMode, i: i64, n: i64) -> Option<usize> {
    let at = match mode {
        _ if (0..n).contains(&i) => i,
        PadMode::Constant(_) => return None,
        PadMode::Reflect if i < 0 => -i,
        PadMode::Reflect => 2 * (n - 1) - i,
        PadMode::Replicate => i.clamp(0, (n - 1).max(0)),
        PadMode::Circular => i.rem_euclid(n.max(1)),
    };
    usize::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use crate::ops::{Op, Pad, PadMode};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    fn pad(low: &[u64], high: &[u64], mode: PadMode) -> Pad {
        Pad { low: low.to_vec(), high: high.to_vec(), mode }
    }

    const MODES: [PadMode; 4] =
        [PadMode::Constant(9.0), PadMode::Reflect, PadMode::Replicate, PadMode::Circular];

    #[test]
    fn each_mode_continues_a_row_its_own_way() {
        let x = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
        let y = |mode| run1(pad(&[3], &[2], mode), &[&x]);
        assert_eq!(y(MODES[0]), [9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 9.0, 9.0]);
        assert_eq!(y(MODES[1]), [4.0, 3.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 2.0]);
        assert_eq!(y(MODES[2]), [1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0]);
        assert_eq!(y(MODES[3]), [2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0]);
    }

    #[test]
    fn corners_are_those_of_one_axis_after_the_other() {
        let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let y = run1(pad(&[1, 0], &[0, 1], PadMode::Reflect), &[&x]);
        assert_eq!(y, [3.0, 4.0, 3.0, 1.0, 2.0, 1.0, 3.0, 4.0, 3.0]);
        let x = noise(60, 12);
        for mode in MODES {
            for dtype in [DType::F32, DType::F16, DType::F64] {
                let x = floats(dtype, &[3, 4, 5], &x);
                decomposes(pad(&[1, 0, 2], &[2, 3, 4], mode), &[&x], 0.0);
            }
            decomposes(pad(&[0; 3], &[0; 3], mode), &[&f32s(&[3, 4, 5], &x)], 0.0);
            decomposes(pad(&[0, 1], &[1, 0], mode), &[&f32s(&[2, 2], &x[..4])], 0.0);
        }
        decomposes(pad(&[2], &[0], PadMode::Constant(1.0)), &[&f32s(&[0], &[])], 0.0);
        decomposes(
            pad(&[1], &[1], PadMode::Constant(1.0)),
            &[&integers(DType::BOOL, &[1], &[0])],
            0.0,
        );
    }

    #[test]
    fn an_axis_with_too_few_elements_is_refused() {
        assert_eq!(
            refuses(pad(&[1], &[0], PadMode::Reflect), &["1xf32"]),
            "pad: x is tensor<1xf32>; axis 0 has too few elements for reflect of 1 and 0, 2 at least"
        );
        let few = |n: u64, mode| refuses(pad(&[0, 0], &[0, n], mode), &["2x3xf32"]);
        assert!(few(3, PadMode::Reflect).ends_with("4 at least"));
        assert!(few(4, PadMode::Circular).ends_with("4 at least"));
        assert!(few(u64::MAX, PadMode::Reflect).contains("too few elements"));
        assert_eq!(few(u64::MAX, PadMode::Constant(0.0)), "a size overflows 64 bits");
        let replicate = pad(&[1], &[0], PadMode::Replicate);
        assert!(refuses(replicate, &["0xf32"]).ends_with("1 at least"));
        assert!(run1(pad(&[0], &[0], PadMode::Reflect), &[&f32s(&[0], &[])]).is_empty());
        assert_eq!(run1(pad(&[1], &[1], PadMode::Constant(2.0)), &[&f32s(&[0], &[])]), [2.0, 2.0]);
        assert_eq!(run1(pad(&[0], &[0], PadMode::Reflect), &[&f32s(&[1], &[5.0])]), [5.0]);
    }

    #[test]
    fn the_constant_has_the_type_of_x() {
        let y = |dtype| {
            run_ints(pad(&[1], &[0], PadMode::Constant(-1.5)), &[&integers(dtype, &[1], &[7])])
        };
        assert_eq!(y(DType::I64), [-1, 7]);
        assert_eq!(y(DType::U32), [0, 7]);
        let x = numbers(DType::F16, &[1], &[1.0]);
        assert_eq!(run_f64s(pad(&[0], &[1], PadMode::Constant(0.1)), &[&x])[1], 0.0999755859375);
    }

    #[test]
    fn there_is_an_entry_for_each_axis() {
        let op = pad(&[0, 1], &[2, 0], PadMode::Constant(0.0));
        assert_eq!(gives(op.clone(), &["SEQx4xf32"]), ["tensor<SEQ+2x5xf32>"]);
        assert_eq!(
            refuses(op.clone(), &["4xf32"]),
            "pad: x is tensor<4xf32>, low is [0, 1], high is [2, 0]; expected an entry an axis"
        );
        assert!(refuses(op.clone(), &["2x32xq8_0"]).contains("tensor<2x32xq8_0>"));
        assert_eq!(
            text(op.clone(), &["2x2xf32"]),
            "pad {low = [0, 1], high = [2, 0], mode = constant, value = 0.0}"
        );
        for mode in &MODES[1..] {
            let name = mode.name();
            let line = alloc::format!("pad {{low = [1], high = [0], mode = {name}}}");
            assert_eq!(text(pad(&[1], &[0], *mode), &["4xf32"]), line);
            let attrs = Op::from(pad(&[1], &[0], *mode)).attrs().float("value", 1.0);
            assert!(Op::from_text("pad", &attrs).unwrap_err().what.contains("has no value"));
        }
    }
}
