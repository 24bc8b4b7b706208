//! Bytes of a file's header on their way in, in chunks of any size: what the readers of GGUF and
//! safetensors share.

use crate::{Code, Error, Result};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What has arrived of a file whose header is an `H`.
#[derive(Clone, Debug)]
pub(crate) struct Intake<H> {
    /// The file's name, for errors.
    pub file: String,
    /// The file's size, where the source knows it.
    pub file_bytes: Option<u64>,
    /// Bytes that have arrived, those after the header included.
    pub seen: u64,
    /// What has arrived and is not parsed.
    pub buffer: Vec<u8>,
    /// The header, once it is whole.
    pub header: Option<H>,
    failed: Option<Error>,
}

impl<H> Intake<H> {
    /// Nothing yet.
    pub fn new(file: &str, file_bytes: Option<u64>) -> Self {
        let (seen, buffer) = (0, Vec::new());
        Intake { file: file.to_string(), file_bytes, seen, buffer, header: None, failed: None }
    }

    /// Takes the next bytes; true if they are to be parsed. Bytes after the header are counted and
    /// not kept. After an error every call gives it again.
    pub fn push(&mut self, bytes: &[u8]) -> Result<bool> {
        self.alive()?;
        self.seen += bytes.len() as u64;
        if self.header.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(self.header.is_none())
    }

    /// The source has no more bytes; then the file's size is known.
    pub fn end(&mut self) -> Result<()> {
        self.alive()?;
        let size = *self.file_bytes.get_or_insert(self.seen);
        if self.seen >= size {
            return Ok(());
        }
        let what = format!("the source ended after {} of {size} bytes", self.seen);
        let error = Error::new(Code::Io, what).at(self.file.clone());
        self.fail(error.hint("try again; if it ends there again, the source is incomplete"))
    }

    /// Keeps the error for every later call, and nothing else.
    pub fn fail<T>(&mut self, error: Error) -> Result<T> {
        self.failed = Some(error.clone());
        self.buffer = Vec::new();
        self.header = None;
        Err(error)
    }

    fn alive(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}
