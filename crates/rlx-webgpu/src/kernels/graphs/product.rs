//! Products of two tensors over any axes: `batch_matmul` and `dot_general` are its forms.

use crate::kernels::elements::element::{Element, once};
use crate::kernels::elements::indices::{MOST_WORDS, Walk, Words};
use crate::kernels::emit::{Emit, fill};
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Launch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Slice;
use rlx_core::types::{Dim, Type};

/// Columns of a workgroup's tile, and elements of k at a time.
const TILE_N: u64 = 64;
const TILE_K: u64 = 16;

/// Axes of one kind: their sizes, and the strides of an operand along them.
#[derive(Clone, Debug, Default)]
pub(super) struct Axes {
    pub dims: Vec<u64>,
    pub strides: Vec<i64>,
}

impl Axes {
    /// Axes of a tensor of these sizes and strides.
    pub fn of(axes: &[usize], dims: &[u64], strides: &[i64]) -> Axes {
        Axes {
            dims: axes.iter().map(|&i| dims[i]).collect(),
            strides: axes.iter().map(|&i| strides[i]).collect(),
        }
    }

    fn size(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Whether the last axis lies side by side.
    fn contiguous(&self) -> bool {
        let last = self.dims.iter().zip(&self.strides).rev().find(|(n, _)| **n != 1);
        last.is_none_or(|(_, s)| *s == 1)
    }

    /// `fn <name>(i: u32) -> u32`, where element `i` of the axes stands in the operand.
    fn function(&self, name: &str, words: &mut Words) -> Result<String> {
        let walk = Walk::new(&self.dims, std::slice::from_ref(&self.strides));
        let (text, at) = walk.text("c", "i", words)?;
        Ok(format!("fn {name}(i: u32) -> u32 {{\n    {text}return {};\n}}\n", at[0]))
    }
}

/// A product, `y [batch.., rows.., columns..]` in that order.
pub(super) struct Product<'a> {
    pub entry: &'static str,
    pub a: &'a Slice,
    pub b: &'a Slice,
    pub y: &'a Slice,
    /// Batch axes, with strides of `a` and of `b`: 0 where one repeats.
    pub batch: [Axes; 2],
    pub rows: Axes,
    pub columns: Axes,
    /// Contracted axes of both.
    pub k: [Axes; 2],
}

/// Tensors of f32, f16 or bf16, of few enough axes; halves in an even number of columns, since a thread
/// writes two in a word.
pub(super) fn takes(operands: &[&Type], columns: Option<&Dim>) -> Taken {
    let [a, b] = operands else { return Err("it takes two operands".into()) };
    for (i, ty) in operands.iter().enumerate() {
        let float = Element::of(ty.dtype).is_some_and(|_| ty.dtype.is_float());
        if !float {
            return Err(takes::not(i, ty));
        }
    }
    let even = columns.and_then(Dim::as_static).is_some_and(|n| n.is_multiple_of(2));
    if Element::of(a.dtype).is_some_and(Element::is_half) && !even {
        return Err(format!("its kernel takes {} of an even number of columns", a.dtype));
    }
    let axes = a.shape.rank() + b.shape.rank();
    if 10 + 4 * axes > MOST_WORDS {
        return Err(format!("its kernel has no room for {axes} axes"));
    }
    Ok(())
}

impl Product<'_> {
    pub fn launch(self, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
        let (batch, m, n) = (self.batch[0].size(), self.rows.size(), self.columns.size());
        let k = self.k[0].size();
        if batch * m * n == 0 {
            return Ok(None);
        }
        let element = Element::of(self.y.ty.dtype);
        let element = element.ok_or_else(|| unsupported(format!("products of {}", self.y.ty)))?;
        // Few rows: a tile of 16 of them, one a thread.
        let rows: u64 = if m <= 16 { 1 } else { 4 };
        let tile_m = 16 * rows;
        let (tiles_m, tiles_n) = (m.div_ceil(tile_m), n.div_ceil(TILE_N));
        let groups = batch * tiles_m * tiles_n;
        let mut words = Words::default();
        let (a, b) = (emit.read(self.a)?, emit.read(self.b)?);
        let y = emit.write(self.y)?;
        let (a_start, b_start) = (words.bits(a.word()), words.bits(b.word()));
        let y_start = words.bits(y.word());
        let functions = [
            element.loader("a", &a, &a_start),
            element.loader("b", &b, &b_start),
            element.helpers().into(),
            self.batch[0].function("batch_a", &mut words)?,
            self.batch[1].function("batch_b", &mut words)?,
            self.rows.function("rows_of_a", &mut words)?,
            self.columns.function("columns_of_b", &mut words)?,
            self.k[0].function("k_of_a", &mut words)?,
            self.k[1].function("k_of_b", &mut words)?,
        ];
        // Threads side by side read what lies side by side.
        let split = |along_k: bool, tile: &'static str| {
            if along_k {
                ("i / K".into(), "i % K".into())
            } else {
                (format!("i % {tile}"), format!("i / {tile}"))
            }
        };
        let (a_m, a_k): (String, String) = split(self.k[0].contiguous(), "TILE_M");
        let (b_n, b_k): (String, String) =
            split(!self.columns.contiguous() && self.k[1].contiguous(), "TILE_N");
        let each = |line: &dyn Fn(u64) -> String, indent: &str| {
            (0..rows).map(line).collect::<Vec<_>>().join(indent)
        };
        let (n_at, m_at) = (words.size(n)?, words.size(m)?);
        let (var, per) = (&y.var, element.per_word());
        let store = each(
            &|r| {
                let values: Vec<String> = (0..4 / per)
                    .map(|w| {
                        let bits: Vec<String> = (0..per)
                            .map(|e| {
                                let lane = ["x", "y", "z", "w"][(w * per + e) as usize];
                                let bits = element.bits(&format!("sum{r}.{lane}"));
                                if e == 0 { bits } else { format!("({bits} << {}u)", e * 16) }
                            })
                            .collect();
                        format!(
                            "if n0 + tn + {0}u < {n_at} {{ {var}[{y_start} + (row{r} + {0}u) / {per}u] = {1}; }}",
                            w * per,
                            bits.join(" | ")
                        )
                    })
                    .collect();
                format!(
                    "if m0 + tm + {r}u < {m_at} {{\n        \
                     let row{r} = (batch * {m_at} + m0 + tm + {r}u) * {n_at} + n0 + tn;\n        {}\n    }}",
                    values.join("\n        ")
                )
            },
            "\n    ",
        );
        let number = |n: u64| n.to_string();
        let wgsl = fill(
            wgsl!("product.wgsl"),
            &[
                ("name", &format!("{:<11}", self.entry)),
                ("entry", self.entry),
                ("type", self.y.ty.dtype.name()),
                ("bindings", &emit.bindings()),
                ("functions", &once(functions)),
                ("tile_m", &number(tile_m)),
                ("tile_n", &number(TILE_N)),
                ("k_tile", &number(TILE_K)),
                ("rows", &number(rows)),
                ("size_a", &number(TILE_K * (tile_m + 1))),
                ("size_b", &number(TILE_K * (TILE_N + 1))),
                ("groups", &words.size(groups)?),
                ("tiles_m", &words.size(tiles_m)?),
                ("tiles_n", &words.size(tiles_n)?),
                ("k", &words.size(k)?),
                ("m", &m_at),
                ("n", &n_at),
                ("a_m", &a_m),
                ("a_k", &a_k),
                ("b_n", &b_n),
                ("b_k", &b_k),
                ("clear", &each(&|r| format!("var sum{r} = vec4f();"), "\n    ")),
                ("add", &each(&|r| format!("sum{r} += tile_a[a + {r}u] * b;"), "\n            ")),
                ("store", &store),
            ],
        );
        Ok(Some(Launch { wgsl, entry: self.entry, words: words.0, groups }))
    }
}
