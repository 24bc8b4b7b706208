//! `rlx tokenize`: text to token ids and back.

use super::print_bytes;
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
    /// Read many texts, each ended by a zero byte, and print a line of ids for each; with `--decode`, read a line of
    /// ids for each text, and end each text with a zero byte
    #[arg(short = '0', long)]
    null: bool,
}

pub fn tokenize(args: &TokenizeArgs) -> Result<ExitCode> {
    let tokenizer = AnyTokenizer::open(&args.file)?;
    let mut input = Vec::new();
    let io = |e| Error::new(Code::Io, format!("stdin cannot be read: {e}"));
    std::io::stdin().lock().read_to_end(&mut input).map_err(io)?;
    let mut output = Vec::new();
    for part in parts(&input, args) {
        if args.decode {
            output.extend(tokenizer.decode(&ids(part)?)?);
            output.extend(args.null.then_some(0));
        } else {
            let ids = tokenizer.encode(part, !args.no_special);
            output.extend(line(&ids, args.json).bytes());
        }
    }
    print_bytes(&output)?;
    Ok(ExitCode::SUCCESS)
}

/// What stands for a text each: all of the input, or what its ends cut.
fn parts<'a>(input: &'a [u8], args: &TokenizeArgs) -> Vec<&'a [u8]> {
    if !args.null {
        return vec![input];
    }
    let end = if args.decode { b'\n' } else { 0 };
    let parts = input.split_inclusive(|&byte| byte == end);
    parts.map(|part| part.strip_suffix(&[end]).unwrap_or(part)).collect()
}

fn line(ids: &[u32], json: bool) -> String {
    let words: Vec<String> = ids.iter().map(u32::to_string).collect();
    if json { format!("[{}]\n", words.join(",")) } else { words.join(" ") + "\n" }
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
