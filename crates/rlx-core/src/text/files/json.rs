//! `tokenizer.json`, of Hugging Face's tokenizers: what a file of a known form says, as plain values.
//!
//! Such a file composes a tokenizer of parts. Read are the compositions that published language models
//! have; a part of another kind, or a known one in another place, is refused by name.

use super::super::specials::TokenRule;
use super::super::vocab::{BlankRuns, LeadingBlank, VocabData};
use super::splits;
use crate::error::{Code, Error, Result};
use crate::safetensors::json::{Json, member};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

const BLANK: &str = "\u{2581}";
/// Ids that no token has are let be, as some files have them, up to so many.
const GAPS: usize = 1 << 16;

fn bad(what: impl Into<String>, at: &str) -> Error {
    Error::bad_file(what).at(at)
}

fn unsupported(what: impl Into<String>, at: &str) -> Error {
    let hint = "supported are byte-level BPE, SentencePiece's BPE and Unigram, as published files have them";
    Error::new(Code::Unsupported, what).at(at).hint(hint)
}

/// What kind a part is.
fn kind(part: &Json) -> &str {
    part.get("type").and_then(Json::as_str).unwrap_or("none")
}

fn flag(part: &Json, key: &str) -> Option<bool> {
    part.get(key).and_then(Json::as_bool)
}

/// The parts of a `Sequence`, of sequences in it, or the one part that there is.
fn parts<'a>(part: Option<&'a Json>, list: &str) -> Vec<&'a Json> {
    let mut out = Vec::new();
    // The JSON reader bounds how deep sequences stand in each other.
    let mut rest: Vec<&Json> = part.into_iter().collect();
    while let Some(part) = rest.pop() {
        match part.get(list).and_then(Json::as_array) {
            Some(inner) => rest.extend(inner.iter().rev()),
            None if *part == Json::Null => {}
            None => out.push(part),
        }
    }
    out
}

impl VocabData {
    /// Reads a `tokenizer.json`. Padding and truncation are not looked at: who encodes says how long a text
    /// may be. Added tokens are looked for in the text as it is given, also those that are marked as
    /// `normalized`.
    ///
    /// # Errors
    /// `BadFile` for what is missing or mistyped, `Unsupported` naming a part that RLX does not have.
    pub fn from_tokenizer_json(json: &Json) -> Result<Self> {
        let model = json.get("model").ok_or_else(|| bad("the model is missing", "model"))?;
        let mut data = VocabData { leading_blank: Some(LeadingBlank::Never), ..Self::default() };
        data.nfc = Some(false);
        let byte_level = read_texts(json, &mut data)?;
        match model.get("type").and_then(Json::as_str) {
            Some("BPE") => read_bpe(model, byte_level, &mut data)?,
            // Files of before the key.
            None if model.get("merges").is_some() => read_bpe(model, byte_level, &mut data)?,
            Some("Unigram") if !byte_level => read_unigram(model, &mut data)?,
            other => {
                let what = format!("a model of type {} is not supported", other.unwrap_or("none"));
                return Err(unsupported(what, "model.type"));
            }
        }
        read_added(json, &mut data)?;
        read_ends(json.get("post_processor"), &mut data)?;
        Ok(data)
    }
}

/// The normalizer and the pre-tokenizer: whether they make bytes of text.
fn read_texts(json: &Json, data: &mut VocabData) -> Result<bool> {
    // Whether blanks become U+2581, are stripped at the end, and collapse.
    let (mut marked, mut stripped, mut collapsed) = (false, false, false);
    for part in parts(json.get("normalizer"), "normalizers") {
        let refused = |what: String| Err(unsupported(what, "normalizer"));
        match kind(part) {
            "NFC" => data.nfc = Some(true),
            "Prepend" if text(part, "prepend") == Some(BLANK) => {
                data.leading_blank = Some(LeadingBlank::Always);
            }
            "Replace" => match (pattern(part), text(part, "content")) {
                (Some((false, " ")), Some(BLANK)) => marked = true,
                (Some((true, " {2,}")), Some(" " | BLANK)) => collapsed = true,
                (pattern, _) => {
                    let what = pattern.map_or("", |pattern| pattern.1);
                    return refused(format!("replacing `{what}` is not supported"));
                }
            },
            "Precompiled" => {
                let map = text(part, "precompiled_charsmap").unwrap_or_default();
                data.charsmap = base64(map).ok_or_else(|| {
                    bad("the precompiled_charsmap is no base64", "normalizer.precompiled_charsmap")
                })?;
            }
            "Strip" if flag(part, "strip_left") != Some(true) => {
                stripped = flag(part, "strip_right") == Some(true);
            }
            other => return refused(format!("a normalizer of type {other} is not supported")),
        }
    }
    if stripped != collapsed {
        let what = "stripping blanks at the end without collapsing them, or the reverse";
        return Err(unsupported(format!("{what}, is not supported"), "normalizer"));
    }
    let runs = if collapsed { BlankRuns::JoinedAndStripped } else { BlankRuns::Kept };
    data.blank_runs = Some(runs);

    let unigram = json.get("model").is_some_and(|model| kind(model) == "Unigram");
    let mut expressions: Vec<String> = Vec::new();
    let mut byte_level = false;
    for part in parts(json.get("pre_tokenizer"), "pretokenizers") {
        let refused = |what: String| Err(unsupported(what, "pre_tokenizer"));
        let behavior = text(part, "behavior").unwrap_or_default();
        let invert = flag(part, "invert").unwrap_or(false);
        match kind(part) {
            "ByteLevel" => {
                byte_level = true;
                if flag(part, "add_prefix_space").unwrap_or(true) {
                    data.leading_blank = Some(LeadingBlank::Missing);
                }
                if flag(part, "use_regex").unwrap_or(true) {
                    expressions.push(splits::BYTE_LEVEL.into());
                }
            }
            "Digits" => {
                let individual = flag(part, "individual_digits").unwrap_or(false);
                expressions.push(splits::digits(individual).into());
            }
            "Split" => match pattern(part) {
                // Blanks became U+2581, so there is none to split at.
                Some((false, " ")) if marked => {}
                // Expressions that match all of a text: what lies between is nothing.
                Some((true, regex))
                    if (behavior, invert) == ("Isolated", false)
                        || (behavior, invert) == ("Removed", true) =>
                {
                    expressions.push(regex.replace('\r', "\\r").replace('\n', "\\n"));
                }
                _ => {
                    let what = format!("splitting with behavior `{behavior}` is not supported");
                    return refused(what);
                }
            },
            "Metaspace" => {
                marked = true;
                let scheme = text(part, "prepend_scheme");
                let old = flag(part, "add_prefix_space").unwrap_or(true);
                data.leading_blank = Some(match scheme {
                    Some("never") => LeadingBlank::Never,
                    Some("first") => LeadingBlank::First,
                    None if !old => LeadingBlank::Never,
                    _ => LeadingBlank::Missing,
                });
                if text(part, "replacement").is_some_and(|r| r != BLANK) {
                    return refused("a Metaspace of another character is not supported".into());
                }
                if flag(part, "split").unwrap_or(true) != unigram {
                    let what = "a Metaspace that splits is supported for Unigram, for BPE one that does not";
                    return refused(what.into());
                }
            }
            other => return refused(format!("a pre-tokenizer of type {other} is not supported")),
        }
    }
    if marked == byte_level {
        let what = "text is neither made bytes nor are blanks replaced by U+2581, or both";
        return Err(unsupported(what, "pre_tokenizer"));
    }
    if expressions.is_empty() && !byte_level {
        return Ok(false);
    }
    let Some(name) = splits::named(&expressions).filter(|_| byte_level) else {
        let what = format!("the expressions `{}` are not known", expressions.join("`, `"));
        return Err(unsupported(what, "pre_tokenizer"));
    };
    data.pre = name.into();
    Ok(byte_level)
}

fn text<'a>(part: &'a Json, key: &str) -> Option<&'a str> {
    part.get(key).and_then(Json::as_str)
}

/// A pattern, and whether it is an expression.
fn pattern(part: &Json) -> Option<(bool, &str)> {
    let pattern = part.get("pattern")?;
    let regex = text(pattern, "Regex").map(|regex| (true, regex));
    regex.or_else(|| text(pattern, "String").map(|text| (false, text)))
}

fn read_bpe(model: &Json, byte_level: bool, data: &mut VocabData) -> Result<()> {
    for key in ["continuing_subword_prefix", "end_of_word_suffix"] {
        if text(model, key).is_some_and(|mark| !mark.is_empty()) {
            return Err(unsupported(format!("BPE with a {key} is not supported"), "model"));
        }
    }
    let fallback = flag(model, "byte_fallback").unwrap_or(false);
    data.model = if byte_level { "gpt2" } else { "gemma4" }.into();
    data.ignore_merges = Some(flag(model, "ignore_merges").unwrap_or(false));
    let vocab = model.get("vocab").and_then(Json::as_object);
    let vocab = vocab.ok_or_else(|| bad("model.vocab is no object", "model.vocab"))?;
    let most = 2 * vocab.len() + GAPS;
    for (token, id) in vocab {
        let id = id.as_u64().filter(|&id| id < most as u64);
        let id = id.ok_or_else(|| bad(format!("the id of `{token}` is none"), "model.vocab"))?;
        let byte = fallback && !byte_level && is_byte(token);
        put(data, id as usize, token, if byte { 6 } else { 1 });
    }
    let merges = model.get("merges").and_then(Json::as_array);
    let merges = merges.ok_or_else(|| bad("model.merges is no list", "model.merges"))?;
    for (at, merge) in merges.iter().enumerate() {
        let pair = merge.as_array().and_then(|pair| match pair {
            [left, right] => Some(format!("{} {}", left.as_str()?, right.as_str()?)),
            _ => None,
        });
        let merge = pair.or_else(|| merge.as_str().map(ToString::to_string));
        let merge =
            merge.ok_or_else(|| bad(format!("merge {at} is not two pieces"), "model.merges"))?;
        data.merges.push(merge);
    }
    if let Some(unk) = text(model, "unk_token") {
        let id = member(vocab, unk).and_then(Json::as_u64);
        data.unk = id.map(|id| id as u32);
    }
    Ok(())
}

fn read_unigram(model: &Json, data: &mut VocabData) -> Result<()> {
    data.model = "t5".into();
    let vocab = model.get("vocab").and_then(Json::as_array);
    let vocab = vocab.ok_or_else(|| bad("model.vocab is no list", "model.vocab"))?;
    let fallback = flag(model, "byte_fallback").unwrap_or(false);
    let unk = model.get("unk_id").and_then(Json::as_u64);
    for (id, entry) in vocab.iter().enumerate() {
        let piece = entry.as_array().and_then(|entry| match entry {
            [token, score] => Some((token.as_str()?, score.as_f64()?)),
            _ => None,
        });
        let Some((token, score)) = piece else {
            return Err(bad(format!("piece {id} is no text with a score"), "model.vocab"));
        };
        let special = if unk == Some(id as u64) { 2 } else { 1 };
        put(data, id, token, if fallback && is_byte(token) { 6 } else { special });
        data.scores.push(score as f32);
    }
    data.unk = unk.and_then(|id| u32::try_from(id).ok());
    Ok(())
}

/// Whether a token is a byte, `<0x0A>`.
fn is_byte(token: &str) -> bool {
    token.len() == 6 && token.starts_with("<0x") && token.ends_with('>')
}

/// Puts a token at its id; ids between that no token has are unused.
fn put(data: &mut VocabData, id: usize, token: &str, kind: i32) {
    let kinds = data.token_types.get_or_insert_default();
    if data.tokens.len() <= id {
        data.tokens.resize(id + 1, String::new());
        kinds.resize(id + 1, 5);
    }
    data.tokens[id] = token.into();
    kinds[id] = kind;
}

/// Added tokens: those that are recognised in a text.
fn read_added(json: &Json, data: &mut VocabData) -> Result<()> {
    const AT: &str = "added_tokens";
    let added = json.get(AT).and_then(Json::as_array).unwrap_or(&[]);
    let most = (2 * (data.tokens.len() + added.len()) + GAPS) as u64;
    for token in added {
        let content = text(token, "content").ok_or_else(|| bad("a token has no content", AT))?;
        let id = token.get("id").and_then(Json::as_u64).filter(|&id| id < most);
        let id = id.ok_or_else(|| bad(format!("the id of `{content}` is none"), AT))?;
        let on = |key: &str| flag(token, key).unwrap_or(false);
        let rule =
            TokenRule { left: on("lstrip"), right: on("rstrip"), whole_word: on("single_word") };
        put(data, id as usize, content, if on("special") { 3 } else { 4 });
        data.rules.push((id as u32, rule, content.into()));
    }
    if !data.scores.is_empty() {
        data.scores.resize(data.tokens.len(), 0.0);
    }
    Ok(())
}

/// What the post-processor puts before a text and behind it.
fn read_ends(part: Option<&Json>, data: &mut VocabData) -> Result<()> {
    const AT: &str = "post_processor";
    (data.add_bos, data.add_eos) = (Some(false), Some(false));
    for part in parts(part, "processors") {
        match kind(part) {
            "ByteLevel" => {}
            "TemplateProcessing" => {
                let single = part.get("single").and_then(Json::as_array).unwrap_or(&[]);
                let is_text = |part: &Json| part.get("Sequence").is_some();
                let at =
                    single.iter().position(is_text).filter(|&at| at < 2 && single.len() <= at + 2);
                let Some(at) = at else {
                    let what = "a template of more than one token before a text or behind it";
                    return Err(unsupported(format!("{what} is not supported"), AT));
                };
                let id = |part: &Json| -> Result<u32> {
                    let name = part.get("SpecialToken").and_then(|token| text(token, "id"));
                    let id = name.and_then(|name| data.tokens.iter().position(|t| t == name));
                    id.map(|id| id as u32).ok_or_else(|| bad("the template names no token", AT))
                };
                let bos = single[..at].first().map(id).transpose()?;
                let eos = single[at + 1..].first().map(id).transpose()?;
                (data.add_bos, data.add_eos) = (Some(bos.is_some()), Some(eos.is_some()));
                (data.bos, data.eos) = (bos, eos);
            }
            other => {
                let what = format!("a post-processor of type {other} is not supported");
                return Err(unsupported(what, AT));
            }
        }
    }
    Ok(())
}

/// The bytes of a text in base64, padded or not; `None` for any other character.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = vec![];
    let (mut bits, mut n) = (0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, n) = (bits << 6 | u32::from(value), n + 6);
        if n >= 8 {
            n -= 8;
            out.push((bits >> n) as u8);
            bits &= (1 << n) - 1;
        }
    }
    Some(out)
}
