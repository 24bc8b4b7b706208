//! Headers of a model's files, from bytes as they arrive.

use rlx_core::weights::{HeaderReader, WeightFiles};
use rlx_core::{Error, Result};

/// Readers of the headers, by the number of the file.
#[derive(Default)]
pub(crate) struct Readers(Vec<HeaderReader>);

impl Readers {
    /// Takes the next bytes of a file; true when its header is complete. `size` is below 0 where the page does not
    /// know it.
    pub fn push(&mut self, file: usize, name: &str, size: f64, bytes: &[u8]) -> Result<bool> {
        // Files are numbered from 0 without gaps; their first chunks come in any order.
        while self.0.len() <= file {
            self.0.push(HeaderReader::new("", None));
        }
        let reader = &mut self.0[file];
        if reader.is_empty() {
            *reader = HeaderReader::new(name, (size >= 0.0).then_some(size as u64));
        }
        reader.push(bytes)
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The files, when every header is complete.
    pub fn files(self) -> Result<WeightFiles> {
        let headers = self.0.into_iter().map(HeaderReader::into_header);
        let headers = headers
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::internal("`open` was called before every header was complete"))?;
        WeightFiles::new(headers)
    }
}

/// The error for a model that needs a configuration, and was given none.
pub(crate) fn no_config() -> Error {
    Error::usage("a safetensors file does not say what model it has")
        .hint("give its config.json too, or the folder's address with a / at its end")
}
