//! Tunings that were measured on this machine: one file, a line for each adapter, driver and version
//! of RLX. Without it, or where it cannot be read, devices are as they usually are.

use crate::new_file::NewFile;
use rlx_core::gguf::Sink;
use rlx_core::{Code, Error, Result};
use rlx_webgpu::Tuning;
use rlx_webgpu::gpu::GpuInfo;
use rlx_webgpu::tuning::key;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names a folder for the file instead of the system's cache folder.
pub const FOLDER: &str = "RLX_CACHE_DIR";

/// Where tunings are kept.
///
/// # Errors
/// `Io` where the system names no folder for such files.
pub fn file() -> Result<PathBuf> {
    let folder = match std::env::var_os(FOLDER) {
        Some(folder) => PathBuf::from(folder),
        None => dirs::cache_dir()
            .ok_or_else(|| {
                Error::new(Code::Io, "the system names no folder for caches")
                    .hint(format!("name one in {FOLDER}"))
            })?
            .join("rlx"),
    };
    Ok(folder.join("tuning.json"))
}

/// Everything in the file; nothing if it is not there, or is none.
fn read(file: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// What was measured on such a GPU, if it was.
pub fn remembered(gpu: &GpuInfo) -> Option<Tuning> {
    let tunings = read(&file().ok()?);
    Tuning::parse(tunings.get(&key(gpu))?, gpu.wgsl).ok()
}

/// Keeps what was measured.
///
/// # Errors
/// `Io` where the file cannot be written.
pub fn remember(gpu: &GpuInfo, tuning: Tuning) -> Result<()> {
    let file = file()?;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::new(Code::Io, e.to_string()).at(folder.display().to_string()))?;
    }
    let mut tunings = read(&file);
    tunings.insert(key(gpu), tuning.to_string());
    let text = serde_json::to_string_pretty(&tunings)
        .map_err(|e| Error::internal(format!("tunings do not print: {e}")))?;
    let mut new = NewFile::create(&file, text.len() as u64, true)?;
    new.put(text.as_bytes())?;
    new.commit()
}
