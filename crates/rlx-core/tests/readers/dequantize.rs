//! Decoding equals ggml's, bit for bit, on every recorded block: random ones and edges.

use crate::fixture;
use rlx_core::Code;
use rlx_core::reference::dequantize::{SUPPORTED, decode_block, decode_row};
use rlx_core::safetensors::{Header, HeaderReader};
use rlx_core::types::{BlockFormat, DType};

fn ggml_quants() -> (Vec<u8>, Header) {
    let file = fixture("ggml_quants.safetensors");
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
    for &format in SUPPORTED {
        // q8_k is for activations; ggml writes it to no file.
        if format != BlockFormat::Q8K {
            let n = compare(DType::Block(format), &file, &header);
            assert!(n >= 74 * format.elements(), "{}: {n} elements", format.name());
        }
    }
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
    for &format in BlockFormat::ALL {
        if !SUPPORTED.contains(&format) {
            let bytes = vec![0; format.bytes()];
            let error =
                decode_block(format, &bytes, &mut vec![0.0; format.elements()]).unwrap_err();
            assert_eq!(error.code, Code::Unsupported);
            assert_eq!(error.what, format!("{} cannot be decoded yet", format.name()));
        }
    }
    let error = decode_row(DType::I32, &[0; 4], &mut [0.0]).unwrap_err();
    assert_eq!(error.what, "i32 cannot be decoded yet");
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let error = decode_block(BlockFormat::Q4_0, &[0; 17], &mut [0.0; 32]).unwrap_err();
    assert_eq!(error.what, "decode_block: 17 bytes to 32 elements, a block of q4_0 has 18 and 32");
    let error = decode_row(DType::F16, &[0; 3], &mut [0.0]).unwrap_err();
    assert_eq!(error.what, "decode_row: 3 bytes are not 1 elements of f16");
}
