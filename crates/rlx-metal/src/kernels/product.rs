//! What the forms of `rlx-webgpu`'s products say, as the texts of ours need it.

use super::{Buffers, maps};
use rlx_webgpu::gpu::Form;

/// A weight of a product.
pub(super) struct Kind {
    /// The element type, with ` planes` behind it where rows lie in planes.
    pub dtype: String,
    /// The buffer of its bytes.
    pub weights: String,
    bias: Option<String>,
}

/// A product: names of bound buffers, and what follows it.
pub(super) struct Product {
    pub glu: bool,
    pub x: String,
    pub y: String,
    /// One for each type and pair of buffers, in the order of the segments' kinds.
    pub kinds: Vec<Kind>,
    pub residual: Option<String>,
    pub norm: Option<String>,
    /// The control block, where it says how many rows there are.
    pub control: Option<String>,
    /// An expression over `x`, and the functions that it calls.
    pub map: (&'static str, &'static str),
    /// Bounds both factors of a gate.
    limit: Option<String>,
    pub buffers: Buffers,
}

impl Product {
    /// The product of a form; none where something follows that our texts do not have.
    pub fn of(form: &Form) -> Option<Product> {
        let mut buffers = Buffers::default();
        let y = buffers.written(form.get("y")?)?;
        let mut kinds = Vec::new();
        for kind in form.get("kinds")?.split(';') {
            let [dtype, weights, bias]: [&str; 3] =
                kind.split(',').collect::<Vec<_>>().try_into().ok()?;
            let (weights, bias) = (buffers.read(weights)?, buffers.maybe(bias)?);
            kinds.push(Kind { dtype: dtype.into(), weights, bias });
        }
        Some(Product {
            glu: form.get("glu")? == "true",
            x: buffers.read(form.get("x")?)?,
            y,
            kinds,
            residual: buffers.maybe(form.get("residual")?)?,
            norm: buffers.maybe(form.get("norm")?)?,
            control: buffers.maybe(form.get("control")?)?,
            map: maps::of(form.get("map")?)?,
            limit: form.get("limit").filter(|l| !l.is_empty()).map(String::from),
            buffers,
        })
    }

    /// Adds element `at` of the bias of segment `of` to `to`.
    pub fn add_bias(&self, of: &str, to: &str, at: &str) -> String {
        let mut text = String::new();
        for (n, kind) in self.kinds.iter().enumerate() {
            if let Some(bias) = &kind.bias {
                text += &format!(
                    "if (step.seg[{of}].kind == {n}u) {to} += \
                     ((device const float*){bias})[step.seg[{of}].bias + {at}];\n            "
                );
            }
        }
        text
    }

    /// What becomes of `result`, and with a gate of `other`: `bias` is the element of a bias, `to` that of the whole
    /// result.
    pub fn finish(&self, to: &str, bias: &str) -> String {
        if self.glu {
            let gate = self.add_bias("0u", "result", bias);
            let up = self.add_bias("1u", "other", bias);
            let glu = match &self.limit {
                None => "map_of(result) * other".into(),
                Some(l) => format!(
                    "map_of(metal::min(result, {l}f)) * (metal::clamp(other, -{l}f, {l}f) + 1.0f)"
                ),
            };
            return format!("{gate}{up}result = {glu};");
        }
        let add = match &self.residual {
            None => String::new(),
            Some(r) => format!(" + ((device const float*){r})[step.residual + {to}]"),
        };
        format!("{}result = map_of(result){add};", self.add_bias("s", "result", bias))
    }
}
