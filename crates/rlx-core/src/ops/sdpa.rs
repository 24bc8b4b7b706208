//! Attention without a cache, with grouped heads [PyTorch scaled_dot_product_attention, ONNX
//! Attention-23].

use super::def::field::{prefixed, unknown};
use super::{
    Attrs, BatchMatMul, Binary, Class, Comparison, Emit, Field, Operator, Reduction, Reverse,
    Softmax, arity, rules, writing,
};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Kind, Scalar, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Which keys a query sees. With more keys than queries, queries are the last positions: query
/// `i` stands at `p = S_k - S_q + i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mask {
    /// Every key.
    #[default]
    None,
    /// Keys `0 ..= p`.
    Causal,
    /// Keys `p - w ..= p`, of which there are at most `w + 1`.
    Window(u64),
    /// Keys where the operand `[B, S_k]`, of floats or booleans, has 0.5 or more.
    Custom,
    /// Every key; the operand `[B, H, S_q, S_k]` is added to the scores. An axis of it may be 1
    /// and is repeated then.
    Bias,
    /// Every key; keys are the places of a grid, row by row. Of the operands `[B, H, S_q, R]` and `[B, H, S_q, C]`,
    /// with `R C = S_k`, what the first has for a key's row and the second for its column is added to the scores.
    Grid,
}

impl Mask {
    /// How many operands say what the mask is.
    pub fn operands(self) -> usize {
        match self {
            Mask::None | Mask::Causal | Mask::Window(_) => 0,
            Mask::Custom | Mask::Bias => 1,
            Mask::Grid => 2,
        }
    }
}

/// A window is an attribute of its own.
impl Field for Mask {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        match self {
            Mask::None => attrs,
            Mask::Causal => attrs.name(name, "causal"),
            Mask::Window(w) => attrs.int("window", *w),
            Mask::Custom => attrs.name(name, "custom"),
            Mask::Bias => attrs.name(name, "bias"),
            Mask::Grid => attrs.name(name, "grid"),
        }
    }

    fn take(of: &str, name: &str, attrs: &Attrs) -> Result<Self> {
        Ok(match (attrs.opt_name(name)?, attrs.opt_int("window")?) {
            (None, None) => Mask::None,
            (None, Some(w)) => Mask::Window(w),
            (Some("causal"), None) => Mask::Causal,
            (Some("custom"), None) => Mask::Custom,
            (Some("bias"), None) => Mask::Bias,
            (Some("grid"), None) => Mask::Grid,
            (Some(_), Some(_)) => return Err(prefixed(of, "a window is a mask itself")),
            (Some(other), None) => {
                return Err(unknown(of, "mask", other)
                    .hint("known: causal, custom, bias, grid; window = n; none is left out"));
            }
        })
    }

    fn names(name: &'static str, out: &mut Vec<&'static str>) {
        out.extend([name, "window"]);
    }
}

/// Where the heads of an attention's operands stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HeadLayout {
    /// `[B, S, H, E]`, or `[B, S, H * E]`.
    #[default]
    Bshd,
    /// `[B, H, S, E]`.
    Bhsd,
}

impl Field for HeadLayout {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        match self {
            HeadLayout::Bshd => attrs,
            HeadLayout::Bhsd => attrs.name(name, "bhsd"),
        }
    }

    fn take(of: &str, name: &str, attrs: &Attrs) -> Result<Self> {
        match attrs.opt_name(name)? {
            None | Some("bshd") => Ok(HeadLayout::Bshd),
            Some("bhsd") => Ok(HeadLayout::Bhsd),
            Some(other) => Err(unknown(of, "layout", other).hint("known: bshd, bhsd")),
        }
    }
}

/// `sdpa q, k, v, (mask)* -> y`: `softmax(cap(scale q k^T) + mask) v` per head, where
/// `cap(s) = softcap tanh(s / softcap)` if there is one.
///
/// In the layout `bshd` q is `[B, S_q, H, E]`, k `[B, S_k, K, E]`, v `[B, S_k, K, V]` and y
/// `[B, S_q, H, V]`, or all of them have heads and widths as one last axis; in `bhsd` the heads
/// are axis 1. Query head `h` reads key and value head `h * K / H`. A query that sees no key gives
/// zeros. q, k and v are of one float type, the result's.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sdpa {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; they divide the query's.
    pub kv_heads: usize,
    /// Width of a query's and a key's head.
    pub head_dim: usize,
    /// Width of a value's head.
    pub v_head_dim: usize,
    /// Which keys a query sees.
    pub mask: Mask,
    /// Multiplies the scores; `1 / sqrt(head_dim)` if there is none.
    pub scale: Option<f32>,
    /// Bounds the scores.
    pub softcap: Option<f32>,
    /// Where the heads stand.
    pub layout: HeadLayout,
}

impl Sdpa {
    /// As many key heads as query heads, one width, no mask.
    pub fn new(heads: usize, head_dim: usize) -> Sdpa {
        Sdpa { heads, kv_heads: heads, head_dim, v_head_dim: head_dim, ..Sdpa::default() }
    }

    /// What multiplies the scores.
    pub fn score_scale(&self) -> f64 {
        match self.scale {
            Some(scale) => scale.into(),
            None => 1.0 / crate::math::sqrt(self.head_dim as f64),
        }
    }

    /// `[batch, sequence]` of an operand with that many heads of that width, if it has them.
    pub(crate) fn batch_and_sequence(
        &self,
        ty: &Type,
        heads: usize,
        width: usize,
    ) -> Option<[Dim; 2]> {
        let is = |dim: &Dim, n: usize| dim.as_static() == Some(n as u64);
        match (self.layout, ty.shape.0.as_slice()) {
            (HeadLayout::Bshd, [b, s, h, e]) if is(h, heads) && is(e, width) => {
                Some([b.clone(), s.clone()])
            }
            (HeadLayout::Bshd, [b, s, he])
                if heads.checked_mul(width).is_some_and(|n| is(he, n)) =>
            {
                Some([b.clone(), s.clone()])
            }
            (HeadLayout::Bhsd, [b, h, s, e]) if is(h, heads) && is(e, width) => {
                Some([b.clone(), s.clone()])
            }
            _ => None,
        }
    }

    fn check_mask(&self, operands: &[&Type], b: &Dim, s_q: &Dim, s_k: &Dim) -> Result<()> {
        let Some(mask) = operands.get(3).copied() else { return Ok(()) };
        if let (Mask::Grid, Some(columns)) = (self.mask, operands.get(4).copied()) {
            return self.check_grid([mask, columns], [b, s_q, s_k]);
        }
        let is_bool = mask.dtype == DType::Scalar(Scalar::Bool);
        let (types, full) = match self.mask {
            Mask::Custom => (mask.dtype.is_float() || is_bool, vec![b.clone(), s_k.clone()]),
            _ => {
                let heads = Dim::from(self.heads);
                (mask.dtype.is_float(), vec![b.clone(), heads, s_q.clone(), s_k.clone()])
            }
        };
        let one = Dim::from(1u64);
        let fits = mask.kind == Kind::Tensor
            && types
            && mask.shape.rank() == full.len()
            && mask
                .shape
                .0
                .iter()
                .zip(&full)
                .all(|(have, need)| have == need || (self.mask == Mask::Bias && *have == one));
        if fits {
            return Ok(());
        }
        Err(Error::bad_graph(format!(
            "sdpa: mask is {mask}, expected [{}] to match q {} and k {}",
            Shape(full),
            operands[0],
            operands[1]
        )))
    }

    fn check_grid(&self, axes: [&Type; 2], [b, s_q, s_k]: [&Dim; 3]) -> Result<()> {
        let fits = |ty: &Type| match ty.shape.0.as_slice() {
            [of_b, h, s, _] => {
                let own = *h == Dim::from(self.heads) && s == s_q && of_b == b;
                own && ty.kind == Kind::Tensor && ty.dtype.is_float()
            }
            _ => false,
        };
        let [rows, columns] = axes.map(|ty| ty.shape.last());
        if axes.into_iter().all(fits) && rows.mul(&columns)? == *s_k {
            return Ok(());
        }
        let (rows, columns) = (axes[0], axes[1]);
        Err(Error::bad_graph(format!(
            "sdpa: the rows of a grid are {rows} and its columns {columns}, expected floats \
             [{b}x{}x{s_q}xR] and [{b}x{}x{s_q}xC], and R C = {s_k} keys",
            self.heads, self.heads
        )))
    }
}

/// Values are as wide as keys unless the attributes say otherwise.
impl Field for Sdpa {
    fn put(&self, _: &str, attrs: Attrs) -> Attrs {
        let widths = (self.v_head_dim != self.head_dim).then_some(self.v_head_dim);
        let attrs = self.kv_heads.put("kv_heads", self.heads.put("heads", attrs));
        let attrs = widths.put("v_head_dim", self.head_dim.put("head_dim", attrs));
        let attrs = self.scale.put("scale", self.mask.put("mask", attrs));
        self.layout.put("layout", self.softcap.put("softcap", attrs))
    }

    fn take(of: &str, _: &str, attrs: &Attrs) -> Result<Self> {
        let head_dim = Field::take(of, "head_dim", attrs)?;
        let v_head_dim: Option<usize> = Field::take(of, "v_head_dim", attrs)?;
        Ok(Sdpa {
            heads: Field::take(of, "heads", attrs)?,
            kv_heads: Field::take(of, "kv_heads", attrs)?,
            head_dim,
            v_head_dim: v_head_dim.unwrap_or(head_dim),
            mask: Field::take(of, "mask", attrs)?,
            scale: Field::take(of, "scale", attrs)?,
            softcap: Field::take(of, "softcap", attrs)?,
            layout: Field::take(of, "layout", attrs)?,
        })
    }

    fn names(_: &'static str, out: &mut Vec<&'static str>) {
        out.extend(["heads", "kv_heads", "head_dim", "v_head_dim"]);
        out.extend(["mask", "window", "scale", "softcap", "layout"]);
    }
}

impl Operator for Sdpa {
    const NAME: &'static str = "sdpa";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = Sdpa::NAME;
        arity(NAME, operands, 3 + self.mask.operands())?;
        let [q, k, v, ..] = operands else { return Err(Error::internal("sdpa: arity")) };
        let named = [("q", *q), ("k", *k), ("v", *v)];
        let dtype = rules::same_floats(NAME, &named)?;
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) || self.heads == 0 {
            return Err(Error::bad_graph(format!(
                "sdpa: {} query heads on {} key heads, expected a multiple",
                self.heads, self.kv_heads
            )));
        }
        let sizes = (
            self.batch_and_sequence(q, self.heads, self.head_dim),
            self.batch_and_sequence(k, self.kv_heads, self.head_dim),
            self.batch_and_sequence(v, self.kv_heads, self.v_head_dim),
        );
        let ranks = q.shape.rank() == k.shape.rank() && k.shape.rank() == v.shape.rank();
        let (Some([b, s_q]), Some([k_b, s_k]), Some([v_b, v_s])) = sizes else {
            return Err(self.misfit(&named));
        };
        if !ranks || k_b != b || v_b != b || v_s != s_k {
            return Err(self.misfit(&named));
        }
        let ends = matches!(self.mask, Mask::Causal | Mask::Window(_));
        if ends && s_q.as_static().zip(s_k.as_static()).is_some_and(|(q, k)| q > k) {
            return Err(rules::misfit(NAME, &named, "at least as many keys as queries"));
        }
        self.check_mask(operands, &b, &s_q, &s_k)?;
        let mut dims = q.shape.0.clone();
        if let Some(last) = dims.last_mut() {
            let heads = if q.shape.rank() == 3 { self.heads } else { 1 };
            *last = Dim::from(heads).mul(&Dim::from(self.v_head_dim))?;
        }
        Ok(vec![Type::tensor(dtype, Shape(dims))])
    }

    /// For heads that are split by reshapes: `q [B, K, G, S_q, E]` against `k [B, K, 1, S_k, E]`.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [q, k, v, ..] = *operands else { return Err(Error::internal("sdpa: arity")) };
        let (ty, to) = (e.ty(q).clone(), writing::wide(e.ty(q).dtype));
        let groups = self.heads / self.kv_heads.max(1);
        let queries = self.split(e, q, self.heads, self.head_dim, to)?;
        let keys = self.split(e, k, self.kv_heads, self.head_dim, to)?;
        let values = self.split(e, v, self.kv_heads, self.v_head_dim, to)?;
        let (keys, values) = (e.with_ones(keys, &[2])?, e.with_ones(values, &[2])?);
        let [b, _, s_q, _] = <[Dim; 4]>::try_from(e.dims(queries))
            .map_err(|_| Error::internal("sdpa: no four axes"))?;
        let grouped =
            [b.clone(), self.kv_heads.into(), groups.into(), s_q.clone(), self.head_dim.into()];
        let queries = e.reshape(queries, &grouped)?;
        let scores = e.one(BatchMatMul { transpose_b: true }, &[queries, keys])?;
        let scores = writing::scaled(e, scores, self.score_scale(), self.softcap)?;
        let scores = self.masked(e, scores, operands.get(3..).unwrap_or_default(), &s_q)?;
        let mut weights = e.one(Softmax { axis: 4 }, &[scores])?;
        if self.mask.operands() > 0 {
            // A query that sees no key has no softmax.
            let most = e.reduce_last(Reduction::Max, scores)?;
            let none = e.number(to, f64::NEG_INFINITY)?;
            let any = e.compare(Comparison::Gt, most, none)?;
            weights = e.keep_where(any, weights, 0.0)?;
        }
        let y = e.one(BatchMatMul::default(), &[weights, values])?;
        let y = e.reshape(y, &[b, self.heads.into(), s_q, self.v_head_dim.into()])?;
        let y = match self.layout {
            HeadLayout::Bhsd => y,
            HeadLayout::Bshd => e.transpose(y, &[0, 2, 1, 3])?,
        };
        let mut dims = ty.shape.0;
        if let Some(last) = dims.last_mut() {
            let heads = if e.ty(q).shape.rank() == 3 { self.heads } else { 1 };
            *last = Dim::from(heads).mul(&Dim::from(self.v_head_dim))?;
        }
        let y = e.reshape(y, &dims)?;
        Ok(Some(vec![e.cast(y, ty.dtype)?]))
    }
}

impl Sdpa {
    /// An operand as `[B, heads, S, width]` of a type.
    fn split(
        &self,
        e: &mut dyn Emit,
        x: ValueId,
        heads: usize,
        width: usize,
        to: DType,
    ) -> Result<ValueId> {
        let sizes = self.batch_and_sequence(e.ty(x), heads, width);
        let [b, s] = sizes.ok_or_else(|| Error::internal("sdpa: an operand without heads"))?;
        let x = e.cast(x, to)?;
        match self.layout {
            HeadLayout::Bhsd => Ok(x),
            HeadLayout::Bshd => {
                let x = e.reshape(x, &[b, s, heads.into(), width.into()])?;
                e.transpose(x, &[0, 2, 1, 3])
            }
        }
    }

    /// Scores `[B, K, G, S_q, S_k]` with minus infinity where a query sees no key.
    fn masked(
        &self,
        e: &mut dyn Emit,
        scores: ValueId,
        masks: &[ValueId],
        s_q: &Dim,
    ) -> Result<ValueId> {
        let (s_k, one) = (e.ty(scores).shape.last(), Dim::from(1u64));
        match (self.mask, masks) {
            (Mask::None, _) => Ok(scores),
            (Mask::Causal | Mask::Window(_), _) => {
                // Counted from the end, where both sequences meet.
                let row = e.iota(&[s_q.clone(), one.clone()], 0)?;
                let row = e.one(Reverse { axes: vec![0] }, &[row])?;
                let column = e.iota(&[one, s_k], 1)?;
                let column = e.one(Reverse { axes: vec![1] }, &[column])?;
                let seen = e.compare(Comparison::Ge, column, row)?;
                let scores = e.keep_where(seen, scores, f64::NEG_INFINITY)?;
                let Mask::Window(window) = self.mask else { return Ok(scores) };
                let reach = e.zip_number(Binary::Add, row, window.min(1 << 30) as f64)?;
                let near = e.compare(Comparison::Le, column, reach)?;
                e.keep_where(near, scores, f64::NEG_INFINITY)
            }
            (Mask::Custom, &[mask]) => {
                let valid = if e.ty(mask).dtype.is_float() {
                    let half = e.number(e.ty(mask).dtype, 0.5)?;
                    e.compare(Comparison::Ge, mask, half)?
                } else {
                    mask
                };
                let valid = e.with_ones(valid, &[1, 2, 3])?;
                e.keep_where(valid, scores, f64::NEG_INFINITY)
            }
            (Mask::Bias, &[bias]) => {
                let bias = e.cast(bias, e.ty(scores).dtype)?;
                let mut dims = e.dims(bias);
                let groups = self.heads / self.kv_heads.max(1);
                let split = if dims.get(1) == Some(&one) {
                    [one.clone(), one]
                } else {
                    [self.kv_heads.into(), groups.into()]
                };
                dims.splice(1..2, split);
                let bias = e.reshape(bias, &dims)?;
                e.zip(Binary::Add, scores, bias)
            }
            (Mask::Grid, &[rows, columns]) => {
                let (to, dims) = (e.ty(scores).dtype, e.dims(scores));
                let [r, c] = [rows, columns].map(|x| e.ty(x).shape.last());
                let [b, k, g, s, _] = <[Dim; 5]>::try_from(dims.clone())
                    .map_err(|_| Error::internal("sdpa: no five axes"))?;
                let split = [b, k, g, s, r, c];
                let mut sum = e.reshape(scores, &split)?;
                // What a row has is the same in each column, and what a column has in each row.
                for (x, same) in [(rows, 5), (columns, 4)] {
                    let x = e.cast(x, to)?;
                    let mut own = split.clone();
                    own[same] = one.clone();
                    let x = e.reshape(x, &own)?;
                    sum = e.zip(Binary::Add, sum, x)?;
                }
                e.reshape(sum, &dims)
            }
            (Mask::Custom | Mask::Bias | Mask::Grid, _) => {
                Err(Error::internal("sdpa: no mask operand"))
            }
        }
    }
}

impl Sdpa {
    fn misfit(&self, named: &[(&str, &Type)]) -> Error {
        let layout = match self.layout {
            HeadLayout::Bshd => "[B, S, H, E] or [B, S, H * E]",
            HeadLayout::Bhsd => "[B, H, S, E]",
        };
        let need = format!(
            "{layout} with {} and {} heads of {} (values {}), one batch, and as many values as keys",
            self.heads, self.kv_heads, self.head_dim, self.v_head_dim
        );
        rules::misfit(Sdpa::NAME, named, &need)
    }
}
