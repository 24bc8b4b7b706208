//! Readers of ggml's layouts, as WGSL functions over a bound `array<u32>`.
//!
//! `decode_<type>_<array>(row, chunk)` gives 32 weights, element `32 chunk` on, of the row that
//! starts at byte `row`; packed types have `unpack_<type>_<array>`, which gives signed bytes,
//! scales and an offset instead, for integer dot products. All of them read `step.k`, the
//! elements of a row.

use super::emit::fill;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Error, Result};

/// Elements that a reader gives at a time.
pub(super) const CHUNK: u64 = 32;

/// Functions that every reader uses.
pub(super) const COMMON: &str = include_str!("formats/common.wgsl");

/// The suffix of a type's readers over an array.
pub(super) fn suffix(dtype: DType, var: &str) -> String {
    format!("{}_{var}", dtype.name())
}

/// Products of 64 weights at a time.
pub(super) struct Share {
    pub text: &'static str,
    /// Whether it reads quads: of types whose rows are whole ones. Else it reads words.
    pub quads: bool,
}

/// The function of a type that has one of its own; others go through `unpack_`.
pub(super) fn share(dtype: DType) -> Option<Share> {
    match dtype {
        DType::Block(BlockFormat::Q4K) => {
            Some(Share { text: include_str!("formats/q4_k_share.wgsl"), quads: true })
        }
        DType::Block(BlockFormat::Q6K) => {
            Some(Share { text: include_str!("formats/q6_k_share.wgsl"), quads: false })
        }
        _ => None,
    }
}

/// Whether a type's weights have an offset, which is multiplied with sums of x.
pub(super) fn has_offset(dtype: DType) -> bool {
    matches!(dtype, DType::Block(BlockFormat::Q4K | BlockFormat::Q5K))
}

/// Text of the readers that a kernel asked for; each is printed once.
#[derive(Default)]
pub(super) struct Readers {
    printed: Vec<String>,
    /// The text so far.
    pub text: String,
}

impl Readers {
    fn once(&mut self, key: String, text: impl FnOnce() -> String) {
        if !self.printed.contains(&key) {
            self.text += &text();
            self.printed.push(key);
        }
    }

    /// Adds the functions that read words of `var` at byte addresses.
    pub fn words(&mut self, var: &str) {
        let text = || fill(include_str!("formats/words.wgsl"), &[("b", var)]);
        self.once(format!("words {var}"), text);
    }

    /// Adds `decode_` (and `unpack_` for packed types) of `dtype` over `var`, for rows of `k`
    /// elements; returns the suffix `<type>_<array>`.
    ///
    /// # Errors
    /// `Unsupported` for a type without a reader.
    pub fn add(&mut self, dtype: DType, var: &str, k: u64) -> Result<String> {
        let name = dtype.name();
        let suffix = suffix(dtype, var);
        let b = ("b", var);
        let words = |r: &mut Self| r.words(var);
        let ragged = !k.is_multiple_of(CHUNK);
        let key = format!("decode {suffix}");
        let scalar = |r: &mut Self, element: String| {
            r.once(key.clone(), || {
                let values = [b, ("format", name), ("element", element.as_str())];
                fill(include_str!("formats/scalar.wgsl"), &values)
            });
        };
        match dtype {
            DType::F32 if ragged => {
                scalar(self, format!("bitcast<f32>({var}[(row >> 2u) + e])"));
            }
            DType::F32 => {
                self.once(key, || fill(include_str!("formats/f32.wgsl"), &[b]));
            }
            DType::F16 | DType::BF16 if ragged => {
                words(self);
                scalar(
                    self,
                    if dtype == DType::F16 {
                        format!("half_{var}(row + 2u * e)")
                    } else {
                        format!("bitcast<f32>(word_{var}(row + 2u * e) << 16u)")
                    },
                );
            }
            DType::F16 | DType::BF16 => {
                words(self);
                let pair = format!("pair_{name}");
                self.once(key, || {
                    let values = [b, ("format", name), ("pair", pair.as_str())];
                    fill(include_str!("formats/f16.wgsl"), &values)
                });
            }
            DType::Block(format) => {
                let text = match format {
                    BlockFormat::Q4_0 => include_str!("formats/q4_0.wgsl"),
                    BlockFormat::Q8_0 => include_str!("formats/q8_0.wgsl"),
                    BlockFormat::Q4K => include_str!("formats/q4_k.wgsl"),
                    BlockFormat::Q5K => include_str!("formats/q5_k.wgsl"),
                    BlockFormat::Q6K => include_str!("formats/q6_k.wgsl"),
                    _ => return Err(no_reader(dtype)),
                };
                words(self);
                if matches!(format, BlockFormat::Q4K | BlockFormat::Q5K) {
                    self.once(format!("k_scales {var}"), || {
                        fill(include_str!("formats/k_scales.wgsl"), &[b])
                    });
                }
                self.once(key, || {
                    fill(text, &[b])
                        + &format!(
                            "fn decode_{suffix}(row: u32, chunk: u32) -> Weights {{\n    \
                             return weights_of(unpack_{suffix}(row, chunk));\n}}\n"
                        )
                });
            }
            _ => return Err(no_reader(dtype)),
        }
        Ok(suffix)
    }
}

fn no_reader(dtype: DType) -> Error {
    Error::new(Code::Unsupported, format!("the WebGPU device cannot read {dtype} weights"))
        .hint("it reads f32, f16, bf16, q4_0, q8_0, q4_k, q5_k, q6_k")
}
