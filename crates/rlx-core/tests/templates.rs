//! Hostile chat templates: each ends in a typed error, soon and within its memory, and what the
//! tokenizer and other templates do afterwards is what they did before.
#![cfg(feature = "jinja")]

use crate::gguf_metadata::vocabulary;
use rlx_core::Code;
use rlx_core::text::{ChatTemplate, Message, RenderOptions, TemplateValue, Tokenizer, encode_chat};
use std::path::Path;
use std::time::{Duration, Instant};

fn rustdoc() -> (Tokenizer, ChatTemplate) {
    let shard = "../../models/rustdoc-29m/rustdoc-29m-q4_k_m-00001-of-00003.gguf";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(shard);
    let (data, template) = vocabulary(&std::fs::read(path).unwrap());
    let tokenizer = Tokenizer::new(data).unwrap();
    let template = ChatTemplate::new(template.as_deref(), &tokenizer).unwrap();
    (tokenizer, template)
}

fn generate() -> RenderOptions {
    RenderOptions { add_generation_prompt: true, ..RenderOptions::default() }
}

/// What jinja2 made of the templates of `tests/fixtures/chat_templates`, by `tools/chat_templates.py`.
#[test]
fn recorded_templates_write_what_jinja_writes_and_fail_where_it_fails() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/chat_templates");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let parsed = |name: &str| TemplateValue::parse(&read(name)).unwrap();
    let (conversations, tools) = (parsed("conversations.json"), parsed("tools.json"));
    let TemplateValue::Map(expected) = parsed("expected.json") else { panic!("no object") };
    let (mut prompts, mut faults) = (0, 0);
    for (name, wanted) in &expected {
        let template = ChatTemplate::without_tokenizer(&read(name), "<s>", "</s>").unwrap();
        let cases = conversations.as_list().unwrap();
        assert_eq!(wanted.as_list().unwrap().len(), cases.len());
        for (case, want) in cases.iter().zip(wanted.as_list().unwrap()) {
            let title = case.get("name").unwrap();
            let mut options = RenderOptions { now: Some(1_792_000_000), ..generate() };
            options.add_generation_prompt = case.get("generate").is_none();
            if let Some(TemplateValue::Map(set)) = case.get("set") {
                options.variables.extend(set.iter().cloned());
            }
            if case.get("tools").is_some() {
                options.variables.push(("tools".into(), tools.clone()));
            }
            let got = template.render_json(case.get("messages").unwrap().clone(), &options);
            if let TemplateValue::Text(want) = want {
                assert_eq!(&got.unwrap().text(), want, "{name}: {title:?}");
                prompts += 1;
            } else {
                assert!(got.is_err(), "{name}: {title:?}");
                faults += 1;
            }
        }
    }
    assert!(prompts > 70 && faults > 5, "{prompts} prompts, {faults} faults");
}

const STEPS: &str = "did not end within";
const MEMORY: &str = "of memory";
const CALLS: &str = "nests deeper than 300 calls";
const LISTS: &str = "nests lists deeper than 100";
const SOURCE: &str = "nests deeper than 64";
const CHAIN: &str = "more than 200 steps";

/// Templates and a part of what is said of each.
fn bombs() -> Vec<(String, &'static str)> {
    let doubling = |body: &str| {
        format!(
            "{{% set ns = namespace(s='ab', l=[1]) %}}{{% for i in range(60) %}}{body}{{% endfor %}}"
        )
    };
    // A list of 2^60 leaves that takes 60 elements of memory.
    let shared = |then: &str| {
        let nest = "{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}";
        format!(
            "{{% set ns = namespace(l=[1], m=[1]) %}}{{% for i in range(60) %}}{nest}{{% endfor %}}{then}"
        )
    };
    let long = "{% set s = 'a' * 1000 * 8000 %}";
    let many = "{% set l = range(100000) | list %}";
    let repeat = |text: &str, n: usize| text.repeat(n);
    let mut bombs = vec![
        // Loops
        ("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}".into(), STEPS),
        ("{% for a in range(9000000000000000000) %}{% endfor %}".into(), MEMORY),
        ("{{ range(9000000000000000000) | length }}".into(), MEMORY),
        (format!("{{% for i in range(90000) %}}{}{{% endfor %}}", repeat("x", 100_000)), MEMORY),
        (format!("{long}{{% for i in range(90000) %}}{{% set t = s.count('ab') %}}{{% endfor %}}"), STEPS),
        (format!("{long}{{% for i in range(90000) %}}{{% set t = s == s ~ '' %}}{{% endfor %}}"), STEPS),
        (format!("{long}{{% for i in range(90000) %}}{{{{ s | length }}}}{{% endfor %}}"), STEPS),
        (format!("{long}{{{{ s.strip('b' * 1000000 ~ 'a') }}}}"), STEPS),
        (format!("{many}{{{{ l | sort | unique }}}}"), STEPS),
        (format!("{many}{{% for i in l %}}{{{{ -1 in l }}}}{{% endfor %}}"), STEPS),
        (format!("{many}{{% for i in l %}}{{{{ 'b'.startswith(l | map('string') | list) }}}}{{% endfor %}}"), STEPS),
        // Memory
        (doubling("{% set ns.s = ns.s ~ ns.s %}"), MEMORY),
        (doubling("{% set ns.s = ns.s + ns.s %}"), MEMORY),
        (doubling("{% set ns.s = ns.s * 2 %}"), MEMORY),
        (doubling("{% set ns.l = ns.l + ns.l %}"), MEMORY),
        (doubling("{% set ns.l = ns.l * 2 %}"), MEMORY),
        (doubling("{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}"), MEMORY),
        (doubling("{% set ns.s = [ns.s, ns.s] | join %}"), MEMORY),
        (doubling("{% set ns.s = ''.join([ns.s, ns.s]) %}"), MEMORY),
        (doubling("{% set ns.s = ns.s | replace('b', ns.s) %}"), MEMORY),
        (doubling("{% set ns.s = ns.s.replace('', ns.s) %}"), MEMORY),
        (doubling("{% set ns.s = '{0}{0}'.format(ns.s) %}"), MEMORY),
        (doubling("{% set ns.s = '%s%s' % (ns.s, ns.s) %}"), MEMORY),
        (doubling("{% set ns.s = ns.s | tojson | tojson ~ ns.s %}"), STEPS),
        (doubling("{% set ns.l = dict(ns.l | batch(1, ns.l), a=1) %}{{ ns.s * 100000000 }}"), STEPS),
        (doubling("{% macro m(a) %}{{ a }}{{ a }}{% endmacro %}{% set ns.s = m(ns.s) %}"), MEMORY),
        (doubling("{% set ns.s %}{% filter indent(100000) %}{{ ns.s }}\n\n{{ ns.s }}\nx{% endfilter %}{% endset %}"), MEMORY),
        ("{{ 'a' * 4000000000 }}".into(), STEPS),
        ("{{ 4000000000 * [1] }}".into(), MEMORY),
        ("{{ 'a\nb' | indent(4000000000) }}".into(), STEPS),
        ("{{ [1] | tojson(indent=4000000000) }}".into(), STEPS),
        ("{{ [1] | tojson(indent=9000000000000000000) }}".into(), STEPS),
        ("{{ [1] | batch(4000000000, 1) }}".into(), MEMORY),
        ("{{ [1] | slice(4000000000) }}".into(), MEMORY),
        (format!("{long}{{{{ strftime_now(s) }}}}"), STEPS),
        (format!("{long}{{{{ s[::-1] }}}}"), STEPS),
        (format!("{long}{{{{ s.split('a') }}}}"), MEMORY),
        (format!("{long}{{{{ s | list }}}}"), MEMORY),
        ("{% for i in range(300000) %}{% set n = namespace(a=1) %}{% endfor %}".into(), MEMORY),
        ("{% for i in range(300000) %}{% macro m() %}{% endmacro %}{% endfor %}".into(), MEMORY),
        // Recursion
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".into(), CALLS),
        ("{% macro m(a=m()) %}{% endmacro %}{{ m() }}".into(), CALLS),
        ("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}".into(), CALLS),
        ("{% macro m(f) %}{% call m(f) %}{{ f(f) }}{% endcall %}{% endmacro %}{{ m(m) }}".into(), CALLS),
        ("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns | tojson }}".into(), "no form in JSON"),
        ("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x | tojson }}".into(), "no form in JSON"),
        ("{% set ns = namespace(x=1) %}{% for i in range(200000) %}{% set ns.x = [ns.x] %}{% endfor %}".into(), LISTS),
        ("{% set ns = namespace(x=1) %}{% for i in range(200000) %}{% set ns.x = {'k': ns.x} %}{% endfor %}".into(), LISTS),
        ("{% set ns = namespace(x=[1]) %}{% for i in range(200) %}{% for j in ns.x %}{% set ns.x = [loop] %}{% endfor %}{% endfor %}".into(), LISTS),
        (shared("{{ ns.l }}"), STEPS),
        (shared("{{ ns.l | tojson }}"), STEPS),
        (shared("{{ ns.l == ns.m }}"), STEPS),
        (shared("{{ ns.l < ns.m }}"), STEPS),
        (shared("{{ ns.m in [ns.l] }}"), STEPS),
        (shared("{{ [ns.l, ns.m] | sort }}"), STEPS),
        (shared("{{ [ns.l, ns.m] | unique }}"), STEPS),
        (shared("{{ raise_exception(ns.l) }}"), STEPS),
        // The source
        (repeat("{% if true %}", 20_000), SOURCE),
        (repeat("{% for a in x %}", 10_000), SOURCE),
        (format!("{{{{ {}", repeat("not ", 50_000) + "1 }}"), SOURCE),
        (format!("{{{{ {}", repeat("-", 100_000) + "1 }}"), SOURCE),
        (format!("{{{{ 1 {} }}}}", repeat("if 1 else 1 ", 20_000)), SOURCE),
        (format!("{{{{ a{} }}}}", repeat(" if a", 20_000)), CHAIN),
        (format!("{{{{ 1{} }}}}", repeat("+1", 100_000)), CHAIN),
        (format!("{{{{ 1{} }}}}", repeat("**1", 80_000)), CHAIN),
        (format!("{{{{ 1{} }}}}", repeat(" or 1", 50_000)), CHAIN),
        (format!("{{{{ a{} }}}}", repeat(".b", 100_000)), CHAIN),
        (format!("{{{{ a{} }}}}", repeat("|d", 100_000)), CHAIN),
        (format!("{{{{ a{} }}}}", repeat("()", 100_000)), CHAIN),
        (format!("{{{{ a{} }}}}", repeat(" is b", 50_000)), CHAIN),
        (format!("{{{{ f({}) }}}}", repeat("1,", 100_000)), "more than 64 arguments"),
        (format!("{{{{ {} }}}}", repeat("a", 200_000)), "more than 128 bytes"),
        (repeat("x", 300_000), "300000 bytes, at most 262144"),
        (repeat("{# {% raw %}", 20_000), "a comment does not end"),
        (repeat("{% raw %}", 20_000), "a raw block does not end"),
    ];
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{1:", "}"),
        ("a[", "]"),
        ("a(", ")"),
        ("a|d(", ")"),
        ("a is b(", ")"),
    ] {
        let (open, close) = (repeat(open, 20_000), repeat(close, 20_000));
        bombs.push((format!("{{{{ {open}1{close} }}}}"), SOURCE));
    }
    bombs
}

#[test]
fn a_hostile_template_is_an_error_soon_and_leaves_the_others_working() {
    let (tokenizer, good) = rustdoc();
    let messages = [Message::new("user", "hi")];
    let before = encode_chat(&tokenizer, &good.render(&messages, &generate()).unwrap());
    let mut wrong = Vec::new();
    for (source, what) in bombs() {
        let shown: String = source.chars().take(160).collect();
        let start = Instant::now();
        let rendered = ChatTemplate::new(Some(&source), &tokenizer).and_then(|template| {
            template.render(&messages, &RenderOptions { now: Some(0), ..generate() })
        });
        // A second is for release builds; this one is slower, and shares its machine.
        let late = start.elapsed() > Duration::from_secs(10);
        match rendered {
            Err(e)
                if !late
                    && e.code == Code::BadFile
                    && e.what.contains(what)
                    && e.at.starts_with("tokenizer.chat_template")
                    && e.hint == "use `--raw` to send the prompt as it is" => {}
            Err(e) => wrong.push(format!("{shown}: {e} after {:?}", start.elapsed())),
            Ok(_) => wrong.push(format!("{shown}: it rendered")),
        }
        let after = encode_chat(&tokenizer, &good.render(&messages, &generate()).unwrap());
        assert_eq!(after, before);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_fault_names_its_line_and_is_not_longer_than_people_read() {
    let (tokenizer, _) = rustdoc();
    let template = |source: &str| ChatTemplate::new(Some(source), &tokenizer).unwrap();
    let messages = [Message::new("user", "<|im_end|>")];
    let source =
        "a\n{% for a in range(100000) %}\n{% for b in range(100000) %}\n{% endfor %}{% endfor %}";
    let e = template(source).render(&messages, &generate()).unwrap_err();
    let (start, end) = ("the chat template did not end within ", " steps");
    assert!(e.what.starts_with(start) && e.what.ends_with(end), "{e}");
    assert_eq!(e.at, "tokenizer.chat_template, line 3");
    let e = template("{{ raise_exception(messages[0].content ~ 'é' * 5000) }}");
    let e = e.render(&messages, &generate()).unwrap_err();
    assert_eq!(e.code, Code::Usage);
    // Without the mark that guards the content.
    assert!(e.what.starts_with("the chat template refused the conversation: <|im_end|>é"), "{e}");
    assert!(e.what.chars().count() < 1100);
}

/// Reads each message several times, looks back over all of them, and collects a text.
const BUSY: &str = "{% set ns = namespace(all='', last=0) %}\
    {% for m in messages[::-1] %}{% if m.role == 'user' %}{% set ns.last = loop.index %}{% endif %}{% endfor %}\
    {% for m in messages %}{% set c = m.content | trim %}\
    {% if '</think>' in c %}{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}\
    {% set ns.all = ns.all ~ '<|im_start|>' ~ m.role ~ '\\n' ~ c.replace('\\r', '') ~ '<|im_end|>' %}\
    {% endfor %}{{ ns.all }}";

/// Looks from each message over all that follow it, as Gemma 4's does.
const AHEAD: &str = "{% for m in messages %}{{ '<|im_start|>' ~ m.content | trim ~ '<|im_end|>' }}\
    {% set next = namespace(role=none, found=false) %}\
    {% for j in range(loop.index0 + 1, messages | length) %}{% if not next.found %}\
    {% if messages[j]['role'] != 'tool' %}\
    {% set next.role = messages[j]['role'] %}{% set next.found = true %}\
    {% endif %}{% endif %}{% endfor %}{% endfor %}";

#[test]
fn huge_conversations_of_honest_templates_render() {
    let (tokenizer, good) = rustdoc();
    let busy = ChatTemplate::new(Some(BUSY), &tokenizer).unwrap();
    for (n, words) in [(1, 400_000), (301, 1000), (2000, 50), (10_000, 1)] {
        let content = "word </think> ".repeat(words / 2 + 1);
        let turns: Vec<Message> = (0..n)
            .map(|i| Message::new(if i % 2 == 0 { "user" } else { "assistant" }, &*content))
            .collect();
        for template in [&good, &busy] {
            let rendered = template.render(&turns, &generate()).unwrap();
            assert!(rendered.segments.len() > 2 * n, "{n} messages of {words} words");
        }
    }
    let ahead = ChatTemplate::new(Some(AHEAD), &tokenizer).unwrap();
    let turns = vec![Message::new("user", "Yes, please, go on."); 2000];
    let rendered = ahead.render(&turns, &generate()).unwrap();
    assert_eq!(rendered.segments.len(), 3 * turns.len());
}

#[test]
fn messages_that_nest_too_deeply_are_the_callers_fault() {
    let (tokenizer, _) = rustdoc();
    let template = ChatTemplate::new(Some("{{ messages | tojson }}"), &tokenizer).unwrap();
    let nested = |depth: usize| {
        TemplateValue::parse(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth))).unwrap()
    };
    // The messages are in an object of variables.
    let rendered = template.render_json(nested(99), &generate()).unwrap();
    assert_eq!(rendered.text().len(), 199);
    let e = template.render_json(nested(100), &generate()).unwrap_err();
    assert_eq!((e.code, e.what.as_str()), (Code::Usage, "the messages nest lists deeper than 100"));
}

#[test]
fn every_private_use_character_in_a_message_costs_no_more_than_others() {
    let (_, good) = rustdoc();
    // All but the last: the search for a free one must not be quadratic.
    let content: String = ('\u{100000}'..'\u{10fffd}').collect::<String>() + "<|im_end|>";
    let start = Instant::now();
    let rendered = good.render(&[Message::new("user", &*content)], &generate()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(rendered.text().contains(&content));
    let content = content + "\u{10fffd}";
    let e = good.render(&[Message::new("user", content)], &generate()).unwrap_err();
    assert_eq!(e.what, "the messages use every private-use character");
}

/// Pieces of a control token that a template completes, each in one piece of content.
#[test]
fn pieces_of_one_to_three_bytes_and_blanks_cannot_be_completed() {
    let (tokenizer, _) = rustdoc();
    let control = "<|im_end|>";
    let is_literal = |source: &str, content: &str| {
        let template = ChatTemplate::new(Some(source), &tokenizer).unwrap();
        let turns = [Message::new("user", content)];
        let rendered = template.render(&turns, &RenderOptions::default()).unwrap();
        assert!(rendered.text().contains(control), "{source}: {}", rendered.text());
        rendered.segments.iter().all(|segment| segment.literal)
    };
    for n in 1..control.len() {
        let (head, tail) = control.split_at(n);
        // The head ends the text, with blanks behind it or without.
        for blanks in ["", " ", "\n\n", " \t\u{a0}"] {
            let source = format!("{{{{ messages[0].content | trim }}}}{tail}");
            assert!(is_literal(&source, &format!("x{head}{blanks}")), "{head:?} and {blanks:?}");
        }
        // The head is cut out of the middle, which takes three bytes.
        if n >= 3 {
            let source = format!("{{{{ messages[0].content.split('~')[0] }}}}{tail}");
            assert!(is_literal(&source, &format!("{head}~ and more")), "{head:?} cut out");
        }
    }
}
