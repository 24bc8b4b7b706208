//! A comparison as `rlx verify --json` prints it.

use super::{Comparison, Report};
use serde::Serialize;

/// One output.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    elements: usize,
    /// Null if it is infinite, or the output was skipped.
    largest_difference: f64,
    relative: f64,
    cosine: f64,
    tolerance: f64,
    ok: bool,
    skipped: Option<&'a str>,
}

/// A whole comparison.
#[derive(Serialize)]
pub struct Verified<'a> {
    family: &'a str,
    device: &'a str,
    adapter: &'a str,
    ok: bool,
    /// With `--layers`; null if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_layer_that_differs: Option<Option<&'a str>>,
    outputs: Vec<Row<'a>>,
}

impl<'a> Verified<'a> {
    /// Of a report; `layers` says whether layers were compared.
    pub fn of(report: &'a Report, layers: bool) -> Self {
        let first = report.first_layer_that_differs();
        Verified {
            family: &report.family,
            device: &report.info.kind,
            adapter: &report.info.adapter,
            ok: report.outputs.iter().all(Comparison::passes),
            first_layer_that_differs: layers.then(|| first.map(|c| c.name.as_str())),
            outputs: report.outputs.iter().map(row).collect(),
        }
    }
}

fn row(c: &Comparison) -> Row<'_> {
    Row {
        name: &c.name,
        elements: c.elements,
        largest_difference: c.difference,
        relative: c.relative,
        cosine: c.cosine,
        tolerance: c.tolerance,
        ok: c.passes(),
        skipped: c.skipped.as_deref(),
    }
}
