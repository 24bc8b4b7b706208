//! The encoder of words: CLIP's (arXiv:2103.00020), of which every token's row is used.

use super::super::tensors::Tensors;
use super::{Sam3Config, TEXT_EMBED, TOKENS, mlp};
use crate::error::Result;
use crate::ir::hir::Module;
use crate::ops::{Gather, Mask};
use crate::types::{BATCH, DType, Dim, Shape, Type};
use alloc::format;
use alloc::vec;

impl Sam3Config {
    /// `input_ids [BATCH, TOKENS]` to `text_embeddings [BATCH, TOKENS, C]`.
    pub(super) fn text_embed(&self, tensors: &Tensors<'_>) -> Result<Module> {
        let (mut b, t) = (self.make(TEXT_EMBED, tensors), &self.text);
        b.out_proj = "out_proj";
        // A vector of the whole text is made by the first; the others are counted.
        let unread = ["text_projection.weight", "text_model.embeddings.position_ids"];
        let unread = unread.map(|part| format!("{}text_encoder.{part}", self.prefix));
        tensors.inert(|n| unread.iter().any(|name| n == name));
        let of = |part: &str| format!("text_encoder.text_model.{part}");
        let tokens = Dim::symbol(TOKENS);
        let dims = vec![Dim::symbol(BATCH), tokens.clone()];
        let ids = b.m.input("input_ids", Type::tensor(DType::U32, Shape(dims)));
        let name = format!("{}{}", self.prefix, of("embeddings.token_embedding.weight"));
        let table = tensors.weight(&name, &[t.vocab, t.dim])?;
        let table = b.m.weight(table);
        let x = b.m.op(Gather::default(), &[table, ids], &of("embeddings.tokens"));
        let all = b.tensor(&of("embeddings.position_embedding.weight"), &[t.context, t.dim])?;
        let at = b.slice(all, 0, 0, tokens, &of("embeddings.positions"));
        let mut x = b.add(x, at, &of("embeddings"));
        for i in 0..t.layers {
            let at = |part: &str| of(&format!("encoder.layers.{i}.{part}"));
            let y = b.norm(x, &at("layer_norm1"), t.dim, t.eps)?;
            let widths = [t.dim, t.dim, t.heads];
            let y = b.attention_to([y; 3], &at("self_attn"), widths, (Mask::Causal, None))?;
            x = b.add(x, y, &at("self_residual"));
            let y = b.norm(x, &at("layer_norm2"), t.dim, t.eps)?;
            let y = mlp(&mut b, y, &at("mlp"), [t.dim, t.ffn_dim], t.act)?;
            x = b.add(x, y, &at("mlp_residual"));
        }
        let x = b.norm(x, &of("final_layer_norm"), t.dim, t.eps)?;
        let x = b.linear(x, "text_projection", [self.width, t.dim], None)?;
        b.m.tap("sub.text_projection.out", x);
        b.m.output("text_embeddings", x);
        Ok(b.m)
    }
}
