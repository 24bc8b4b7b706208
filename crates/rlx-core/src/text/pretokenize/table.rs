//! The expressions of published tokenizers, part by part, and the names that llama.cpp gives them.
//!
//! Where llama.cpp adapted an expression so that its engine could run it, the published one stands here
//! (`tekken` and `gpt-4o` keep marks with their letters and know upper case outside of ASCII), and where
//! its engine deviates from what the expression says, what it says (`youtu`, `deepseek-llm`,
//! `deepseek-coder`). Of its names these are missing: `jais-2`, whose runs of blanks by powers of two
//! would be scanned over and over, `superbpe`, `tiny_aya` and `cohere2moe`, which count digits from the
//! right, `kimi-k2` and `afmoe`, which are no expressions, and `whitespace`, of an encoder alone.

use super::super::unicode::is_white_space;
use super::pattern::Part::{
    AnyContraction, BeforeWhite, Contraction, MaybeContraction, Run, SpacedLetters, Text,
};
use super::pattern::*;
use super::{Pretokenizer, Stage};

/// As many as there are.
const MANY: usize = usize::MAX;

/// One alternative: its parts, one behind the other.
type Parts = &'static [Part];

const fn maybe(set: Set) -> Part {
    Run(Chars::Of(set), 0, 1)
}
const fn one(set: Set) -> Part {
    Run(Chars::Of(set), 1, 1)
}
const fn some(set: Set) -> Part {
    Run(Chars::Of(set), 1, MANY)
}
const fn any(set: Set) -> Part {
    Run(Chars::Of(set), 0, MANY)
}
const fn up_to(max: usize, set: Set) -> Part {
    Run(Chars::Of(set), 1, max)
}
const fn some_in(ranges: &'static [(char, char)]) -> Part {
    Run(Chars::In(ranges), 1, MANY)
}

/// `[^\s\p{L}\p{N}]`
const OTHERS: Set = ALL & !(WHITE | LETTER | NUMBERS);
/// `[^\r\n\p{L}\p{N}]?`, which letters may follow.
const LEAD: Part = maybe(ALL & !(LINE_BREAK | LETTER | NUMBERS));

// Alternatives that many expressions have.
const ANY_CASE: Parts = &[AnyContraction];
const LETTERS: Parts = &[LEAD, some(LETTER)];
const NUMBER: Parts = &[one(NUMBERS)];
const NUMBER_3: Parts = &[up_to(3, NUMBERS)];
const OTHER_LINES: Parts = &[maybe(SPACE), some(OTHERS), any(LINE_BREAK)];
const OTHER_LINES_SLASHES: Parts = &[maybe(SPACE), some(OTHERS), any(LINE_BREAK | SLASH)];
const LINES: Parts = &[any(WHITE), some(LINE_BREAK)];
const LINE: Parts = &[any(WHITE), one(LINE_BREAK)];
const BLANKS: Parts = &[some(WHITE), BeforeWhite];
const BLANK: Parts = &[some(WHITE)];

/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]` and `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
const HIGH: Set = (LETTER & !LOWERS) | MARK;
const LOW: Set = (LETTER & !UPPERS) | MARK;

const LLAMA3: Stage = &[ANY_CASE, LETTERS, NUMBER_3, OTHER_LINES, LINES, BLANKS, BLANK];
const QWEN2: Stage = &[ANY_CASE, LETTERS, NUMBER, OTHER_LINES, LINES, BLANKS, BLANK];
const QWEN35: Stage = &[
    ANY_CASE,
    &[LEAD, some(LETTER | MARK)],
    NUMBER,
    &[maybe(SPACE), some(OTHERS & !MARK), any(LINE_BREAK)],
    LINES,
    BLANKS,
    BLANK,
];
const BAILING: Stage = &[ANY_CASE, LETTERS, NUMBER, OTHER_LINES, LINE, BLANKS, BLANK];
const SEED: Stage =
    &[ANY_CASE, LETTERS, NUMBER, &[maybe(SPACE), some(OTHERS)], LINES, BLANKS, BLANK];
const UFAKZEKA: Stage = &[LETTERS, NUMBER, OTHER_LINES, LINES, BLANKS, BLANK];
const MINICPM5: Stage = &[ANY_CASE, LETTERS, &[some(NUMBERS)], OTHER_LINES, LINES, BLANKS, BLANK];
const EXAONE: Stage = &[
    ANY_CASE,
    &[LEAD, SpacedLetters],
    NUMBER,
    &[maybe(SPACE), some(OTHERS), maybe(LINE_BREAK | SLASH)],
    LINE,
    BLANKS,
    BLANK,
];
const GPT2: Stage = &[
    &[Contraction],
    &[maybe(SPACE), some(LETTER)],
    &[maybe(SPACE), some(NUMBERS)],
    &[maybe(SPACE), some(OTHERS)],
    BLANKS,
];
const TEKKEN: Stage = &[
    &[LEAD, any(HIGH), some(LOW)],
    &[LEAD, some(HIGH), any(LOW)],
    NUMBER,
    OTHER_LINES_SLASHES,
    LINES,
    BLANKS,
    BLANK,
];
const YOUTU: Stage = &[
    &[LEAD, any(HIGH), some(LOW), MaybeContraction],
    &[LEAD, some(HIGH), any(LOW), MaybeContraction],
    NUMBER,
    OTHER_LINES_SLASHES,
    LINES,
    BLANKS,
    BLANK,
];
const GPT4O: Stage = &[
    &[LEAD, any(HIGH), some(LOW), MaybeContraction],
    &[LEAD, some(HIGH), any(LOW), MaybeContraction],
    NUMBER_3,
    OTHER_LINES_SLASHES,
    LINES,
    BLANKS,
    BLANK,
];
/// As `gpt-4o`, with case in ASCII alone.
const GRANITE: Stage = &[
    &[
        LEAD,
        any((LETTER | MARK) & !ASCII_LOWER),
        some((LETTER | MARK) & !ASCII_UPPER),
        MaybeContraction,
    ],
    &[
        LEAD,
        some((LETTER | MARK) & !ASCII_LOWER),
        any((LETTER | MARK) & !ASCII_UPPER),
        MaybeContraction,
    ],
    NUMBER_3,
    OTHER_LINES_SLASHES,
    LINES,
    BLANKS,
    BLANK,
];

const PUNCTUATED: Parts = &[one(ASCII_P_S), some(ASCII_UPPER | ASCII_LOWER)];
const MARKED: Parts = &[maybe(ALL & !(LINE_BREAK | LETTER | P | S)), some(LETTER | MARK)];
const DEEPSEEK3: Stage =
    &[PUNCTUATED, MARKED, &[maybe(SPACE), some(P | S), any(LINE_BREAK)], LINES, BLANKS, BLANK];
const SPARK: Stage =
    &[PUNCTUATED, MARKED, &[maybe(SPACE), some(P | S)], &[one(LINE_BREAK)], BLANKS, BLANK];
/// Ideographs, Hiragana and Katakana.
const HAN_KANA: Parts = &[some_in(&[('\u{3040}', '\u{30ff}'), ('\u{4e00}', '\u{9fa5}')])];
/// `[一-龥ࠀ-一가-퟿]+`
const EASTERN: Parts = &[some_in(&[('\u{800}', '\u{9fa5}'), ('\u{ac00}', '\u{d7ff}')])];

/// What is one stage of several.
const EACH_LINE_BREAK: Stage = &[&[one(LINE_BREAK)]];
const EACH_NUMBER: Stage = &[NUMBER];
const NUMBERS_3: Stage = &[NUMBER_3];
const ALL_LINES: Stage = &[&[some(ALL & !LF)], &[some(LF)]];
const DIGITS_3: Stage = &[&[Run(Chars::Of(DIGIT), 3, 3)]];
const PORO: Stage = &[&[maybe(SPACE), Run(Chars::Except("(|.,!?…。，、।۔،)"), 1, MANY)]];
/// Hangul, punctuation of Chinese, Bopomofo, and the other Eastern scripts.
const YOUTU_SCRIPTS: Stage = &[
    &[some_in(&[('\u{3131}', '\u{318e}'), ('\u{ac00}', '\u{d7a3}')])],
    &[some_in(&[
        ('—', '—'),
        ('‘', '’'),
        ('“', '”'),
        ('…', '…'),
        ('\u{3001}', '\u{303f}'),
        ('\u{fe30}', '\u{fe4f}'),
        ('！', '！'),
        ('，', '，'),
        ('：', '；'),
    ])],
    &[some_in(&[('\u{3105}', '\u{312f}')])],
    HAN_KANA,
];
/// `\s?[!-/:-~！-／：-～‘-‟　-。]+`
const DEEPSEEK_SIGNS: Stage = &[&[
    maybe(WHITE),
    some_in(&[
        ('!', '/'),
        (':', '~'),
        ('\u{2018}', '\u{201f}'),
        ('\u{3000}', '\u{3002}'),
        ('\u{ff01}', '\u{ff0f}'),
        ('\u{ff1a}', '\u{ff5e}'),
    ]),
]];
const DEEPSEEK_LETTERS: Stage = &[&[maybe(WHITE), some_in(CASED)]];

/// Letters with case, as `deepseek-llm` lists them.
#[rustfmt::skip]
const CASED: &[(char, char)] = &[
    ('\u{41}', '\u{5a}'), ('\u{61}', '\u{7a}'), ('\u{b5}', '\u{b5}'), ('\u{c0}', '\u{d6}'),
    ('\u{d8}', '\u{f6}'), ('\u{f8}', '\u{1ba}'), ('\u{1bc}', '\u{1bf}'), ('\u{1c4}', '\u{293}'),
    ('\u{295}', '\u{2af}'), ('\u{370}', '\u{373}'), ('\u{376}', '\u{376}'), ('\u{377}',
    '\u{377}'), ('\u{37b}', '\u{37d}'), ('\u{37f}', '\u{37f}'), ('\u{386}', '\u{386}'),
    ('\u{388}', '\u{38a}'), ('\u{38c}', '\u{38c}'), ('\u{38e}', '\u{3a1}'), ('\u{3a3}',
    '\u{3f5}'), ('\u{3f7}', '\u{481}'), ('\u{48a}', '\u{52f}'), ('\u{531}', '\u{556}'),
    ('\u{10a0}', '\u{10c5}'), ('\u{13a0}', '\u{13f5}'), ('\u{13f8}', '\u{13fd}'), ('\u{1c90}',
    '\u{1cba}'), ('\u{1cbd}', '\u{1cbf}'), ('\u{1d00}', '\u{1d2b}'), ('\u{1d6b}', '\u{1d77}'),
    ('\u{1d79}', '\u{1d9a}'), ('\u{1e00}', '\u{1f15}'), ('\u{1f18}', '\u{1f1d}'), ('\u{1f20}',
    '\u{1f45}'), ('\u{1f48}', '\u{1f4d}'), ('\u{1f50}', '\u{1f57}'), ('\u{1f59}', '\u{1f59}'),
    ('\u{1f5b}', '\u{1f5b}'), ('\u{1f5d}', '\u{1f5d}'), ('\u{1f5f}', '\u{1f7d}'), ('\u{1f80}',
    '\u{1fb4}'), ('\u{1fb6}', '\u{1fbc}'), ('\u{1fbe}', '\u{1fbe}'), ('\u{1fc2}', '\u{1fc4}'),
    ('\u{1fc6}', '\u{1fcc}'), ('\u{1fd0}', '\u{1fd3}'), ('\u{1fd6}', '\u{1fdb}'), ('\u{1fe0}',
    '\u{1fec}'), ('\u{1ff2}', '\u{1ff4}'), ('\u{1ff6}', '\u{1ffc}'), ('\u{2102}', '\u{2102}'),
    ('\u{2107}', '\u{2107}'), ('\u{210a}', '\u{2113}'), ('\u{2115}', '\u{2115}'), ('\u{2119}',
    '\u{211d}'), ('\u{2124}', '\u{2124}'), ('\u{2126}', '\u{2126}'), ('\u{2128}', '\u{2128}'),
    ('\u{212a}', '\u{212d}'), ('\u{212f}', '\u{2134}'), ('\u{2139}', '\u{2139}'), ('\u{213c}',
    '\u{213f}'), ('\u{2145}', '\u{2149}'), ('\u{214e}', '\u{214e}'), ('\u{2183}', '\u{2183}'),
    ('\u{2184}', '\u{2184}'), ('\u{2c00}', '\u{2c7b}'), ('\u{2c7e}', '\u{2ce4}'), ('\u{2ceb}',
    '\u{2cee}'), ('\u{2cf2}', '\u{2cf2}'), ('\u{2cf3}', '\u{2cf3}'), ('\u{a640}', '\u{a66d}'),
    ('\u{a680}', '\u{a69b}'), ('\u{a722}', '\u{a76f}'), ('\u{a771}', '\u{a787}'), ('\u{a78b}',
    '\u{a78e}'), ('\u{ab70}', '\u{abbf}'), ('\u{fb00}', '\u{fb06}'), ('\u{fb13}', '\u{fb17}'),
    ('\u{ff21}', '\u{ff3a}'), ('\u{ff41}', '\u{ff5a}'), ('\u{10400}', '\u{1044f}'),
    ('\u{104b0}', '\u{104d3}'), ('\u{104d8}', '\u{104fb}'), ('\u{10c80}', '\u{10cb2}'),
    ('\u{10cc0}', '\u{10cf2}'), ('\u{118a0}', '\u{118df}'), ('\u{1e900}', '\u{1e943}'),
];

/// `\s+$`, which has no alternatives of its own.
pub(super) const TAIL: Stage = &[];

/// Where the white space at the end of a text begins.
pub(super) fn tail(text: &str) -> usize {
    text.trim_end_matches(is_white_space).len()
}

pub(super) const PLAIN: Pretokenizer =
    Pretokenizer { stages: &[], nfc: false, ignore_merges: false, add_bos: false };

const fn of(stages: &'static [Stage]) -> Pretokenizer {
    Pretokenizer { stages, ..PLAIN }
}

/// Names in `tokenizer.ggml.pre` and what they mean.
pub(super) const TABLE: &[(&[&str], Pretokenizer)] = &[
    (
        &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        Pretokenizer { ignore_merges: true, add_bos: true, ..of(&[LLAMA3]) },
    ),
    (&["glm4", "glm5"], Pretokenizer { ignore_merges: true, ..of(&[LLAMA3]) }),
    (&["dbrx", "smaug-bpe", "chatglm-bpe"], of(&[LLAMA3])),
    (&["qwen2"], Pretokenizer { nfc: true, ..of(&[QWEN2]) }),
    (
        &[
            "deepseek-r1-qwen",
            "stablelm2",
            "kormo",
            "f2llmv2",
            "megrez",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        of(&[QWEN2]),
    ),
    (&["bailingmoe", "bailingmoe2", "llada-moe"], of(&[BAILING])),
    (&["qwen35"], Pretokenizer { nfc: true, ..of(&[QWEN35]) }),
    (&["laguna"], of(&[ALL_LINES, QWEN2])),
    (&["seed-coder"], of(&[SEED])),
    (&["ufakzeka"], of(&[UFAKZEKA])),
    (&["exaone-moe"], of(&[EXAONE])),
    (&["minicpm5"], Pretokenizer { ignore_merges: true, ..of(&[NUMBERS_3, MINICPM5]) }),
    (&["tekken"], Pretokenizer { ignore_merges: true, add_bos: true, ..of(&[TEKKEN]) }),
    (&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], of(&[GPT4O])),
    (&["granite-embed-multi-97m"], Pretokenizer { ignore_merges: true, ..of(&[GRANITE]) }),
    (&["youtu"], Pretokenizer { ignore_merges: true, ..of(&[YOUTU_SCRIPTS, YOUTU]) }),
    (
        &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        of(&[NUMBERS_3, &[HAN_KANA], DEEPSEEK3]),
    ),
    (&["spark2_5"], of(&[NUMBERS_3, &[HAN_KANA], SPARK, EACH_NUMBER])),
    (
        &["deepseek-llm"],
        of(&[
            EACH_LINE_BREAK,
            DEEPSEEK_LETTERS,
            DEEPSEEK_SIGNS,
            TAIL,
            &[EASTERN],
            &[&[some(NUMBERS)]],
        ]),
    ),
    (
        &["deepseek-coder"],
        of(&[
            EACH_LINE_BREAK,
            &[&[maybe(WHITE), some(LETTER)]],
            &[&[maybe(WHITE), some(P)]],
            &[EASTERN],
            EACH_NUMBER,
        ]),
    ),
    (&["poro-chat", "bloom", "gpt3-finnish"], of(&[PORO])),
    (&["viking"], of(&[PORO, EACH_NUMBER])),
    (
        &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "roberta-bpe",
            "exaone4",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
        ],
        of(&[GPT2]),
    ),
    (
        &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        of(&[EACH_NUMBER, GPT2]),
    ),
    (&["falcon"], of(&[&[&[some(P | ASCII_SYMBOL | BACKTICK)]], GPT2, DIGITS_3])),
    (
        &["chameleon"],
        Pretokenizer {
            add_bos: true,
            ..of(&[
                &[&[Text("<sentinel:"), some(DIGIT), Text(">")]],
                &[&[Text("IMGIMG"), Run(Chars::In(&[('A', 'I')]), 1, 4), Text("Z")]],
                &[&[Run(Chars::In(&[('\t', '\n')]), 1, 1)], &[Text("    ")], &[Text("  ")]],
                EACH_NUMBER,
                &[&[one(P | ASCII_SYMBOL | BACKTICK)]],
                GPT2,
            ])
        },
    ),
    (&["gemma4", "granite-embed-multi-311m"], Pretokenizer { add_bos: true, ..of(&[ALL_LINES]) }),
    (&["sarvam-moe"], of(&[ALL_LINES])),
    (
        // Files from before `tokenizer.ggml.pre` say nothing.
        &["default", ""],
        of(&[&[&[some(P | ASCII_SYMBOL)]], GPT2, &[&[some(NUMBERS)]], DIGITS_3]),
    ),
];
