//! Headers of weight files of either form: GGUF or safetensors, told apart by their first bytes.

use crate::error::{Error, Result};
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
            let Some(head) = have.first_chunk::<8>() else { return Ok(false) };
            let json_bytes = u64::from_le_bytes(*head);
            let have = core::mem::take(have);
            let (file, size) = (&self.file, self.file_bytes);
            self.state = if have.starts_with(GGUF) {
                State::Gguf(Box::new(gguf::HeaderReader::new(file, size)))
            } else if json_bytes <= safetensors::JSON_BYTES_MAX {
                State::Safetensors(Box::new(safetensors::HeaderReader::new(file, size)))
            } else {
                return Err(neither(&have).at(format!("{file}, byte 0")));
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

/// The error for a file that begins with no length of a safetensors header, nor as GGUF does.
fn neither(bytes: &[u8]) -> Error {
    const WHAT: &str = "neither a GGUF nor a safetensors file";
    let magic = bytes.first_chunk::<4>();
    match magic.and_then(gguf::looks_like) {
        Some((like, hint)) => Error::bad_file(format!("{WHAT}: it looks like {like}")).hint(hint),
        None => Error::bad_file(WHAT).hint("give a .gguf or a .safetensors file"),
    }
}

/// The weight files of one model.
#[derive(Clone, Debug)]
pub enum WeightFiles {
    /// A GGUF file or its shards.
    Gguf(ModelFiles),
    /// A safetensors file or several, which no tensor is in twice.
    Safetensors(Vec<safetensors::Header>),
}

impl WeightFiles {
    /// Puts the headers of one model's files together.
    ///
    /// # Errors
    /// As [`ModelFiles::new`] and [`safetensors::check_apart`]; `Usage` for both forms.
    pub fn new(headers: Vec<Header>) -> Result<Self> {
        let (mut shards, mut others) = (Vec::new(), Vec::new());
        for header in headers {
            match header {
                Header::Gguf(header) => shards.push(header),
                Header::Safetensors(header) => others.push(header),
            }
        }
        match (shards.is_empty(), others.is_empty()) {
            (_, true) => ModelFiles::new(shards).map(Self::Gguf),
            (false, _) => Err(Error::usage("GGUF and safetensors files are given for one model")
                .hint("give the files of one form")),
            (true, _) => {
                safetensors::check_apart(&others)?;
                Ok(Self::Safetensors(others))
            }
        }
    }

    /// The checkpoint. `config` is that of safetensors files; null serves for weights of a graph.
    pub fn checkpoint<'a>(&'a self, config: &'a Json) -> Checkpoint<'a> {
        match self {
            Self::Gguf(files) => Checkpoint::gguf(files),
            Self::Safetensors(headers) => Checkpoint::transformers_shards(config, headers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use alloc::string::ToString;
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
        assert!(!reader.is_empty() && reader.into_header().is_none());
        let e = HeaderReader::new("b", Some(9)).push(b"GGUF\x09\0\0\0").unwrap_err();
        assert_eq!(e.code, Code::Unsupported, "{e}");
        let mut reader = HeaderReader::new("c", None);
        assert!(!reader.push(b"PK\x03\x04\0\0\0").unwrap(), "too short to tell");
        let e = reader.push(b"\x01").unwrap_err();
        assert_eq!(
            e.to_string(),
            "neither a GGUF nor a safetensors file: it looks like a zip archive, perhaps a PyTorch \
             checkpoint (c, byte 0); convert it to GGUF or safetensors"
        );
        for other in [&b"\x80\x02\x8a\x0al\xfc\x9cF"[..], b"{\"model_type\": 1}"] {
            let e = HeaderReader::new("c", None).push(other).unwrap_err();
            assert_eq!(e.what, "neither a GGUF nor a safetensors file");
        }
    }

    #[test]
    fn files_of_two_forms_or_with_a_tensor_in_two_are_refused() {
        let header = |name: &str| {
            let json =
                format!(r#"{{"{name}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#);
            let mut reader = HeaderReader::new("a", None);
            assert!(reader.push(&safetensors(&json)).unwrap());
            reader.into_header().unwrap()
        };
        for names in [vec!["a"], vec!["b", "a"]] {
            let files = WeightFiles::new(names.into_iter().map(header).collect()).unwrap();
            assert!(files.checkpoint(&Json::Null).tensor("a").is_some());
        }
        let e = WeightFiles::new(vec![header("a"), header("b"), header("a")]).unwrap_err();
        assert_eq!(
            (e.code, e.what.as_str()),
            (Code::BadFile, "tensor a is in two of the model's files")
        );
        assert_eq!(WeightFiles::new(vec![]).unwrap_err().code, Code::Usage);
    }
}
