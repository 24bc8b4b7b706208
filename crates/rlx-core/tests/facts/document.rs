//! docs/facts.md and the tests agree, in both directions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Facts of each group.
const GROUPS: [(&str, usize); 5] =
    [("000", 20), ("001", 29), ("002", 13), ("003", 23), ("004", 25)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// `000#1` to `004#25`.
fn labels() -> Vec<String> {
    GROUPS.iter().flat_map(|(g, n)| (1..=*n).map(move |i| format!("{g}#{i}"))).collect()
}

/// The label that a test's name carries: `000#3` of `fact_000_03_default_equals_llama32_prefill`.
fn label_of(test: &str) -> Option<String> {
    let mut words = test.strip_prefix("fact_")?.split('_');
    let (group, number) = (words.next()?, words.next()?);
    let number: usize = number.parse().ok()?;
    Some(format!("{group}#{number}"))
}

/// Names of all tests of facts in the crates.
fn tests() -> BTreeSet<String> {
    let mut folders = vec![root().join("crates"), root().join("tests")];
    let mut out = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                // Only a function under `#[test]` is one.
                for part in text.split("#[test]\n").skip(1) {
                    let line = part.trim_start().strip_prefix("fn ").unwrap_or_default();
                    let name = line.split('(').next().unwrap_or_default();
                    if name.starts_with("fact_") {
                        assert!(out.insert(name.into()), "{name} is there twice");
                    }
                }
            }
        }
    }
    out
}

/// Rows of the table by label: what is true here, and how it is checked.
fn rows() -> BTreeMap<String, (String, String)> {
    let text = std::fs::read_to_string(root().join("docs/facts.md")).unwrap();
    let mut out = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with("| 00")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [label, fact, checked] = cells[..] else { panic!("three cells: {line}") };
        assert!(!fact.is_empty() && !checked.is_empty(), "{line}");
        let row = (fact.into(), checked.into());
        assert!(out.insert(label.into(), row).is_none(), "{label} is there twice");
    }
    out
}

/// Names in backticks that begin with `fact_`.
fn named(checked: &str) -> Vec<&str> {
    checked.split('`').filter(|w| w.starts_with("fact_")).collect()
}

#[test]
fn every_label_is_in_the_table_and_every_row_names_its_tests_or_why_it_is_open() {
    let rows = rows();
    let have: Vec<&String> = rows.keys().collect();
    let want = labels();
    for label in &want {
        assert!(rows.contains_key(label), "{label} is not in docs/facts.md");
    }
    assert_eq!(have.len(), want.len(), "{have:?}");
    let tests = tests();
    for (label, (_, checked)) in &rows {
        let named = named(checked);
        assert!(!named.is_empty() || checked.starts_with("open: "), "{label} has neither");
        for name in named {
            assert!(tests.contains(name), "{label} names {name}, which no source has");
            assert_eq!(label_of(name).as_ref(), Some(label), "{name} stands at {label}");
        }
    }
}

#[test]
fn every_test_of_a_fact_is_in_the_table() {
    let rows = rows();
    let named: BTreeSet<&str> = rows.values().flat_map(|row| named(&row.1)).collect();
    let tests = tests();
    assert!(tests.len() > 90, "{} tests of facts", tests.len());
    let missing: Vec<&String> = tests.iter().filter(|t| !named.contains(t.as_str())).collect();
    assert!(missing.is_empty(), "not in docs/facts.md: {missing:?}");
}

#[test]
fn labels_are_read_from_names() {
    assert_eq!(label_of("fact_000_03_default").as_deref(), Some("000#3"));
    assert_eq!(label_of("fact_004_25_x").as_deref(), Some("004#25"));
    assert_eq!(label_of("a_test"), None);
}
