//! Tuning: choices that make kernels fast on one GPU and slow on another. Of the results, only roundings change.
//!
//! [`Tuning::usual`] was the fastest on the GPUs that were measured; [`tune`](crate::device::tune) measures
//! this GPU. The host stores the text of a tuning under a [`key`]: the adapter, its driver and the version of
//! this package.

use crate::gpu::{GpuInfo, Wgsl};
use core::fmt;
use core::str::FromStr;
use rlx_core::{Error, Result};

/// How threads divide the product of packed weights with one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Threads of a workgroup.
    pub threads: u64,
    /// Rows of the weight that a team of lanes computes at a time, where workgroups are many; with a gate, as many
    /// of each weight.
    pub rows: u64,
}

impl fmt::Display for Shape {
    /// `256x1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.threads, self.rows)
    }
}

/// A class of products that share a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Rows of at most 4,096 elements.
    Short,
    /// Longer rows.
    Long,
    /// A gated product: gate and up.
    Gated,
    /// More than 16,384 results: the output head.
    Head,
}

impl Class {
    /// All, in the order of their text.
    pub const ALL: [Class; 4] = [Self::Short, Self::Long, Self::Gated, Self::Head];

    /// The class of a product of `rows` results, each of `k` elements.
    pub fn of(rows: u64, k: u64, gated: bool) -> Class {
        match (gated, rows > 16_384, k > 4096) {
            (true, ..) => Self::Gated,
            (_, true, _) => Self::Head,
            (.., true) => Self::Long,
            _ => Self::Short,
        }
    }

    /// The name in a tuning's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long",
            Self::Gated => "gated",
            Self::Head => "head",
        }
    }
}

/// All choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The shape of each class, in the order of [`Class::ALL`].
    shapes: [Shape; 4],
    /// Wanted number of parallel parts of one row's attention: key and value heads times splits.
    pub parts: u64,
    /// Whether products of f32 rows of a prompt are made of 16-bit floats, where the device has these. Their
    /// roundings are larger than those of f32, and a hundred times smaller than those of int8.
    pub half: bool,
}

/// The number of the kernels that a tuning was measured with. Raise it when a change of them makes another choice
/// likely to be the fastest: what was kept under another number is not used, and reports with another are no first
/// guesses.
pub const KERNELS: u32 = 1;

/// The cache key of a tuning: the adapter, its driver, this version of RLX and its kernels.
pub fn key(gpu: &GpuInfo) -> String {
    key_of(&gpu.adapter, &gpu.driver)
}

/// The same, of what a report says.
pub fn key_of(adapter: &str, driver: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("{adapter}; {driver}; rlx {version}, kernels {KERNELS}")
}

/// Shapes to try on GPUs with subgroups.
const SHAPES: [Shape; 7] = [
    Shape { threads: 256, rows: 1 },
    Shape { threads: 256, rows: 2 },
    Shape { threads: 256, rows: 4 },
    Shape { threads: 128, rows: 1 },
    Shape { threads: 128, rows: 2 },
    Shape { threads: 128, rows: 4 },
    Shape { threads: 64, rows: 2 },
];
/// Numbers of parts to try.
const PARTS: [u64; 4] = [64, 128, 256, 512];

/// Fewest lanes of a subgroup on a device that is assumed to hide the latency of memory with many threads.
pub(crate) const WIDE: u32 = 16;

impl Tuning {
    /// The fastest tuning that was measured: for wide subgroups on an H100, for narrow ones and for none in
    /// software. Fewer rows a workgroup have more of them read x.
    pub fn usual(wgsl: Wgsl) -> Tuning {
        let shape = |threads, rows| Shape { threads, rows };
        let shapes = match wgsl.lanes() {
            lanes if lanes < WIDE => [shape(256, 2), shape(256, 2), shape(256, 1), shape(256, 2)],
            _ => [shape(256, 2), shape(256, 2), shape(256, 1), shape(256, 1)],
        };
        Tuning { shapes, parts: 256, half: false }
    }

    /// The same with products of prompts in 16-bit floats.
    #[must_use]
    pub fn in_halves(self) -> Tuning {
        Tuning { half: true, ..self }
    }

    /// The shape of a class of products.
    pub fn shape(&self, class: Class) -> Shape {
        self.shapes[class as usize]
    }

    /// The shape where x stays f32. Every row reads four bytes of it for each weight, seven times as many as a
    /// weight of 4 bits has, so a team multiplies what it read with two rows at least. Without subgroups x takes
    /// less of the workgroup's memory than int8 blocks of the longest rows, and more rows have room.
    pub fn shape_of_floats(&self, class: Class, wgsl: Wgsl) -> Shape {
        let gated = class == Class::Gated;
        if wgsl.lanes() == 1 {
            return Shape { threads: 128, rows: if gated { 2 } else { 4 } };
        }
        let shape = self.shape(class);
        Shape { rows: shape.rows.max(if gated { 1 } else { 2 }), ..shape }
    }

    /// This tuning for kernels with these WGSL features: without subgroups it has the usual shapes.
    #[must_use]
    pub fn on(self, wgsl: Wgsl) -> Tuning {
        if wgsl.lanes() > 1 { self } else { Tuning { shapes: Tuning::usual(wgsl).shapes, ..self } }
    }

    /// This tuning with another shape of one class.
    #[must_use]
    pub fn with_shape(mut self, class: Class, shape: Shape) -> Tuning {
        self.shapes[class as usize] = shape;
        self
    }

    /// This tuning with another number of parts of attention.
    #[must_use]
    pub fn with_parts(self, parts: u64) -> Tuning {
        Tuning { parts, ..self }
    }

    /// This tuning with products of 16-bit floats, or without.
    #[must_use]
    pub fn with_half(self, half: bool) -> Tuning {
        Tuning { half, ..self }
    }

    /// Shapes to choose from, the present one first. Without subgroups there is only one, because sums pass
    /// through the workgroup's memory, which has no room for others.
    pub fn shapes(&self, class: Class, wgsl: Wgsl) -> Vec<Shape> {
        let present = self.shape(class);
        let others = SHAPES.into_iter().filter(|s| wgsl.lanes() > 1 && *s != present);
        core::iter::once(present).chain(others).collect()
    }

    /// Numbers of parts to choose from, the present one first.
    pub fn all_parts(&self) -> Vec<u64> {
        let others = PARTS.into_iter().filter(|p| *p != self.parts);
        core::iter::once(self.parts).chain(others).collect()
    }

    /// Reads the text that `to_string` wrote, for a device with these WGSL features.
    ///
    /// # Errors
    /// `Usage` for anything else: another version's text, or another device's.
    pub fn parse(text: &str, wgsl: Wgsl) -> Result<Tuning> {
        let mut tuning = Tuning::usual(wgsl);
        let wrong = || Error::usage(format!("`{text}` is no tuning of this device"));
        let mut words = text.split(' ');
        for class in Class::ALL {
            let word = words.next().and_then(|w| w.strip_prefix(class.name())).ok_or_else(wrong)?;
            let (threads, rows) =
                word.strip_prefix('=').and_then(|w| w.split_once('x')).ok_or_else(wrong)?;
            let number = |s: &str| u64::from_str(s).map_err(|_| wrong());
            let shape = Shape { threads: number(threads)?, rows: number(rows)? };
            if !tuning.shapes(class, wgsl).contains(&shape) {
                return Err(wrong());
            }
            tuning = tuning.with_shape(class, shape);
        }
        let parts = words.next().and_then(|w| w.strip_prefix("parts=")?.parse().ok());
        tuning.parts = parts.filter(|p| PARTS.contains(p)).ok_or_else(wrong)?;
        match (words.next(), words.next()) {
            (None, _) => {}
            (Some("half"), None) => tuning.half = true,
            _ => return Err(wrong()),
        }
        Ok(tuning)
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for class in Class::ALL {
            write!(f, "{}={} ", class.name(), self.shape(class))?;
        }
        write!(f, "parts={}", self.parts)?;
        f.write_str(if self.half { " half" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide() -> Wgsl {
        Wgsl { subgroup: Some(32), ..Wgsl::default() }
    }

    #[test]
    fn text_reads_back() {
        for wgsl in [Wgsl::default(), wide(), Wgsl { subgroup: Some(4), ..Wgsl::default() }] {
            let usual = Tuning::usual(wgsl);
            assert_eq!(Tuning::parse(&usual.to_string(), wgsl), Ok(usual));
            let half = usual.with_half(true);
            assert_eq!(Tuning::parse(&half.to_string(), wgsl), Ok(half));
            for class in Class::ALL {
                for shape in usual.shapes(class, wgsl) {
                    let parts = usual.all_parts()[1];
                    let tuning = Tuning { parts, ..usual.with_shape(class, shape) };
                    assert_eq!(Tuning::parse(&tuning.to_string(), wgsl), Ok(tuning));
                }
            }
        }
        assert_eq!(
            Tuning::usual(wide()).to_string(),
            "short=256x2 long=256x2 gated=256x1 head=256x1 parts=256"
        );
    }

    #[test]
    fn other_texts_are_refused() {
        let text = Tuning::usual(wide()).to_string();
        for (from, to) in [
            ("short=256x2", "short=256"),
            ("short=256x2", "short=256x3"),
            ("short=256x2", "short=1024x1"),
            ("long=", "wide="),
            ("parts=256", "parts=0"),
            ("parts=256", "parts=256 more=1"),
            ("parts=256", "parts=256 half half"),
            (" parts=256", ""),
        ] {
            let text = text.replace(from, to);
            assert!(Tuning::parse(&text, wide()).is_err(), "{text}");
        }
        // Of a device with subgroups.
        assert!(Tuning::parse(&text, Wgsl::default()).is_err());
    }

    #[test]
    fn a_class_is_by_what_decides() {
        assert_eq!(Class::of(2048, 2048, false), Class::Short);
        assert_eq!(Class::of(2048, 8192, false), Class::Long);
        assert_eq!(Class::of(128_256, 8192, false), Class::Head);
        assert_eq!(Class::of(8192, 2048, true), Class::Gated);
    }
}
