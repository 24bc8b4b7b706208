//! Attention without a cache: `encoder_attention`, `cross_attention`.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Epilogue, Mask, Sdpa};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The operands of a mask.
fn masks(i: &mut Inputs, mask: Mask) -> Result<Vec<ValueId>> {
    (0..mask.operands()).map(|_| i.one()).collect()
}

impl hir::EncoderAttention {
    /// The operator between the projections.
    pub(super) fn op(&self) -> Sdpa {
        Sdpa {
            kv_heads: self.kv_heads,
            mask: self.mask,
            scale: self.scale,
            softcap: self.softcap,
            ..Sdpa::new(self.heads, self.head_dim)
        }
    }
}

impl Lower for hir::EncoderAttention {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let b = self.bias;
        let (x, qkv) = (i.one()?, [i.linear(b)?, i.linear(b)?, i.linear(b)?]);
        let (o, masks) = (i.linear(b)?, masks(&mut i, self.mask)?);
        let qkv = cx.qkv(x, &qkv, label)?;
        Ok(vec![cx.sdpa(qkv, (self.op(), masks), o, label)?])
    }
}

impl Lower for hir::CrossAttention {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let b = self.bias;
        let (x, memory) = (i.one()?, i.one()?);
        let (q, kv, o) = (i.linear(b)?, [i.linear(b)?, i.linear(b)?], i.linear(b)?);
        let masks = masks(&mut i, self.mask)?;
        let op = Sdpa {
            kv_heads: self.kv_heads,
            mask: self.mask,
            ..Sdpa::new(self.heads, self.head_dim)
        };
        let q = cx.linear(x, q, &format!("{label}_q"))?;
        let kv = match cx.direct && cx.alike(&kv) {
            true => cx.segments(memory, &kv, Epilogue::None, &[], &format!("{label}_kv"))?,
            false => {
                let k = cx.linear(memory, kv[0], &format!("{label}_k"))?;
                vec![k, cx.linear(memory, kv[1], &format!("{label}_v"))?]
            }
        };
        Ok(vec![cx.sdpa([q, kv[0], kv[1]], (op, masks), o, label)?])
    }
}
