//! What kernels for several rows of x share: where a threadgroup finds its rows and weights, and what becomes of its
//! results.

use super::product::Product;
use super::{fill, formats};

/// Threads of a threadgroup.
pub(super) const THREADS: u32 = 128;

/// A kernel that brings `rows` x 64 results into a threadgroup's memory, of a launch whose tiles have `tile` rows.
pub(super) struct Rows<'a> {
    pub product: &'a Product,
    pub tile: u32,
    pub rows: u32,
    /// Whether rows of x come into the range of f16.
    pub scaled: bool,
    /// The name of its function behind `own_`.
    pub entry: &'a str,
}

/// Of a bool in MSL.
pub(super) fn word(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

impl Rows<'_> {
    /// The weights' types, as classes of `formats.metal`; none where one has no class.
    pub fn classes(&self) -> Option<Vec<&'static str>> {
        self.product.kinds.iter().map(|kind| formats::class(&kind.dtype)).collect()
    }

    /// What decodes 16 weights of row `w_at`: `one` of a class, given the arguments.
    pub fn decode(&self, one: &dyn Fn(&str, &str) -> String) -> Option<String> {
        let classes = self.classes()?;
        let texts = self.product.kinds.iter().zip(classes).enumerate().map(|(n, (kind, class))| {
            let row = format!("(device const uchar*){} + w_at", kind.weights);
            let text = one(class, &format!("{row}, step.k, c, half_of_w, w"));
            match self.product.kinds.len() {
                1 => text,
                _ => format!("if (step.seg[from].kind == {n}u) {text}"),
            }
        });
        Some(texts.collect::<Vec<_>>().join("\n        "))
    }

    /// The kernel around what multiplies, which is `text` with these values.
    pub fn around(&self, text: &str, values: &[(&str, &str)]) -> Option<String> {
        let p = self.product;
        let skip = match &p.control {
            None => String::new(),
            Some(name) => format!(" || m0 >= ((device const uint*){name})[1]"),
        };
        let norm = match &p.norm {
            None => "row".into(),
            Some(norm) => format!("(device const uchar*)((device const float*){norm} + step.norm)"),
        };
        let (segment, w_row) = if p.glu { ("n / 32u", "n0 + n % 32u") } else { ("s", "n0 + n") };
        let rows = self.rows.to_string();
        let begin = fill(
            include_str!("rows_begin.metal"),
            &[
                ("is_scaled", word(self.scaled)),
                ("has_norm", word(p.norm.is_some())),
                ("tile", &self.tile.to_string()),
                ("rows", &rows),
                ("entry", self.entry),
                ("maps", p.map.0),
                ("map", p.map.1),
                ("buffers", &p.buffers.parameters()),
                ("skip", &skip),
                ("columns", if p.glu { "32" } else { "64" }),
                ("x", &p.x),
                ("norm", &norm),
                ("segment", segment),
                ("w_row", w_row),
            ],
        )?;
        let other = match p.glu {
            true => "float other = results[m * 64u + 32u + at % 32u] * scales[m];\n        ",
            false => "",
        };
        let finish = format!("{other}{}", p.finish("to", "i"));
        let end = fill(include_str!("rows_end.metal"), &[("y", &p.y), ("finish", &finish)])?;
        let mut all = vec![("begin", begin.as_str()), ("end", &end), ("rows", &rows)];
        all.extend(values);
        Some(format!("{}\n{}", formats::TEXT, fill(text, &all)?))
    }
}
