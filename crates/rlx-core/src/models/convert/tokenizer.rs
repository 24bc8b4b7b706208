//! Keys of a tokenizer: what a folder's small files say of it, in the words that `models/tokenizer.rs` reads. What it
//! does and GGUF has no word for is an error.

use super::keys::refused;
use crate::error::{Error, Result};
use crate::gguf::{Array, Entry, Metadata, Strings, Value};
use crate::models::tokenizer::vocabulary;
use crate::text::{BlankRuns, LeadingBlank, TokenRule, Tokenizer, VocabData, pretokenizer_like};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Token types of GGUF: ordinary ones, text that is always one token, and what is never produced.
const NORMAL: i32 = 1;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// SentencePiece's blank.
const BLANK: char = '\u{2581}';

/// The keys of a tokenizer, in a file of that architecture whose table of embeddings has `rows` rows and whose
/// `general.name` is `name`. `scores` is what the folder's `tokenizer.model` says, if it has one.
///
/// # Errors
/// As [`Tokenizer::new`]; `BadFile` for more tokens than rows; `Unsupported` for what GGUF has no word for.
pub fn tokenizer_keys(
    data: &VocabData,
    scores: Option<&VocabData>,
    architecture: &str,
    name: &str,
    rows: u64,
) -> Result<Vec<(String, Value)>> {
    let wanted = Tokenizer::new(data.clone())?;
    let mut data = data.clone();
    match data.model.as_str() {
        "gpt2" => byte_level(&mut data)?,
        "gemma4" if architecture == "gemma4" => {
            // Whatever such a file says, readers put a BOS before its texts, and no blank.
            if !wanted.add_bos() || data.leading_blank != Some(LeadingBlank::Never) {
                let what = "what is put before texts is not what files of Gemma 4 imply";
                return Err(refused(what).at("tokenizer.json"));
            }
            data.pre = "gemma4".into();
        }
        "gemma4" => {
            data.scores = match scores.and_then(|other| scores_of(&data, other)) {
                Some(scores) => scores,
                None => scores_of_merges(&data)?,
            };
            data.model = "llama".into();
            data.merges.clear();
        }
        _ => {}
    }
    if data.model != "gpt2" {
        // Such tokens are looked for in text, which has blanks.
        let types = data.token_types.iter().flatten();
        for (token, _) in data.tokens.iter_mut().zip(types).filter(|(_, t)| **t == USER_DEFINED) {
            *token = token.replace(BLANK, " ");
        }
    }
    blanks(&data)?;
    pad(&mut data, rows)?;
    // Tokens that end an answer: two of them have keys beside EOS, and some are known by their names.
    let of = |data: &VocabData| -> Result<(Vec<(String, Value)>, Tokenizer)> {
        let keys = keys(data, &wanted);
        let named = ("general.name".to_string(), text(name));
        let entry =
            |(key, value): &(String, Value)| (key.clone(), Entry { value: value.clone(), at: 0 });
        let entries = keys.iter().chain([&named]).map(entry).collect();
        let read = vocabulary(&Metadata::new("the converted file", entries))?;
        rules(data, &read)?;
        Ok((keys, Tokenizer::new(read)?))
    };
    for _ in 0..2 {
        let (_, read) = of(&data)?;
        let missing = wanted.eog().iter().copied().find(|id| !read.eog().contains(id));
        match (missing, data.eot, data.eom) {
            (None, ..) => break,
            (id, None, _) => data.eot = id,
            (id, _, None) => data.eom = id,
            _ => break,
        }
    }
    let (keys, read) = of(&data)?;
    if read.eog() != wanted.eog() {
        let what = "more tokens end an answer than GGUF has keys for, or fewer than it implies";
        return Err(refused(what).at("generation_config.json"));
    }
    Ok(keys)
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn keys(data: &VocabData, wanted: &Tokenizer) -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = Vec::new();
    let mut put = |name: &str, value| all.push((format!("tokenizer.ggml.{name}"), value));
    put("model", text(&data.model));
    put("pre", text(if data.pre.is_empty() { "default" } else { &data.pre }));
    let strings = |list: &[String]| {
        Value::Array(Array::Strings(list.iter().map(String::as_str).collect::<Strings>()))
    };
    put("tokens", strings(&data.tokens));
    if !data.scores.is_empty() {
        put("scores", Value::Array(Array::F32(data.scores.clone())));
    }
    if let Some(types) = &data.token_types {
        put("token_type", Value::Array(Array::I32(types.clone())));
    }
    // Byte-level BPE without merges has an empty list: llama.cpp wants the key.
    if matches!(data.model.as_str(), "gpt2" | "gemma4") {
        put("merges", strings(&data.merges));
    }
    for (name, id) in data.named_ids() {
        if let Some(id) = id {
            put(&format!("{name}_token_id"), Value::U32(id));
        }
    }
    put("add_bos_token", Value::Bool(wanted.add_bos()));
    put("add_eos_token", Value::Bool(wanted.add_eos()));
    if data.model != "gpt2" {
        let blank = data.leading_blank != Some(LeadingBlank::Never);
        put("add_space_prefix", Value::Bool(blank));
    }
    if data.model == "t5" {
        let joined = data.blank_runs != Some(BlankRuns::Kept);
        put("remove_extra_whitespaces", Value::Bool(joined));
        if !data.charsmap.is_empty() {
            put("precompiled_charsmap", Value::Array(Array::U8(data.charsmap.clone())));
        }
    }
    all
}

/// Of byte-level BPE the name says how text is cut, whether it is brought to NFC, and whether a word that is a
/// token is taken whole.
fn byte_level(data: &mut VocabData) -> Result<()> {
    let found = pretokenizer_like(&data.pre, data.nfc, data.ignore_merges)?;
    data.pre = found
        .ok_or_else(|| {
            refused(format!(
                "no pre-tokenizer of GGUF cuts text as `{}` does with this tokenizer's NFC and \
                 ignore_merges",
                data.pre
            ))
            .at("tokenizer.json")
        })?
        .into();
    Ok(())
}

/// What becomes of blanks.
fn blanks(data: &VocabData) -> Result<()> {
    let has_words = data.token_types.iter().flatten().any(|&kind| kind == USER_DEFINED);
    let leading = data.leading_blank;
    let (model, runs) = (data.model.as_str(), data.blank_runs);
    let what = match (model, leading) {
        ("gpt2", Some(LeadingBlank::Always | LeadingBlank::Missing | LeadingBlank::First)) => {
            "a blank is put before text, which GGUF does not say of byte-level BPE"
        }
        ("llama", Some(LeadingBlank::Missing | LeadingBlank::First)) => {
            "a blank is put before some texts, and GGUF says it of all or of none"
        }
        ("t5", Some(LeadingBlank::Always | LeadingBlank::First)) => {
            "a blank is put before texts otherwise than GGUF says"
        }
        _ => match (model, runs) {
            ("llama", Some(BlankRuns::Joined | BlankRuns::JoinedAndStripped)) => {
                "runs of blanks are joined, which GGUF says of Unigram alone"
            }
            ("t5", Some(BlankRuns::Joined)) => {
                "runs of blanks are joined otherwise than GGUF says of Unigram"
            }
            ("gpt2" | "llama", _) if !data.charsmap.is_empty() => {
                "a table replaces characters of the text, which GGUF has of Unigram alone"
            }
            _ if data.user_defined_inside && has_words && leading != Some(LeadingBlank::Never) => {
                "user-defined tokens are looked for behind a blank that is put before the text"
            }
            _ => return Ok(()),
        },
    };
    Err(refused(what).at("the tokenizer"))
}

/// Fills the vocabulary up to the rows of the table.
fn pad(data: &mut VocabData, rows: u64) -> Result<()> {
    let tokens = data.tokens.len() as u64;
    if tokens > rows {
        let what = format!("the tokenizer has {tokens} tokens, and the model embeds {rows}");
        return Err(Error::bad_file(what)
            .at("the tokenizer")
            .hint("use the tokenizer that belongs to the weights"));
    }
    let types = data.token_types.get_or_insert_with(|| alloc::vec![1; tokens as usize]);
    for id in tokens..rows {
        data.tokens.push(format!("[PAD{id}]"));
        types.push(UNUSED);
        if !data.scores.is_empty() {
            data.scores.push(0.0);
        }
    }
    Ok(())
}

/// Which tokens take white space beside them: GGUF has no key for it, and readers go by the file's name.
fn rules(data: &VocabData, read: &VocabData) -> Result<()> {
    let special = |data: &VocabData| -> BTreeMap<u32, TokenRule> {
        let all = data.rules.iter().map(|(id, rule, _)| (*id, *rule));
        all.filter(|rule| rule.1 != TokenRule::default()).collect()
    };
    let (want, got) = (special(data), special(read));
    let ids = want.keys().chain(got.keys());
    let Some(&id) = ids.into_iter().find(|id| want.get(id) != got.get(id)) else { return Ok(()) };
    let token = data.tokens.get(id as usize).map_or("", String::as_str);
    let what = format!(
        "token {id} (`{token}`) takes the white space beside it, or does not, which GGUF cannot say"
    );
    Err(refused(what).at("the tokenizer"))
}

/// The scores of a `tokenizer.model`, where it has the same pieces; 0 for tokens that were added.
fn scores_of(data: &VocabData, other: &VocabData) -> Option<Vec<f32>> {
    let kinds = data.token_types.as_deref().unwrap_or_default();
    let of = |(id, token): (usize, &String)| match other.tokens.get(id) {
        Some(piece) if piece == token => other.scores.get(id).copied(),
        // An ordinary piece must be in both.
        _ if kinds.get(id).is_none_or(|&kind| kind == NORMAL) => None,
        _ => Some(0.0),
    };
    (other.model == "llama").then(|| data.tokens.iter().enumerate().map(of).collect())?
}

/// Scores by which the pieces of a `tokenizer.json` are merged in the order of its list. A score says of two pieces
/// that they may be merged, whichever two they are; so the list must have them all, one piece after the other.
fn scores_of_merges(data: &VocabData) -> Result<Vec<f32>> {
    let incomplete = || {
        refused("its merges cannot be said as scores of pieces")
            .at("tokenizer.json")
            .hint("put the model's tokenizer.model into the folder: it has the scores")
    };
    let kinds = data.token_types.as_deref().unwrap_or_default();
    let ordinary = |id: usize| kinds.get(id).is_none_or(|&kind| kind == NORMAL);
    let all = data.tokens.iter().enumerate().filter(|(id, _)| ordinary(*id));
    let ids: BTreeMap<&str, usize> = all.map(|(id, token)| (token.as_str(), id)).collect();
    // How many merges make each piece; the list is in the order of pieces.
    let mut made: BTreeMap<usize, usize> = BTreeMap::new();
    let mut scores = alloc::vec![0.0; data.tokens.len()];
    let mut last = None;
    for (rank, merge) in data.merges.iter().enumerate() {
        let piece = merge.replacen(' ', "", 1);
        // What becomes a control token merges nothing.
        let Some(&id) = ids.get(piece.as_str()) else { continue };
        if last != Some(id) {
            if made.contains_key(&id) {
                return Err(incomplete());
            }
            scores[id] = -(rank as f32) - 1.0;
            last = Some(id);
        }
        *made.entry(id).or_default() += 1;
    }
    for (piece, id) in &ids {
        let cuts = piece
            .char_indices()
            .skip(1)
            .filter(|&(at, _)| ids.contains_key(&piece[..at]) && ids.contains_key(&piece[at..]));
        if cuts.count() != made.get(id).copied().unwrap_or(0) {
            return Err(incomplete());
        }
    }
    Ok(scores)
}
