//! Which element type each tensor of a file has, as `llama-quantize` decides without an importance
//! matrix for models of Llama's kind.

use crate::tools::synth::formats;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Error, Result};

/// What a file's matrices are stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quant {
    /// The type of most matrices.
    pub base: DType,
    /// Whether some values and down matrices get more bits: the mixes `q4_k_m` and `q5_k_m`.
    pub medium: bool,
    /// Whether every matrix has the base type, the head too.
    pub pure: bool,
}

/// What a tensor is, as far as its element type and its values depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The embedding, which may be the head as well.
    Embedding,
    /// The head.
    Head,
    /// The i-th matrix of attention values, alone or with those of queries and keys.
    Values(u32),
    /// A matrix of attention keys.
    Keys,
    /// The matrix behind attention.
    AttentionOutput,
    /// The second matrix of the feed-forward part in block i, or those of its experts.
    Down(u32),
    /// Any other matrix.
    Matrix,
    /// A norm's gains, and other values about 1.
    Norm,
    /// What is added: biases, and the sinks of attention's scores.
    Bias,
    /// What a linear attention's decay is multiplied by, about -1.
    Decay,
    /// Scores of experts.
    Router,
    /// What rope's frequencies are divided by.
    RopeFactors,
}

/// What a mix depends on besides the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Blocks.
    pub layers: u32,
    /// Matrices of attention values: one a block with attention.
    pub values: u32,
    /// Query heads to a key-value head.
    pub group: u32,
    /// Experts of a feed-forward part; 0 where there are none.
    pub experts: u32,
    /// Whether the embedding is the head as well.
    pub tied: bool,
    /// Whether it is the Llama of 80 blocks that groups its heads, called 70B.
    pub seventy: bool,
}

/// `general.file_type` of what has one: name and number.
const FILE_TYPES: [(&str, u32); 29] = [
    ("f32", 0),
    ("f16", 1),
    ("q4_0", 2),
    ("q4_1", 3),
    ("q8_0", 7),
    ("q5_0", 8),
    ("q5_1", 9),
    ("q3_k", 11),
    ("q4_k", 14),
    ("q4_k_m", 15),
    ("q5_k", 16),
    ("q5_k_m", 17),
    ("q6_k", 18),
    ("iq2_xxs", 19),
    ("iq2_xs", 20),
    ("q2_k", 21),
    ("iq3_xxs", 23),
    ("iq1_s", 24),
    ("iq4_nl", 25),
    ("iq3_s", 26),
    ("iq2_s", 28),
    ("iq4_xs", 30),
    ("iq1_m", 31),
    ("bf16", 32),
    ("tq1_0", 36),
    ("tq2_0", 37),
    ("nvfp4", 39),
    ("q1_0", 40),
    ("q2_0", 41),
];

impl Quant {
    /// Every name of a quant, mixes last.
    pub fn names() -> Vec<&'static str> {
        let dense = [DType::F32, DType::F16, DType::BF16].map(DType::name);
        let blocks = formats().map(BlockFormat::name);
        dense.into_iter().chain(blocks).chain(["q4_k_m", "q5_k_m"]).collect()
    }

    /// The quant of that name; `pure` leaves out every exception.
    ///
    /// # Errors
    /// `Usage` for a name that is none, and for a pure mix.
    pub fn parse(name: &str, pure: bool) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        let mix = match lower.as_str() {
            "q4_k_m" => Some(BlockFormat::Q4K),
            "q5_k_m" => Some(BlockFormat::Q5K),
            _ => None,
        };
        if let Some(format) = mix {
            if pure {
                return Err(Error::usage(format!("{lower} is a mix, and a pure file has none"))
                    .hint(format!("give --quant {}, or leave --pure out", format.name())));
            }
            return Ok(Self { base: DType::Block(format), medium: true, pure });
        }
        let dense = [DType::F32, DType::F16, DType::BF16].into_iter();
        let base = dense.chain(formats().map(DType::Block)).find(|t| t.name() == lower);
        let base = base.ok_or_else(|| {
            Error::usage(format!("there is no quant {name}"))
                .hint(format!("give one of {}", Self::names().join(", ")))
        })?;
        Ok(Self { base, medium: false, pure })
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match (self.medium, self.base) {
            (true, DType::Block(BlockFormat::Q5K)) => "q5_k_m",
            (true, _) => "q4_k_m",
            (false, base) => base.name(),
        }
    }

    /// `general.file_type`, where llama.cpp has a number for it.
    pub fn file_type(self) -> Option<u32> {
        FILE_TYPES.iter().find(|row| row.0 == self.name()).map(|row| row.1)
    }

    /// The element type of a tensor with rows of `row` elements, and the one that it would have if
    /// blocks of that filled its rows.
    pub fn of(self, model: &Traits, role: Role, row: u64) -> (DType, DType) {
        let small = [Role::Norm, Role::Bias, Role::Decay, Role::Router, Role::RopeFactors];
        if small.contains(&role) {
            return (DType::F32, DType::F32);
        }
        let wanted = if self.pure { self.base } else { self.wanted(model, role, row) };
        (fitting(wanted, row), wanted)
    }

    fn wanted(self, model: &Traits, role: Role, row: u64) -> DType {
        use BlockFormat as B;
        let DType::Block(base) = self.base else { return self.base };
        let levels = matches!(base, B::Iq4Nl | B::Iq4Xs);
        let format = match role {
            Role::Head => head(base, row),
            Role::Embedding if model.tied => head(base, row),
            Role::Values(_) | Role::Keys if model.experts == 8 => B::Q8_0,
            Role::Values(i) if self.medium && more(i, model.values) => B::Q6K,
            Role::Values(_) if model.seventy && matches!(base, B::Q3K | B::Q4K) => B::Q5K,
            Role::Values(_) if levels && model.group >= 4 => B::Q5K,
            Role::Down(i) if self.medium && more(i, model.layers) => B::Q6K,
            Role::Down(i) if levels && i < model.layers / 8 => B::Q5K,
            Role::AttentionOutput
                if model.experts == 8
                    && matches!(base, B::Q2K | B::Q3K | B::Q4K | B::Iq4Nl | B::Iq4Xs) =>
            {
                B::Q5K
            }
            _ => base,
        };
        DType::Block(format)
    }
}

/// The head costs more accuracy than any other matrix.
fn head(base: BlockFormat, row: u64) -> BlockFormat {
    use BlockFormat as B;
    match base {
        B::Q8_0 => B::Q8_0,
        _ if !row.is_multiple_of(256) => B::Q8_0,
        B::Iq1S | B::Iq1M | B::Iq2Xxs | B::Iq2Xs | B::Iq2S | B::Iq3Xxs => B::Q5K,
        _ => B::Q6K,
    }
}

/// Blocks whose values and down matrices a medium mix gives more bits: the first and last eighth, and
/// every third between.
fn more(i: u32, layers: u32) -> bool {
    let eighth = layers / 8;
    i < eighth || i >= 7 * layers / 8 || (i - eighth) % 3 == 2
}

/// The type itself, or what stands for it where its blocks do not fill a row.
fn fitting(dtype: DType, row: u64) -> DType {
    use BlockFormat as B;
    let fits = |dtype: DType| dtype.row_bytes(row).is_some();
    if fits(dtype) {
        return dtype;
    }
    let smaller = match dtype {
        DType::Block(B::Q4K) => B::Q5_0,
        DType::Block(B::Q5K) => B::Q5_1,
        DType::Block(B::Q6K) => B::Q8_0,
        DType::Block(B::Q2K | B::Q3K | B::Tq1_0 | B::Tq2_0 | B::Nvfp4 | B::Q1_0 | B::Q2_0) => {
            B::Q4_0
        }
        _ => B::Iq4Nl,
    };
    if fits(DType::Block(smaller)) { DType::Block(smaller) } else { DType::F16 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::synth::{Shape, Tensor};

    fn types(shape: &str, quant: &str) -> Vec<(String, &'static str)> {
        let shape = Shape::find(shape).unwrap();
        let quant = Quant::parse(quant, false).unwrap();
        let of = |t: Tensor| {
            (t.name.clone(), quant.of(&shape.traits(), t.role, t.dims[t.dims.len() - 1]).0.name())
        };
        shape.tensors().into_iter().map(of).collect()
    }

    fn count(types: &[(String, &str)], part: &str, name: &str) -> usize {
        types.iter().filter(|t| t.0.contains(part) && t.1 == name).count()
    }

    #[test]
    fn a_medium_mix_gives_half_of_the_values_and_down_matrices_more_bits() {
        let types = types("llama-3.2-1b", "q4_k_m");
        assert_eq!(types[0], ("token_embd.weight".into(), "q6_k")); // it is the head
        for part in ["attn_v", "ffn_down"] {
            assert_eq!((count(&types, part, "q6_k"), count(&types, part, "q4_k")), (8, 8));
        }
        assert_eq!(count(&types, "attn_q", "q4_k") + count(&types, "ffn_up", "q4_k"), 32);
        assert_eq!(count(&types, "norm", "f32"), 33);
    }

    #[test]
    fn the_recorded_file_of_llama_cpp_has_the_same_types() {
        // tests/fixtures/gguf/llama-q4_k_m.gguf: two blocks, a head of its own.
        let shape = Shape { tied: false, ..*Shape::find("llama-tiny").unwrap() };
        let quant = Quant::parse("q4_k_m", false).unwrap();
        for tensor in shape.tensors() {
            let six = ["output.weight", "blk.1.attn_v.weight", "blk.1.ffn_down.weight"];
            let norm = tensor.name.contains("norm");
            let want = if norm {
                "f32"
            } else if six.contains(&tensor.name.as_str()) {
                "q6_k"
            } else {
                "q4_k"
            };
            let row = tensor.dims[tensor.dims.len() - 1];
            let (got, _) = quant.of(&shape.traits(), tensor.role, row);
            assert_eq!(got.name(), want, "{}", tensor.name);
        }
    }

    #[test]
    fn rows_that_blocks_of_256_do_not_fill_have_blocks_of_32() {
        let types = types("gemma-3-1b", "q4_k_m");
        assert_eq!(types[0].1, "q8_0");
        assert_eq!(count(&types, "attn_q.", "q5_0"), 26);
        assert_eq!(count(&types, "attn_v", "q8_0") + count(&types, "attn_v", "q5_0"), 26);
        assert_eq!(count(&types, "ffn_down", "q6_k") + count(&types, "ffn_down", "q4_k"), 26);
    }

    #[test]
    fn an_unknown_quant_and_a_pure_mix_are_usage_errors() {
        let e = Quant::parse("q9", false).unwrap_err();
        assert_eq!(e.what, "there is no quant q9");
        assert!(
            e.hint.starts_with("give one of f32, f16, bf16, q4_0, ")
                && e.hint.ends_with("q4_k_m, q5_k_m")
        );
        assert_eq!(
            Quant::parse("Q4_K_M", true).unwrap_err().what,
            "q4_k_m is a mix, and a pure file has none"
        );
        for name in Quant::names() {
            assert_eq!(Quant::parse(name, false).unwrap().name(), name);
        }
    }
}
