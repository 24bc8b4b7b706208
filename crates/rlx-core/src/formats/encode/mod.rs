//! From floats to packed formats.
//!
//! `fit.rs` finds scales, `blocks.rs` and `super_blocks.rs` are what the formats make of them. What is
//! minimised is the sum of squared errors of a block, without an importance matrix; an encoder never
//! depends on anything but its block, so rows may be encoded in any order and on any thread, with the
//! same bytes on every machine.

mod blocks;
mod fit;
mod super_blocks;

use super::activations;
use super::codebook::IQ4_NL;
use crate::types::{BlockFormat, DType, Scalar};
use crate::{Code, Error, Result};
use alloc::format;
use half::{bf16, f16};

/// The types that [`encode_row`] makes.
pub const ENCODABLE: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::Block(BlockFormat::Q4_0),
    DType::Block(BlockFormat::Q4_1),
    DType::Block(BlockFormat::Q5_0),
    DType::Block(BlockFormat::Q5_1),
    DType::Block(BlockFormat::Q8_0),
    DType::Block(BlockFormat::Q2K),
    DType::Block(BlockFormat::Q3K),
    DType::Block(BlockFormat::Q4K),
    DType::Block(BlockFormat::Q5K),
    DType::Block(BlockFormat::Q6K),
    DType::Block(BlockFormat::Iq4Nl),
    DType::Block(BlockFormat::Iq4Xs),
];

/// Encodes whole blocks of `x` into `out`.
///
/// # Errors
///
/// `Unsupported` for a type that is not [`ENCODABLE`]; `BadFile` for an infinity or NaN in a packed
/// format, which cannot hold it (f32, f16 and bf16 keep it), and for a number beyond 65,504 in one whose
/// scales are f16, or in f16; `Internal` when the lengths do not fit each other.
pub fn encode_row(dtype: DType, x: &[f32], out: &mut [u8]) -> Result<()> {
    if dtype.row_bytes(x.len() as u64) != Some(out.len() as u64) {
        return Err(Error::internal(format!(
            "encode_row: {} elements of {dtype} are not {} bytes",
            x.len(),
            out.len()
        )));
    }
    check(dtype, x)?;
    match dtype {
        DType::Scalar(Scalar::F32) => {
            for (y, x) in out.as_chunks_mut::<4>().0.iter_mut().zip(x) {
                *y = x.to_le_bytes();
            }
        }
        DType::Scalar(Scalar::F16) => {
            for (y, x) in out.as_chunks_mut::<2>().0.iter_mut().zip(x) {
                *y = f16::from_f32(*x).to_le_bytes();
            }
        }
        DType::Scalar(Scalar::Bf16) => {
            for (y, x) in out.as_chunks_mut::<2>().0.iter_mut().zip(x) {
                *y = bf16::from_f32(*x).to_le_bytes();
            }
        }
        DType::Block(BlockFormat::Q4_0) => blocks(x, out, 18, blocks::q4_0),
        DType::Block(BlockFormat::Q4_1) => blocks(x, out, 20, blocks::q4_1),
        DType::Block(BlockFormat::Q5_0) => blocks(x, out, 22, blocks::q5_0),
        DType::Block(BlockFormat::Q5_1) => blocks(x, out, 24, blocks::q5_1),
        DType::Block(BlockFormat::Q8_0) => activations::encode_q8_0(x, out)?,
        DType::Block(BlockFormat::Q2K) => blocks(x, out, 84, super_blocks::q2_k),
        DType::Block(BlockFormat::Q3K) => blocks(x, out, 110, super_blocks::q3_k),
        DType::Block(BlockFormat::Q4K) => blocks(x, out, 144, super_blocks::q4_k),
        DType::Block(BlockFormat::Q5K) => blocks(x, out, 176, super_blocks::q5_k),
        DType::Block(BlockFormat::Q6K) => blocks(x, out, 210, super_blocks::q6_k),
        DType::Block(BlockFormat::Iq4Nl) => blocks(x, out, 18, blocks::iq4_nl),
        DType::Block(BlockFormat::Iq4Xs) => blocks(x, out, 136, super_blocks::iq4_xs),
        _ => {
            return Err(Error::new(Code::Unsupported, format!("{dtype} is no type to encode to")));
        }
    }
    Ok(())
}

/// Checks that the type can hold the numbers.
fn check(dtype: DType, x: &[f32]) -> Result<()> {
    let packed = matches!(dtype, DType::Block(_));
    if packed && let Some(i) = x.iter().position(|v| !v.is_finite()) {
        return Err(Error::bad_file(format!("element {i} of a row is {}", x[i]))
            .hint("a packed format holds finite numbers; keep the tensor in f32, f16 or bf16"));
    }
    let large = |v: &f32| v.is_finite() && v.abs() > f32::from(f16::MAX);
    if (packed || dtype == DType::F16)
        && let Some(i) = x.iter().position(large)
    {
        return Err(Error::bad_file(format!("element {i} of a row is {}", x[i]))
            .hint(format!("{dtype} holds numbers up to 65504; keep the tensor in f32 or bf16")));
    }
    Ok(())
}

fn blocks<const N: usize>(x: &[f32], out: &mut [u8], bytes: usize, f: fn(&[f32; N], &mut [u8])) {
    for (x, y) in x.as_chunks::<N>().0.iter().zip(out.chunks_exact_mut(bytes)) {
        f(x, y);
    }
}

/// A block divided by its largest magnitude.
struct Unit<const N: usize> {
    x: [f32; N],
    size: f32,
}

impl<const N: usize> Unit<N> {
    fn new(x: &[f32; N]) -> Self {
        let size = fit::largest(x).abs();
        // Half the smallest f16 is 2^-25: what is smaller is nearest to zero in every format.
        if size < 1.0 / (1 << 26) as f32 {
            return Self { x: [0.0; N], size: 1.0 };
        }
        Self { x: x.map(|v| v / size), size }
    }
}

/// The nearest f16 that is finite.
fn to_half(v: f32) -> f16 {
    f16::from_f32(v.clamp(-65504.0, 65504.0))
}

/// A number and those beside it.
fn near(h: f16) -> [f16; 3] {
    let magnitude = h.to_bits() & 0x7fff;
    let sign = h.to_bits() & 0x8000;
    [0, -1, 1].map(|by: i32| {
        let moved = (i32::from(magnitude) + by).clamp(0, 0x7bff); // zero to the largest
        f16::from_bits(sign | moved as u16)
    })
}

/// The sixteen levels of iq4_nl and iq4_xs.
struct NonLinear;

/// Bounds between levels, twice as large so that they are integers: level `i` is nearest from
/// `IQ4_BOUNDS[i - 1]` on.
const IQ4_BOUNDS: [i32; 15] = {
    let mut bounds = [0; 15];
    let mut i = 0;
    while i < 15 {
        bounds[i] = IQ4_NL[i] as i32 + IQ4_NL[i + 1] as i32;
        i += 1;
    }
    bounds
};

/// The level of each `floor(2 v)` from -256.
static IQ4_CODES: [u8; 512] = {
    let mut codes = [0; 512];
    let mut at = 0;
    while at < 512 {
        let mut i = 0;
        while i < 15 && at as i32 - 256 >= IQ4_BOUNDS[i] {
            i += 1;
        }
        codes[at] = i as u8;
        at += 1;
    }
    codes
};

impl fit::Levels for NonLinear {
    const PLACES: &'static [(f32, f32, usize)] =
        &[(-127.0, -127.0, 1), (-160.0, -95.0, 14), (90.0, 145.0, 11)];

    fn nearest(v: f32) -> f32 {
        f32::from(IQ4_NL[usize::from(Self::code(v))])
    }

    fn code(v: f32) -> u8 {
        // From zero up a cast cuts as floor does.
        let at = (2.0 * v + 256.0) as i32;
        IQ4_CODES[at.clamp(0, 511) as usize]
    }
}
