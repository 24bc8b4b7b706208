//! Products of packed weights in wasm, without a model around them: `run.mjs` drives it under Node.

use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::formats::activations::{encode_q8_0, encode_q15_0};
use rlx_core::types::{BlockFormat, DType};
use rlx_cpu::Level;
use rlx_cpu::products::{Activations, Matrix};

/// What is multiplied.
struct Case {
    matrix: Matrix,
    n: usize,
    x: Activations,
    y: Vec<f32>,
}

std::thread_local! {
    static CASE: RefCell<Option<Case>> = const { RefCell::new(None) };
}

/// Where a block has its f16 scales.
fn scales(format: BlockFormat) -> &'static [usize] {
    use BlockFormat as B;
    match format {
        B::Q4K | B::Q5K | B::Q4_1 | B::Q5_1 => &[0, 2],
        B::Q2K => &[80, 82],
        B::Q3K => &[108],
        B::Q6K => &[208],
        B::Tq1_0 => &[52],
        B::Tq2_0 => &[64],
        B::Mxfp4 | B::Nvfp4 | B::Iq1M => &[],
        _ => &[0],
    }
}

/// Random bytes as blocks, with these bits as f16 scales, or some above them.
fn rows(format: BlockFormat, n: usize, k: usize, scale: u16) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let bytes = n * (k / format.elements()) * format.bytes();
    let mut rows: Vec<u8> = (0..bytes).map(|_| random()).collect();
    for block in rows.chunks_exact_mut(format.bytes()) {
        for &at in scales(format) {
            let scale = scale + u16::from(random() / 4);
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    rows
}

fn case(format: usize, n: usize, k: usize, m: usize, parts: usize, scale: u16) -> Result<Case> {
    let format = BlockFormat::ALL.get(format).copied().unwrap_or(BlockFormat::Q8_0);
    let matrix = Matrix::new(DType::Block(format), n, k, &rows(format, n, k, scale))?;
    let x: Vec<f32> = (0..m * k).map(|i| ((i * i % 8191) as f32 * 0.37).sin()).collect();
    let of = if parts == 2 { BlockFormat::Q15_0 } else { BlockFormat::Q8_0 };
    let mut blocks = vec![0; m * k / of.elements() * of.bytes()];
    match of {
        BlockFormat::Q15_0 => encode_q15_0(&x, &mut blocks)?,
        _ => encode_q8_0(&x, &mut blocks)?,
    }
    let x = Activations::int8(of, k, &blocks)?;
    Ok(Case { matrix, n, x, y: vec![0.0; m * n] })
}

/// Makes a case of format number `format`, rows of `k` weights and `m` of x, int8 (`parts` 1) or int16 (2), with
/// f16 scales of about these bits; 0 if there is no such.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn set(
    format: usize,
    n: usize,
    k: usize,
    m: usize,
    parts: usize,
    scale: usize,
) -> usize {
    CASE.with_borrow_mut(|to| {
        *to = case(format, n, k, m, parts, scale as u16).ok();
        usize::from(to.is_some())
    })
}

/// Multiplies `times` times; a sum over the results' bits, with every NaN as one.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn multiply(times: usize) -> u32 {
    CASE.with_borrow_mut(|case| {
        let Some(Case { matrix, n, x, y }) = case else { return 0 };
        for _ in 0..times {
            if matrix.multiply(Level::detect(), 0..*n, x, y).is_err() {
                return 0;
            }
        }
        y.iter().fold(1, |sum: u32, y| {
            let bits = if y.is_nan() { 0x7fc0_0000 } else { y.to_bits() };
            sum.wrapping_mul(0x0100_0193).wrapping_add(bits)
        })
    })
}

/// How the k-th format is called: where its name begins, and its length in the top byte.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn name(format: usize) -> usize {
    BlockFormat::ALL.get(format).map_or(0, |f| f.name().as_ptr() as usize + (f.name().len() << 24))
}
