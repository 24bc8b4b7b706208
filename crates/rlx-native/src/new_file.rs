//! Files that commands write: whole or not there. The bytes go to a temporary name in the same
//! folder, which is renamed at the end and removed when the command fails. So does a folder of files.

use rlx_core::gguf::{Sink, Stream, TensorSpec, Value, Writer};
use rlx_core::{Code, Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes gathered before the system is asked to write.
const BUFFER: usize = 1 << 20;

/// A file that is being written. Dropped before [`commit`](Self::commit), it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>, // `None` once it is closed
}

impl NewFile {
    /// Begins a file of `bytes` bytes; `force` lets it replace one that is there.
    ///
    /// # Errors
    /// `Usage` where there is a file already; `Io` where the folder cannot be written or has too
    /// little room.
    pub fn create(path: &Path, bytes: u64, force: bool) -> Result<Self> {
        if path.is_dir() {
            return Err(Error::usage("this is a folder, not a file")
                .at(path.display().to_string())
                .hint("give the path of a file"));
        }
        if !force && path.symlink_metadata().is_ok() {
            return Err(Error::usage("there is a file of this name already")
                .at(path.display().to_string())
                .hint("give another name, or --force to replace it"));
        }
        let temporary = hidden(path)?;
        room(path, bytes)?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(|e| write_error(path, &e))?;
        let file = Some(BufWriter::with_capacity(BUFFER, file));
        Ok(Self { path: path.to_path_buf(), temporary, file })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// `Io` where the last bytes cannot be written.
    pub fn commit(mut self) -> Result<()> {
        let failed = |e: io::Error| write_error(&self.path, &e);
        if let Some(file) = self.file.take() {
            file.into_inner().map_err(|e| failed(e.into_error()))?;
        }
        std::fs::rename(&self.temporary, &self.path).map_err(failed)
    }
}

impl Sink for NewFile {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|e| write_error(&self.path, &e)),
            None => Err(Error::internal("a file is written after its end")),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After `commit` there is nothing of this name; a file that cannot be removed is left.
        drop(self.file.take());
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// A folder of files that is being written. Dropped before [`commit`](Self::commit), it leaves nothing.
#[derive(Debug)]
pub struct NewFolder {
    path: PathBuf,
    temporary: PathBuf,
}

impl NewFolder {
    /// Begins a folder whose files have `bytes` bytes. No folder is replaced.
    ///
    /// # Errors
    /// `Usage` where there is something of this name already; `Io` where the folder that it is to be in cannot be
    /// written or has too little room.
    pub fn create(path: &Path, bytes: u64) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::usage("there is a file or folder of this name already")
                .at(path.display().to_string())
                .hint("give another name, or remove it; a folder is not replaced"));
        }
        let temporary = hidden(path)?;
        room(path, bytes)?;
        std::fs::create_dir(&temporary).map_err(|e| write_error(path, &e))?;
        Ok(Self { path: path.to_path_buf(), temporary })
    }

    /// Begins a file in it, to be committed before the folder is.
    ///
    /// # Errors
    /// As [`NewFile::create`].
    pub fn file(&self, name: &str) -> Result<NewFile> {
        NewFile::create(&self.temporary.join(name), 0, false)
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    /// `Io` where something has that name by now.
    pub fn commit(self) -> Result<()> {
        std::fs::rename(&self.temporary, &self.path).map_err(|e| write_error(&self.path, &e))
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // As for a file.
        let _ = std::fs::remove_dir_all(&self.temporary);
    }
}

/// The name that a path has until it is whole.
fn hidden(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        Error::usage("this is no name of a file or folder").at(path.display().to_string())
    })?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.part", std::process::id()));
    Ok(path.with_file_name(hidden))
}

/// A GGUF file that is being written: header, then tensors in order.
///
/// ```no_run
/// # use rlx_core::{gguf::{TensorSpec, Value}, types::DType};
/// use rlx_native::new_file::create_gguf;
///
/// let tensors = [TensorSpec { name: "w".into(), dtype: DType::F32, dims: vec![1] }];
/// let mut stream = create_gguf("a.gguf".as_ref(), &[], &tensors, false)?;
/// stream.write(&1.0f32.to_le_bytes())?;
/// stream.end()?.commit()?;
/// # Ok::<(), rlx_core::Error>(())
/// ```
///
/// # Errors
/// As [`Writer::new`] and [`NewFile::create`].
pub fn create_gguf(
    path: &Path,
    metadata: &[(String, Value)],
    tensors: &[TensorSpec],
    force: bool,
) -> Result<Stream<NewFile>> {
    let writer = Writer::new(metadata, tensors)?;
    let file = NewFile::create(path, writer.file_bytes(), force)?;
    Stream::begin(writer, file)
}

/// The folder that a path is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Checks that a file of that size fits on its disk, where the system says how much room there is.
fn room(path: &Path, bytes: u64) -> Result<()> {
    match free_bytes(folder(path)) {
        Some(free) if free < bytes => {
            let gb = |n: u64| n as f64 / 1e9;
            let what =
                format!("the file needs {:.2} GB, its disk has {:.2} GB free", gb(bytes), gb(free));
            Err(Error::new(Code::Io, what)
                .at(path.display().to_string())
                .hint("make room, or write to another disk"))
        }
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(folder).ok()?;
    // The fields' types differ from system to system.
    #[allow(clippy::useless_conversion, clippy::unnecessary_fallible_conversions)]
    u64::try_from(stat.blocks_available())
        .ok()?
        .checked_mul(u64::try_from(stat.fragment_size()).ok()?)
}

#[cfg(not(unix))]
fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}

fn write_error(path: &Path, error: &io::Error) -> Error {
    let (what, hint) = match error.kind() {
        io::ErrorKind::NotFound => ("its folder is not there".to_owned(), "make the folder first"),
        io::ErrorKind::PermissionDenied => {
            ("its folder may not be written".to_owned(), "write to another folder")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ("the disk is full".to_owned(), "make room, or write to another disk")
        }
        io::ErrorKind::FileTooLarge => {
            ("the disk takes no file of this size".to_owned(), "write to another disk, or split")
        }
        _ => (format!("the file cannot be written: {error}"), "write to another folder or disk"),
    };
    Error::new(Code::Io, what).at(path.display().to_string()).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder of this test's own.
    fn folder(name: &str) -> PathBuf {
        let name = format!("rlx-new-file-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = folder("whole");
        let path = folder.join("a.bin");
        let mut file = NewFile::create(&path, 3, false).unwrap();
        file.put(b"abc").unwrap();
        assert!(!path.exists());
        file.commit().unwrap();
        assert_eq!(
            (std::fs::read(&path).unwrap(), names(&folder)),
            (b"abc".to_vec(), vec!["a.bin".into()])
        );

        let mut file = NewFile::create(&path, 3, true).unwrap();
        file.put(b"x").unwrap();
        drop(file);
        assert_eq!(
            (std::fs::read(&path).unwrap(), names(&folder)),
            (b"abc".to_vec(), vec!["a.bin".into()])
        );
    }

    #[test]
    fn what_is_in_the_way_is_an_error_with_a_hint() {
        let folder = folder("errors");
        std::fs::write(folder.join("a"), "old").unwrap();
        let fails =
            |name: &str, bytes| NewFile::create(&folder.join(name), bytes, false).unwrap_err();
        let e = fails("a", 1);
        assert_eq!(
            (e.code, e.what.as_str()),
            (Code::Usage, "there is a file of this name already")
        );
        let e = fails("no/a", 1);
        assert_eq!((e.code, e.what.as_str()), (Code::Io, "its folder is not there"));
        assert_eq!(fails("", 1).what, "this is a folder, not a file");
        if cfg!(unix) {
            let e = fails("b", 1 << 62);
            assert!(e.what.starts_with("the file needs 4611686018.43 GB, its disk has "), "{e}");
        }
        assert_eq!(names(&folder), ["a"]);
    }
}
