//! What files of a shape say and hold. Key and tensor names are those that llama.cpp reads.

use super::shapes::{Family, Shape};
use crate::tools::mix::Role;
use rlx_core::gguf::{Array, Value};

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

/// Tensors in the order of a file.
#[derive(Default)]
pub(super) struct Tensors(pub(super) Vec<Tensor>);

impl Tensors {
    pub(super) fn push(&mut self, name: impl Into<String>, role: Role, dims: &[u32]) {
        let dims = dims.iter().map(|&n| u64::from(n)).collect();
        self.0.push(Tensor { name: name.into(), role, dims });
    }
}

impl Shape {
    /// The tensors in the order of a converted file.
    pub fn tensors(&self) -> Vec<Tensor> {
        let mut out = Tensors::default();
        let width = self.width;
        out.push("token_embd.weight", Role::Embedding, &[self.vocab, width]);
        if self.rope_factor.is_some() {
            out.push("rope_freqs.weight", Role::RopeFactors, &[self.rope_dims / 2]);
        }
        if self.long_rope.is_some() {
            for name in ["rope_factors_long.weight", "rope_factors_short.weight"] {
                out.push(name, Role::RopeFactors, &[self.rope_dims / 2]);
            }
        }
        let mut values = 0;
        for i in 0..self.layers {
            let name = |part: &str| format!("blk.{i}.{part}.weight");
            out.push(name("attn_norm"), Role::Norm, &[width]);
            if self.attends(i) {
                self.attention(i, values, &mut out);
                values += 1;
            } else if let Some(taps) = self.conv {
                out.push(name("shortconv.conv"), Role::Norm, &[width, taps]);
                out.push(name("shortconv.in_proj"), Role::Matrix, &[3 * width, width]);
                out.push(name("shortconv.out_proj"), Role::Matrix, &[width, width]);
            } else {
                self.linear_attention(i, values, &mut out);
                values += 1;
            }
            self.feed_forward(i, &mut out);
        }
        let norm = match self.family {
            // In spite of its name the last one.
            Family::Lfm2 => "token_embd_norm.weight",
            _ => "output_norm.weight",
        };
        out.push(norm, Role::Norm, &[width]);
        if !self.tied {
            out.push("output.weight", Role::Head, &[self.vocab, width]);
        }
        out.0
    }

    /// Attention of block `i`, the `values`-th that has values.
    fn attention(&self, i: u32, values: u32, out: &mut Tensors) {
        let name = |part: &str| format!("blk.{i}.{part}.weight");
        let (q, kv) = (self.heads * self.head, self.kv_heads * self.head);
        let width = self.width;
        if self.family == Family::Phi3 {
            out.push(name("attn_qkv"), Role::Values(values), &[q + 2 * kv, width]);
        } else {
            // The gate of a head stands behind its queries.
            let gated = if self.family == Family::Qwen35 { 2 } else { 1 };
            out.push(name("attn_q"), Role::Matrix, &[gated * q, width]);
            out.push(name("attn_k"), Role::Keys, &[kv, width]);
            out.push(name("attn_v"), Role::Values(values), &[kv, width]);
        }
        out.push(name("attn_output"), Role::AttentionOutput, &[width, q]);
        if self.family == Family::GptOss {
            for (part, n) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv), ("attn_output", width)]
            {
                out.push(format!("blk.{i}.{part}.bias"), Role::Bias, &[n]);
            }
            out.push(name("attn_sinks"), Role::Bias, &[self.heads]);
            return;
        }
        if !matches!(self.family, Family::Llama | Family::SmolLm3 | Family::Phi3) {
            out.push(name("attn_q_norm"), Role::Norm, &[self.head]);
            out.push(name("attn_k_norm"), Role::Norm, &[self.head]);
        }
    }

    fn linear_attention(&self, i: u32, values: u32, out: &mut Tensors) {
        let Some(delta) = self.delta else { return };
        let name = |part: &str| format!("blk.{i}.{part}.weight");
        let (k, v) = (delta.key_heads * delta.head, delta.heads * delta.head);
        let width = self.width;
        out.push(name("attn_qkv"), Role::Values(values), &[2 * k + v, width]);
        out.push(name("attn_gate"), Role::Matrix, &[v, width]);
        out.push(name("ssm_alpha"), Role::Matrix, &[delta.heads, width]);
        out.push(name("ssm_beta"), Role::Matrix, &[delta.heads, width]);
        out.push(name("ssm_conv1d"), Role::Norm, &[2 * k + v, delta.taps]);
        out.push(format!("blk.{i}.ssm_a"), Role::Decay, &[delta.heads]);
        out.push(format!("blk.{i}.ssm_dt.bias"), Role::Norm, &[delta.heads]);
        out.push(name("ssm_norm"), Role::Norm, &[delta.head]);
        out.push(name("ssm_out"), Role::Matrix, &[width, v]);
    }

    fn feed_forward(&self, i: u32, out: &mut Tensors) {
        let name = |part: &str| format!("blk.{i}.{part}.weight");
        let (width, ff) = (self.width, self.feed_forward);
        if matches!(self.family, Family::Gemma3 | Family::Qwen35 | Family::GptOss) {
            out.push(name("post_attention_norm"), Role::Norm, &[width]);
        }
        if self.family == Family::Gemma3 {
            out.push(name("post_ffw_norm"), Role::Norm, &[width]);
        }
        if !matches!(self.family, Family::Qwen35 | Family::GptOss) {
            out.push(name("ffn_norm"), Role::Norm, &[width]);
        }
        if let Some(e) = self.experts {
            out.push(name("ffn_gate_inp"), Role::Router, &[e.count, width]);
            out.push(name("ffn_gate_exps"), Role::Matrix, &[e.count, e.width, width]);
            out.push(name("ffn_up_exps"), Role::Matrix, &[e.count, e.width, width]);
            out.push(name("ffn_down_exps"), Role::Down(i), &[e.count, width, e.width]);
            if self.family == Family::GptOss {
                out.push(format!("blk.{i}.ffn_gate_inp.bias"), Role::Bias, &[e.count]);
                for (part, n) in [("gate", e.width), ("up", e.width), ("down", width)] {
                    out.push(format!("blk.{i}.ffn_{part}_exps.bias"), Role::Bias, &[e.count, n]);
                }
            }
            return;
        }
        if self.family == Family::Phi3 {
            out.push(name("ffn_up"), Role::Matrix, &[2 * ff, width]);
        } else {
            out.push(name("ffn_gate"), Role::Matrix, &[ff, width]);
            out.push(name("ffn_up"), Role::Matrix, &[ff, width]);
        }
        out.push(name("ffn_down"), Role::Down(i), &[width, ff]);
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
            ("attention.key_length", self.head),
            ("attention.value_length", self.head),
        ] {
            push(key, Value::U32(value));
        }
        // A block of convolutions has 0 heads of keys, which is how a reader knows it.
        let kv_heads = |i| if self.attends(i) { self.kv_heads as i32 } else { 0 };
        let kv_heads = match self.conv {
            Some(_) => Value::Array(Array::I32((0..self.layers).map(kv_heads).collect())),
            None => Value::U32(self.kv_heads),
        };
        push("attention.head_count_kv", kv_heads);
        push("attention.layer_norm_rms_epsilon", Value::F32(self.epsilon));
        push("rope.freq_base", Value::F32(self.rope_base));
        if self.family == Family::Llama || self.rope_dims != self.head {
            push("rope.dimension_count", Value::U32(self.rope_dims));
        }
        if self.family == Family::Llama {
            push("vocab_size", Value::U32(self.vocab));
        }
        if let Some(window) = self.window {
            push("attention.sliding_window", Value::U32(window));
        }
        if self.family == Family::Gemma3 {
            push("rope.freq_base_swa", Value::F32(10_000.0));
        }
        if let Some((positions, attention)) = self.long_rope {
            push("rope.scaling.original_context_length", Value::U32(positions));
            push("rope.scaling.attn_factor", Value::F32(attention));
        }
        if let Some((positions, factor)) = self.yarn {
            push("rope.scaling.type", Value::String("yarn".into()));
            push("rope.scaling.factor", Value::F32(factor));
            push("rope.scaling.original_context_length", Value::U32(positions));
        }
        if let Some(e) = self.experts {
            push("expert_count", Value::U32(e.count));
            push("expert_used_count", Value::U32(e.used));
            push("expert_feed_forward_length", Value::U32(e.width));
        }
        if let Some(delta) = self.delta {
            for (key, value) in [
                ("ssm.conv_kernel", delta.taps),
                ("ssm.group_count", delta.key_heads),
                ("ssm.inner_size", delta.heads * delta.head),
                ("ssm.state_size", delta.head),
                ("ssm.time_step_rank", delta.heads),
                ("full_attention_interval", 4),
            ] {
                push(key, Value::U32(value));
            }
            // Of images: how many of the turning pairs have which of three positions.
            let sections = vec![11, 11, 10, 0];
            push("rope.dimension_sections", Value::Array(Array::I32(sections)));
        }
        if let Some(taps) = self.conv {
            push("shortconv.l_cache", Value::U32(taps));
        }
        out
    }

    /// What Llama 3 divides rope's frequencies by: 1 where a wave is short against the positions of
    /// the first training, the factor where it is long, and between by interpolation.
    pub fn rope_factors(&self) -> Vec<f32> {
        const POSITIONS: f64 = 8192.0;
        let (low, high) = (1.0, 4.0);
        // Where there is no factor, as for LongRoPE, whose divisors are measured, all are 1.
        let factor = f64::from(self.rope_factor.unwrap_or(1.0));
        let divisor = |i: u32| {
            let exponent = f64::from(2 * i) / f64::from(self.rope_dims);
            let wave = core::f64::consts::TAU * f64::from(self.rope_base).powf(exponent);
            let smooth = ((POSITIONS / wave - low) / (high - low)).clamp(0.0, 1.0);
            (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
        };
        (0..self.rope_dims / 2).map(divisor).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
