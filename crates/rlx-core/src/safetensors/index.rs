//! The index of a model in several files, `model.safetensors.index.json`: which file each tensor is in.

use super::json::Json;
use crate::{Error, Result};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Files that the weights of one model may be in.
pub const FILES_MAX: usize = 1 << 10;

/// The names of the files that an index lists, sorted, each once. All of them lie in the index's folder. `at` is
/// what errors call the index.
///
/// # Errors
/// `BadFile` for a text that is no index, for a name that leads out of the folder or is no safetensors file's, and
/// for no file or more than [`FILES_MAX`].
pub fn files_of_index(text: &[u8], at: &str) -> Result<Vec<String>> {
    let index = Json::parse(text, at, 0)?;
    let bad = |what: String| Error::bad_file(what).at(at);
    let map = index.get("weight_map").and_then(Json::as_object);
    let map = map.ok_or_else(|| bad("weight_map is missing, or no object".into()))?;
    let mut names = BTreeSet::new();
    for (tensor, file) in map {
        let file = file.as_str().ok_or_else(|| bad(format!("{tensor} is in no file")))?;
        // A name leads nowhere but into the folder, as a path and as an address.
        let plain = file.ends_with(".safetensors")
            && !file.starts_with('.')
            && !file.contains(|c: char| matches!(c, '/' | '\\' | ':' | '%' | '?' | '#') || c < ' ');
        if !plain {
            return Err(bad(format!("{file:?} is no name of a safetensors file in the folder")));
        }
        names.insert(file);
    }
    if names.is_empty() || names.len() > FILES_MAX {
        let count = names.len();
        return Err(bad(format!("{count} files of weights, expected 1 to {FILES_MAX}")));
    }
    Ok(names.into_iter().map(String::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn files_are_listed_once_and_names_that_lead_elsewhere_are_refused() {
        let text = br#"{"metadata": {}, "weight_map": {"a": "m-2.safetensors", "b": "m-1.safetensors", "c": "m-2.safetensors"}}"#;
        assert_eq!(files_of_index(text, "i").unwrap(), ["m-1.safetensors", "m-2.safetensors"]);
        for name in [
            "../m.safetensors",
            "/m.safetensors",
            "https://a/m.safetensors",
            "a/m.safetensors",
            r"..\\m.safetensors",
            "%2e%2e%2fm.safetensors",
            "m.safetensors?x=.safetensors",
            "c:m.safetensors",
            ".safetensors",
            "m.bin",
            "",
        ] {
            let text = format!(r#"{{"weight_map": {{"a": "{name}"}}}}"#);
            let e = files_of_index(text.as_bytes(), "i").unwrap_err();
            assert_eq!((e.code, e.at.as_str()), (Code::BadFile, "i"), "{name}");
            assert!(e.what.ends_with("is no name of a safetensors file in the folder"), "{e}");
        }
        for text in ["", "[]", "{}", r#"{"weight_map": []}"#, r#"{"weight_map": {}}"#] {
            assert_eq!(files_of_index(text.as_bytes(), "i").unwrap_err().code, Code::BadFile);
        }
        let e = files_of_index(br#"{"weight_map": {"a": 1}}"#, "i").unwrap_err();
        assert_eq!(e.what, "a is in no file");
        let many: Vec<String> =
            (0..=FILES_MAX).map(|i| format!(r#""{i}": "{i}.safetensors""#)).collect();
        let text = format!(r#"{{"weight_map": {{{}}}}}"#, many.join(","));
        let e = files_of_index(text.as_bytes(), "i").unwrap_err();
        assert_eq!(e.what, "1025 files of weights, expected 1 to 1024");
    }
}
