//! The table of operators and what runs them, which a reader finds in `docs/operators.md`: made of what the
//! executors claim and of the operators' own files.

use crate::bless::bless;
use rlx_core::ops::Op;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Operators, and what runs them

Made by `crates/rlx-native/tests/operators.rs` of what the executors claim; `BLESS=1` writes it anew. The
reference executor runs every operator. Elsewhere:

- **kernel**: the executor has one. It may leave out an element type or a form, which then runs as it would
  without a kernel; `rlx inspect --stage dispatch` says how each node of a model runs, and why.
- **parts**: it runs as the operators that it stands for, and those have kernels in the end.
- **loops**: it runs on the reference's loops, on one thread in f64: right, and slow. A page has none of them,
  so there it is refused by its name.
- **view**: nothing runs: the result is bytes of the operand.
- **host**: it is made once, while weights are loaded.
- **unrolled**: its loop is written out where the compiler knows how often it runs; else it is refused.
- **none**: it is refused by its name.

| operator | CPU | WebGPU |
| --- | --- | --- |
";

/// Operators that are no step on any executor.
const VIEWS: &[&str] = &["reshape", "token", "state_read"];
const HOST: &[&str] = &["constant", "rope_table"];
/// Control flow, and recurrences, whose parts are a loop over positions.
const REGIONS: &[&str] = &["if", "while", "scan", "gated_delta_net", "selective_scan"];

/// Of every operator, by its name, whether its file says what it decomposes into.
fn parts(folder: &Path, out: &mut BTreeMap<String, bool>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            parts(&path, out);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let names = text.split("const NAME: &'static str = \"").skip(1);
        for name in names {
            let name = name.split('"').next().unwrap();
            out.insert(name.into(), text.contains("fn decompose("));
        }
    }
}

fn table() -> String {
    let mut has_parts = BTreeMap::new();
    parts(Path::new("../rlx-core/src/ops"), &mut has_parts);
    let targets = [rlx_cpu::target(), rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS)];
    let mut names = Op::NAMES.to_vec();
    names.sort_unstable();
    let mut text = HEAD.to_owned();
    for name in names {
        let has_parts = *has_parts.get(name).unwrap_or_else(|| panic!("no file says {name}"));
        let cells = targets.each_ref().map(|target| match name {
            _ if VIEWS.contains(&name) => "view",
            _ if HOST.contains(&name) => "host",
            _ if target.claims.has(name) => "kernel",
            _ if REGIONS.contains(&name) && !target.claims.loops => "unrolled",
            _ if has_parts && !REGIONS.contains(&name) => "parts",
            _ if target.claims.loops => "loops",
            _ => "none",
        });
        writeln!(text, "| `{name}` | {} | {} |", cells[0], cells[1]).unwrap();
    }
    text
}

#[test]
fn the_page_of_operators_says_what_runs_them() {
    let file = "../../docs/operators.md";
    let now = table();
    if bless() {
        std::fs::write(file, &now).unwrap();
    }
    let then = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(then, now, "BLESS=1 rewrites docs/operators.md");
}
