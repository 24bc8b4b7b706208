//! README's table of families: what of each is compared with recorded truth, on which device. Made of `cases.json`,
//! which is what the tests run.

use super::{json, root, text};
use crate::bless::bless;
use rlx_core::models::FAMILIES;
use serde_json::Value;

const START: &str = "<!-- families: made by tests/parity/table.rs; BLESS=1 writes it -->\n";
const END: &str = "<!-- end -->\n";
const DEVICES: [(&str, &str); 5] = [
    ("reference", "reference"),
    ("cpu", "CPU"),
    ("webgpu", "WebGPU"),
    ("page-cpu", "page, CPU"),
    ("page-webgpu", "page, WebGPU"),
];

/// What is compared of a family on a device.
fn cell(cases: &[Value], family: &str, device: &str) -> String {
    let of = |case: &&Value| {
        let devices = case["devices"].as_array().unwrap();
        case["family"] == family && devices.iter().any(|d| d == device)
    };
    let kinds = |folder: bool| cases.iter().filter(of).any(|c| (c["kind"] == "verify") == folder);
    match (kinds(false), kinds(true)) {
        (true, true) => "GGUF, folder",
        (true, false) => "GGUF",
        (false, true) => "folder",
        (false, false) => "",
    }
    .into()
}

fn table() -> String {
    let all = json("tests/parity/cases.json");
    let cases: Vec<Value> =
        ["cases", "wider"].iter().flat_map(|k| all[k].as_array().unwrap().clone()).collect();
    for case in &cases {
        let family = text(case, "family");
        assert!(FAMILIES.iter().any(|f| f.name == family), "{family} is no family: {case}");
    }
    let mut out = String::from("| family | GGUF architectures | `model_type` |");
    DEVICES.iter().for_each(|d| out += &format!(" {} |", d.1));
    out += "\n| --- | --- | --- |";
    DEVICES.iter().for_each(|_| out += " --- |");
    for family in FAMILIES {
        out += &format!("\n| {} |", family.name);
        for names in [family.gguf, family.transformers] {
            let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
            out += &format!(" {} |", names.join(", "));
        }
        DEVICES.iter().for_each(|d| out += &format!(" {} |", cell(&cases, family.name, d.0)));
    }
    out + "\n"
}

#[test]
fn the_readme_says_what_is_compared_of_each_family() {
    let path = root().join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(START).expect("README has the table's start");
    let (old, after) = rest.split_once(END).expect("README has the table's end");
    let new = table();
    if bless() {
        return std::fs::write(path, format!("{before}{START}{new}{END}{after}")).unwrap();
    }
    assert_eq!(old, new, "README's table is not what the tests compare: BLESS=1 writes it anew");
}
