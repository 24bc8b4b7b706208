//! The one mask of a thing on a frame of a film, and its pointer: what is remembered of the thing beside its memory
//! (arXiv:2408.00714, section 4).

use super::make::Make;
use super::mask::{MaskNetwork, Sizes, layers};
use crate::error::Result;
use crate::ir::hir::Module;
use crate::models::tensors::Tensors;
use crate::ops::{Compare, Comparison, Select};
use crate::types::{DType, Dim, Shape, Type};
use alloc::vec::Vec;

/// The logits of a thing that is not there, the makers' own number.
const ABSENT: f64 = -1024.0;

impl MaskNetwork {
    /// The network of that name: the inputs of `mask` for one image and one prompt, and `several [1]` (i32). If that
    /// is 1, the mask is the best of several, else the one that answers a prompt which means one thing.
    pub(in crate::models) fn track(&self, tensors: &Tensors<'_>, name: &str) -> Result<Module> {
        let mut b = Make { m: Module::graph(name), tensors, out_proj: "o_proj", prefix: "" };
        let one = || Dim::from(1u64);
        let places = self.grid * self.grid;
        let sizes = Sizes { batch: one(), prompts: one(), items: one(), places };
        let [queries, keys] = self.decoded_rows(&mut b, &sizes, false)?;
        let all = self.all(&mut b, &sizes, queries, keys)?;
        let several = b.m.input("several", Type::tensor(DType::I32, Shape::of(&[1])));
        let object = self.object(&mut b, &sizes, queries)?;
        let [single, single_score] = self.single(&mut b, &sizes, all)?;
        // Also where another mask answers because this one is not stable.
        let own = b.slice(queries, 1, self.first() + 1, one(), "track.single_token");
        let [best, best_score, its] = self.best(&mut b, &sizes, all, Some(queries));
        let zero = b.number(DType::I32, 0.0, "track.zero")?;
        let is = b.m.op(Compare { f: Comparison::Gt }, &[several, zero], "track.is_several");
        let mut either = |x, y, name: &str| b.m.op(Select, &[is, x, y], name);
        let mask = either(best, single, "track.mask_or_best");
        let score = either(best_score, single_score, "track.score_or_best");
        let token = either(its, own, "track.token");
        let zero = b.number(DType::F32, 0.0, "track.edge")?;
        let there = b.m.op(Compare { f: Comparison::Gt }, &[object, zero], "track.there");
        let nothing = b.number(DType::F32, ABSENT, "track.nothing")?;
        let mask = b.m.op(Select, &[there, mask, nothing], "track.mask_if_there");
        let c = self.width;
        let pointer = layers(&mut b, token, "object_pointer_proj", [c; 3], 3)?;
        let none = b.tensor("no_object_pointer", &[1, c])?;
        let pointer = b.m.op(Select, &[there, pointer, none], "track.pointer_or_none");
        let edge = 4 * self.grid;
        for (name, x, dims) in [
            ("mask", mask, &[1, 1, edge, edge][..]),
            ("score", score, &[1, 1]),
            ("object_score_logits", object, &[1, 1]),
            ("pointer", pointer, &[1, c]),
        ] {
            let dims: Vec<Dim> = dims.iter().map(|&n| n.into()).collect();
            let x = b.reshape(x, &dims, &alloc::format!("track.{name}"));
            b.m.output(name, x);
        }
        Ok(b.m)
    }
}
