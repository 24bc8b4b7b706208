//! `decoder_block`: a whole layer of LLaMA, as its blocks would lower one by one.

use super::attention::Attended;
use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Epilogue, Unary};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lower for hir::DecoderBlock {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, attn_norm) = (i.one()?, i.one()?);
        let qkv = [i.linear(false)?, i.linear(false)?, i.linear(false)?];
        let (o, ffn_norm) = (i.linear(false)?, i.one()?);
        let (gate_up, down) = ([i.linear(false)?, i.linear(false)?], i.linear(false)?);
        let spec = self.attention();
        let norms = (0..spec.norms()).map(|_| i.one()).collect::<Result<_>>()?;
        let factors = i.maybe(self.factors)?;
        let at = |part: &str| format!("{label}.{part}");

        let h = cx.rms_norm(x, attn_norm, self.eps, &at("attn_norm"))?;
        let qkv = match cx.direct && cx.alike(&qkv) {
            true => cx.segments(h, &qkv, Epilogue::None, &[], &at("attn_q"))?,
            false => {
                let q = cx.linear(h, qkv[0], &at("attn_q"))?;
                let k = cx.linear(h, qkv[1], &at("attn_k"))?;
                vec![q, k, cx.linear(h, qkv[2], &at("attn_v"))?]
            }
        };
        let (q, kv) = (qkv[0], Vec::from(&qkv[1..])); // a result for each of three segments
        let a =
            cx.attention(Attended { q, kv, norms, factors, sinks: None }, &spec, &at("attn"))?;
        let x = cx.linear_residual(a, o, x, [&at("attn_output"), &at("attn_residual")])?;
        let h = cx.rms_norm(x, ffn_norm, self.eps, &at("ffn_norm"))?;
        let h = cx.glu(h, gate_up, Unary::Silu, &at("ffn"))?;
        Ok(vec![cx.linear_residual(h, down, x, [&at("ffn_down"), &at("ffn_residual")])?])
    }
}
