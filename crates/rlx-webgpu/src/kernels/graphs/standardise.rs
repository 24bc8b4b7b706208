//! What `layer_norm` and `group_norm` share: runs that get a mean of 0 and a variance of 1.
//!
//! A workgroup takes a run. Long runs are few, so that a GPU is busy only if each thread has many bytes in flight:
//! eight loads of 16 bytes.

use super::softmax::threads;
use crate::kernels::emit::{Emit, fill};
use crate::kernels::{Launch, word};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Space};

/// Loads that a thread has in flight, in long runs.
const LOADS: u64 = 8;
/// The least elements of a long run: what 256 threads load at a time.
const LONG: u64 = 256 * 4 * LOADS;

/// Such a norm.
pub(super) struct Standardise<'a> {
    pub entry: &'static str,
    pub shapes: &'static str,
    /// Runs, and elements of each.
    pub runs: u64,
    pub n: u64,
    pub eps: f32,
    pub x: &'a Slice,
    pub y: &'a Slice,
    pub scale: &'a Slice,
    pub bias: Option<&'a Slice>,
    /// The expression of the element of scale and bias that belongs to `e` of a `run`.
    pub channel: &'static str,
    /// Of `group_norm`: groups, channels of a group, places of a channel.
    pub groups: [u64; 3],
    /// Whether each four elements, from a multiple of 4 on, belong to one channel.
    pub fours: bool,
}

impl Standardise<'_> {
    /// Whether a thread reads and writes 16 bytes at a time.
    fn long(&self, emit: &Emit<'_>) -> bool {
        let aside = |x: &Slice| x.space != Space::Arena;
        self.fours
            && self.n >= LONG
            && self.n.is_multiple_of(4)
            && emit.in_quads(self.x)
            && emit.in_quads(self.y)
            && aside(self.scale)
            && self.bias.is_none_or(aside)
    }

    pub fn launch(self, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
        if self.runs * self.n == 0 {
            return Ok(None);
        }
        let long = self.long(emit);
        let (number, lanes, loads) = if long { ("vec4f", 4, LOADS) } else { ("f32", 1, 1) };
        let x = if long { emit.read_quads(self.x)? } else { emit.read(self.x)? };
        let scale = emit.read(self.scale)?;
        let bias = self.bias.map(|b| emit.read(b)).transpose()?;
        let y = if long { emit.write_quads(self.y)? } else { emit.write(self.y)? };
        let mut words = vec![
            word(self.n)?,
            word(self.runs)?,
            x.word(),
            y.word(),
            scale.word(),
            bias.as_ref().map_or(0, |b| b.word()),
            self.eps.to_bits(),
        ];
        for n in self.groups {
            words.push(word(n)?);
        }
        let shift = bias
            .as_ref()
            .map(|b| format!(" + bitcast<f32>({}[step.bias + c])", b.var))
            .unwrap_or_default();
        let threads = threads(self.n);
        let each = |line: &dyn Fn(u64) -> String, between: &str| {
            (0..loads).map(line).collect::<Vec<_>>().join(between)
        };
        let at = |j: u64| format!("i + {j}u * {threads}u");
        let load = |other: &str| {
            let one = |j| format!("let x{j} = x_at(first, {}, count, {other});", at(j));
            each(&one, "\n        ")
        };
        let squares = |j| format!("squares += (x{j} - mean) * (x{j} - mean);");
        let bits = if long { "vec4u" } else { "u32" };
        let (scale_var, channel, y_var) = (&scale.var, self.channel, &y.var);
        let store = |j| {
            format!(
                "if {0} < count {{ let e = ({0}) * LANES; let c = {channel}; \
                 let v = (x{j} - mean) * inverse * bitcast<f32>({scale_var}[step.scale + c]){shift}; \
                 {y_var}[step.y / LANES + first + {0}] = bitcast<{bits}>(v); }}",
                at(j)
            )
        };
        let sum_of = |x: &str| if long { format!("dot({x}, vec4f(1.0))") } else { x.to_owned() };
        let wgsl = fill(
            wgsl!("standardise.wgsl"),
            &[
                ("name", &format!("{:<11}", self.entry)),
                ("entry", self.entry),
                ("shapes", self.shapes),
                ("shift_formula", if bias.is_some() { " + bias" } else { "" }),
                ("bindings", &emit.bindings()),
                ("threads", threads),
                ("number", number),
                ("lanes", &format!("{lanes}")),
                ("loads", &format!("{loads}")),
                ("x", &x.var),
                (
                    "add",
                    &format!(
                        "{}\n        sum += {};",
                        load("Number()"),
                        each(&|j| format!("x{j}"), " + ")
                    ),
                ),
                ("sum", &sum_of("sum")),
                (
                    "add_squares",
                    &format!("{}\n        {}", load("Number(mean)"), each(&squares, " ")),
                ),
                ("squares", &sum_of("squares")),
                ("store", &format!("{}\n        {}", load("Number()"), each(&store, "\n        "))),
            ],
        );
        Ok(Some(Launch { wgsl, entry: self.entry, words, groups: self.runs }))
    }
}
