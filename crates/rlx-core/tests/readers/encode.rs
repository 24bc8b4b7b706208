//! Encoders lose at most a thousandth more than ggml's, row by row of the recorded matrix.

use crate::readers::fixture;
use rlx_core::Code;
use rlx_core::formats::decode_row;
use rlx_core::formats::encode::{ENCODABLE, encode_row};
use rlx_core::safetensors::HeaderReader;
use rlx_core::types::{BlockFormat, DType};

const ROWS: usize = 16;
const COLS: usize = 512;

/// A recorded tensor by name.
struct Recorded(Vec<u8>, rlx_core::safetensors::Header);

impl Recorded {
    fn open() -> Self {
        let file = fixture("ggml_encode.safetensors");
        let mut reader = HeaderReader::new("ggml_encode.safetensors", Some(file.len() as u64));
        assert!(reader.push(&file).unwrap());
        let header = reader.into_header().unwrap();
        Self(file, header)
    }

    fn bytes(&self, name: &str) -> &[u8] {
        let tensor = &self.1.tensors[name];
        &self.0[tensor.offset as usize..][..tensor.bytes as usize]
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.bytes(name).as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }
}

fn packed(dtype: DType, x: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0xa5; dtype.row_bytes(x.len() as u64).unwrap() as usize];
    encode_row(dtype, x, &mut bytes).unwrap();
    bytes
}

/// Root mean square error after decoding.
fn rmse(dtype: DType, bytes: &[u8], x: &[f32]) -> f64 {
    let mut y = vec![0.0; x.len()];
    decode_row(dtype, bytes, &mut y).unwrap();
    let sum: f64 = x.iter().zip(&y).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum();
    (sum / x.len() as f64).sqrt()
}

#[test]
fn no_row_loses_a_thousandth_more_than_with_ggml_s_encoder() {
    use BlockFormat as F;
    let recorded = Recorded::open();
    let x = recorded.floats("x");
    let mut worse = Vec::new();
    for format in [
        F::Q4_0,
        F::Q4_1,
        F::Q5_0,
        F::Q5_1,
        F::Q8_0,
        F::Q2K,
        F::Q3K,
        F::Q4K,
        F::Q5K,
        F::Q6K,
        F::Iq4Nl,
        F::Iq4Xs,
    ] {
        let name = format.name().to_uppercase();
        let bounds = recorded.floats(&format!("{name}.rmse"));
        let theirs = recorded
            .bytes(&format!("{name}.bytes"))
            .chunks(format.bytes() * COLS / format.elements());
        let mut line = format!("{name:8}");
        for (row, (x, theirs)) in x.chunks(COLS).zip(theirs).enumerate() {
            let dtype = DType::Block(format);
            // The record is what ggml's bytes decode to, so both are measured alike.
            assert!(
                (rmse(dtype, theirs, x) - f64::from(bounds[row])).abs()
                    <= 1e-6 * f64::from(bounds[row])
            );
            let ours = rmse(dtype, &packed(dtype, x), x);
            line += &format!(" {:.4}", ours / f64::from(bounds[row]).max(1e-30));
            // Ten times the most that was seen, 1.0001 in Q4_K.
            let allowed = ours <= 1.001 * f64::from(bounds[row]);
            if !allowed {
                worse.push(format!("{name} row {row}: {ours:e}, ggml {:e}", bounds[row]));
            }
        }
        println!("{line}");
    }
    assert!(worse.is_empty(), "of {ROWS} rows:\n{}", worse.join("\n"));
}

#[test]
fn q8_0_has_ggml_s_bytes() {
    let recorded = Recorded::open();
    let dtype = DType::Block(BlockFormat::Q8_0);
    assert!(packed(dtype, &recorded.floats("x")) == recorded.bytes("Q8_0.bytes"));
}

#[test]
fn blocks_do_not_depend_on_their_neighbours() {
    let x = Recorded::open().floats("x");
    for &dtype in ENCODABLE {
        let whole = packed(dtype, &x[..1024]);
        let apart: Vec<u8> = x[..1024].chunks(256).flat_map(|x| packed(dtype, x)).collect();
        assert!(whole == apart, "{dtype}");
    }
}

#[test]
fn numbers_of_every_size_decode_to_something_near() {
    // A ramp over a block of every format, from denormal to the largest.
    for &dtype in ENCODABLE {
        let steps = if matches!(dtype, DType::Block(_)) { 3.0 } else { 250.0 };
        for size in [0.0, 1e-44, 1e-30, 1e-7, 1e-3, 1.0, 1e3, 6.5e4] {
            let x: Vec<f32> = (0..256).map(|i| size * (i as f32 / 127.5 - 1.0)).collect();
            let bytes = packed(dtype, &x);
            let mut y = vec![f32::NAN; 256];
            decode_row(dtype, &bytes, &mut y).unwrap();
            // Half a step, and what an f16 scale cannot tell apart.
            let most = size / steps + 1.3e-7;
            for (i, (x, y)) in x.iter().zip(&y).enumerate() {
                assert!((x - y).abs() <= most, "{dtype}, size {size:e}: {y:e} for {x:e} at {i}");
            }
        }
    }
}

#[test]
fn what_a_type_cannot_hold_is_refused() {
    let mut x = [1.0; 256];
    for (value, hint) in [
        (f32::NAN, "a packed format holds finite numbers; keep the tensor in f32, f16 or bf16"),
        (
            f32::INFINITY,
            "a packed format holds finite numbers; keep the tensor in f32, f16 or bf16",
        ),
        (-7e4, "q4_k holds numbers up to 65504; keep the tensor in f32 or bf16"),
    ] {
        x[200] = value;
        let error = encode_row(DType::Block(BlockFormat::Q4K), &x, &mut [0; 144]).unwrap_err();
        assert_eq!((error.code, error.hint.as_str()), (Code::BadFile, hint));
        assert_eq!(error.what, format!("element 200 of a row is {value}"));
    }
    assert!(encode_row(DType::F16, &x, &mut [0; 512]).is_err());
    x[200] = f32::INFINITY;
    encode_row(DType::F16, &x, &mut [0; 512]).unwrap();
    let error = encode_row(DType::Block(BlockFormat::Iq1S), &[0.0; 256], &mut [0; 50]).unwrap_err();
    assert_eq!(
        (error.code, error.what.as_str()),
        (Code::Unsupported, "iq1_s is no type to encode to")
    );
    let error = encode_row(DType::F16, &[0.0; 3], &mut [0; 5]).unwrap_err();
    assert_eq!(error.what, "encode_row: 3 elements of f16 are not 5 bytes");
}
