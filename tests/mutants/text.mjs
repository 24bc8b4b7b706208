// Small defects in tokenizers, templates and the stream of text.

const at = (path) => `crates/rlx-core/src/text/${path}`;

export default [
  {
    name: 'guard-of-four-bytes', is: 'review', kind: 'bound', file: at('template/mod.rs'),
    from: 'n >= 3', to: 'n >= 4',
    stands: 'Content may hold three bytes of a control token, which a template can cut out and complete.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'guard-without-blanks', is: 'review', kind: 'condition', file: at('template/mod.rs'),
    from: 'text.trim_end().len()', to: 'text.len()',
    stands: 'Content that ends in a part of a control token and blanks joins the next content once it is trimmed.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'guard-with-cases', is: 'review', kind: 'condition', file: at('template/mod.rs'),
    from: 'a.eq_ignore_ascii_case(b)', to: 'a == *b',
    stands: 'Content may hold a control token in upper case, which a template can lower.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'two-begin-tokens', is: 'review', kind: 'guard', file: at('template/mod.rs'),
    from: 'ids.first() != Some(&bos)', to: 'true',
    stands: 'A prompt whose template wrote the begin token gets a second one.',
    tests: ['core:all noticed::', 'core:all text::'],
  },
  {
    name: 'bpe-ties-from-the-right', is: 'review', kind: 'order', file: at('bpe.rs'),
    from: 'queue.pop()',
    to: `{
                let mut same: Vec<Reverse<Pair>> = queue.pop().into_iter().collect();
                while let Some(&next) = queue.peek() {
                    if same.first().is_none_or(|first| first.0.rank != next.0.rank) {
                        break;
                    }
                    same.extend(queue.pop());
                }
                let last = same.pop();
                queue.extend(same);
                last
            }`,
    stands: 'Of two pairs of one rank the right one is merged first.',
    tests: ['core:all text::llama3_gives', 'core:lib text::'],
  },
  {
    name: 'template-mark-behind-one-character', is: 'new', kind: 'guard', file: at('template/mod.rs'),
    from: 'rest.starts_with(mark) && control.chars().count() == 1', to: '{ let _ = rest; false }',
    stands: 'Content may hold a control token of one character.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'template-mark-that-content-has', is: 'new', kind: 'guard', file: at('template/mod.rs'),
    from: 'input.for_each_text(&mut |text| text.chars().for_each(&mut note));', to: '', form: 'statement',
    stands: 'The mark may be a character of the content, which then disappears.',
    tests: ['core:all noticed::', 'core:all text::'],
  },
  {
    name: 'template-value-in-another-order', is: 'new', kind: 'order', file: 'crates/rlx-core/src/safetensors/json.rs',
    from: 'members.push((key, value));', to: 'members.insert(0, (key, value));', form: 'statement',
    stands: 'A template prints the keys of a tool in another order than Python does.',
    tests: ['core:all templates::', 'core:lib text::'],
  },
  {
    name: 'template-filters-of-nothing', is: 'new', kind: 'condition', file: at('template/filters.rs'),
    within: 'let rest = rest_of(args, at + 1);\n        if !value.is_true()', from: '!value.is_true()', to: 'false',
    stands: 'A template that selects among tools fails where there are none.',
    tests: ['core:lib text::'],
  },
  {
    name: 'template-literal-text-is-parsed', is: 'new', kind: 'operand', file: at('template/mod.rs'),
    from: 'if *literal { Special::Literal } else { Special::Parse }', to: '{ let _ = literal; Special::Parse }',
    stands: 'Control tokens that content spells are control tokens.',
    tests: ['core:all noticed::', 'core:all text::'],
  },
  {
    name: 'stream-stops-at-the-last', is: 'new', kind: 'order', file: at('stream.rs'),
    from: 'found.min()', to: 'found.max()',
    stands: 'Of two stop texts in one piece the later one ends the answer.',
    tests: ['core:all noticed::', 'core:lib text::stream', 'core:all text::'],
  },
  {
    name: 'stream-drops-half-a-character', is: 'new', kind: 'state', file: at('stream.rs'),
    from: 'self.held.push_str(&String::from_utf8_lossy(&self.bytes));', to: '', form: 'statement',
    stands: 'Half a character at the end of an answer disappears instead of being shown as one that is none.',
    tests: ['core:all noticed::', 'core:lib text::stream', 'core:all generate::'],
  },
  {
    name: 'stream-shows-control-tokens', is: 'new', kind: 'condition', file: at('stream.rs'),
    within: 'if tokenizer.is_control(id) { &[] }', from: 'tokenizer.is_control(id)', to: 'false',
    stands: 'Control tokens of an answer are shown as text.',
    tests: ['core:all noticed::', 'core:lib text::stream', 'core:all text::', 'core:all generate::'],
  },
  {
    name: 'begin-token-of-a-family', is: 'new', kind: 'condition', file: at('tokenizer.rs'),
    within: 'Family::Bytes | Family::Merges => pretokenizer.add_bos,', from: 'pretokenizer.add_bos', to: 'false',
    stands: 'A file that does not say whether a text begins with a begin token is not asked by its family.',
    tests: ['core:all noticed::', 'core:lib text::', 'core:all text::'],
  },
  {
    name: 'begin-token-of-every-family', is: 'new', kind: 'condition', file: at('tokenizer.rs'),
    within: 'Family::Bytes | Family::Merges => pretokenizer.add_bos,', from: 'pretokenizer.add_bos', to: 'true',
    stands: 'A file that does not say whether a text begins with a begin token gets one, whatever its pre-tokenizer does.',
    tests: ['core:lib text::', 'core:all text::'],
  },
  {
    name: 'no-normal-form', is: 'new', kind: 'condition', file: at('tokenizer.rs'),
    within: 'if self.nfc {', from: 'self.nfc', to: 'false',
    stands: 'Text for families that normalise it is tokenized as it is.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'merges-of-whole-words', is: 'new', kind: 'condition', file: at('tokenizer.rs'),
    within: 'if *ignore_merges', from: '*ignore_merges', to: 'false',
    stands: 'A word that is a token is merged from its bytes all the same.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'shorter-special-token-first', is: 'new', kind: 'order', file: at('specials.rs'),
    from: 'found = Some(special)', to: 'found = found.or(Some(special))',
    stands: 'Of two special tokens that begin alike the shorter one is found.',
    tests: ['core:all noticed::', 'core:lib text::', 'core:all text::'],
  },
  {
    name: 'end-of-message-token', is: 'new', kind: 'operand', file: at('vocab.rs'),
    within: '[data.eos, data.eot, data.eom].into_iter().flatten().collect()', from: 'data.eom', to: 'None',
    stands: 'The end-of-message token of a file does not end an answer.',
    tests: ['core:all noticed::', 'core:lib text::', 'core:all text::'],
  },
  {
    name: 'byte-alphabet', is: 'new', kind: 'constant', file: at('vocab.rs'),
    from: 'c - 0x121 + 0x7f', to: 'c - 0x121 + 0x80',
    stands: 'The bytes 0x7f to 0xa0 of the byte alphabet are one too large.',
    tests: ['core:all noticed::', 'core:lib text::', 'core:all text::'],
  },
  {
    name: 'numbers-of-any-length', is: 'new', kind: 'bound', file: at('pretokenize/pattern.rs'),
    from: 'text.chars().take(max)', to: 'text.chars().take(if max > 1 { usize::MAX } else { max })',
    stands: 'Digits are not cut into words of three, or of one.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'blanks-at-the-end', is: 'new', kind: 'condition', file: at('pretokenize/pattern.rs'),
    from: 'text.chars().next().is_none_or(is_white_space)', to: 'text.chars().next().is_some_and(is_white_space)',
    stands: 'Blanks at the end of a text are two words.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'contractions-in-half-upper-case', is: 'new', kind: 'condition', file: at('pretokenize/pattern.rs'),
    from: 'byte.to_ascii_lowercase()', to: '(if at == 1 { byte } else { byte.to_ascii_lowercase() })',
    stands: 'The contraction of WE\'LL is not cut off, that of we\'ll is.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'normal-form-of-low-marks', is: 'new', kind: 'bound', file: at('unicode.rs'),
    from: '(c as u32) < 0x300', to: '(c as u32) < 0x340',
    stands: 'A letter with an accent of its own, such as e and U+0301, is not composed.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'marks-out-of-order', is: 'new', kind: 'order', file: at('unicode.rs'),
    from: 'order::sort_by_key(run, |&(combining, _)| combining);', to: '', form: 'statement',
    stands: 'Marks of one letter stay in the order in which they were typed.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'blocked-marks-compose', is: 'new', kind: 'bound', file: at('unicode.rs'),
    from: 'last >= combining', to: 'last > combining',
    stands: 'A mark composes with its letter across another one of its class.',
    tests: ['core:all noticed::', 'core:all text::', 'core:lib text::'],
  },
  {
    name: 'scores-lowest-first', is: 'new', kind: 'order', file: at('sentencepiece.rs'),
    from: 'bits >> 31 == 1', to: 'bits >> 31 == 0',
    stands: 'Of the pairs of a SentencePiece vocabulary the one with the lowest score merges first.',
    tests: ['core:all text::'],
  },
  {
    name: 'blank-before-every-text', is: 'new', kind: 'condition', file: at('sentencepiece.rs'),
    within: 'LeadingBlank::Never => false', from: 'false', to: 'true',
    stands: 'Gemma\'s tokenizer puts a blank before text, as Llama\'s does.',
    tests: ['core:all text::'],
  },
  {
    name: 'bytes-of-the-unknown', is: 'new', kind: 'guard', file: at('sentencepiece.rs'),
    from: 'self.vocab.byte_tokens(bytes)', to: 'self.vocab.byte_tokens(&[])',
    stands: 'A character without a token disappears instead of becoming its bytes.',
    tests: ['core:all text::'],
  },
  {
    name: 'white-space-behind-a-token', is: 'new', kind: 'condition', file: at('tokenizer.rs'),
    within: 'if found.rule.right {', from: 'found.rule.right', to: 'false',
    stands: 'White space behind a token that takes it is text.',
    tests: ['core:all text::'],
  },
  {
    name: 'unknown-scores-best', is: 'new', kind: 'operand', file: at('unigram.rs'),
    from: 'lowest - UNKNOWN', to: 'lowest + UNKNOWN',
    stands: 'Unigram takes the unknown character for a piece that it knows.',
    tests: ['core:all text::'],
  },
  {
    name: 'stream-keeps-the-first-blank', is: 'new', kind: 'condition', file: at('stream.rs'),
    from: 'tokenizer.drops_blank()', to: 'false',
    stands: 'An answer begins with the blank that the tokenizer put before its first word.',
    tests: ['core:all text::'],
  },
];
