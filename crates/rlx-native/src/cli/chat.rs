//! `rlx chat`: several turns. The caches keep earlier turns, so no turn is computed twice.

use super::options::{FormArgs, ModelArgs, Overflow, SampleArgs};
use super::run::AnswerJson;
use super::{print_json, print_text, report};
use crate::generate::chat_tokens;
use crate::load::Model;
use crate::lost::generate_again;
use crate::overflow::{Fitted, fit};
use clap::Args;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::text::Message;
use rlx_core::{Code, Error, Result};
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

#[derive(Args)]
pub struct ChatArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    sample: SampleArgs,
    #[command(flatten)]
    form: FormArgs,
    /// Text of the system turn
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Print one line of JSON for each turn
    #[arg(long)]
    json: bool,
}

/// No answer is in progress: Ctrl-C leaves.
const IDLE: u8 = 0;
/// An answer is in progress: Ctrl-C stops it.
const ANSWERING: u8 = 1;
/// The answer is stopping: Ctrl-C leaves.
const STOPPING: u8 = 2;

/// Listens for Ctrl-C.
fn watch() -> Result<Arc<AtomicU8>> {
    let phase = Arc::new(AtomicU8::new(IDLE));
    let seen = phase.clone();
    ctrlc::set_handler(move || {
        let stop = (Ordering::AcqRel, Ordering::Acquire);
        if seen.compare_exchange(ANSWERING, STOPPING, stop.0, stop.1).is_err() {
            std::process::exit(0);
        }
    })
    .map_err(|e| Error::internal(format!("Ctrl-C cannot be watched: {e}")))?;
    Ok(phase)
}

/// The next line without its line ending; `None` at the end of the input.
fn read_line(input: &mut impl BufRead, number: usize) -> Result<Option<String>> {
    let mut line = Vec::new();
    let n = input
        .read_until(b'\n', &mut line)
        .map_err(|e| Error::new(Code::Io, format!("stdin cannot be read: {e}")))?;
    if n == 0 {
        return Ok(None);
    }
    let text = String::from_utf8(line).map_err(|e| {
        Error::usage(format!("byte {} is not UTF-8", e.utf8_error().valid_up_to()))
            .at(format!("stdin, line {number}"))
            .hint("send text in UTF-8")
    })?;
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// The prompt of a conversation; where the context slides, without the oldest questions and their answers if need be.
fn fitted(
    model: &Model,
    messages: &[Message],
    system: usize,
    overflow: Overflow,
    options: &mut GenerateOptions,
) -> Result<Fitted> {
    let without = |turns: usize| {
        let newest = &messages[system + 2 * turns..];
        chat_tokens(model, &[&messages[..system], newest].concat())
    };
    let context = model.engine.compiled().context as usize;
    match overflow {
        Overflow::Error => Ok(Fitted::whole(without(0)?)),
        Overflow::Slide => fit(context, (messages.len() - system) / 2, &without, options),
    }
}

pub fn chat(args: &ChatArgs) -> Result<ExitCode> {
    args.sample.generate(None)?; // a value out of range is said before a model is loaded
    let mut model = args.model.load(false)?;
    model.template.as_ref().map_err(Clone::clone)?;
    args.form.apply(&mut model)?;
    let mut options = args.sample.generate(model.temperature)?;
    let phase = watch()?;
    let system: Vec<Message> =
        args.system.iter().map(|text| Message::new("system", text)).collect();
    let mut messages = system.clone();
    let interactive = io::stdin().is_terminal();
    let mut input = io::stdin().lock();
    for number in 1.. {
        if interactive {
            print_text("> ")?;
        }
        let Some(line) = read_line(&mut input, number)? else { break };
        match line.trim() {
            "" => continue,
            "/reset" => {
                messages.clone_from(&system);
                model.engine.reset();
                continue;
            }
            _ => {}
        }
        messages.push(Message::new("user", line));
        phase.store(ANSWERING, Ordering::Release);
        let stopped = || phase.load(Ordering::Acquire) == STOPPING;
        let mut show = |text: &str| if args.json { Ok(()) } else { print_text(text) };
        let mut reopen = || {
            // On a line of its own: the answer starts again from its beginning.
            let _ = writeln!(io::stderr(), "\nthe device was lost: loading the model again");
            args.model.load(false)
        };
        let turn = fitted(&model, &messages, system.len(), args.sample.overflow, &mut options);
        let turn = turn.and_then(|turn| {
            let prompt = turn.prompt.clone();
            let answer =
                generate_again(&mut model, prompt, &options, &mut reopen, &stopped, &mut show)?;
            Ok((turn.left_out(&answer), answer))
        });
        phase.store(IDLE, Ordering::Release);
        match turn {
            Ok((left_out, answer)) => {
                if args.json {
                    print_json(&AnswerJson::of(&model, &answer, left_out, None))?;
                } else {
                    print_text("\n")?;
                }
                // The text of a stopped answer stays in the conversation.
                messages.push(Message::new("assistant", answer.text));
            }
            // The next question may be shorter, or begin a new chat.
            Err(e) if interactive && e.code == Code::ContextFull => {
                report(&e.hint("shorten it, or start over with /reset"));
                messages.pop();
            }
            Err(e) => return Err(e),
        }
    }
    if interactive {
        print_text("\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_ending_is_its_text() {
        let mut input: &[u8] = b"one\ntwo\r\n\nthree";
        let lines: Vec<_> = (1..=5).map(|n| read_line(&mut input, n).expect("UTF-8")).collect();
        let want = [Some("one"), Some("two"), Some(""), Some("three"), None];
        assert_eq!(lines, want.map(|line| line.map(str::to_owned)));
    }

    #[test]
    fn bytes_that_are_no_text_are_a_usage_error_with_their_line() {
        let mut input: &[u8] = b"ab\xff\n";
        let e = read_line(&mut input, 7).expect_err("not UTF-8");
        assert_eq!(e.to_string(), "byte 2 is not UTF-8 (stdin, line 7); send text in UTF-8");
        assert_eq!(e.code, Code::Usage);
    }
}
