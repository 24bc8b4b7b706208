//! Model files: memory maps, headers read from them in pieces, shards found by their names, and the
//! model that is inside the binary.

use rlx_core::gguf::{HeaderReader, ModelFiles, Progress};
use rlx_core::runtime::device::SharedBytes;
use rlx_core::{Code, Error, Result, safetensors};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes pushed into a header's reader at once.
const PIECE: usize = 1 << 20;

/// A model's headers, and the bytes they describe.
pub struct ModelSource {
    /// Metadata and tensors.
    pub files: ModelFiles,
    /// Bytes of each file, as [`ModelFiles`] numbers them.
    pub maps: Vec<SharedBytes>,
    /// The same, where they are maps of files.
    mapped: Vec<Option<Arc<memmap2::Mmap>>>,
}

impl ModelSource {
    /// Opens a GGUF model: a file, or any one of its shards.
    ///
    /// # Errors
    /// `Io` for a file that cannot be read; as the readers of `rlx_core::gguf` for what is in it.
    pub fn open(path: &Path) -> Result<Self> {
        let paths = siblings(path);
        let mut mapped = Vec::new();
        let named = |path: PathBuf| -> Result<(String, SharedBytes)> {
            let map = map_file(&path)?.map(Arc::new);
            mapped.push(map.clone());
            Ok((path.display().to_string(), shared(map)))
        };
        let files = paths.into_iter().map(named).collect::<Result<_>>()?;
        Ok(ModelSource { mapped, ..Self::from_bytes(files)? })
    }

    /// Lets go of the memory that a range of a file's map takes: a device has copied it. The bytes are
    /// still there, and come from the file again if they are read.
    pub fn release(&self, file: usize, offset: usize, len: usize) {
        #[cfg(unix)]
        if let Some(Some(map)) = self.mapped.get(file) {
            // Whole pages inside the range: its neighbours may still be wanted.
            let page = 64 << 10;
            let (start, end) = (offset.next_multiple_of(page), (offset + len) / page * page);
            if start < end {
                // SAFETY: the map is of a file and read-only, so a page that is let go holds the
                // same bytes when it comes back.
                #[allow(unsafe_code)]
                let done = unsafe {
                    let advice = memmap2::UncheckedAdvice::DontNeed;
                    map.unchecked_advise_range(advice, start, end - start)
                };
                // Advice: a system that does not take it keeps the pages.
                let _ = done;
            }
        }
        #[cfg(not(unix))]
        let _ = (file, offset, len, &self.mapped);
    }

    /// A model from files that are in memory: each a name, used in errors, and its bytes.
    ///
    /// # Errors
    /// As the readers of `rlx_core::gguf`.
    pub fn from_bytes(files: Vec<(String, SharedBytes)>) -> Result<Self> {
        let (mut headers, mut maps) = (Vec::new(), Vec::new());
        for (name, map) in files {
            let bytes = (*map).as_ref();
            let mut reader = HeaderReader::new(&name, Some(bytes.len() as u64));
            let mut done = false;
            for piece in bytes.chunks(PIECE) {
                if reader.push(piece)? == Progress::Done {
                    done = true;
                    break;
                }
            }
            if !done {
                reader.eof()?;
            }
            headers.push(reader.into_header().ok_or_else(|| {
                Error::internal("a header that ended without an error is not whole").at(name)
            })?);
            maps.push(map);
        }
        let mapped = vec![None; maps.len()];
        Ok(ModelSource { files: ModelFiles::new(headers)?, maps, mapped })
    }

    /// The default model, which is inside the binary.
    ///
    /// # Errors
    /// `Usage` in a binary built without the feature `embed`.
    #[cfg(feature = "embed")]
    pub fn embedded() -> Result<Self> {
        let shard = |(name, bytes): (&str, &'static [u8])| -> (String, SharedBytes) {
            (name.to_owned(), Arc::new(bytes))
        };
        Self::from_bytes(embedded::shards().into_iter().map(shard).collect())
    }

    /// The default model, which is not inside this binary.
    ///
    /// # Errors
    /// `Usage`, always.
    #[cfg(not(feature = "embed"))]
    pub fn embedded() -> Result<Self> {
        Err(Error::usage("this rlx was built without a model")
            .hint("give one with --model PATH, or build with the feature `embed`"))
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.maps.iter().map(|map| (**map).as_ref().len() as u64).sum()
    }
}

fn io_error(path: &Path, error: &io::Error) -> Error {
    let what = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "the file may not be read".to_owned(),
        _ => format!("the file cannot be read: {error}"),
    };
    Error::new(Code::Io, what)
        .at(path.display().to_string())
        .hint("give the path of a model file, or of its first shard")
}

/// Maps a file. An empty file, which cannot be mapped, is no bytes.
///
/// # Errors
/// `Io` where there is no such file, or it cannot be read.
pub fn map(path: &Path) -> Result<SharedBytes> {
    Ok(shared(map_file(path)?.map(Arc::new)))
}

/// Bytes of a configuration or a tokenizer at most; a `tokenizer.json` of 256 k tokens has 33 MB.
const SMALL: u64 = 256 << 20;

/// Maps a checkpoint's small file. `None` where there is none.
///
/// # Errors
/// `Io` for a file that cannot be read; `BadFile` for one that is too large.
pub fn small_file(path: &Path) -> Result<Option<SharedBytes>> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.len() > SMALL => {
            let what = format!("the file has {} bytes, {SMALL} is the most", meta.len());
            Err(Error::bad_file(what).at(path.display().to_string()))
        }
        Ok(_) => map(path).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io_error(path, &e)),
    }
}

fn shared(map: Option<Arc<memmap2::Mmap>>) -> SharedBytes {
    struct Bytes(Arc<memmap2::Mmap>);
    impl AsRef<[u8]> for Bytes {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    map.map_or_else(|| Arc::new(Vec::new()) as SharedBytes, |map| Arc::new(Bytes(map)))
}

/// The map, or nothing for an empty file.
fn map_file(path: &Path) -> Result<Option<memmap2::Mmap>> {
    let file = File::open(path).map_err(|e| io_error(path, &e))?;
    let meta = file.metadata().map_err(|e| io_error(path, &e))?;
    if meta.is_dir() {
        return Err(Error::new(Code::Io, "this is a folder, not a file")
            .at(path.display().to_string())
            .hint("give the path of a model file, or of its first shard"));
    }
    if meta.len() == 0 {
        return Ok(None);
    }
    // SAFETY: the map is read-only and private to us; nothing here writes the file. Another process
    // that changes it while the model runs changes the model, and one that cuts it short ends this
    // process with a bus error, as for every program that maps files: the command line says so.
    #[allow(unsafe_code)]
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| io_error(path, &e))?;
    Ok(Some(map))
}

/// The files of a model by the name of one: its shards `…-NNNNN-of-NNNNN.gguf` that are there, or
/// the file alone.
fn siblings(path: &Path) -> Vec<PathBuf> {
    let shards = || -> Option<Vec<PathBuf>> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (base, no) = rest.rsplit_once('-')?;
        let five = |s: &str| s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit());
        if !five(no) || !five(count) {
            return None;
        }
        let n: u32 = count.parse().ok()?;
        let shard = |i: u32| path.with_file_name(format!("{base}-{i:05}-of-{count}.gguf"));
        let found: Vec<PathBuf> = (1..=n).map(shard).filter(|p| p.exists()).collect();
        // The named file does not exist: say so, rather than what is missing beside it.
        found.iter().any(|p| p.file_name() == path.file_name()).then_some(found)
    };
    shards().unwrap_or_else(|| vec![path.to_path_buf()])
}

/// A safetensors file's header and bytes.
///
/// # Errors
/// `Io` for a file that cannot be read; as the reader of `rlx_core::safetensors`.
pub fn open_safetensors(path: &Path) -> Result<(safetensors::Header, SharedBytes)> {
    let map = map(path)?;
    let bytes = (*map).as_ref();
    let name = path.display().to_string();
    let mut reader = safetensors::HeaderReader::new(&name, Some(bytes.len() as u64));
    let mut done = false;
    for piece in bytes.chunks(PIECE) {
        if reader.push(piece)? {
            done = true;
            break;
        }
    }
    if !done {
        reader.eof()?;
    }
    let header = reader
        .header()
        .cloned()
        .ok_or_else(|| Error::internal("a header that ended without an error is not whole"))?;
    Ok((header, map))
}

#[cfg(feature = "embed")]
mod embedded {
    /// Tensors inside are at multiples of 32: on a multiple of 64 they are as in a map.
    #[repr(C, align(64))]
    struct Aligned<T: ?Sized>(T);

    macro_rules! shard {
        ($no:literal) => {{
            static SHARD: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../models/rustdoc-29m/rustdoc-29m-q4_k_m-",
                $no,
                "-of-00003.gguf"
            )));
            (concat!("rustdoc-29m-q4_k_m-", $no, "-of-00003.gguf"), &SHARD.0)
        }};
    }

    /// Names and bytes of the shards.
    pub fn shards() -> [(&'static str, &'static [u8]); 3] {
        [shard!("00001"), shard!("00002"), shard!("00003")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "embed")]
    #[test]
    fn the_embedded_model_is_whole_and_aligned() {
        let source = ModelSource::embedded().expect("three shards");
        assert_eq!(source.files.order, [0, 1, 2]);
        assert_eq!(source.files.metadata.str("general.architecture"), Ok("llama"));
        for map in &source.maps {
            assert_eq!((**map).as_ref().as_ptr().addr() % 64, 0);
        }
    }

    #[test]
    fn a_name_that_is_no_shards_stands_alone() {
        for name in ["a.gguf", "a-1-of-2.gguf", "a-00001-of-00002.bin"] {
            assert_eq!(siblings(Path::new(name)), [PathBuf::from(name)]);
        }
    }
}
