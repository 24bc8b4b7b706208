//! What was measured and found on this machine: small files of texts by key, in one folder. Without
//! them, or where they cannot be read, things are measured again, or devices are as they usually are.

use crate::new_file::NewFile;
use rlx_core::gguf::Sink;
use rlx_core::{Code, Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names a folder for the files instead of the system's cache folder.
pub const FOLDER: &str = "RLX_CACHE_DIR";

/// Tunings by adapter, driver and version of RLX.
pub const TUNINGS: &str = "tuning.json";
/// Verdicts by that and the kernels that were checked.
pub const CHECKS: &str = "checks.json";
/// Times of forms of products, by that, the kind of model and the forms.
pub const TIMES: &str = "times.json";

/// Texts that a file keeps; the next one takes the place of all.
const MOST: usize = 1000;

/// Where a file is.
///
/// # Errors
/// `Io` where the system names no folder for such files.
pub fn file(name: &str) -> Result<PathBuf> {
    let folder = match std::env::var_os(FOLDER) {
        Some(folder) => PathBuf::from(folder),
        None => dirs::cache_dir()
            .ok_or_else(|| {
                Error::new(Code::Io, "the system names no folder for caches")
                    .hint(format!("name one in {FOLDER}"))
            })?
            .join("rlx"),
    };
    Ok(folder.join(name))
}

/// Everything in the file; nothing if it is not there, or is none.
fn read(file: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// What a file has of a key.
pub fn remembered(name: &str, key: &str) -> Option<String> {
    read(&file(name).ok()?).remove(key)
}

/// Keeps a text.
///
/// # Errors
/// `Io` where the file cannot be written.
pub fn remember(name: &str, key: String, text: String) -> Result<()> {
    let file = file(name)?;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::new(Code::Io, e.to_string()).at(folder.display().to_string()))?;
    }
    let mut kept = read(&file);
    if kept.len() >= MOST {
        kept.clear();
    }
    kept.insert(key, text);
    let text = serde_json::to_string_pretty(&kept)
        .map_err(|e| Error::internal(format!("{name} does not print: {e}")))?;
    let mut new = NewFile::create(&file, text.len() as u64, true)?;
    new.put(text.as_bytes())?;
    new.commit()
}
