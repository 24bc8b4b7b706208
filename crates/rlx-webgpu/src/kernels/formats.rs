//! Readers of ggml's layouts, as WGSL functions over a bound `array<u32>`.
//!
//! `decode_<type>_<array>(row, chunk)` gives 32 weights, element `32 chunk` on, of the row that
//! starts at byte `row`; packed types have `unpack_<type>_<array>`, which gives signed bytes,
//! scales and an offset instead, for integer dot products. All of them read `step.k`, the
//! elements of a row.

use super::codebooks::Book;
use super::emit::{Emit, fill};
use super::planes;
use rlx_core::formats::codebook;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Error, Result};

/// Elements that a reader gives at a time.
pub(super) const CHUNK: u64 = 32;

/// Functions that every reader uses.
pub(super) const COMMON: &str = wgsl!("formats/common.wgsl");

/// The suffix of a type's readers over an array.
pub(super) fn suffix(dtype: DType, var: &str) -> String {
    format!("{}_{var}", dtype.name())
}

/// 64 weights at a time, `take_` and `dot_` of them, for products with one row of whole 64.
pub(super) struct Share {
    text: &'static str,
    planes: bool,
    /// Whether it reads quads: of types whose rows are whole ones. Else it reads words.
    pub quads: bool,
}

impl Share {
    /// The functions over an array; those that read words of it are there.
    pub fn text(&self, var: &str) -> String {
        let [words, address] = q6_k(self.planes);
        fill(&self.text.replace("{{at}}", address), &[("b", var), ("words", words)])
    }

    /// Whether the functions call those that read words, or quads as words.
    pub fn calls(&self) -> bool {
        !self.quads || self.planes
    }
}

/// The function that reads 16 bytes of `q6_k`, and where of block `i` the four parts are: in a row's blocks or planes.
fn q6_k(planes: bool) -> [&'static str; 2] {
    match planes {
        false => [
            "words4",
            "let block = row + i * 210u;
    let ql = block;
    let qh = block + 128u;
    let s = block + 192u;
    let d = block + 208u;",
        ],
        true => [
            "quad",
            "let n = step.k / 256u;
    let ql = row + i * 128u;
    let qh = row + n * 128u + i * 64u;
    let s = row + n * 192u + i * 16u;
    let d = row + n * 208u + i * 2u;",
        ],
    }
}

/// The functions of a type that has some of its own, for rows of `k` elements; others go through `unpack_`.
pub(super) fn share(dtype: DType, k: u64) -> Option<Share> {
    let planes = planes::has(dtype, k);
    let DType::Block(format) = dtype else { return None };
    let (text, quads) = match format {
        BlockFormat::Q4K => (wgsl!("formats/q4_k_share.wgsl"), true),
        BlockFormat::Q6K => (wgsl!("formats/q6_k_share.wgsl"), planes),
        BlockFormat::Q4_0 => (wgsl!("formats/q4_0_share.wgsl"), false),
        BlockFormat::Q8_0 => (wgsl!("formats/q8_0_share.wgsl"), false),
        _ => return None,
    };
    Some(Share { text, planes, quads })
}

/// Whether a type's weights have an offset, which is multiplied with sums of x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offset {
    None,
    /// One for 32 weights.
    Chunk,
    /// One for 16.
    Half,
}

/// The offsets of a type's weights.
pub(super) fn offset(dtype: DType) -> Offset {
    use BlockFormat as B;
    match dtype {
        DType::Block(B::Q4_1 | B::Q5_1 | B::Q4K | B::Q5K) => Offset::Chunk,
        DType::Block(B::Q2K) => Offset::Half,
        _ => Offset::None,
    }
}

/// Whether the two halves of 32 weights have scales of their own.
pub(super) fn has_half_scales(dtype: DType) -> bool {
    use BlockFormat as B;
    let halves = [B::Q2K, B::Q3K, B::Q6K, B::Iq1M, B::Iq2Xs, B::Iq2S, B::Nvfp4];
    matches!(dtype, DType::Block(format) if halves.contains(&format))
}

/// What a format's reader calls besides the functions that read words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Uses {
    /// Scales and minima of `q4_k` and `q5_k`.
    KScales,
    /// Bits and signs, one to a byte.
    Bits,
    /// Values of `iq1_s` and `iq1_m`.
    Moved,
    /// Values of `iq4_nl` and `iq4_xs`.
    Iq4,
    /// Values of `mxfp4` and `nvfp4`.
    Fp4,
    /// Groups of 8 of a codebook.
    Groups,
    /// Digits of `tq1_0`.
    Trits,
}

/// A packed format's reader: its text, and what that calls.
fn reader(format: BlockFormat) -> Option<(&'static str, &'static [Uses])> {
    use BlockFormat as B;
    use Uses::{Bits, Fp4, Groups, Iq4, KScales, Moved, Trits};
    Some(match format {
        B::Q4_0 => (wgsl!("formats/q4_0.wgsl"), &[]),
        B::Q4_1 => (wgsl!("formats/q4_1.wgsl"), &[]),
        B::Q5_0 => (wgsl!("formats/q5_0.wgsl"), &[Bits]),
        B::Q5_1 => (wgsl!("formats/q5_1.wgsl"), &[Bits]),
        B::Q8_0 => (wgsl!("formats/q8_0.wgsl"), &[]),
        B::Q1_0 => (wgsl!("formats/q1_0.wgsl"), &[Bits]),
        B::Q2_0 => (wgsl!("formats/q2_0.wgsl"), &[Bits]),
        B::Q2K => (wgsl!("formats/q2_k.wgsl"), &[]),
        B::Q3K => (wgsl!("formats/q3_k.wgsl"), &[]),
        B::Q4K => (wgsl!("formats/q4_k.wgsl"), &[KScales]),
        B::Q5K => (wgsl!("formats/q5_k.wgsl"), &[KScales]),
        B::Q6K => (wgsl!("formats/q6_k.wgsl"), &[]),
        B::Iq1S => (wgsl!("formats/iq1_s.wgsl"), &[Groups, Moved]),
        B::Iq1M => (wgsl!("formats/iq1_m.wgsl"), &[Groups, Moved]),
        B::Iq2Xxs => (wgsl!("formats/iq2_xxs.wgsl"), &[Groups, Bits]),
        B::Iq2Xs => (wgsl!("formats/iq2_xs.wgsl"), &[Groups, Bits]),
        B::Iq2S => (wgsl!("formats/iq2_s.wgsl"), &[Groups, Bits]),
        B::Iq3Xxs => (wgsl!("formats/iq3_xxs.wgsl"), &[Bits]),
        B::Iq3S => (wgsl!("formats/iq3_s.wgsl"), &[Bits]),
        B::Iq4Nl => (wgsl!("formats/iq4_nl.wgsl"), &[Iq4]),
        B::Iq4Xs => (wgsl!("formats/iq4_xs.wgsl"), &[Iq4]),
        B::Mxfp4 => (wgsl!("formats/mxfp4.wgsl"), &[Fp4]),
        B::Nvfp4 => (wgsl!("formats/nvfp4.wgsl"), &[Fp4]),
        B::Tq1_0 => (wgsl!("formats/tq1_0.wgsl"), &[Trits]),
        B::Tq2_0 => (wgsl!("formats/tq2_0.wgsl"), &[]),
        // Activations only.
        B::Q8_1 | B::Q8K | B::Q15_0 => return None,
    })
}

/// `fn <name>(nibbles: vec4u) -> vec4u`: the value of each byte's low nibble, a byte. Four levels of
/// choices between constants, by a bit each, for four bytes of a word at once: no memory is read.
fn sixteen(name: &str, values: &[i8; 16]) -> String {
    let mut text = format!("fn {name}(nibbles: vec4u) -> vec4u {{\n");
    for bit in 0..4 {
        text += &format!(
            "    let m{bit} = ((nibbles >> vec4u({bit}u)) & vec4u(0x01010101u)) * 255u;\n"
        );
    }
    let word = |v: i8| u32::from_le_bytes([v as u8; 4]);
    for (i, pair) in values.chunks_exact(2).enumerate() {
        let (a, b) = (word(pair[0]), word(pair[1]));
        text += &format!("    let a{i} = vec4u({a}u) ^ (m0 & vec4u({}u));\n", a ^ b);
    }
    for (bit, (from, to)) in [("a", "b"), ("b", "c"), ("c", "d")].into_iter().enumerate() {
        for i in 0..4 >> bit {
            let (x, y, m) = (format!("{from}{}", 2 * i), format!("{from}{}", 2 * i + 1), bit + 1);
            text += &format!("    let {to}{i} = {x} ^ (m{m} & ({x} ^ {y}));\n");
        }
    }
    text + "    return d0;\n}\n"
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
        let text = || fill(wgsl!("formats/words.wgsl"), &[("b", var)]);
        self.once(format!("words {var}"), text);
    }

    /// The same for an array of 16 bytes; before readers of it are added.
    pub fn quads(&mut self, var: &str) {
        let text = || fill(wgsl!("formats/words_quads.wgsl"), &[("b", var)]);
        self.once(format!("words {var}"), text);
    }

    /// Adds what a reader of `var` calls; `book` is the array of its codebook.
    fn calls(&mut self, uses: Uses, var: &str, book: &str) {
        let b = ("b", var);
        match uses {
            Uses::KScales => {
                self.once(format!("k_scales {var}"), || fill(wgsl!("formats/k_scales.wgsl"), &[b]))
            }
            Uses::Bits => self.once("bits".into(), || wgsl!("formats/bits.wgsl").into()),
            Uses::Moved => self.once("moved".into(), || wgsl!("formats/iq1.wgsl").into()),
            Uses::Trits => self.once("trits".into(), || wgsl!("formats/trits.wgsl").into()),
            Uses::Iq4 => {
                self.once("iq4_values".into(), || sixteen("iq4_values", &codebook::IQ4_NL));
            }
            Uses::Fp4 => self.once("fp4_values".into(), || sixteen("fp4_values", &codebook::FP4)),
            Uses::Groups => self.once(format!("groups {book}"), || {
                fill(wgsl!("formats/book8.wgsl"), &[("book", book)])
            }),
        }
    }

    /// Adds `decode_` (and `unpack_` for packed types) of `dtype` over `var`, for rows of `k`
    /// elements, and binds its codebook; returns the suffix `<type>_<array>`.
    ///
    /// # Errors
    /// `Unsupported` for a type without a reader.
    pub fn add(&mut self, dtype: DType, var: &str, k: u64, emit: &mut Emit<'_>) -> Result<String> {
        let name = dtype.name();
        let suffix = suffix(dtype, var);
        let b = ("b", var);
        let words = |r: &mut Self| r.words(var);
        let ragged = !k.is_multiple_of(CHUNK);
        let key = format!("decode {suffix}");
        let scalar = |r: &mut Self, element: String| {
            r.once(key.clone(), || {
                let values = [b, ("format", name), ("element", element.as_str())];
                fill(wgsl!("formats/scalar.wgsl"), &values)
            });
        };
        match dtype {
            DType::F32 if ragged => {
                scalar(self, format!("bitcast<f32>({var}[(row >> 2u) + e])"));
            }
            DType::F32 => {
                self.once(key, || fill(wgsl!("formats/f32.wgsl"), &[b]));
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
                    fill(wgsl!("formats/f16.wgsl"), &values)
                });
            }
            DType::Block(format) => {
                let (text, uses) = reader(format).ok_or_else(|| no_reader(dtype))?;
                let book = Book::of(format).map_or(String::new(), |book| emit.book(book));
                words(self);
                for &uses in uses {
                    self.calls(uses, var, &book);
                }
                let [read, address] = q6_k(planes::has(dtype, k));
                self.once(key, || {
                    let text = text.replace("{{at}}", address);
                    fill(&text, &[b, ("book", book.as_str()), ("words", read)])
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
        .hint("it reads f32, f16, bf16 and every packed format of a file's weights")
}
