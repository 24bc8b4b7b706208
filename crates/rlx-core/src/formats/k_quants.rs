//! The k-quants: super-blocks of 256 whose runs have small integer scales of their own.
//!
//! ```text
//! q2_k  256/84   s 0..16, q 16..80, d 80..82, m 82..84          (d s) q - (m t)
//! q3_k  256/110  h 0..32, q 32..96, s 96..108, d 108..110       (d (s - 32)) (q - 4)
//! q4_k  256/144  d 0..2, m 2..4, s 4..16, q 16..144             (d s) q - (m t)
//! q5_k  256/176  d 0..2, m 2..4, s 4..16, h 16..48, q 48..176   the same, with a fifth bit from h
//! q6_k  256/210  low 0..128, high 128..192, i8 s 192..208, d 208..210      (d s) (q - 32)
//! q8_k  256/292  f32 d 0..4, i8 q 4..260, i16 sums of 16 260..292      d q
//! ```
//!
//! In q2_k byte `i / 16` of `s` is for element `i`: the low nibble is `s`, the high one `t`. In q3_k
//! scale `j` of 16 has the low 4 bits in a nibble of byte `j % 8` (the low one for `j < 8`) and the high 2
//! in bits `2 (j / 4)` of byte `8 + j % 4`. In q4_k and q5_k `s` holds eight pairs of 6 bits, a scale
//! `s` and a minimum `t` for each run of 32 elements. In q2_k and q3_k each half of 128 elements has 32
//! bytes of `q`, whose bits 0-1, 2-3, 4-5, 6-7 are its four runs of 32; q3_k's third bits are those of
//! `h`: byte `l`, bit `r` for element `l` of run `r` of 8.

use super::half_at;

pub(super) fn q2_k(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 80), half_at(b, 82));
    for (part, y) in out.chunks_exact_mut(16).enumerate() {
        let (ds, mt) = (d * f32::from(b[part] & 15), m * f32::from(b[part] >> 4));
        let (half, run, at) = (part / 8, part / 2 % 4, part % 2 * 16);
        for (y, q) in y.iter_mut().zip(&b[16 + 32 * half + at..][..16]) {
            *y = ds * f32::from((q >> (2 * run)) & 3) - mt;
        }
    }
}

pub(super) fn q3_k(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 108);
    let scales = &b[96..108];
    for (part, y) in out.chunks_exact_mut(16).enumerate() {
        let low = (scales[part % 8] >> (4 * (part / 8))) & 15;
        let high = (scales[8 + part % 4] >> (2 * (part / 4))) & 3;
        let ds = d * (i32::from(low | (high << 4)) - 32) as f32;
        let (half, run, at) = (part / 8, part / 2 % 4, part % 2 * 16);
        let (q, h) = (&b[32 + 32 * half + at..][..16], &b[at..][..16]);
        for (i, y) in y.iter_mut().enumerate() {
            let third = (h[i] >> (part / 2)) & 1;
            let q = ((q[i] >> (2 * run)) & 3) | (third << 2);
            *y = ds * (i32::from(q) - 4) as f32;
        }
    }
}

/// Scale and minimum of run `j` of 8, 6 bits each, from the 12 bytes they share: runs 0..4 have the
/// low 6 bits of bytes `j` and `j + 4`; runs 4..8 a nibble of byte `j + 4` below the top 2 bits of
/// bytes `j - 4` and `j`.
fn scale_min(s: &[u8], j: usize) -> (f32, f32) {
    let (scale, min) = if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        ((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4))
    };
    (f32::from(scale), f32::from(min))
}

pub(super) fn q4_k(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    for run in 0..8 {
        let (scale, min) = scale_min(&b[4..16], run);
        let (ds, mt) = (d * scale, m * min);
        // Two runs share 32 bytes: the even one has the low nibbles.
        let q = &b[16 + 32 * (run / 2)..][..32];
        for (y, &q) in out[32 * run..][..32].iter_mut().zip(q) {
            let q = (q >> (4 * (run % 2))) & 15;
            *y = ds * f32::from(q) - mt;
        }
    }
}

pub(super) fn q5_k(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    let high = &b[16..48];
    for run in 0..8 {
        let (scale, min) = scale_min(&b[4..16], run);
        let (ds, mt) = (d * scale, m * min);
        let q = &b[48 + 32 * (run / 2)..][..32];
        for (i, y) in out[32 * run..][..32].iter_mut().enumerate() {
            let low = (q[i] >> (4 * (run % 2))) & 15;
            let fifth = ((high[i] >> run) & 1) << 4;
            *y = ds * f32::from(low | fifth) - mt;
        }
    }
}

pub(super) fn q6_k(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 208);
    for (i, y) in out.iter_mut().enumerate() {
        // Each half of 128 has 64 low bytes and 32 high bytes; its four runs of 32 take low nibbles
        // of both 32s, then high nibbles, and bits 0-1, 2-3, 4-5, 6-7 of the same high bytes.
        let (half, run, l) = (i / 128, i / 32 % 4, i % 32);
        let low = (b[64 * half + 32 * (run % 2) + l] >> (4 * (run / 2))) & 15;
        let high = (b[128 + 32 * half + l] >> (2 * run)) & 3;
        let scale = b[192 + i / 16] as i8;
        let q = i32::from(low | (high << 4)) - 32;
        *y = d * f32::from(scale) * q as f32;
    }
}

pub(super) fn q8_k(b: &[u8], out: &mut [f32]) {
    let d = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    for (y, &q) in out.iter_mut().zip(&b[4..260]) {
        *y = d * f32::from(q as i8);
    }
}
