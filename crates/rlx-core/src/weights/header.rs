//! Headers of weight files of either form: GGUF or safetensors, told apart by their first bytes.

use crate::error::{Code, Error, Result};
use crate::gguf::{self, ModelFiles};
use crate::models::Checkpoint;
use crate::safetensors;
use crate::safetensors::json::Json;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const GGUF: &[u8; 4] = b"GGUF";

/// A header of either form.
#[derive(Clone, Debug)]
pub enum Header {
    /// Of a GGUF file or a shard of one.
    Gguf(gguf::Header),
    /// Of a safetensors file.
    Safetensors(safetensors::Header),
}

/// Reads one header from bytes pushed in chunks of any size.
#[derive(Clone, Debug)]
pub struct HeaderReader {
    file: String,
    file_bytes: Option<u64>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Fewer bytes than tell the form.
    Start(Vec<u8>),
    Gguf(Box<gguf::HeaderReader>),
    Safetensors(Box<safetensors::HeaderReader>),
}

impl HeaderReader {
    /// A reader for the file of that name (used in errors only). `file_bytes` is the file's size where the
    /// source knows it.
    pub fn new(file: &str, file_bytes: Option<u64>) -> Self {
        HeaderReader { file: file.into(), file_bytes, state: State::Start(Vec::new()) }
    }

    /// Whether no byte has come.
    pub fn is_empty(&self) -> bool {
        matches!(&self.state, State::Start(bytes) if bytes.is_empty())
    }

    /// Takes the next bytes; `true` when the header is whole. Bytes after it are not kept.
    ///
    /// # Errors
    /// As the readers of both forms.
    pub fn push(&mut self, bytes: &[u8]) -> Result<bool> {
        if let State::Start(have) = &mut self.state {
            have.extend_from_slice(bytes);
            if have.len() < GGUF.len() && GGUF.starts_with(have) {
                return Ok(false);
            }
            let have = core::mem::take(have);
            let (file, size) = (&self.file, self.file_bytes);
            self.state = if have.starts_with(GGUF) {
                State::Gguf(Box::new(gguf::HeaderReader::new(file, size)))
            } else {
                State::Safetensors(Box::new(safetensors::HeaderReader::new(file, size)))
            };
            return self.read(&have);
        }
        self.read(bytes)
    }

    fn read(&mut self, bytes: &[u8]) -> Result<bool> {
        match &mut self.state {
            State::Start(_) => Ok(false),
            State::Gguf(reader) => Ok(reader.push(bytes)? == gguf::Progress::Done),
            State::Safetensors(reader) => reader.push(bytes),
        }
    }

    /// The header by value, once [`push`](Self::push) has answered `true`.
    pub fn into_header(self) -> Option<Header> {
        match self.state {
            State::Start(_) => None,
            State::Gguf(reader) => reader.into_header().map(Header::Gguf),
            State::Safetensors(reader) => reader.into_header().map(Header::Safetensors),
        }
    }
}

/// The weight files of one model.
#[derive(Clone, Debug)]
pub enum WeightFiles {
    /// A GGUF file or its shards.
    Gguf(ModelFiles),
    /// One safetensors file.
    Safetensors(safetensors::Header),
}

impl WeightFiles {
    /// Puts the headers of one model's files together.
    ///
    /// # Errors
    /// As [`ModelFiles::new`]; `Unsupported` for several safetensors files; `Usage` for both forms.
    pub fn new(headers: Vec<Header>) -> Result<Self> {
        let (mut shards, mut others) = (Vec::new(), Vec::new());
        for header in headers {
            match header {
                Header::Gguf(header) => shards.push(header),
                Header::Safetensors(header) => others.push(header),
            }
        }
        match (shards.is_empty(), others.len()) {
            (_, 0) => ModelFiles::new(shards).map(Self::Gguf),
            (false, _) => Err(Error::usage("GGUF and safetensors files are given for one model")
                .hint("give the files of one form")),
            (true, 1) => others
                .pop()
                .map(Self::Safetensors)
                .ok_or_else(|| Error::internal("a header went missing")),
            (true, n) => {
                let what = format!("a model in {n} safetensors files is not supported");
                Err(Error::new(Code::Unsupported, what).hint("put them into one file"))
            }
        }
    }

    /// The checkpoint. `config` is that of safetensors files; null serves for weights of a graph.
    pub fn checkpoint<'a>(&'a self, config: &'a Json) -> Checkpoint<'a> {
        match self {
            Self::Gguf(files) => Checkpoint::gguf(files),
            Self::Safetensors(header) => Checkpoint::transformers(config, header),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn safetensors(json: &str) -> Vec<u8> {
        [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat()
    }

    #[test]
    fn the_form_is_told_by_the_first_bytes_however_they_arrive() {
        let file = safetensors(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#);
        for chunk in [1, 3, file.len()] {
            let mut reader = HeaderReader::new("a", None);
            assert!(reader.is_empty());
            let done: Vec<bool> = file.chunks(chunk).map(|c| reader.push(c).unwrap()).collect();
            assert_eq!(done.last(), Some(&true));
            let Some(Header::Safetensors(header)) = reader.into_header() else { panic!() };
            assert!(header.tensors.contains_key("a"));
        }
        let mut reader = HeaderReader::new("b", Some(3));
        assert!(!reader.push(b"GG").unwrap());
        let e = HeaderReader::new("b", Some(9)).push(b"GGUF\x09\0\0\0").unwrap_err();
        assert_eq!(e.code, Code::Unsupported, "{e}");
        let e = HeaderReader::new("c", None).push(b"PK\x03\x04\xff\xff\xff\xff").unwrap_err();
        assert!(e.what.starts_with("not a safetensors file"), "{e}");
    }

    #[test]
    fn files_of_two_forms_or_several_of_safetensors_are_refused() {
        let header = || {
            Header::Safetensors(safetensors::Header {
                metadata: Default::default(),
                tensors: Default::default(),
                data_start: 8,
            })
        };
        assert!(WeightFiles::new(vec![header()]).is_ok());
        assert_eq!(WeightFiles::new(vec![header(), header()]).unwrap_err().code, Code::Unsupported);
        assert_eq!(WeightFiles::new(vec![]).unwrap_err().code, Code::Usage);
    }
}
