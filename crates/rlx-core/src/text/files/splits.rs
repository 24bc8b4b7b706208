//! Expressions of published `tokenizer.json` files, and the names of the pre-tokenizers that they are.
//!
//! An expression is known by its text, a line break in it as `\r` or `\n`: nothing here reads regular
//! expressions.

#[rustfmt::skip]
const GPT2: &str = r##"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"##;
#[rustfmt::skip]
const NUMBER: &str = r##"\p{N}"##;
#[rustfmt::skip]
const NUMBER_3: &str = r##"\p{N}{1,3}"##;
#[rustfmt::skip]
const HAN_KANA: &str = r##"[一-龥぀-ゟ゠-ヿ]+"##;
#[rustfmt::skip]
const EACH_LINE_BREAK: &str = r##"[\r\n]"##;
#[rustfmt::skip]
const EASTERN: &str = r##"[一-龥ࠀ-一가-퟿]+"##;
#[rustfmt::skip]
const CASED: &str = r##"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"##;
#[rustfmt::skip]
const SIGNS: &str = r##"\s?[!-/:-~！-／：-～‘-‟　-。]+"##;
#[rustfmt::skip]
const TAIL: &str = r##"\s+$"##;

/// What `ByteLevel` splits by where it is asked to.
pub(super) const BYTE_LEVEL: &str = GPT2;

/// The expression of `Digits`.
pub(super) fn digits(individual: bool) -> &'static str {
    if individual { NUMBER } else { r"\p{N}+" }
}

/// Names in `tokenizer.ggml.pre`, and the expressions that a file has for each, one after the other.
#[rustfmt::skip]
const KNOWN: &[(&str, &[&str])] = &[
    ("gpt-2", &[GPT2]),
    ("smollm", &[NUMBER, GPT2]),
    ("llama-bpe", &[r##"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##]),
    ("qwen2", &[r##"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##]),
    ("qwen35", &[r##"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##]),
    ("bailingmoe", &[r##"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"##]),
    ("tekken", &[r##"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"##]),
    ("gpt-4o", &[r##"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"##]),
    ("seed-coder", &[r##"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"##]),
    ("exaone-moe", &[r##"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"##]),
    ("minicpm5", &[NUMBER_3, r##"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##]),
    ("deepseek-v3", &[NUMBER_3, HAN_KANA, r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##]),
    ("spark2_5", &[NUMBER_3, HAN_KANA, r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##, NUMBER]),
    ("deepseek-coder", &[EACH_LINE_BREAK, r##"\s?\p{L}+"##, r##"\s?\p{P}+"##, EASTERN, NUMBER]),
    ("deepseek-llm", &[EACH_LINE_BREAK, CASED, SIGNS, TAIL, EASTERN, r##"\p{N}+"##]),
    ("deepseek-llm", &[EACH_LINE_BREAK, CASED, SIGNS, TAIL, EASTERN, NUMBER]),
    ("bloom", &[r##" ?[^(\s|.,!?…。，、।۔،)]+"##]),
    ("youtu", &[r##"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"##, r##"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"##]),
];

/// The pre-tokenizer that splits by these expressions.
pub(super) fn named(expressions: &[alloc::string::String]) -> Option<&'static str> {
    KNOWN.iter().find(|(_, known)| *known == expressions).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::words;

    #[test]
    fn every_name_is_one_of_a_pre_tokenizer() {
        for (name, _) in KNOWN {
            assert!(words(name, "").is_ok(), "{name}");
        }
    }
}
