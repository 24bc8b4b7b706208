//! An operand's bytes with their type, and how loops read them.

use crate::error::{Error, Result};
use crate::formats::decode_row;
use crate::math::{to_bf16, to_f16};
use crate::sample::{Control, control};
use crate::types::{DType, Scalar, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a value, row-major and contiguous, with their type.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What the bytes are.
    pub ty: &'a Type,
    /// The bytes, little-endian.
    pub bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// A view.
    pub fn new(ty: &'a Type, bytes: &'a [u8]) -> Self {
        View { ty, bytes }
    }

    /// Static sizes of a value with `N` axes.
    pub(super) fn dims<const N: usize>(&self) -> Result<[usize; N]> {
        let dims: Vec<usize> = self.ty.shape.static_dims()?.iter().map(|&n| n as usize).collect();
        dims.try_into().map_err(|_| Error::internal(format!("{} has not {N} axes", self.ty)))
    }

    /// Row `i` of the last axis, all other axes taken as one, decoded into `out`.
    pub(super) fn row(&self, i: usize, out: &mut [f32]) -> Result<()> {
        let dtype = self.ty.dtype;
        let bytes = dtype.row_bytes(out.len() as u64).and_then(|n| {
            let n = n as usize;
            self.bytes.get(i.checked_mul(n)?..)?.get(..n)
        });
        let bytes = bytes.ok_or_else(|| Error::internal(format!("{} has no row {i}", self.ty)))?;
        decode_row(dtype, bytes, out)
    }

    /// [`row`](Self::row) as f64, of any float or packed type.
    pub(super) fn row_f64(&self, i: usize, out: &mut [f64]) -> Result<()> {
        if self.ty.dtype == DType::Scalar(Scalar::F64) {
            let bytes = out.len().checked_mul(8).and_then(|n| self.bytes.get(i.checked_mul(n)?..));
            let bytes = bytes.filter(|b| b.len() >= 8 * out.len());
            let bytes =
                bytes.ok_or_else(|| Error::internal(format!("{} has no row {i}", self.ty)))?;
            for (slot, b) in out.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *slot = f64::from_le_bytes(*b);
            }
            return Ok(());
        }
        let mut narrow = vec![0.0f32; out.len()];
        self.row(i, &mut narrow)?;
        out.iter_mut().zip(narrow).for_each(|(slot, v)| *slot = v.into());
        Ok(())
    }

    /// Static sizes of all axes.
    pub(super) fn sizes(&self) -> Result<Vec<usize>> {
        Ok(self.ty.shape.static_dims()?.iter().map(|&n| n as usize).collect())
    }

    /// Every element, decoded.
    pub(super) fn f32s(&self) -> Result<Vec<f32>> {
        let mut out = vec![0.0; self.ty.shape.elements()? as usize];
        decode_row(self.ty.dtype, self.bytes, &mut out)?;
        Ok(out)
    }

    /// Every element as f64: floats and packed types decoded, integers and booleans converted
    /// (i64 beyond 2^53 rounds), complex numbers as real and imaginary parts in turn.
    pub(super) fn f64s(&self) -> Result<Vec<f64>> {
        fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().map(|b| f(*b)).collect()
        }
        let DType::Scalar(scalar) = self.ty.dtype else {
            return Ok(self.f32s()?.into_iter().map(f64::from).collect());
        };
        Ok(match scalar {
            Scalar::F64 => each(self.bytes, f64::from_le_bytes),
            Scalar::F32 | Scalar::C64 => each(self.bytes, |b| f32::from_le_bytes(b).into()),
            Scalar::F16 => each(self.bytes, |b| half::f16::from_le_bytes(b).to_f64()),
            Scalar::Bf16 => each(self.bytes, |b| half::bf16::from_le_bytes(b).to_f64()),
            Scalar::I64 => each(self.bytes, |b| i64::from_le_bytes(b) as f64),
            Scalar::I32 => each(self.bytes, |b| i32::from_le_bytes(b).into()),
            Scalar::I16 => each(self.bytes, |b| i16::from_le_bytes(b).into()),
            Scalar::I8 => each(self.bytes, |[b]| (b as i8).into()),
            Scalar::U32 => each(self.bytes, |b| u32::from_le_bytes(b).into()),
            Scalar::U8 | Scalar::Bool => each(self.bytes, |[b]| b.into()),
        })
    }

    /// Every element of an integer or boolean type, exact.
    pub(super) fn i64s(&self) -> Result<Vec<i64>> {
        fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> i64) -> Vec<i64> {
            bytes.as_chunks::<N>().0.iter().map(|b| f(*b)).collect()
        }
        Ok(match self.ty.dtype {
            DType::Scalar(Scalar::I64) => each(self.bytes, i64::from_le_bytes),
            DType::Scalar(Scalar::I32) => each(self.bytes, |b| i32::from_le_bytes(b).into()),
            DType::Scalar(Scalar::I16) => each(self.bytes, |b| i16::from_le_bytes(b).into()),
            DType::Scalar(Scalar::I8) => each(self.bytes, |[b]| (b as i8).into()),
            DType::Scalar(Scalar::U32) => each(self.bytes, |b| u32::from_le_bytes(b).into()),
            DType::Scalar(Scalar::U8 | Scalar::Bool) => each(self.bytes, |[b]| b.into()),
            other => return Err(Error::internal(format!("{other} is no integer"))),
        })
    }

    /// Every word of a u32 value.
    pub(super) fn words(&self) -> Vec<u32> {
        self.bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
    }

    /// The control block.
    pub(super) fn control(&self) -> Result<Control> {
        let words: [u32; control::WORDS] = self
            .words()
            .try_into()
            .map_err(|_| Error::internal(format!("{} is no control block", self.ty)))?;
        Ok(Control::from_words(&words))
    }
}

/// f32 elements as bytes.
pub(super) fn f32_bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Elements as bytes of a scalar type: floats are rounded once, to nearest even; integers are
/// truncated and saturate; booleans are 1 for everything but 0.
///
/// # Errors
/// `Internal` for a packed type.
pub(super) fn scalar_bytes(dtype: DType, x: &[f64]) -> Result<Vec<u8>> {
    fn each<const N: usize>(x: &[f64], f: impl Fn(f64) -> [u8; N]) -> Vec<u8> {
        x.iter().flat_map(|&v| f(v)).collect()
    }
    let DType::Scalar(scalar) = dtype else {
        return Err(Error::internal(format!("{dtype} has no single elements to write")));
    };
    Ok(match scalar {
        Scalar::F64 => each(x, f64::to_le_bytes),
        Scalar::F32 | Scalar::C64 => each(x, |v| (v as f32).to_le_bytes()),
        Scalar::F16 => each(x, |v| to_f16(v).to_le_bytes()),
        Scalar::Bf16 => each(x, |v| to_bf16(v).to_le_bytes()),
        Scalar::I64 => each(x, |v| (v as i64).to_le_bytes()),
        Scalar::I32 => each(x, |v| (v as i32).to_le_bytes()),
        Scalar::I16 => each(x, |v| (v as i16).to_le_bytes()),
        Scalar::I8 => each(x, |v| (v as i8).to_le_bytes()),
        Scalar::U32 => each(x, |v| (v as u32).to_le_bytes()),
        Scalar::U8 => each(x, |v| [v as u8]),
        Scalar::Bool => each(x, |v| [u8::from(v != 0.0)]),
    })
}

/// Integers as bytes of an integer type or of bool: the low bits; bool is 1 for all but 0.
///
/// # Errors
/// `Internal` for another type.
pub(super) fn int_bytes(dtype: DType, x: &[i64]) -> Result<Vec<u8>> {
    fn each<const N: usize>(x: &[i64], f: impl Fn(i64) -> [u8; N]) -> Vec<u8> {
        x.iter().flat_map(|&v| f(v)).collect()
    }
    Ok(match dtype {
        DType::Scalar(Scalar::I64) => each(x, i64::to_le_bytes),
        DType::Scalar(Scalar::I32) => each(x, |v| (v as i32).to_le_bytes()),
        DType::Scalar(Scalar::I16) => each(x, |v| (v as i16).to_le_bytes()),
        DType::Scalar(Scalar::I8) => each(x, |v| (v as i8).to_le_bytes()),
        DType::Scalar(Scalar::U32) => each(x, |v| (v as u32).to_le_bytes()),
        DType::Scalar(Scalar::U8) => each(x, |v| [v as u8]),
        DType::Scalar(Scalar::Bool) => each(x, |v| [u8::from(v != 0)]),
        other => return Err(Error::internal(format!("{other} is no integer"))),
    })
}

/// A number as a float type stores it, f32 for a packed one.
pub(super) fn rounded(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::Scalar(Scalar::F64) => x,
        DType::Scalar(Scalar::F16) => to_f16(x).to_f64(),
        DType::Scalar(Scalar::Bf16) => to_bf16(x).to_f64(),
        _ => f64::from(x as f32),
    }
}

/// Words as bytes.
pub(super) fn word_bytes(x: &[u32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// The dot product, in f64. Eight partial sums, so that the one expensive loop of this module is
/// not as slow as a chain of additions.
pub(super) fn dot<T: Copy + Into<f64>>(a: &[T], b: &[T]) -> f64 {
    let mut sums = [0.0f64; 8];
    let ((a8, a_rest), (b8, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a8.iter().zip(b8) {
        for i in 0..8 {
            sums[i] += a[i].into() * b[i].into();
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| (*a).into() * (*b).into()).sum();
    sums.iter().sum::<f64>() + rest
}
