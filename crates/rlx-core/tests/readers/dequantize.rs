//! Decoding equals ggml's, bit for bit, on every recorded block: random ones and edges.

use rlx_core::Code;
use rlx_core::formats::{codebook, decode_block, decode_row};
use rlx_core::safetensors::{Header, HeaderReader};
use rlx_core::types::{BlockFormat, DType};
use std::collections::BTreeSet;

fn ggml_quants() -> (Vec<u8>, Header) {
    let file = crate::gunzip::gunzip("ggml_quants.safetensors");
    let mut reader = HeaderReader::new("ggml_quants.safetensors", Some(file.len() as u64));
    assert!(reader.push(&file).unwrap());
    (file, reader.into_header().unwrap())
}

/// Compares a recorded type; returns the number of elements.
fn compare(dtype: DType, file: &[u8], header: &Header) -> usize {
    let tensor = |part: &str| {
        let tensor = &header.tensors[&format!("{}.{part}", dtype.name().to_uppercase())];
        &file[tensor.offset as usize..][..tensor.bytes as usize]
    };
    let (bytes, recorded) = (tensor("bytes"), tensor("f32"));
    let mut out = vec![0.0f32; recorded.len() / 4];
    decode_row(dtype, bytes, &mut out).unwrap();
    for (i, (got, want)) in out.iter().zip(recorded.as_chunks::<4>().0).enumerate() {
        let want = f32::from_le_bytes(*want);
        let equal = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(equal, "{dtype}: element {i} is {got:e}, ggml has {want:e}");
    }
    out.len()
}

#[test]
fn every_recorded_block_decodes_to_ggmls_bits() {
    let (file, header) = ggml_quants();
    for &format in BlockFormat::ALL {
        // Formats of activations are written to no file.
        if !format.is_for_activations() {
            let n = compare(DType::Block(format), &file, &header);
            assert!(n >= 74 * format.elements(), "{}: {n} elements", format.name());
        }
    }
}

/// The indices of a recorded block, for a format with a codebook.
fn indices(format: BlockFormat, b: &[u8]) -> Vec<usize> {
    let with_high = |n: usize, at: usize, high: &dyn Fn(usize) -> u8| -> Vec<usize> {
        (0..n).map(|i| usize::from(b[at + i]) | (usize::from(high(i)) << 8)).collect()
    };
    match format {
        BlockFormat::Iq1S => with_high(32, 2, &|i| {
            let h = u16::from_le_bytes([b[34 + i / 4 * 2], b[35 + i / 4 * 2]]);
            (h >> (3 * (i % 4)) & 7) as u8
        }),
        BlockFormat::Iq1M => with_high(32, 0, &|i| b[32 + i / 2] >> (4 * (i % 2)) & 7),
        BlockFormat::Iq2Xxs => (0..32).map(|i| usize::from(b[2 + 8 * (i / 4) + i % 4])).collect(),
        BlockFormat::Iq2Xs => {
            with_high(64, 2, &|_| 0).chunks(2).map(|q| (q[0] | (q[1] << 8)) & 511).collect()
        }
        BlockFormat::Iq2S => with_high(32, 2, &|i| b[66 + i / 4] >> (2 * (i % 4)) & 3),
        BlockFormat::Iq3Xxs => with_high(64, 2, &|_| 0),
        BlockFormat::Iq3S => with_high(64, 2, &|i| b[66 + i / 8] >> (i % 8) & 1),
        _ => unreachable!("{} has no codebook", format.name()),
    }
}

#[test]
fn every_member_of_every_codebook_is_in_a_recorded_block() {
    let (file, header) = ggml_quants();
    for (format, size) in [
        (BlockFormat::Iq1S, codebook::IQ1_S.len()),
        (BlockFormat::Iq1M, codebook::IQ1_S.len()),
        (BlockFormat::Iq2Xxs, codebook::IQ2_XXS.len()),
        (BlockFormat::Iq2Xs, codebook::IQ2_XS.len()),
        (BlockFormat::Iq2S, codebook::IQ2_S.len()),
        (BlockFormat::Iq3Xxs, codebook::IQ3_XXS.len()),
        (BlockFormat::Iq3S, codebook::IQ3_S.len()),
    ] {
        let tensor = &header.tensors[&format!("{}.bytes", format.name().to_uppercase())];
        let bytes = &file[tensor.offset as usize..][..tensor.bytes as usize];
        let used: BTreeSet<usize> =
            bytes.chunks(format.bytes()).flat_map(|block| indices(format, block)).collect();
        assert!(used.iter().copied().eq(0..size), "{}: {} of {size}", format.name(), used.len());
    }
}

#[test]
fn blocks_of_activations_decode_too() {
    let mut block = [0; 36];
    (block[1], block[4], block[5], block[35]) = (0x40, 3, (-2i8) as u8, 1);
    let mut out = [0.0; 32];
    decode_block(BlockFormat::Q8_1, &block, &mut out).unwrap();
    assert_eq!((out[0], out[1], out[2], out[31]), (6.0, -4.0, 0.0, 2.0));
}

#[test]
fn every_f16_and_the_recorded_bf16_decode_to_ggmls_bits() {
    let (file, header) = ggml_quants();
    assert_eq!(compare(DType::F16, &file, &header), 65536);
    assert_eq!(compare(DType::BF16, &file, &header), 5056);
}

#[test]
fn f32_rows_pass_through() {
    let mut out = [0.0; 2];
    decode_row(DType::F32, &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0], &mut out).unwrap();
    assert_eq!(out, [1.0, -2.0]);
}

#[test]
fn other_types_are_refused_by_name() {
    let error = decode_row(DType::I32, &[0; 4], &mut [0.0]).unwrap_err();
    assert_eq!(error.code, Code::Unsupported);
    assert_eq!(error.what, "i32 is no type of weights");
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let error = decode_block(BlockFormat::Q4_0, &[0; 17], &mut [0.0; 32]).unwrap_err();
    assert_eq!(error.what, "decode_block: 17 bytes to 32 elements, a block of q4_0 has 18 and 32");
    let error = decode_row(DType::F16, &[0; 3], &mut [0.0]).unwrap_err();
    assert_eq!(error.what, "decode_row: 3 bytes are not 1 elements of f16");
}
