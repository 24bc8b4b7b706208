//! A tokenizer of bytes: every text has tokens, one a byte, and the vocabulary has its real size.

use super::shapes::Shape;
use rlx_core::gguf::{Array, Strings, Value};
use serde_json::{Map, json};

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;

/// The ids of the begin and the end of a text, after the 256 bytes.
const BEGIN: u32 = 256;
pub(super) const END: u32 = 257;
const BEGIN_TEXT: &str = "<|begin_of_text|>";
const END_TEXT: &str = "<|end_of_text|>";

/// A message a line.
const TEMPLATE: &str = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}";

/// The character that spells a byte in GPT-2's alphabet: itself where it prints, else the next of
/// U+0100 and on.
fn spelled() -> impl Iterator<Item = char> {
    let mut next = 0x100..;
    (0..=255u32).map(move |byte| {
        let prints = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let code = if prints { Some(byte) } else { next.next() };
        code.and_then(char::from_u32).unwrap_or_default() // no code here is a surrogate
    })
}

/// The tokenizer's keys: 256 bytes, begin and end of a text, and unused tokens up to the size.
pub fn metadata(shape: &Shape) -> Vec<(String, Value)> {
    let mut tokens = Strings::new();
    let mut types = Vec::new();
    let mut push = |text: &str, kind: i32| {
        tokens.push(text); // far from 4 GiB
        types.push(kind);
    };
    for c in spelled() {
        push(c.encode_utf8(&mut [0; 4]), NORMAL);
    }
    push(BEGIN_TEXT, CONTROL);
    push(END_TEXT, CONTROL);
    for id in END + 1..shape.vocab {
        push(&format!("<|unused_{id}|>"), UNUSED);
    }
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    vec![
        (key("model"), Value::String("gpt2".into())),
        (key("pre"), Value::String(shape.family.pre().into())),
        (key("tokens"), Value::Array(Array::Strings(tokens))),
        (key("token_type"), Value::Array(Array::I32(types))),
        (key("merges"), Value::Array(Array::Strings(Strings::new()))),
        (key("bos_token_id"), Value::U32(BEGIN)),
        (key("eos_token_id"), Value::U32(END)),
        (key("add_bos_token"), Value::Bool(true)),
        ("tokenizer.chat_template".into(), Value::String(TEMPLATE.into())),
    ]
}

/// The same as a `tokenizer.json`, with a token that stands for none.
pub(super) fn tokenizer_json(vocab: u32, mask: u32) -> serde_json::Value {
    let mut tokens: Map<String, serde_json::Value> =
        spelled().zip(0..).map(|(c, id)| (c.into(), json!(id))).collect();
    let special = [(BEGIN, BEGIN_TEXT), (END, END_TEXT), (mask, "<|mask|>")];
    let unused = (END + 1..vocab).filter(|id| *id != mask);
    tokens.extend(unused.map(|id| (format!("<|unused_{id}|>"), json!(id))));
    let added = |(id, text): (u32, &str)| {
        json!({
            "id": id, "content": text, "special": true, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false,
        })
    };
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true,
    });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": special.map(added),
        "normalizer": null,
        "pre_tokenizer": bytes,
        "post_processor": null,
        "decoder": bytes,
        "model": { "type": "BPE", "vocab": tokens, "merges": [] },
    })
}

/// What stands in `tokenizer_config.json` beside it.
pub(super) fn tokenizer_config() -> serde_json::Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN_TEXT,
        "eos_token": END_TEXT,
        "add_bos_token": true,
        "chat_template": TEMPLATE,
    })
}
