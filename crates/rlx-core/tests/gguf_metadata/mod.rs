//! The few keys of a GGUF file that a tokenizer needs. It trusts the file: fixtures only.

use rlx_core::text::VocabData;
use std::collections::BTreeMap;

enum Value {
    Text(String),
    Number(i64),
    List(Vec<Value>),
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        *head
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    fn text(&mut self) -> String {
        let n = self.u64() as usize;
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        String::from_utf8(head.to_vec()).unwrap()
    }

    fn value(&mut self, kind: u32) -> Value {
        Value::Number(match kind {
            0 | 1 | 7 => i64::from(self.bytes::<1>()[0]),
            2 | 3 => i64::from(u16::from_le_bytes(self.bytes())),
            4..=6 => i64::from(self.u32() as i32),
            10..=12 => self.u64() as i64,
            8 => return Value::Text(self.text()),
            9 => {
                let (kind, n) = (self.u32(), self.u64());
                return Value::List((0..n).map(|_| self.value(kind)).collect());
            }
            _ => panic!("value type {kind}"),
        })
    }
}

/// The vocabulary and the chat template of a file.
pub fn vocabulary(file: &[u8]) -> (VocabData, Option<String>) {
    let mut cursor = Cursor(&file[16..]);
    let n = cursor.u64();
    let mut keys = BTreeMap::new();
    for _ in 0..n {
        let key = cursor.text();
        let kind = cursor.u32();
        keys.insert(key, cursor.value(kind));
    }
    let mut text = |key: &str| match keys.remove(&format!("tokenizer.{key}")) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    };
    let template = text("chat_template");
    let (model, pre) = (text("ggml.model").unwrap(), text("ggml.pre").unwrap_or_default());
    let number = |key: &str| match keys.get(&format!("tokenizer.ggml.{key}")) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    let id = |name: &str| number(&format!("{name}_token_id")).map(|id| id as u32);
    let list = |key: &str| match keys.get(&format!("tokenizer.ggml.{key}")) {
        Some(Value::List(list)) => list.as_slice(),
        _ => &[],
    };
    let texts = |key: &str| {
        list(key)
            .iter()
            .map(|v| if let Value::Text(v) = v { v.clone() } else { panic!() })
            .collect()
    };
    let types: Vec<i32> = list("token_type")
        .iter()
        .map(|v| if let Value::Number(v) = v { *v as i32 } else { panic!() })
        .collect();
    let data = VocabData {
        model,
        pre,
        tokens: texts("tokens"),
        token_types: (!types.is_empty()).then_some(types),
        merges: texts("merges"),
        bos: id("bos"),
        eos: id("eos"),
        eot: id("eot"),
        eom: id("eom"),
        unk: id("unknown"),
        pad: id("padding"),
        add_bos: number("add_bos_token").map(|v| v != 0),
        add_eos: number("add_eos_token").map(|v| v != 0),
    };
    (data, template)
}
