//! Published dimensions of models.

use crate::tools::mix::Traits;
use rlx_core::{Error, Result};

/// A family: its name in a file, and how its blocks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Two norms a block.
    Llama,
    /// The same; every fourth block has no positions, which no file says.
    SmolLm3,
    /// Fused projections, and divisors of rope's frequencies for short and for long texts.
    Phi3,
    /// Also norms of queries and keys.
    Qwen3,
    /// The same with experts.
    Qwen3Moe,
    /// Linear attention in most blocks, gated attention in the others.
    Qwen35,
    /// Also norms after attention and after the feed-forward part, and windows.
    Gemma3,
    /// Short convolutions in most blocks, attention in the others.
    Lfm2,
    /// Biases, sinks of attention, windows in every other block, and experts.
    GptOss,
}

impl Family {
    /// `general.architecture`, and the prefix of its keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::SmolLm3 => "smollm3",
            Self::Phi3 => "phi3",
            Self::Qwen3 => "qwen3",
            Self::Qwen3Moe => "qwen3moe",
            Self::Qwen35 => "qwen35",
            Self::Gemma3 => "gemma3",
            Self::Lfm2 => "lfm2",
            Self::GptOss => "gpt-oss",
        }
    }

    /// `tokenizer.ggml.pre`: how bytes are cut into words.
    pub fn pre(self) -> &'static str {
        match self {
            Self::Llama | Self::SmolLm3 => "llama-bpe",
            Self::Qwen3 | Self::Qwen3Moe | Self::Qwen35 => "qwen2",
            Self::Gemma3 | Self::Phi3 | Self::Lfm2 => "gpt-2",
            Self::GptOss => "gpt-4o",
        }
    }
}

/// Experts of a feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// How many there are.
    pub count: u32,
    /// How many a row uses.
    pub used: u32,
    /// Width of each.
    pub width: u32,
}

/// Linear attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// Heads of keys, and of queries.
    pub key_heads: u32,
    /// Heads of values.
    pub heads: u32,
    /// Width of every head.
    pub head: u32,
    /// Taps of its convolution.
    pub taps: u32,
}

/// The dimensions of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The name on the command line.
    pub name: &'static str,
    /// The family.
    pub family: Family,
    /// Blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub width: u32,
    /// Width of the feed-forward part.
    pub feed_forward: u32,
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// Width of a head.
    pub head: u32,
    /// Tokens.
    pub vocab: u32,
    /// Positions it was trained for.
    pub context: u32,
    /// The norms' epsilon.
    pub epsilon: f32,
    /// The base of rope's frequencies.
    pub rope_base: f32,
    /// Llama 3's scaling of rope: the factor; the positions before scaling are 8,192.
    pub rope_factor: Option<f32>,
    /// Positions that local layers look back.
    pub window: Option<u32>,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Dimensions of a head that turn.
    pub rope_dims: u32,
    /// LongRoPE: the positions of the first training, and the factor of attention.
    pub long_rope: Option<(u32, f32)>,
    /// YaRN: the positions of the first training, and by how much more there are.
    pub yarn: Option<(u32, f32)>,
    /// Experts, in place of the one feed-forward part.
    pub experts: Option<Experts>,
    /// What blocks without attention have, where that is linear attention.
    pub delta: Option<Delta>,
    /// The same where it is a convolution: its taps.
    pub conv: Option<u32>,
    /// The blocks with attention, where not all have it.
    pub attends: &'static [u32],
}

const LLAMA: Shape = Shape {
    name: "",
    family: Family::Llama,
    layers: 16,
    width: 2048,
    feed_forward: 8192,
    heads: 32,
    kv_heads: 8,
    head: 64,
    vocab: 128_256,
    context: 131_072,
    epsilon: 1e-5,
    rope_base: 500_000.0,
    rope_factor: Some(32.0),
    window: None,
    tied: true,
    rope_dims: 64,
    long_rope: None,
    yarn: None,
    experts: None,
    delta: None,
    conv: None,
    attends: &[],
};

const QWEN3: Shape = Shape {
    family: Family::Qwen3,
    layers: 28,
    width: 1024,
    feed_forward: 3072,
    heads: 16,
    head: 128,
    vocab: 151_936,
    context: 40_960,
    epsilon: 1e-6,
    rope_base: 1_000_000.0,
    rope_factor: None,
    rope_dims: 128,
    ..LLAMA
};

const GEMMA3: Shape = Shape {
    family: Family::Gemma3,
    layers: 26,
    width: 1152,
    feed_forward: 6912,
    heads: 4,
    kv_heads: 1,
    head: 256,
    vocab: 262_144,
    context: 32_768,
    epsilon: 1e-6,
    rope_base: 1_000_000.0,
    rope_factor: None,
    window: Some(512),
    rope_dims: 256,
    ..LLAMA
};

/// Every shape that GGUF files can be made in.
pub const SHAPES: [Shape; 16] = [
    Shape { name: "llama-3.2-1b", ..LLAMA },
    Shape {
        name: "llama-3.1-8b",
        layers: 32,
        width: 4096,
        feed_forward: 14_336,
        head: 128,
        rope_dims: 128,
        rope_factor: Some(8.0),
        tied: false,
        ..LLAMA
    },
    Shape { name: "qwen3-0.6b", ..QWEN3 },
    Shape { name: "qwen3-4b", layers: 36, width: 2560, feed_forward: 9728, heads: 32, ..QWEN3 },
    Shape {
        name: "qwen3-30b-a3b",
        family: Family::Qwen3Moe,
        layers: 48,
        width: 2048,
        feed_forward: 6144,
        heads: 32,
        kv_heads: 4,
        tied: false,
        experts: Some(Experts { count: 128, used: 8, width: 768 }),
        ..QWEN3
    },
    Shape {
        name: "qwen35-0.8b",
        family: Family::Qwen35,
        layers: 24,
        feed_forward: 3584,
        heads: 8,
        kv_heads: 2,
        head: 256,
        vocab: 248_320,
        context: 262_144,
        rope_base: 10_000_000.0,
        rope_dims: 64,
        delta: Some(Delta { key_heads: 16, heads: 16, head: 128, taps: 4 }),
        attends: &[3, 7, 11, 15, 19, 23],
        ..QWEN3
    },
    Shape { name: "gemma-3-1b", ..GEMMA3 },
    Shape { name: "gemma-3-270m", layers: 18, width: 640, feed_forward: 2048, ..GEMMA3 },
    Shape {
        name: "lfm2-350m",
        family: Family::Lfm2,
        width: 1024,
        feed_forward: 4608,
        heads: 16,
        vocab: 65_536,
        context: 128_000,
        rope_base: 1_000_000.0,
        rope_factor: None,
        conv: Some(3),
        attends: &[2, 5, 8, 10, 12, 14],
        ..LLAMA
    },
    Shape {
        name: "smollm3-3b",
        family: Family::SmolLm3,
        layers: 36,
        feed_forward: 11_008,
        heads: 16,
        kv_heads: 4,
        head: 128,
        context: 65_536,
        epsilon: 1e-6,
        rope_base: 5_000_000.0,
        rope_factor: None,
        rope_dims: 128,
        ..LLAMA
    },
    Shape {
        name: "phi-4-mini",
        family: Family::Phi3,
        layers: 32,
        width: 3072,
        heads: 24,
        head: 128,
        vocab: 200_064,
        rope_base: 10_000.0,
        rope_factor: None,
        window: Some(262_144),
        rope_dims: 96,
        long_rope: Some((4096, 1.190_238)),
        ..LLAMA
    },
    // Of the keys of openai/gpt-oss-20b's config.json.
    Shape {
        name: "gpt-oss-20b",
        family: Family::GptOss,
        layers: 24,
        width: 2880,
        feed_forward: 2880,
        heads: 64,
        vocab: 201_088,
        rope_base: 150_000.0,
        rope_factor: None,
        window: Some(128),
        tied: false,
        yarn: Some((4096, 32.0)),
        experts: Some(Experts { count: 32, used: 4, width: 2880 }),
        ..LLAMA
    },
    // No published model's: the sizes of OLMoE-1B-7B (1.3 B of 6.9 B parameters active) in Qwen 3's blocks.
    Shape {
        name: "moe-1b-7b",
        family: Family::Qwen3Moe,
        layers: 16,
        width: 2048,
        feed_forward: 1024,
        kv_heads: 16,
        vocab: 50_304,
        context: 4096,
        rope_base: 10_000.0,
        tied: false,
        experts: Some(Experts { count: 64, used: 8, width: 1024 }),
        ..QWEN3
    },
    // No published model's: Llama's blocks in the sizes of Qwen3-0.6B.
    Shape { name: "llama-0.6b", family: Family::Llama, ..QWEN3 },
    // Nor this: what a browser can be measured with.
    Shape {
        name: "llama-125m",
        layers: 12,
        width: 768,
        feed_forward: 2048,
        heads: 12,
        kv_heads: 12,
        vocab: 50_304,
        context: 4096,
        rope_base: 10_000.0,
        rope_factor: None,
        ..LLAMA
    },
    // For tests: a row has one block of the largest formats.
    Shape {
        name: "llama-tiny",
        layers: 2,
        width: 256,
        feed_forward: 512,
        heads: 4,
        kv_heads: 2,
        vocab: 320,
        context: 512,
        rope_base: 10_000.0,
        rope_factor: None,
        ..LLAMA
    },
];

impl Shape {
    /// The shape of that name.
    pub fn find(name: &str) -> Option<&'static Shape> {
        SHAPES.iter().find(|shape| shape.name == name)
    }

    /// The same with fewer blocks: the first ones.
    ///
    /// # Errors
    /// `Usage` for none, or more than there are.
    pub fn cut(&self, layers: Option<u32>) -> Result<Shape> {
        Ok(Shape { layers: fewer(self.name, self.layers, layers)?, ..*self })
    }

    /// Whether a block has attention.
    pub fn attends(&self, i: u32) -> bool {
        self.attends.is_empty() || self.attends.contains(&i)
    }

    /// What a mix depends on.
    pub fn traits(&self) -> Traits {
        // Linear attention has values too, in one matrix with its queries and keys.
        let has_values = |i: &u32| self.attends(*i) || self.delta.is_some();
        Traits {
            layers: self.layers,
            values: (0..self.layers).filter(has_values).count() as u32,
            group: self.heads / self.kv_heads.max(1),
            experts: self.experts.map_or(0, |experts| experts.count),
            tied: self.tied,
            seventy: false,
        }
    }

    /// The number of weights.
    pub fn parameters(&self) -> u64 {
        self.tensors().iter().map(|t| t.dims.iter().product::<u64>()).sum()
    }
}

/// How many of a model's `all` layers are made.
///
/// # Errors
/// `Usage` for none, or more than there are.
pub(super) fn fewer(name: &str, all: u32, asked: Option<u32>) -> Result<u32> {
    let layers = asked.unwrap_or(all);
    if (1..=all).contains(&layers) {
        return Ok(layers);
    }
    Err(Error::usage(format!("{name} has no {layers} layers")).hint(format!("give 1 to {all}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_the_published_numbers_of_parameters() {
        // Of the files, where the tied head is not counted twice.
        let published = [
            ("llama-3.2-1b", 1_235_814_432),
            ("llama-3.1-8b", 8_030_261_312),
            ("qwen3-0.6b", 596_049_920),
            ("qwen3-4b", 4_022_468_096),
            ("gemma-3-1b", 999_885_952),
            ("gemma-3-270m", 268_098_176),
            ("qwen3-30b-a3b", 30_532_122_624),
            ("smollm3-3b", 3_075_098_624),
            ("lfm2-350m", 354_483_968),
            ("gpt-oss-20b", 20_914_757_184),
            // Its 96 divisors of frequencies are tensors of a file.
            ("phi-4-mini", 3_836_021_760 + 96),
        ];
        for (name, parameters) in published {
            assert_eq!(Shape::find(name).unwrap().parameters(), parameters, "{name}");
        }
    }

    #[test]
    fn a_shape_is_cut_to_its_first_layers() {
        let shape = Shape::find("lfm2-350m").unwrap();
        let cut = shape.cut(Some(3)).unwrap();
        assert_eq!((cut.layers, cut.traits().values), (3, 1));
        assert_eq!(shape.cut(None).unwrap(), *shape);
        for n in [0, 17] {
            let e = shape.cut(Some(n)).unwrap_err();
            assert_eq!(e.to_string(), format!("lfm2-350m has no {n} layers; give 1 to 16"));
        }
    }
}
