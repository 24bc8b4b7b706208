//! Floats of 16 bits, which kernels compute with as f32: widened when they are read, rounded once when
//! they are stored, halves to even.

use crate::simd::{LANES, Lanes, Level, Simd, Task, dispatch};
use core::marker::PhantomData;
use half::{bf16, f16};
use rlx_core::types::DType;

/// The float types that kernels read and store.
pub(super) const FLOATS: &[DType] = &[DType::F32, DType::F16, DType::BF16];

/// Widens elements of a float type. `bytes` has as many as `y`.
pub(super) fn read(level: Level, dtype: DType, bytes: &[u8], y: &mut [f32]) {
    match dtype {
        DType::F16 => dispatch(level, Read { bytes, y, of: PhantomData::<F16> }),
        DType::BF16 => dispatch(level, Read { bytes, y, of: PhantomData::<Bf16> }),
        _ => {
            for (y, b) in y.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *y = f32::from_le_bytes(*b);
            }
        }
    }
}

/// Rounds to a float type. `bytes` has room for as many elements as `x` has.
pub(super) fn write(level: Level, dtype: DType, x: &[f32], bytes: &mut [u8]) {
    match dtype {
        DType::F16 => dispatch(level, WriteF16 { x, bytes }),
        DType::BF16 => dispatch(level, WriteBf16 { x, bytes }),
        _ => {
            for (b, x) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(x) {
                *b = x.to_le_bytes();
            }
        }
    }
}

/// Rounds to what a float type holds.
pub(super) fn round(level: Level, dtype: DType, x: &mut [f32]) {
    if dtype == DType::F32 {
        return;
    }
    let mut half = [0; 2 * 64];
    for x in x.chunks_mut(64) {
        let half = &mut half[..2 * x.len()];
        write(level, dtype, x, half);
        read(level, dtype, half, x);
    }
}

/// A range of an operand as f32: where it stands if it is that, else widened in `room`.
pub(super) fn floats<'a>(
    level: Level,
    dtype: DType,
    bytes: &'a [u8],
    room: &'a mut Vec<f32>,
) -> &'a [f32] {
    if dtype == DType::F32 {
        return if bytes.is_empty() { &[] } else { bytemuck::cast_slice(bytes) };
    }
    let n = bytes.len() / 2;
    if room.len() < n {
        room.resize(n, 0.0);
    }
    read(level, dtype, bytes, &mut room[..n]);
    &room[..n]
}

/// A type of 16 bits.
trait Half {
    fn vector<S: Lanes>(s: S, bytes: &[u8]) -> S::G;
    fn one(bytes: [u8; 2]) -> f32;
}

struct F16;
struct Bf16;

impl Half for F16 {
    #[inline(always)]
    fn vector<S: Lanes>(s: S, bytes: &[u8]) -> S::G {
        s.take_f16(bytes)
    }
    #[inline(always)]
    fn one(bytes: [u8; 2]) -> f32 {
        f16::from_le_bytes(bytes).to_f32()
    }
}

impl Half for Bf16 {
    #[inline(always)]
    fn vector<S: Lanes>(s: S, bytes: &[u8]) -> S::G {
        s.take_bf16(bytes)
    }
    #[inline(always)]
    fn one(bytes: [u8; 2]) -> f32 {
        bf16::from_le_bytes(bytes).to_f32()
    }
}

struct Read<'a, T> {
    bytes: &'a [u8],
    y: &'a mut [f32],
    of: PhantomData<T>,
}

impl<T: Half> Task for Read<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let whole = self.y.len() / S::LANES * S::LANES;
        let (y, rest) = self.y.split_at_mut(whole);
        for (y, b) in y.chunks_exact_mut(S::LANES).zip(self.bytes.chunks_exact(2 * S::LANES)) {
            s.put(T::vector(s, b), y);
        }
        let bytes = self.bytes.get(2 * whole..).unwrap_or(&[]);
        for (y, b) in rest.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *y = T::one(*b);
        }
    }
}

struct WriteF16<'a> {
    x: &'a [f32],
    bytes: &'a mut [u8],
}

impl Task for WriteF16<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (x, rest) = self.x.as_chunks::<LANES>();
        let (y, y_rest) = self.bytes.as_chunks_mut::<{ 2 * LANES }>();
        for (x, y) in x.iter().zip(y) {
            s.store_f16(s.load(x), y);
        }
        for (x, y) in rest.iter().zip(y_rest.as_chunks_mut::<2>().0) {
            *y = f16::from_f32(*x).to_le_bytes();
        }
    }
}

/// Plain loops: they become vectors because `dispatch` compiles them for the level's features.
struct WriteBf16<'a> {
    x: &'a [f32],
    bytes: &'a mut [u8],
}

impl Task for WriteBf16<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (x, y) in self.x.iter().zip(self.bytes.as_chunks_mut::<2>().0) {
            let bits = x.to_bits();
            // Adding just under half of the last bit that stays, and the bit itself, rounds halves to
            // even. A NaN must not lose its last bits: it stays quiet.
            let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
            let nan = bits >> 16 | 0x40;
            *y = (if x.is_nan() { nan } else { rounded } as u16).to_le_bytes();
        }
    }
}
