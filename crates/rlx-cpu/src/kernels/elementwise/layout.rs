//! Where the elements of a broadcast operand stand, and how a run of them is read.

use crate::kernels::convert;
use crate::simd::Level;
use rlx_core::types::{DType, Scalar};

/// Axes that a layout has room for.
pub(crate) const RANK: usize = 16;

/// How an operand's elements follow the result's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The result's shape.
    Same,
    /// One element for all.
    One,
    /// Along axes that repeat: sizes of the result's axes and the operand's strides, from the outermost on.
    /// Axes that run on into each other are one.
    Repeats { dims: Vec<usize>, strides: Vec<usize> },
}

impl Layout {
    /// The layout of an operand with sizes `own` under a result of sizes `result`, to which it broadcasts
    /// [NumPy].
    pub(crate) fn new(own: &[usize], result: &[usize]) -> Layout {
        if own == result {
            return Layout::Same;
        }
        let ahead = result.len() - own.len();
        let mut stride = 1;
        let (mut dims, mut strides) = (Vec::new(), Vec::new());
        for (i, &n) in result.iter().enumerate().rev() {
            let size = i.checked_sub(ahead).map_or(1, |k| own[k]);
            let step = if size == 1 { 0 } else { stride };
            stride *= size;
            if n == 1 {
                continue;
            }
            // From the innermost axis on: this one goes on where the one before it ends.
            match (dims.last_mut(), strides.last()) {
                (Some(inner), Some(&last)) if step == last * *inner => *inner *= n,
                _ => {
                    dims.push(n);
                    strides.push(step);
                }
            }
        }
        dims.reverse();
        strides.reverse();
        match strides.as_slice() {
            [] | [0] => Layout::One,
            [1] => Layout::Same,
            _ => Layout::Repeats { dims, strides },
        }
    }

    /// Calls `run` for each run of elements `at..at + n` of the result: where it begins among them, how long
    /// it is, where the operand's elements begin, and whether they go on or are one that repeats.
    fn runs(&self, at: usize, n: usize, mut run: impl FnMut(usize, usize, usize, bool)) {
        let Layout::Repeats { dims, strides } = self else {
            return run(0, n, if *self == Layout::One { 0 } else { at }, *self != Layout::One);
        };
        let Some((&inner, outer)) = dims.split_last() else { return };
        let step = strides[outer.len()];
        // The place of the first run, and then of the next ones: an odometer over the outer axes.
        let (mut place, mut rest) = (0, at / inner);
        let mut index = [0; RANK];
        let index = &mut index[..outer.len().min(RANK)];
        for axis in (0..index.len()).rev() {
            index[axis] = rest % outer[axis];
            rest /= outer[axis];
            place += index[axis] * strides[axis];
        }
        let (mut done, mut inside) = (0, at % inner);
        while done < n {
            let len = (inner - inside).min(n - done);
            run(done, len, place + inside * step, step == 1);
            done += len;
            inside = 0;
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                place += strides[axis];
                if index[axis] < outer[axis] {
                    break;
                }
                place -= index[axis] * strides[axis];
                index[axis] = 0;
            }
        }
    }

    /// Elements `at..` of the result, as the operand has them, of a float type.
    pub(super) fn read_floats(
        &self,
        level: Level,
        dtype: DType,
        bytes: &[u8],
        at: usize,
        y: &mut [f32],
    ) {
        let size = dtype.block_bytes();
        self.runs(at, y.len(), |start, len, from, goes_on| {
            let y = &mut y[start..start + len];
            if goes_on {
                convert::read(level, dtype, &bytes[from * size..][..len * size], y);
            } else {
                let mut one = [0.0];
                convert::read(level, dtype, &bytes[from * size..][..size], &mut one);
                y.fill(one[0]);
            }
        });
    }

    /// The same of an integer type or bool.
    pub(super) fn read_integers(&self, dtype: DType, bytes: &[u8], at: usize, y: &mut [i64]) {
        let size = dtype.block_bytes();
        self.runs(at, y.len(), |start, len, from, goes_on| {
            let y = &mut y[start..start + len];
            if goes_on {
                integers(dtype, &bytes[from * size..][..len * size], y);
            } else {
                let mut one = [0];
                integers(dtype, &bytes[from * size..][..size], &mut one);
                y.fill(one[0]);
            }
        });
    }

    /// Bytes of elements `at..` of the result, of `size` each: a copy.
    pub(crate) fn read_bytes(&self, size: usize, bytes: &[u8], at: usize, y: &mut [u8]) {
        self.runs(at, y.len() / size, |start, len, from, goes_on| {
            let y = &mut y[start * size..][..len * size];
            let from = &bytes[from * size..];
            if goes_on {
                y.copy_from_slice(&from[..len * size]);
            } else {
                repeat(&from[..size], y);
            }
        });
    }
}

/// Fills `y` with copies of `one`.
fn repeat(one: &[u8], y: &mut [u8]) {
    fn each<const N: usize>(one: &[u8], y: &mut [u8]) {
        if let Some(one) = one.first_chunk::<N>() {
            y.as_chunks_mut::<N>().0.fill(*one);
        }
    }
    match one.len() {
        1 => each::<1>(one, y),
        2 => each::<2>(one, y),
        4 => each::<4>(one, y),
        8 => each::<8>(one, y),
        n => y.chunks_exact_mut(n.max(1)).for_each(|y| y.copy_from_slice(one)),
    }
}

/// Elements of an integer type or bool, exact.
pub(crate) fn integers(dtype: DType, bytes: &[u8], y: &mut [i64]) {
    fn each<const N: usize>(bytes: &[u8], y: &mut [i64], f: impl Fn([u8; N]) -> i64) {
        y.iter_mut().zip(bytes.as_chunks::<N>().0).for_each(|(y, b)| *y = f(*b));
    }
    let DType::Scalar(scalar) = dtype else { return };
    match scalar {
        Scalar::I64 => each(bytes, y, i64::from_le_bytes),
        Scalar::I32 => each(bytes, y, |b| i32::from_le_bytes(b).into()),
        Scalar::I16 => each(bytes, y, |b| i16::from_le_bytes(b).into()),
        Scalar::I8 => each(bytes, y, |[b]| (b as i8).into()),
        Scalar::U32 => each(bytes, y, |b| u32::from_le_bytes(b).into()),
        Scalar::U8 | Scalar::Bool => each(bytes, y, |[b]| b.into()),
        Scalar::F64 | Scalar::F32 | Scalar::F16 | Scalar::Bf16 | Scalar::C64 => {}
    }
}

/// Stores integers that the type holds.
pub(crate) fn put_integers(dtype: DType, x: &[i64], bytes: &mut [u8]) {
    fn each<const N: usize>(x: &[i64], bytes: &mut [u8], f: impl Fn(i64) -> [u8; N]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().zip(x).for_each(|(b, x)| *b = f(*x));
    }
    let DType::Scalar(scalar) = dtype else { return };
    match scalar {
        Scalar::I64 => each(x, bytes, i64::to_le_bytes),
        Scalar::I32 => each(x, bytes, |v| (v as i32).to_le_bytes()),
        Scalar::I16 => each(x, bytes, |v| (v as i16).to_le_bytes()),
        Scalar::I8 => each(x, bytes, |v| (v as i8).to_le_bytes()),
        Scalar::U32 => each(x, bytes, |v| (v as u32).to_le_bytes()),
        Scalar::U8 | Scalar::Bool => each(x, bytes, |v| [v as u8]),
        Scalar::F64 | Scalar::F32 | Scalar::F16 | Scalar::Bf16 | Scalar::C64 => {}
    }
}

#[cfg(feature = "internals")]
#[allow(missing_docs)]
pub mod tests {
    use super::*;

    fn places(own: &[usize], result: &[usize], at: usize, n: usize) -> Vec<usize> {
        let mut out = vec![0; n];
        Layout::new(own, result).runs(at, n, |start, len, from, goes_on| {
            for i in 0..len {
                out[start + i] = from + if goes_on { i } else { 0 };
            }
        });
        out
    }

    /// The place of a result's element in the operand, axis by axis.
    fn place(own: &[usize], result: &[usize], mut i: usize) -> usize {
        let (mut at, mut stride) = (0, 1);
        for (axis, n) in result.iter().enumerate().rev() {
            let index = i % n;
            i /= n;
            let size = (axis + own.len()).checked_sub(result.len()).map_or(1, |k| own[k]);
            at += if size == 1 { 0 } else { index * stride };
            stride *= size;
        }
        at
    }

    pub fn runs_are_the_places_of_every_broadcast() {
        let result = [2, 3, 1, 4, 5];
        for bits in 0..32usize {
            for from in 0..5 {
                let own: Vec<usize> = (from..5)
                    .map(|axis| if bits >> axis & 1 == 1 { result[axis] } else { 1 })
                    .collect();
                for (at, n) in [(0, 120), (7, 50), (119, 1), (33, 0)] {
                    let expected: Vec<usize> =
                        (at..at + n).map(|i| place(&own, &result, i)).collect();
                    assert_eq!(places(&own, &result, at, n), expected, "{own:?} {at} {n}");
                }
            }
        }
    }

    pub fn axes_that_run_on_are_one() {
        let repeats = |dims: &[usize], strides: &[usize]| Layout::Repeats {
            dims: dims.into(),
            strides: strides.into(),
        };
        assert_eq!(Layout::new(&[2, 3, 4], &[2, 3, 4]), Layout::Same);
        assert_eq!(Layout::new(&[3, 4], &[1, 3, 4]), Layout::Same);
        assert_eq!(Layout::new(&[1], &[2, 3, 4]), Layout::One);
        assert_eq!(Layout::new(&[], &[2, 3]), Layout::One);
        assert_eq!(Layout::new(&[3, 4], &[2, 3, 4]), repeats(&[2, 12], &[0, 1]));
        assert_eq!(Layout::new(&[2, 3, 1], &[2, 3, 4]), repeats(&[6, 4], &[1, 0]));
        assert_eq!(Layout::new(&[2, 1, 4], &[2, 3, 4]), repeats(&[2, 3, 4], &[4, 0, 1]));
    }
}
