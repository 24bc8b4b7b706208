//! The recorded ways to break a GGUF file: `tests/fixtures/malformed.json`.

use serde_json::Value;

/// A broken file.
pub struct Case {
    pub name: String,
    pub file: Vec<u8>,
    /// The byte that its message names, if it has one.
    #[allow(dead_code)] // not every test that includes this asks
    pub at: Option<u64>,
}

/// Every case; `fixture` reads a file of `tests/fixtures`.
pub fn cases(fixture: fn(&str) -> Vec<u8>) -> Vec<Case> {
    let table: Value = serde_json::from_slice(&fixture("malformed.json")).unwrap();
    let good = fixture(table["base"].as_str().unwrap());
    assert_eq!(table["base_bytes"], good.len());
    let case = |case: &Value| Case {
        name: case["name"].as_str().unwrap().to_owned(),
        file: broken(&good, case["ops"].as_array().unwrap()),
        at: case["at"].as_u64(),
    };
    table["cases"].as_array().unwrap().iter().map(case).collect()
}

/// The good file after a case's edits: the highest offset first, equal ones in the order given.
fn broken(good: &[u8], ops: &[Value]) -> Vec<u8> {
    let mut file = good.to_vec();
    let mut ops: Vec<_> = ops.iter().map(|op| op.as_array().unwrap()).collect();
    ops.sort_by_key(|op| std::cmp::Reverse(op[1].as_u64().unwrap()));
    for op in ops {
        let at = op[1].as_u64().unwrap() as usize;
        let bytes = || -> Vec<u8> {
            let hex = op[2].as_str().unwrap();
            let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(byte).collect()
        };
        match op[0].as_str().unwrap() {
            "set" => file[at..at + bytes().len()].copy_from_slice(&bytes()),
            "insert" | "append" => drop(file.splice(at..at, bytes())),
            "delete" => drop(file.drain(at..at + op[2].as_u64().unwrap() as usize)),
            "truncate" => file.truncate(at),
            other => panic!("{other}"),
        }
    }
    file
}

/// Fails unless a table of messages is the recorded one. `BLESS=1` rewrites it; read what changed.
pub fn as_recorded(table: &str, path: &std::path::Path) {
    if crate::bless::bless() {
        std::fs::write(path, table).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap();
    for (got, want) in table.lines().zip(recorded.lines()) {
        assert_eq!(got, want);
    }
    assert_eq!(table, recorded);
}
