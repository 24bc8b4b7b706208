//! `rlx tokenize`: text to token ids and back.

use super::{print_bytes, print_json, print_text};
use crate::tokens::AnyTokenizer;
use clap::Args;
use rlx_core::{Code, Error, Result};
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct TokenizeArgs {
    /// A GGUF file, with or without tensors; a transformers folder; or a tokenizer.json or tokenizer.model
    file: PathBuf,
    /// Print the ids as one JSON array
    #[arg(long, conflicts_with = "decode")]
    json: bool,
    /// Add no tokens that begin or end a text, and read what spells a control token as plain text
    #[arg(long, conflicts_with = "decode")]
    no_special: bool,
    /// Read ids from stdin and print their text; control tokens have none
    #[arg(long)]
    decode: bool,
}

pub fn tokenize(args: &TokenizeArgs) -> Result<ExitCode> {
    let tokenizer = AnyTokenizer::open(&args.file)?;
    let mut input = Vec::new();
    let io = |e| Error::new(Code::Io, format!("stdin cannot be read: {e}"));
    std::io::stdin().lock().read_to_end(&mut input).map_err(io)?;
    if args.decode {
        print_bytes(&tokenizer.decode(&ids(&input)?)?)?;
    } else {
        let ids = tokenizer.encode(&input, !args.no_special);
        if args.json {
            print_json(&ids)?;
        } else {
            let words: Vec<String> = ids.iter().map(u32::to_string).collect();
            print_text(&(words.join(" ") + "\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Ids as this command prints them: numbers between blanks, or a JSON array.
fn ids(input: &[u8]) -> Result<Vec<u32>> {
    let text = String::from_utf8_lossy(input);
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let words = inner.unwrap_or(text).split(|c: char| c.is_whitespace() || c == ',');
    let id = |word: &str| {
        word.parse().map_err(|_| {
            // What is no id may be a file of megabytes.
            let word: String = word.chars().take(40).collect();
            Error::usage(format!("`{word}` is no token id")).hint(
                "give ids as `rlx tokenize` prints them: numbers between blanks, or a JSON array",
            )
        })
    };
    words.filter(|word| !word.is_empty()).map(id).collect()
}
