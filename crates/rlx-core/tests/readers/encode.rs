//! Encoders lose no more than ggml's, row by row of the recorded matrix.

use crate::fixture;
use rlx_core::formats::decode_row;
use rlx_core::formats::encode::encode_row;
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
fn no_row_loses_more_than_ggml_s_encoder_and_two_per_cent() {
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
            line += &format!(" {:.3}", ours / f64::from(bounds[row]).max(1e-30));
            if ours > 1.02 * f64::from(bounds[row]) {
                worse.push(format!("{name} row {row}: {ours:e}, ggml {:e}", bounds[row]));
            }
        }
        println!("{line}");
    }
    assert_eq!(worse, [String::new(); 0], "of {ROWS} rows");
}
