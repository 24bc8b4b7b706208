//! The memory of things in a film (arXiv:2408.00714, section 4): what an image's features become where a thing was
//! seen before, and what is remembered of a thing.

use super::super::sam::{LAST_EPS, Make};
use super::super::tensors::Tensors;
use super::{CONDITION, REMEMBER, Sam2Config, Sam2Video};
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::math;
use crate::ops::{
    AxialRope2d, Binary, Cast, Compare, Comparison, Constant, Conv, Gather, Interpolate,
    Interpolation, Iota, Mask, Sdpa, Select, Unary, Window,
};
use crate::types::{DType, Dim, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Added to the variance in norms over the channels of a grid, the makers' own number.
const EPS: f32 = 1e-6;

/// The base of the wavelengths of positions that are sines.
const BASE: f64 = 10_000.0;

/// How much of an image's positions is added where it is compared with memories.
const SHARE: f64 = 0.1;

fn floats(b: &mut Make<'_, '_>, name: &str, dims: &[u64]) -> Tensor {
    b.m.input(name, Type::tensor(DType::F32, Shape::of(dims)))
}

/// `10,000 ^ (2 floor(i / 2) / n)` for i of 0 to n - 1.
fn wavelengths(n: u64) -> Vec<f32> {
    let of = |i: u64| math::pow(BASE, (2 * (i / 2)) as f64 / n as f64) as f32;
    (0..n).map(of).collect()
}

/// Positions `[1, G G, width]` of a grid: a sine and a cosine in turn of the row, then of the column, as parts of a
/// full turn.
fn grid_positions(b: &mut Make<'_, '_>, grid: u64, width: u64, name: &str) -> Result<Tensor> {
    let half = width / 2;
    let lengths = wavelengths(half);
    // The library divides by the last place and a millionth.
    let turn = |i: u64| (i + 1) as f32 / (grid as f32 + 1e-6) * (2.0 * core::f32::consts::PI);
    let mut table = Vec::new();
    for at in 0..grid {
        for (i, length) in lengths.iter().enumerate() {
            let angle = f64::from(turn(at) / length);
            let x = if i % 2 == 0 { math::sin(angle) } else { math::cos(angle) };
            table.push(x as f32);
        }
    }
    let table = b.m.op(Constant::f32s(&[grid, half], &table)?, &[], &format!("{name}.axis"));
    let mut axis = |dims: [u64; 3], part: &str| {
        let x = b.reshape(table, &dims.map(Dim::from), &format!("{name}.{part}"));
        b.expand(x, &[grid, grid, half].map(Dim::from), &format!("{name}.{part}_all"))
    };
    let (rows, columns) = (axis([grid, 1, half], "rows"), axis([1, grid, half], "columns"));
    let x = b.concat(&[rows, columns], 2, &format!("{name}.both"));
    Ok(b.reshape(x, &[1, grid * grid, width].map(Dim::from), name))
}

/// Whether each number is above 0.
fn positive(b: &mut Make<'_, '_>, x: Tensor, dtype: DType, name: &str) -> Result<Tensor> {
    let zero = b.number(dtype, 0.0, &format!("{name}.zero"))?;
    Ok(b.m.op(Compare { f: Comparison::Gt }, &[x, zero], name))
}

impl Sam2Config {
    /// An image's features and a thing's memories to features that know of the thing.
    pub(super) fn condition(&self, tensors: &Tensors<'_>, video: &Sam2Video) -> Result<Module> {
        let mut b = Make { m: Module::graph(CONDITION), tensors, out_proj: "o_proj", prefix: "" };
        let (c, g, m) = (self.masks.width, self.masks.grid, video.width);
        let image = floats(&mut b, "image_features", &[1, c, g, g]);
        let (keys, values, seen) = self.remembered(&mut b, video)?;
        let x = b.reshape(image, &[1, c, g * g].map(Dim::from), "image_places");
        let x = b.transpose(x, &[0, 2, 1], "image_rows");
        let at = grid_positions(&mut b, g, c, "image_positions")?;
        b.m.tap("image_positions", at);
        let at = b.scaled(at, SHARE, "image_positions.share")?;
        let mut x = b.add(x, at, "memory_attention.input");
        let of = &video.attention;
        let rope = AxialRope2d {
            end_x: g,
            end_y: g,
            head_dim: of.inner / of.heads,
            heads: of.heads,
            theta: of.theta,
            repeat: 1,
            scale: 1.0,
        };
        let attention = |b: &mut Make<'_, '_>, x: [Tensor; 3], name: &str, past: bool| {
            let from = if past { m } else { c };
            let mut project =
                |x, part, from| b.linear(x, &format!("{name}.{part}"), [of.inner, from], None);
            let (q, k) = (project(x[0], "q_proj", c)?, project(x[1], "k_proj", from)?);
            let v = project(x[2], "v_proj", from)?;
            let q = b.m.op(rope.clone(), &[q], &format!("{name}.q_turned"));
            // Pointers stand behind the memories and have no place in the grid.
            let repeat = if past { video.memories } else { 1 };
            let turned = AxialRope2d { repeat, ..rope.clone() };
            let k = b.m.op(turned, &[k], &format!("{name}.k_turned"));
            let mut op = Sdpa::new(of.heads as usize, (of.inner / of.heads) as usize);
            let mut operands = vec![q, k, v];
            if past {
                op.mask = Mask::Custom;
                operands.push(seen);
            }
            let y = b.m.op(op, &operands, name);
            b.linear(y, &format!("{name}.o_proj"), [c, of.inner], None)
        };
        for i in 0..of.layers {
            let name = format!("memory_attention.layers.{i}");
            let part = |part: &str| format!("{name}.{part}");
            let y = b.norm(x, &part("layer_norm1"), c, LAST_EPS)?;
            let y = attention(&mut b, [y; 3], &part("self_attn"), false)?;
            x = b.add(x, y, &part("self_residual"));
            let y = b.norm(x, &part("layer_norm2"), c, LAST_EPS)?;
            let y = attention(&mut b, [y, keys, values], &part("cross_attn_image"), true)?;
            x = b.add(x, y, &part("cross_residual"));
            let y = b.norm(x, &part("layer_norm3"), c, LAST_EPS)?;
            let y = b.linear(y, &part("linear1"), [of.ffn_dim, c], Some(of.act))?;
            let y = b.linear(y, &part("linear2"), [c, of.ffn_dim], None)?;
            x = b.add(x, y, &part("mlp_residual"));
        }
        let x = b.norm(x, "memory_attention.layer_norm", c, LAST_EPS)?;
        b.m.tap("memory_attention", x);
        let x = b.transpose(x, &[0, 2, 1], "memory_attention.channels");
        let x = b.reshape(x, &[1, c, g, g].map(Dim::from), "memory_attention.grid");
        b.m.output("image_embeddings", x);
        Ok(b.m)
    }

    /// Keys and values `[1, K G G + tokens, M]` of what is remembered, and which of them there are. A pointer is as
    /// many tokens as it is wider than a memory.
    fn remembered(
        &self,
        b: &mut Make<'_, '_>,
        video: &Sam2Video,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let (c, m, places) = (self.masks.width, video.width, self.masks.grid * self.masks.grid);
        let (k, p, parts) = (video.memories, video.pointers, self.masks.width / video.width);
        let memories = floats(b, "memories", &[k, places, m]);
        let rows = b.m.input("memory_times", Type::tensor(DType::U32, Shape::of(&[k])));
        let memory_seen = floats(b, "memories_seen", &[k]);
        let pointers = floats(b, "pointers", &[p, c]);
        let pointer_seen = floats(b, "pointers_seen", &[p]);
        let (spatial, tokens) = ([1, k * places, m].map(Dim::from), [1, p * parts, m]);
        let tokens = tokens.map(Dim::from);
        let x = b.reshape(memories, &spatial, "memory_rows");
        let y = b.reshape(pointers, &tokens, "pointer_rows");
        let values = b.concat(&[x, y], 1, "remembered");
        // Where and when memories are of.
        let times = b.tensor("memory_temporal_positional_encoding", &[k, 1, 1, m])?;
        let times = b.reshape(times, &[k, m].map(Dim::from), "times");
        let times = b.m.op(Gather { axis: 0 }, &[times, rows], "memory_times_of");
        let times = b.reshape(times, &[k, 1, m].map(Dim::from), "memory_times_each");
        let at = grid_positions(b, self.masks.grid, m, "memory_places")?;
        let at = b.add(at, times, "memory_positions");
        let at = b.reshape(at, &spatial, "memory_positions_rows");
        b.m.tap("memory_positions", at);
        let ages = if video.pointer_times {
            self.pointer_times(b, video)?
        } else {
            let zero = b.number(DType::F32, 0.0, "pointer_positions.none")?;
            let zero = b.reshape(zero, &[1u64; 3].map(Dim::from), "pointer_positions.one");
            b.expand(zero, &tokens, "pointer_positions")
        };
        let at = b.concat(&[at, ages], 1, "remembered_positions");
        b.m.tap("remembered_positions", at);
        let keys = b.add(values, at, "remembered_keys");
        let mut each = |x, [n, by]: [u64; 2], name: &str| {
            let x = b.reshape(x, &[1, n, 1].map(Dim::from), &format!("{name}.one"));
            let x = b.expand(x, &[1, n, by].map(Dim::from), &format!("{name}.each"));
            b.reshape(x, &[1, n * by].map(Dim::from), name)
        };
        let seen = [
            each(memory_seen, [k, places], "memories_seen_rows"),
            each(pointer_seen, [p, parts], "pointers_seen_rows"),
        ];
        Ok((keys, values, b.concat(&seen, 1, "seen")))
    }

    /// Positions in time of the tokens of pointers, `[1, tokens, M]`: sines, then cosines, through a linear layer.
    fn pointer_times(&self, b: &mut Make<'_, '_>, video: &Sam2Video) -> Result<Tensor> {
        let (c, m, p) = (self.masks.width, video.width, video.pointers);
        let parts = c / m;
        let ages = floats(b, "pointer_times", &[p]);
        let ages = b.reshape(ages, &[p, 1].map(Dim::from), "pointer_times.column");
        let lengths = Constant::f32s(&[1, c / 2], &wavelengths(c / 2))?;
        let lengths = b.m.op(lengths, &[], "pointer_times.wavelengths");
        let angles = b.zip(Binary::Div, ages, lengths, "pointer_times.angles");
        let sin = b.map(Unary::Sin, angles, "pointer_times.sin");
        let cos = b.map(Unary::Cos, angles, "pointer_times.cos");
        let x = b.concat(&[sin, cos], 1, "pointer_times.both");
        let x = b.linear(x, "temporal_positional_encoding_projection_layer", [m, c], None)?;
        let x = b.reshape(x, &[p, 1, m].map(Dim::from), "pointer_positions.one");
        let x = b.expand(x, &[p, parts, m].map(Dim::from), "pointer_positions.each");
        Ok(b.reshape(x, &[1, p * parts, m].map(Dim::from), "pointer_positions"))
    }

    /// A thing's mask on an image to its memories and pointers with one more of each.
    pub(super) fn remember(&self, tensors: &Tensors<'_>, video: &Sam2Video) -> Result<Module> {
        let mut b = Make { m: Module::graph(REMEMBER), tensors, out_proj: "o_proj", prefix: "" };
        let (c, g, m) = (self.masks.width, self.masks.grid, video.width);
        let (k, p) = (video.memories, video.pointers);
        let image = floats(&mut b, "image_features", &[1, c, g, g]);
        let mask = floats(&mut b, "mask", &[1, 1, 4 * g, 4 * g]);
        let object = floats(&mut b, "object_score_logits", &[1, 1]);
        let pointer = floats(&mut b, "pointer", &[1, c]);
        let one = || Type::tensor(DType::I32, Shape::of(&[1]));
        let shown = b.m.input("shown", one());
        let memories = floats(&mut b, "memories", &[k, g * g, m]);
        let memory_slot = b.m.input("memory_slot", one());
        let pointers = floats(&mut b, "pointers", &[p, c]);
        let pointer_slot = b.m.input("pointer_slot", one());
        let mask = self.mask_of_memory(&mut b, video, mask, shown)?;
        let image =
            b.conv(image, "memory_encoder.feature_projection", [c, c, 1], Window::new(2), true)?;
        let mut x = b.add(image, mask, "memory_encoder.sum");
        for i in 0..video.encoder.layers {
            x = self.fused(&mut b, video, x, &format!("memory_encoder.memory_fuser.layers.{i}"))?;
        }
        b.m.tap("sub.memory_encoder.memory_fuser.out", x);
        let name = "memory_encoder.projection";
        let mut x = b.conv(x, name, [m, c, 1], Window::new(2), true)?;
        if video.occlusion {
            let gone = b.tensor("occlusion_spatial_embedding_parameter", &[1, m])?;
            let gone = b.reshape(gone, &[1, m, 1, 1].map(Dim::from), "occlusion");
            let is = positive(&mut b, object, DType::F32, "in_sight")?;
            let zero = b.number(DType::F32, 0.0, "occlusion_none")?;
            let gone = b.m.op(Select, &[is, zero, gone], "occlusion_or_none");
            x = b.add(x, gone, "memory_with_occlusion");
        }
        let x = b.reshape(x, &[1, m, g * g].map(Dim::from), "memory_places");
        let x = b.transpose(x, &[0, 2, 1], "memory");
        b.m.tap("memory", x);
        for (name, all, new, slot, dims) in [
            ("memories", memories, x, memory_slot, vec![k, 1, 1]),
            ("pointers", pointers, pointer, pointer_slot, vec![p, 1]),
        ] {
            let count = Iota { dtype: DType::I32, dims: Shape::of(&dims), axis: 0 };
            let count = b.m.op(count, &[], &format!("{name}_slots"));
            let is = Compare { f: Comparison::Eq };
            let is = b.m.op(is, &[count, slot], &format!("{name}_is"));
            let all = b.m.op(Select, &[is, new, all], &format!("new_{name}"));
            b.m.output(format!("new_{name}"), all);
        }
        Ok(b.m)
    }

    /// A mask as the memory has it: as fine as the image, of numbers from 0 to 1 or, of a frame where the thing was
    /// shown, 0 and 1; then as coarse as the grid, `[1, C, G, G]`.
    fn mask_of_memory(
        &self,
        b: &mut Make<'_, '_>,
        video: &Sam2Video,
        mask: Tensor,
        shown: Tensor,
    ) -> Result<Tensor> {
        let encoder = &video.encoder;
        let fine = Interpolate {
            size: vec![self.masks.image; 2],
            mode: Interpolation::Linear,
            align_corners: false,
            antialias: false,
        };
        let mask = b.m.op(fine, &[mask], "mask_fine");
        let sure = positive(b, mask, DType::F32, "mask_covered")?;
        let sure = b.m.op(Cast { to: DType::F32 }, &[sure], "mask_sure");
        let likely = b.map(Unary::Sigmoid, mask, "mask_likely");
        let is = positive(b, shown, DType::I32, "is_shown")?;
        let x = b.m.op(Select, &[is, sure, likely], "mask_share");
        let x = b.scaled(x, encoder.mask[0].into(), "mask_scaled")?;
        let bias = b.number(DType::F32, encoder.mask[1].into(), "mask_bias")?;
        let mut x = b.add(x, bias, "mask_shifted");
        let [kernel, stride, padding] = encoder.mask_window;
        let name = "memory_encoder.mask_downsampler";
        let mut channels = 1;
        for i in 0..encoder.mask_layers {
            let [input, out] = encoder.mask_channels(i);
            let of = |part: &str| format!("{name}.layers.{i}.{part}");
            let window = Window::new(2).stride(&[stride; 2]).pad(&[padding; 2], &[padding; 2]);
            x = b.conv(x, &of("conv"), [out, input, kernel], window, true)?;
            x = b.norm_2d(x, &of("layer_norm"), out, EPS)?;
            x = b.map(encoder.mask_act, x, &of("act"));
            channels = out;
        }
        let shape = [self.masks.width, channels, 1];
        let x = b.conv(x, &format!("{name}.final_conv"), shape, Window::new(2), true)?;
        b.m.tap(format!("sub.{name}.out"), x);
        Ok(x)
    }

    /// A block of ConvNeXt over `[1, C, G, G]`.
    fn fused(
        &self,
        b: &mut Make<'_, '_>,
        video: &Sam2Video,
        x: Tensor,
        name: &str,
    ) -> Result<Tensor> {
        let (c, encoder) = (self.masks.width, &video.encoder);
        let of = |part: &str| format!("{name}.{part}");
        let (kernel, half) = (encoder.kernel, encoder.kernel / 2);
        let weight = b.tensor(&of("depthwise_conv.weight"), &[c, 1, kernel, kernel])?;
        let bias = b.tensor(&of("depthwise_conv.bias"), &[c])?;
        let window = Window::new(2).pad(&[half; 2], &[half; 2]);
        let conv = Conv { window, groups: c, bias: true };
        let y = b.m.op(conv, &[x, weight, bias], &of("depthwise_conv"));
        let y = b.norm_2d(y, &of("layer_norm"), c, EPS)?;
        let y = b.transpose(y, &[0, 2, 3, 1], &of("last"));
        let y = b.linear(y, &of("pointwise_conv1"), [encoder.ffn_dim, c], Some(encoder.act))?;
        let y = b.linear(y, &of("pointwise_conv2"), [c, encoder.ffn_dim], None)?;
        let scale = b.tensor(&of("scale"), &[c])?;
        let y = b.zip(Binary::Mul, y, scale, &of("scaled"));
        let y = b.transpose(y, &[0, 3, 1, 2], &of("first"));
        Ok(b.add(x, y, &of("residual")))
    }
}
