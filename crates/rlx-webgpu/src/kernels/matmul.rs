//! `matmul`: a mat-vec for one row of x, a product without tiles for a few, a tiled one for more. And
//! `grouped_matmul`, whose matrices ids name.
//!
//! One row has two kernels: `rows`, of whole 64 elements and 16-byte places, and `vector` for everything else.

mod activations;
pub(super) mod experts;
mod few;
// No page has a text of its own, and pages download each function.
#[cfg(not(target_family = "wasm"))]
mod form;
mod rows;
mod tile;
#[cfg(feature = "graphs")]
mod tile_float;
mod tile_half;
mod tile_int8;
mod vector;

use super::emit::{Emit, Place};
use super::formats::{self, CHUNK, Readers};
use super::scalar;
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, mismatch, word};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Epilogue, MatMul, Op, Unary};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Type};
use rlx_core::{Code, Error, Result};

/// Which step constant says how often a workgroup takes more rows.
const REPEAT: usize = 9;

/// A weight of the step.
struct Segment {
    /// Output columns that the step makes: rows of the weight, or of its part.
    rows: u64,
    /// Columns of the whole result.
    columns: u64,
    /// Bytes of a row.
    row_bytes: u64,
    weight: Place,
    dtype: DType,
    /// Suffix of its readers.
    reader: String,
    bias: Option<Place>,
    /// Its result; the second segment of a `glu` has none.
    y: Option<Place>,
}

/// A matmul step with its operands bound and its readers printed.
struct Parts {
    m: u64,
    k: u64,
    /// Columns of every result before those that the step makes.
    first: u64,
    x: Place,
    /// Where a single row of x starts, in WGSL.
    x_start: &'static str,
    x_type: DType,
    norm: Option<(Place, f32)>,
    segments: Vec<Segment>,
    residual: Option<Place>,
    /// The functions that its WGSL calls, and its WGSL over `x`.
    map: Option<(&'static str, &'static str)>,
    /// Which function that is.
    #[cfg_attr(target_family = "wasm", allow(dead_code))]
    function: Option<Unary>,
    glu: bool,
    /// Bounds both factors of a glu of experts, which then adds 1 to the second.
    limit: Option<f32>,
    readers: Readers,
}

/// The longest row that a kernel keeps as int8 blocks, with their scales, in the 16 KiB of memory that every
/// WebGPU workgroup has.
const QUANTIZED_ROW: u64 = 14_336;
/// The same of int16, where a norm wants all of the row; other rows come in spans.
const NORMED_ROW: u64 = 6144;

/// Buffers that every device binds.
const BINDINGS: usize = 8;

/// How a kernel's operands are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binding {
    /// As words; blocks of several rows also by 16 bytes.
    Words,
    /// By 16 bytes, where that is possible; weights in shares.
    Shares,
    /// By fours of elements, of weights too.
    #[cfg_attr(not(feature = "graphs"), allow(dead_code))]
    Fours,
}

/// Rows of f32 of any rank, or a matrix of the blocks that `quantize_rows` made, by weights of any type that
/// the target reads.
pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    let known = ["segments", "bias", "norm_eps", "quantize", "epilogue", "map", "glu"];
    takes::knows(op, &known)?;
    let Op::MatMul(op) = op else { return Err("it takes a matmul".into()) };
    if let Epilogue::Map(f) | Epilogue::Glu(f) = op.epilogue {
        takes::unary(f)?;
    }
    let first = op.parts().weights;
    for (i, ty) in operands.iter().enumerate() {
        if (first..first + op.segments).contains(&i) {
            if !target.reads(ty.dtype) {
                return Err(format!("it reads no {}", ty.dtype));
            }
        } else if i == 0 && ty.dtype.is_block() {
            takes::blocks(i, ty, target)?;
        } else {
            takes::is_f32(i, ty)?;
        }
    }
    match operands.first() {
        Some(x) if x.dtype.is_block() || op.quantize.is_some() => takes::matrix(operands)?,
        _ => takes::rows(operands)?,
    }
    match (op.quantize, operands) {
        (Some(format), [x, ..]) => quantizes(target, format, op.norm.is_some(), x),
        _ => Ok(()),
    }
}

/// Refuses a matmul that is to make blocks of integers of an `x` that its kernel makes none of.
fn quantizes(target: &Target, format: BlockFormat, normed: bool, x: &Type) -> Taken {
    let (has, most) = match format {
        BlockFormat::Q8_0 => (target.int8, QUANTIZED_ROW),
        BlockFormat::Q15_0 => (target.int16, if normed { NORMED_ROW } else { u64::MAX }),
        _ => return Err(format!("its kernel makes no {} of a row", format.name())),
    };
    if !has {
        return Err(format!("it reads no {}", format.name()));
    }
    let [rows, k] = x.shape.0.as_slice() else { return Ok(()) };
    let fits = |k: u64| k <= most && k.is_multiple_of(rows::SHARE);
    if rows.as_static() == Some(1) && k.as_static().is_some_and(fits) {
        return Ok(());
    }
    let at_most = if most == u64::MAX { String::new() } else { format!(" and at most {most}") };
    Err(format!("its kernel makes {} of one row, of whole {}{at_most}", format.name(), rows::SHARE))
}

pub(super) fn matmul(step: &Step, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::MatMul(op) = &step.op else { return Err(mismatch(step)) };
    #[cfg(feature = "graphs")]
    if let Some(side) = tile_float::side(op, step, cx, emit)? {
        let mut tried = emit.clone();
        let parts = Parts::of(op, step, Binding::Fours, &mut tried)?;
        if tried.memory.len() <= BINDINGS {
            *emit = tried;
            return tile_float::launch(&parts, side, emit).map(Some);
        }
    }
    let wide = op.quantize.is_some() || in_rows(op, step, emit)?;
    let mut binding = if wide { Binding::Shares } else { Binding::Words };
    let mut tried = emit.clone();
    let mut parts = Parts::of(op, step, binding, &mut tried)?;
    // A buffer that is read as words and by 16 bytes is bound twice.
    if op.quantize.is_none() && tried.memory.len() > BINDINGS {
        (binding, tried) = (Binding::Words, emit.clone());
        parts = Parts::of(op, step, binding, &mut tried)?;
    }
    *emit = tried;
    if parts.m == 0 || parts.segments.iter().all(|s| s.rows == 0) {
        return Ok(None);
    }
    if binding == Binding::Shares {
        rows::launch(&parts, op.quantize, cx, emit).map(Some)
    } else if parts.m == 1 {
        vector::launch(&parts, cx, emit).map(Some)
    } else if parts.x_type != DType::F32 && few::fits(&parts, cx) {
        few::launch(&parts, cx, emit).map(Some)
    } else if parts.x_type != DType::F32 && cx.wgsl.packed_dot {
        tile_int8::launch(&parts, cx, emit).map(Some)
    } else if cx.wgsl.f16 && parts.norm.is_none() {
        tile_half::launch(&parts, cx, emit).map(Some)
    } else {
        tile::launch(&parts, cx, emit).map(Some)
    }
}

/// Whether a step is a product of one row of f32 that is whole shares, with everything that is read or written by
/// 16 bytes where it can be.
fn in_rows(op: &MatMul, step: &Step, emit: &Emit<'_>) -> Result<bool> {
    let (at, x) = (op.parts(), &step.operands[0]);
    let (m, k) = matrix(x)?;
    let weights = &step.operands[at.weights..at.weights + op.segments];
    let quads = weights.iter().filter(|w| formats::share(w.ty.dtype, k).is_some_and(|s| s.quads));
    let others = [Some(0), at.norm, at.residual].into_iter().flatten().map(|i| &step.operands[i]);
    Ok(m == 1
        && x.ty.dtype == DType::F32
        && k > 0
        && k.is_multiple_of(rows::SHARE)
        && step.part.is_none_or(|p| p.first.is_multiple_of(4))
        && others.chain(quads).chain(&step.results).all(|s| emit.in_quads(s)))
}

impl Parts {
    fn of(op: &MatMul, step: &Step, binding: Binding, emit: &mut Emit<'_>) -> Result<Parts> {
        let wide = binding != Binding::Words;
        let at = op.parts();
        let x = &step.operands[0];
        let (m, k) = matrix(x)?;
        let mut readers = Readers::default();
        let read =
            |emit: &mut Emit<'_>, s: &Slice| if wide { emit.read_quads(s) } else { emit.read(s) };
        let x_place = read(emit, x)?;
        let glu = matches!(op.epilogue, Epilogue::Glu(_));
        let first = step.part.map_or(0, |p| p.first);
        // A quad that such a kernel writes has four columns of the part.
        if wide && !first.is_multiple_of(4) {
            return Err(Error::internal(format!("a part of a weight starts at row {first}")));
        }
        // Several rows of int8 blocks meet packed weights alone. A few rows read short blocks side by side,
        // for which words are faster; biases would bind a buffer of weights a second time, as words.
        let weights = &step.operands[at.weights..at.weights + op.segments];
        let long = weights.iter().any(|w| w.ty.dtype.block_elements() == 256);
        let whole = weights.iter().all(|w| emit.starts_as_blocks(w));
        let in_quads = m > 1
            && x.ty.dtype.is_block()
            && (long || m > few::MOST)
            && at.biases.is_none()
            && whole;
        let mut segments = Vec::with_capacity(op.segments);
        for i in 0..op.segments {
            let w = &step.operands[at.weights + i];
            let (rows, _) = matrix(w)?;
            let share = formats::share(w.ty.dtype, k).filter(|_| binding == Binding::Shares);
            let quads = share.as_ref().is_some_and(|s| s.quads);
            let fours = binding == Binding::Fours;
            let weight = if quads || (fours && w.ty.dtype == DType::F32) {
                emit.read_quads(w)?
            } else if fours {
                emit.read_pairs(w)?
            } else if in_quads {
                emit.read_in_quads(w)?
            } else {
                emit.read(w)?
            };
            let reader = match share {
                None if fours => formats::suffix(w.ty.dtype, &weight.var),
                None => {
                    if in_quads {
                        readers.quads(&weight.var);
                    }
                    readers.add(w.ty.dtype, &weight.var, k, emit)?
                }
                Some(share) => {
                    match (share.calls(), share.quads) {
                        (false, _) => {}
                        (true, false) => readers.words(&weight.var),
                        (true, true) => readers.quads(&weight.var),
                    }
                    formats::suffix(w.ty.dtype, &weight.var)
                }
            };
            let bias = match at.biases {
                Some(first) => Some(emit.read(&step.operands[first + i])?),
                None => None,
            };
            let y = match step.results.get(i) {
                Some(result) if wide => Some(emit.write_quads(result)?),
                Some(result) => Some(emit.write(result)?),
                None => None,
            };
            let row_bytes = w.ty.dtype.row_bytes(k).ok_or_else(|| {
                Error::internal(format!("a row of {k} is no whole number of blocks"))
            })?;
            let dtype = w.ty.dtype;
            let columns = step.part.map_or(rows, |p| p.of);
            segments.push(Segment { rows, columns, row_bytes, weight, dtype, reader, bias, y });
        }
        let norm = match (at.norm, op.norm) {
            (Some(i), Some(eps)) => Some((read(emit, &step.operands[i])?, eps)),
            _ => None,
        };
        let residual = match at.residual {
            Some(i) => Some(read(emit, &step.operands[i])?),
            None => None,
        };
        let function = match op.epilogue {
            Epilogue::Map(f) | Epilogue::Glu(f) => Some(f),
            Epilogue::None | Epilogue::Add => None,
        };
        let text = |f: Unary| {
            let missing = || Error::new(Code::Unsupported, format!("WGSL has no {}", f.name()));
            scalar::unary(f).ok_or_else(missing)
        };
        let map = function.map(text).transpose()?;
        let x_type = x.ty.dtype;
        Ok(Parts {
            m,
            k,
            first,
            x: x_place,
            x_start: "step.x",
            x_type,
            norm,
            segments,
            residual,
            map,
            function,
            glu,
            limit: None,
            readers,
        })
    }

    fn chunks(&self) -> u64 {
        self.k.div_ceil(CHUNK)
    }

    /// True if the last chunk of a row is not whole: only with scalar types.
    fn ragged(&self) -> bool {
        !self.k.is_multiple_of(CHUNK)
    }

    /// The array that results go to: the planner puts all of them in the arena.
    fn y_var(&self) -> Result<&str> {
        let mut vars = self.segments.iter().filter_map(|s| s.y.as_ref()).map(|y| &y.var);
        let first = vars.next().ok_or_else(|| Error::internal("a matmul without results"))?;
        if vars.any(|v| v != first) {
            return Err(Error::internal("results of a matmul are in different buffers"));
        }
        Ok(first)
    }

    /// Segments whose code is the same, by `(reader, bias array)`; a segment's number here.
    fn kinds(&self) -> (Vec<&Segment>, Vec<u32>) {
        let mut kinds: Vec<&Segment> = Vec::new();
        let mut numbers = Vec::new();
        for s in &self.segments {
            let key = |s: &Segment| (s.reader.clone(), s.bias.as_ref().map(|b| b.var.clone()));
            let at = kinds.iter().position(|k| key(k) == key(s)).unwrap_or_else(|| {
                kinds.push(s);
                kinds.len() - 1
            });
            numbers.push(at as u32);
        }
        (kinds, numbers)
    }

    /// The first segment of every reader.
    fn readers_once(&self) -> impl Iterator<Item = &Segment> {
        let before = |i: usize| self.segments[..i].iter().map(|s| &s.reader);
        let all = self.segments.iter().enumerate();
        all.filter(move |(i, s)| !before(*i).any(|r| *r == s.reader)).map(|(_, s)| s)
    }

    /// Segments that have workgroups of their own: with `glu` both share the first one's.
    fn launched(&self) -> &[Segment] {
        if self.glu { &self.segments[..1] } else { &self.segments }
    }

    /// The step constants that all matmul kernels share, and the sum over segments of
    /// `ceil(rows / rows_per_group)`.
    fn words(&self, rows_per_group: u64) -> Result<(Vec<u32>, u64)> {
        let mut first = 0u64;
        let x_start = if self.x_type == DType::F32 { self.x.word() } else { self.x.byte };
        // Where the step's own columns start.
        let own = |place: &Place| word(u64::from(place.word()) + self.first);
        let (norm, eps) = self.norm.as_ref().map_or((0, 0.0), |(p, eps)| (p.word(), *eps));
        let mut segments = Vec::new();
        let (_, kinds) = self.kinds();
        for (i, s) in self.segments.iter().enumerate() {
            segments.extend([
                word(first)?,
                word(s.rows)?,
                s.weight.byte,
                word(s.row_bytes)?,
                s.bias.as_ref().map_or(0, Place::word),
                s.y.as_ref().map_or(Ok(0), own)?,
                kinds[i],
                word(s.columns)?,
            ]);
            if i < self.launched().len() {
                first += s.rows.div_ceil(rows_per_group);
            }
        }
        let mut words = vec![
            word(self.k)?,
            word(self.chunks())?,
            word(self.m)?,
            word(first)?,
            x_start,
            norm,
            eps.to_bits(),
            self.residual.as_ref().map_or(Ok(0), own)?,
            self.launched().len() as u32,
            0,
            0,
            0,
        ];
        words.extend(segments);
        Ok((words, first))
    }

    /// `bias_of(s, i)` of segment `s`, row `i` of its weight; `map(x)`; and `residual_at(at)`, element
    /// `at` of its result.
    fn finish(&self) -> String {
        let residual = match &self.residual {
            Some(r) => format!("bitcast<f32>({}[step.residual + at])", r.var),
            None => "0.0".into(),
        };
        self.epilogue() + &format!("fn residual_at(at: u32) -> f32 {{ return {residual}; }}\n")
    }

    /// `bias_of` and `map` of [`finish`](Self::finish).
    fn epilogue(&self) -> String {
        let mut text = String::from("fn bias_of(s: u32, i: u32) -> f32 {\n");
        let (kinds, _) = self.kinds();
        if kinds.iter().any(|k| k.bias.is_some()) {
            text += "    let at = step.seg[s].bias + i;\n    switch step.seg[s].kind {\n";
            for (n, kind) in kinds.iter().enumerate() {
                if let Some(bias) = &kind.bias {
                    let label =
                        if n + 1 == kinds.len() { "default".into() } else { format!("case {n}u") };
                    let var = &bias.var;
                    text += &format!("        {label}: {{ return bitcast<f32>({var}[at]); }}\n");
                }
            }
            text += "    }\n}\n";
        } else {
            text += "    return 0.0;\n}\n";
        }
        let (helpers, map) = self.map.unwrap_or(("", "x"));
        text += &format!("{helpers}fn map(x: f32) -> f32 {{ return {map}; }}\n");
        if self.glu {
            let glu = match self.limit {
                None => "map(gate) * up".into(),
                Some(l) => format!("map(min(gate, {l:?})) * (clamp(up, -{l:?}, {l:?}) + 1.0)"),
            };
            text += &format!("fn glu(gate: f32, up: f32) -> f32 {{ return {glu}; }}\n");
        }
        text
    }

    /// A `switch` over the kinds of segment `s`; `arm` prints what one does.
    fn switch(&self, s: &str, arm: impl Fn(&Segment) -> String) -> String {
        let (kinds, _) = self.kinds();
        if kinds.len() == 1 {
            return arm(kinds[0]);
        }
        let mut text = format!("switch step.seg[{s}].kind {{\n");
        for (n, kind) in kinds.iter().enumerate() {
            let label = if n + 1 == kinds.len() { "default".into() } else { format!("case {n}u") };
            text += &format!("        {label}: {{\n            {}\n        }}\n", arm(kind));
        }
        text + "    }"
    }
}
