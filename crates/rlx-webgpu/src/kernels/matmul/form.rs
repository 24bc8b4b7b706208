//! What a host's own text of a product depends on, as the WGSL does: names of bound arrays, types, and what follows.

use super::{Parts, Place, Segment};
use crate::gpu::Form;
use crate::kernels::planes;
use rlx_core::Result;

impl Parts {
    /// The form of a product whose kernel is called `name`, with what else its text depends on.
    pub(super) fn form(&self, name: &'static str, more: &[(&'static str, String)]) -> Result<Form> {
        let var = |place: Option<&Place>| place.map_or(String::new(), |p| p.var.clone());
        let kind = |s: &Segment| {
            let planes = if planes::has(s.dtype, self.k) { " planes" } else { "" };
            format!("{}{planes},{},{}", s.dtype, s.weight.var, var(s.bias.as_ref()))
        };
        let mut parameters = vec![
            ("glu", self.glu.to_string()),
            ("map", self.function.map_or("x", |f| f.name()).into()),
            ("x", self.x.var.clone()),
            ("y", self.y_var()?.into()),
            ("residual", var(self.residual.as_ref())),
            ("norm", var(self.norm.as_ref().map(|norm| &norm.0))),
            ("kinds", self.kinds().0.into_iter().map(kind).collect::<Vec<_>>().join(";")),
        ];
        parameters.extend(more.iter().cloned());
        Ok(Form { name, parameters })
    }
}
