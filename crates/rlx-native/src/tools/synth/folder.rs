//! A transformers folder of random weights: `config.json`, the tokenizer's files, and `model.safetensors`, or its
//! shards and their index.

use super::contents::Tensor;
use super::llada2::Llada2;
use super::{pieces, tokens};
use crate::new_file::NewFolder;
use rlx_core::Result;
use rlx_core::gguf::Sink;
use rlx_core::types::DType;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Bytes of tensors in a file, at most, as transformers splits models; a larger tensor has a file of its own.
const SHARD: u64 = 5_000_000_000;

/// Writes a folder of random weights in bf16, as models of that family are published. `progress` is told bytes so
/// far and of how many. Returns the size of the files of weights.
///
/// # Errors
/// As [`NewFolder::create`] and its files.
pub fn synth_folder(
    shape: &Llada2,
    seed: u64,
    out: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64> {
    write(shape, seed, out, SHARD, progress)
}

fn write(
    shape: &Llada2,
    seed: u64,
    out: &Path,
    most: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64> {
    let tensors = shape.tensors();
    let shards = shards(&tensors, most);
    let headers: Vec<Vec<u8>> = shards.iter().map(|shard| header(shard)).collect();
    let weights: u64 = tensors.iter().map(bytes).sum();
    let total = weights + headers.iter().map(|h| h.len() as u64).sum::<u64>();
    let folder = NewFolder::create(out, total)?;
    text(&folder, "config.json", &shape.config())?;
    text(&folder, "tokenizer.json", &tokens::tokenizer_json(shape.vocab, shape.mask))?;
    text(&folder, "tokenizer_config.json", &tokens::tokenizer_config())?;
    let (mut done, mut index, mut i) = (0, Map::new(), 0);
    for (no, (shard, header)) in shards.iter().zip(&headers).enumerate() {
        let name = match shards.len() {
            1 => "model.safetensors".to_owned(),
            n => format!("model-{:05}-of-{n:05}.safetensors", no + 1),
        };
        let mut file = folder.file(&name)?;
        file.put(header)?;
        done += header.len() as u64;
        for tensor in *shard {
            pieces(tensor, DType::BF16, bytes(tensor), seed, i, &mut |piece| {
                file.put(piece)?;
                done += piece.len() as u64;
                progress(done, total);
                Ok(())
            })?;
            index.insert(tensor.name.clone(), name.clone().into());
            i += 1;
        }
        file.commit()?;
    }
    if shards.len() > 1 {
        let index = json!({ "metadata": { "total_size": weights }, "weight_map": index });
        text(&folder, "model.safetensors.index.json", &index)?;
    }
    folder.commit()?;
    Ok(total)
}

/// Writes one of the small files.
fn text(folder: &NewFolder, name: &str, value: &Value) -> Result<()> {
    let mut file = folder.file(name)?;
    file.put(format!("{value:#}\n").as_bytes())?;
    file.commit()
}

/// Bytes of a tensor in bf16.
fn bytes(tensor: &Tensor) -> u64 {
    2 * tensor.dims.iter().product::<u64>()
}

/// The tensors of each file, in order.
fn shards(tensors: &[Tensor], most: u64) -> Vec<&[Tensor]> {
    let (mut out, mut from, mut held) = (Vec::new(), 0, 0);
    for (i, tensor) in tensors.iter().enumerate() {
        let n = bytes(tensor);
        if i > from && held + n > most {
            out.push(&tensors[from..i]);
            (from, held) = (i, 0);
        }
        held += n;
    }
    out.push(&tensors[from..]);
    out
}

/// What a file begins with: the length of its JSON, padded so that tensors begin on a multiple of 8, and that.
fn header(tensors: &[Tensor]) -> Vec<u8> {
    let mut map = Map::from_iter([("__metadata__".to_owned(), json!({ "format": "pt" }))]);
    let mut at = 0;
    for tensor in tensors {
        let end = at + bytes(tensor);
        let place = json!({ "dtype": "BF16", "shape": tensor.dims, "data_offsets": [at, end] });
        map.insert(tensor.name.clone(), place);
        at = end;
    }
    let mut text = Value::Object(map).to_string();
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// What each file begins with, and its size.
#[cfg(test)]
pub(super) fn headers(tensors: &[Tensor]) -> impl Iterator<Item = (Vec<u8>, u64)> {
    shards(tensors, SHARD).into_iter().map(|shard| {
        let header = header(shard);
        let total = header.len() as u64 + shard.iter().map(bytes).sum::<u64>();
        (header, total)
    })
}

#[cfg(test)]
mod tests {
    use super::super::shapes::Experts;
    use super::*;
    use crate::network::CheckpointFiles;

    #[test]
    fn a_folder_is_a_function_of_shape_and_seed_whole_or_in_shards() {
        let shape = Llada2 {
            layers: 2,
            vocab: 320,
            mask: 258,
            experts: Experts { count: 16, used: 8, width: 32 },
            width: 64,
            feed_forward: 64,
            ..super::super::FOLDERS[0]
        };
        let place = std::env::temp_dir().join(format!("rlx-synth-folder-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir(&place).unwrap();
        let made = |name: &str, seed, most| {
            let out = place.join(name);
            let mut last = (0, 0);
            let total = write(&shape, seed, &out, most, &mut |done, of| last = (done, of)).unwrap();
            let source = CheckpointFiles::open(&out).unwrap();
            assert_eq!((last, source.bytes()), ((total, total), total));
            let files = source.maps().len();
            let CheckpointFiles::Folder(folder) = source else { panic!("a folder") };
            // Tensors follow each other in each file, so their bytes are all that is behind the headers.
            let data = folder.headers().iter().zip(folder.maps()).flat_map(|(header, map)| {
                let start = header.tensors.values().map(|t| t.offset).min().unwrap() as usize;
                (**map).as_ref()[start..].to_vec()
            });
            (files, data.collect::<Vec<u8>>())
        };
        let (files, whole) = made("a", 1, SHARD);
        assert_eq!((files, whole.len() as u64), (1, 2 * shape.parameters()));
        let (files, parts) = made("b", 1, 50_000);
        assert!(files > 5 && parts == whole, "{files}");
        assert!(made("c", 2, SHARD).1 != whole);
        let left = std::fs::read_dir(&place).unwrap().count();
        assert_eq!(left, 3, "nothing but the folders is left");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
