//! The tensors of a parsed header over bytes in memory: a map of the file, or what has arrived.

use super::{Weight, WeightLoader, missing};
use crate::error::{Code, Error, Result};
use crate::gguf::ModelFiles;
use crate::safetensors;
use crate::types::DType;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Where a tensor lies.
#[derive(Clone, Debug)]
struct Place {
    dtype: DType,
    dims: Vec<u64>,
    file: usize,
    offset: u64,
    bytes: u64,
}

/// A model file's tensors; what is handed out borrows the file's bytes.
#[derive(Clone, Debug)]
pub struct FileWeights<'a> {
    format: &'static str,
    arch: Option<String>,
    places: BTreeMap<String, Place>,
    files: Vec<&'a [u8]>,
}

impl<'a> FileWeights<'a> {
    /// The tensors of a GGUF model. `files` has each shard's bytes from its start, in the order
    /// that `model` was given the headers; they may end before the shard does.
    pub fn gguf(model: &ModelFiles, files: Vec<&'a [u8]>) -> Self {
        let place = |(name, (file, t)): (&String, &(usize, crate::gguf::TensorInfo))| {
            let (offset, bytes) = (t.offset, t.bytes);
            (
                name.clone(),
                Place { dtype: t.dtype, dims: t.dims.clone(), file: *file, offset, bytes },
            )
        };
        let arch = model.metadata.str("general.architecture").ok().map(Into::into);
        let places = model.tensors.iter().map(place).collect();
        FileWeights { format: "gguf", arch, places, files }
    }

    /// The tensors of a safetensors file, over its bytes from its start.
    pub fn safetensors(header: &safetensors::Header, file: &'a [u8]) -> Self {
        let place = |(name, t): (&String, &safetensors::Tensor)| {
            let (offset, bytes) = (t.offset, t.bytes);
            (name.clone(), Place { dtype: t.dtype, dims: t.shape.clone(), file: 0, offset, bytes })
        };
        let places = header.tensors.iter().map(place).collect();
        FileWeights { format: "safetensors", arch: None, places, files: Vec::from([file]) }
    }

    fn get(&self, key: &str) -> Result<Weight<'a>> {
        let known = self.places.keys().map(String::as_str);
        let place = self.places.get(key).ok_or_else(|| missing(key, known))?;
        let range = usize::try_from(place.offset).ok().zip(usize::try_from(place.bytes).ok());
        let range = range.and_then(|(from, bytes)| Some(from..from.checked_add(bytes)?));
        let file = self.files.get(place.file).copied().unwrap_or_default();
        let bytes = range.and_then(|r| file.get(r)).ok_or_else(|| {
            let what = format!("the bytes of tensor {key} have not arrived");
            Error::new(Code::Io, what).at(format!("byte {}", place.offset))
        })?;
        Ok(Weight { dtype: place.dtype, dims: place.dims.clone(), bytes: Cow::Borrowed(bytes) })
    }
}

impl<'a> WeightLoader<'a> for FileWeights<'a> {
    fn format_id(&self) -> &'static str {
        self.format
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn arch_hint(&self) -> Option<&str> {
        self.arch.as_deref()
    }

    fn remaining_keys(&self) -> Vec<String> {
        self.places.keys().cloned().collect()
    }

    fn take(&mut self, key: &str) -> Result<Weight<'a>> {
        let weight = self.get(key)?;
        self.places.remove(key);
        Ok(weight)
    }

    fn take_transposed(&mut self, key: &str) -> Result<Weight<'a>> {
        let weight = self.get(key)?.transposed().map_err(|e| e.at(key))?;
        self.places.remove(key);
        Ok(weight)
    }

    fn take_packed(&mut self, key: &str) -> Result<Option<Weight<'a>>> {
        let weight = self.get(key)?;
        if !weight.dtype.is_block() {
            return Ok(None);
        }
        self.places.remove(key);
        Ok(Some(weight))
    }
}
