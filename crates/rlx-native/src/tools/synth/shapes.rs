//! Published dimensions of models, and what their files say and hold. Key and tensor names are those
//! that llama.cpp reads.

use crate::tools::mix::{Role, Traits};
use rlx_core::gguf::Value;

/// A family: its name in a file, and how its blocks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Two norms a block.
    Llama,
    /// Also norms of queries and keys.
    Qwen3,
    /// Also norms after attention and after the feed-forward part, and windows.
    Gemma3,
}

impl Family {
    /// `general.architecture`, and the prefix of its keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen3 => "qwen3",
            Self::Gemma3 => "gemma3",
        }
    }

    /// `tokenizer.ggml.pre`: how bytes are cut into words.
    pub fn pre(self) -> &'static str {
        match self {
            Self::Llama => "llama-bpe",
            Self::Qwen3 => "qwen2",
            Self::Gemma3 => "gpt-2",
        }
    }
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
    ..LLAMA
};

/// Every shape that files can be made in.
pub const SHAPES: [Shape; 8] = [
    Shape { name: "llama-3.2-1b", ..LLAMA },
    Shape {
        name: "llama-3.1-8b",
        layers: 32,
        width: 4096,
        feed_forward: 14_336,
        head: 128,
        rope_factor: Some(8.0),
        tied: false,
        ..LLAMA
    },
    Shape { name: "qwen3-0.6b", ..QWEN3 },
    Shape { name: "qwen3-4b", layers: 36, width: 2560, feed_forward: 9728, heads: 32, ..QWEN3 },
    Shape {
        name: "gemma-3-1b",
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
        tied: true,
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

/// A tensor of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The name in the file.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// Sizes, row-major.
    pub dims: Vec<u64>,
}

impl Shape {
    /// The shape of that name.
    pub fn find(name: &str) -> Option<&'static Shape> {
        SHAPES.iter().find(|shape| shape.name == name)
    }

    /// What a mix depends on.
    pub fn traits(&self) -> Traits {
        Traits {
            layers: self.layers,
            values: self.layers,
            group: self.heads / self.kv_heads.max(1),
            experts: 0,
            tied: self.tied,
            seventy: false,
        }
    }

    /// The tensors in the order of a converted file.
    pub fn tensors(&self) -> Vec<Tensor> {
        let mut out = Vec::new();
        let mut push = |name: String, role: Role, dims: &[u32]| {
            let dims = dims.iter().map(|&n| u64::from(n)).collect();
            out.push(Tensor { name, role, dims });
        };
        let (q, kv) = (self.heads * self.head, self.kv_heads * self.head);
        let (width, ff) = (self.width, self.feed_forward);
        push("token_embd.weight".into(), Role::Embedding, &[self.vocab, width]);
        if self.rope_factor.is_some() {
            push("rope_freqs.weight".into(), Role::RopeFactors, &[self.head / 2]);
        }
        for i in 0..self.layers {
            let name = |part: &str| format!("blk.{i}.{part}.weight");
            push(name("attn_norm"), Role::Norm, &[width]);
            push(name("attn_q"), Role::Matrix, &[q, width]);
            push(name("attn_k"), Role::Keys, &[kv, width]);
            push(name("attn_v"), Role::Values(i), &[kv, width]);
            push(name("attn_output"), Role::AttentionOutput, &[width, q]);
            if self.family != Family::Llama {
                push(name("attn_q_norm"), Role::Norm, &[self.head]);
                push(name("attn_k_norm"), Role::Norm, &[self.head]);
            }
            if self.family == Family::Gemma3 {
                push(name("post_attention_norm"), Role::Norm, &[width]);
                push(name("post_ffw_norm"), Role::Norm, &[width]);
            }
            push(name("ffn_norm"), Role::Norm, &[width]);
            push(name("ffn_gate"), Role::Matrix, &[ff, width]);
            push(name("ffn_up"), Role::Matrix, &[ff, width]);
            push(name("ffn_down"), Role::Down(i), &[width, ff]);
        }
        push("output_norm.weight".into(), Role::Norm, &[width]);
        if !self.tied {
            push("output.weight".into(), Role::Head, &[self.vocab, width]);
        }
        out
    }

    /// The number of weights.
    pub fn parameters(&self) -> u64 {
        self.tensors().iter().map(|t| t.dims.iter().product::<u64>()).sum()
    }

    /// The family's keys.
    pub fn metadata(&self) -> Vec<(String, Value)> {
        let family = self.family.name();
        let mut out = Vec::new();
        let mut push = |key: &str, value: Value| out.push((format!("{family}.{key}"), value));
        for (key, value) in [
            ("block_count", self.layers),
            ("context_length", self.context),
            ("embedding_length", self.width),
            ("feed_forward_length", self.feed_forward),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head),
            ("attention.value_length", self.head),
        ] {
            push(key, Value::U32(value));
        }
        push("attention.layer_norm_rms_epsilon", Value::F32(self.epsilon));
        push("rope.freq_base", Value::F32(self.rope_base));
        if self.family == Family::Llama {
            push("rope.dimension_count", Value::U32(self.head));
            push("vocab_size", Value::U32(self.vocab));
        }
        if let Some(window) = self.window {
            push("attention.sliding_window", Value::U32(window));
            push("rope.freq_base_swa", Value::F32(10_000.0));
        }
        out
    }

    /// What Llama 3 divides rope's frequencies by: 1 where a wave is short against the positions of
    /// the first training, the factor where it is long, and between by interpolation.
    pub fn rope_factors(&self) -> Vec<f32> {
        const POSITIONS: f64 = 8192.0;
        let (low, high) = (1.0, 4.0);
        let factor = f64::from(self.rope_factor.unwrap_or(1.0));
        let divisor = |i: u32| {
            let exponent = f64::from(2 * i) / f64::from(self.head);
            let wave = core::f64::consts::TAU * f64::from(self.rope_base).powf(exponent);
            let smooth = ((POSITIONS / wave - low) / (high - low)).clamp(0.0, 1.0);
            (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
        };
        (0..self.head / 2).map(divisor).collect()
    }
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
        ];
        for (name, parameters) in published {
            assert_eq!(Shape::find(name).unwrap().parameters(), parameters, "{name}");
        }
    }

    #[test]
    fn rope_factors_go_from_one_to_the_factor() {
        let shape = Shape::find("llama-3.2-1b").unwrap();
        let factors = shape.rope_factors();
        assert_eq!(factors.len(), 32);
        assert_eq!((factors[0], factors[31]), (1.0, 32.0));
        assert!(factors.is_sorted());
        assert!(factors.iter().any(|&f| f > 1.5 && f < 31.0));
    }
}
