//! Sounds at another rate: equal to what torchaudio makes, in whatever pieces they come.

use super::{floats, record};
use rlx_core::Code;
use rlx_core::sound::Resampler;

/// The sound at another rate, given in pieces of these lengths over and over.
fn resampled(from: u32, to: u32, sound: &[f32], pieces: &[usize]) -> Vec<f32> {
    let mut out = Vec::new();
    let mut resampler = Resampler::new(from, to).unwrap();
    let (mut rest, mut lengths) = (sound, pieces.iter().cycle());
    while !rest.is_empty() {
        let (piece, more) = rest.split_at((*lengths.next().unwrap()).min(rest.len()));
        resampler.push(piece, &mut out);
        rest = more;
    }
    resampler.finish(&mut out);
    out
}

#[test]
fn resampled_sounds_are_those_of_torchaudio_in_any_pieces() {
    let record = record("resample.json");
    let sound = floats(&record["sound"]);
    for case in record["to"].as_array().unwrap() {
        let number = |key: &str| case[key].as_u64().unwrap() as u32;
        let (from, to, n) = (number("from"), number("rate"), number("samples") as usize);
        let (got, want) = (resampled(from, to, &sound[..n], &[n]), floats(&case["sound"]));
        assert_eq!(got.len(), want.len(), "{from} to {to}");
        for (i, (a, b)) in got.iter().zip(&want).enumerate() {
            assert!((a - b).abs() <= 2e-6, "{from} to {to}, sample {i}: {a}, recorded {b}");
        }
        for pieces in [&[1][..], &[7], &[0, 64, 3], &[149, 1]] {
            assert_eq!(resampled(from, to, &sound[..n], pieces), got, "{from} to {to} {pieces:?}");
        }
    }
}

#[test]
fn rates_without_a_common_factor_are_bounded_and_odd_ones_refused() {
    // 16,000 phases; a constant stays one but for the cut at 0.99 of the band.
    let out = resampled(44_101, 16_000, &[0.5; 4000], &[333]);
    assert_eq!(out.len(), (4000u64 * 16_000).div_ceil(44_101) as usize);
    let middle = &out[100..out.len() - 100];
    assert!(middle.iter().all(|x| (x - 0.5).abs() < 2e-3), "{middle:?}");
    assert!(resampled(8000, 16_000, &[], &[1]).is_empty());
    for (from, to) in [(0, 16_000), (1, 16_000), (u32::MAX, 16_000), (16_000, 3_999)] {
        let e = Resampler::new(from, to).err().expect("no such rate");
        assert_eq!(e.code, Code::Unsupported, "{e}");
    }
}
