//! What templates write, and what they pay for it.

use super::eval::Run;
use super::meter::{Fault, Meter};
use super::parser::parse;
use super::value::Value;
use alloc::format;
use alloc::string::String;

/// What a template writes, or the words of its fault.
fn render(source: &str) -> String {
    let program = match parse(source) {
        Ok(program) => program,
        Err((line, what)) => return format!("line {line}: {what}"),
    };
    let meter = Meter::new(0);
    let mut run = Run::new(&program, &meter, Some(1_792_000_000));
    let mut variables = |name: &str| {
        Ok(match name {
            "none_given" => None,
            "x" => Some(Value::list([Value::Int(1), Value::Int(2), Value::Int(3)], &meter)?),
            _ => None,
        })
    };
    match run.render(&mut variables) {
        Ok(text) => text,
        Err(Fault::Raised(what) | Fault::Failed(what) | Fault::Limit(what)) => what,
    }
}

#[test]
fn json_is_printed_as_python_does() {
    let source = "{% set x = {'b': [1, 2.5, none, true, 1e20], 'a': '<é\\n>', 1: {}} %}";
    for (filter, json) in [
        ("tojson", r#"{"b": [1, 2.5, null, true, 1e+20], "a": "<é\n>", "1": {}}"#),
        (
            "tojson(indent=2)",
            "{\n  \"b\": [\n    1,\n    2.5,\n    null,\n    true,\n    1e+20\n  ],\n  \
             \"a\": \"<é\\n>\",\n  \"1\": {}\n}",
        ),
        (
            "tojson(separators=(',', ':'), ensure_ascii=true)",
            r#"{"b":[1,2.5,null,true,1e+20],"a":"<\u00e9\n>","1":{}}"#,
        ),
    ] {
        assert_eq!(render(&format!("{source}{{{{ x | {filter} }}}}")), json);
    }
}

#[test]
fn values_are_printed_as_python_does() {
    for (source, text) in [
        (
            "{{ [1, 2.0, 'a', \"it's\", none, true, {'k': []}] }}",
            "[1, 2.0, 'a', \"it's\", None, True, {'k': []}]",
        ),
        (
            "{{ 1e16 }} {{ 1.5e-7 }} {{ 0.1 + 0.2 }} {{ 7 / 2 }} {{ 4 / 2 }}",
            "1e+16 1.5e-07 0.30000000000000004 3.5 2.0",
        ),
        ("{{ true }}{{ none }}{{ nothing }}", "TrueNone"),
        ("{{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 7.5 // 2 }}", "-4 2 1024 3.0"),
        ("{{ 'a' ~ 1 ~ none }} {{ 'ab' * 2 }} {{ [1] * 2 + [3] }}", "a1None abab [1, 1, 3]"),
        (
            "{{ '%s is %d%%' % ('x', 3) }} {{ '%s' | format(1) }} {{ '{}-{0}'.format(7) }}",
            "x is 3% 1 7-7",
        ),
    ] {
        assert_eq!(render(source), text, "{source}");
    }
}

#[test]
fn expressions_bind_as_in_python() {
    for (source, text) in [
        ("{{ 1 + 2 * 3 }}{{ 2 ~ 3 * 4 }}", "7212"),
        ("{{ -1 | abs }}{{ (-2) | abs }}", "12"),
        ("{{ not x is defined }} {{ y is not defined }}", "False True"),
        ("{{ 'a' if false else 'b' if false else 'c' }}", "c"),
        ("{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 2 in x and 4 not in x }}", "True False True"),
        ("{{ 6 is divisibleby 3 }} {{ 'b' is in 'abc' }} {{ 1 is eq(1.0) }}", "True True True"),
        (
            "{{ 'abcdef'[1:4] }} {{ 'abc'[::-1] }} {{ x[-1] }} {{ x[:-1] }} {{ x[5:] }} {{ x[::2] }}",
            "bcd cba 3 [1, 2] [] [1, 3]",
        ),
        ("{{ {'a': {'b': 1}}.a.b }} {{ [[1]].0[0] }} {{ 'a' 'b' }}", "1 1 ab"),
        ("{{ '\\x41\\u00e9\\n' }}", "Aé\n"),
    ] {
        assert_eq!(render(source), text, "{source}");
    }
}

#[test]
fn methods_filters_and_tests_work() {
    let source = "{{ ' a b '.strip().split(' ')[1].upper() }}{{ 'xy'.startswith(('z', 'x')) }}\
        {{ 'ab cd'.title() }}{% for k, v in {'k': 1}.items() %}{{ k }}{{ v }}{% endfor %}\
        {{ '\\nx\\n'.lstrip('\\n').rstrip('\\n') }}";
    assert_eq!(render(source), "BTrueAb Cdk1x");
    for (source, text) in [
        (
            "{{ x | map('string') | join('+') }} {{ x | select('odd') | list }} {{ x | sum }}",
            "1+2+3 [1, 3] 6",
        ),
        ("{{ [{'n': 2}, {'n': 1}] | sort(attribute='n') | map(attribute='n') | list }}", "[1, 2]"),
        ("{{ none | map('upper') | list }} {{ none | selectattr('n') | list }}", "[] []"),
        ("{{ 'a_b'.removeprefix('a_') }} {{ 'a_b'.removesuffix('x') }}", "b a_b"),
        ("{{ [{'n': 2}, {'m': 1}] | selectattr('n', 'defined') | list | length }}", "1"),
        (
            "{{ ['b', 'A', 'b'] | unique | sort | list }} {{ {'b': 1, 'a': 2} | dictsort }}",
            "['A', 'b'] [['a', 2], ['b', 1]]",
        ),
        ("{{ 'a\nb\n\nc' | indent(2) }}", "a\n  b\n\n  c"),
        (
            "{{ y | default('d') }} {{ '' | d('e', true) }} {{ '7' | int + 1 }} {{ 2.6 | round | int }}",
            "d e 8 3",
        ),
        (
            "{{ x | batch(2, 0) | list }} {{ x | slice(2) | list }}",
            "[[1, 2], [3, 0]] [[1, 2], [3]]",
        ),
        (
            "{% for g, l in ['a', 'B', 'b'] | groupby(0) %}{{ g }}{{ l | length }}{% endfor %}",
            "a1B2",
        ),
        (
            "{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b '.split() }} {{ 'aXbX'.replace('X', '', 1) }}",
            "['a,b', 'c'] ['a', 'b'] abX",
        ),
        (
            "{{ 'é<' | length }} {{ '<' | e }} {{ 'abc'.find('c') }} {{ 'x'.find('y') }}",
            "2 &lt; 2 -1",
        ),
        (
            "{{ strftime_now('%Y') }} {{ range(3, 0, -1) | list }} {{ dict({'a': 1}, b=2) }}",
            "2026 [3, 2, 1] {'a': 1, 'b': 2}",
        ),
    ] {
        assert_eq!(render(source), text, "{source}");
    }
}

#[test]
fn statements_work() {
    for (source, text) in [
        (
            "{% for i in x if i != 2 %}{{ loop.index }}{{ loop.last }}{{ loop.cycle('a', 'b') }};{% endfor %}",
            "1Falsea;2Trueb;",
        ),
        ("{% for i in [] %}{% else %}none{% endfor %}", "none"),
        (
            "{% for i in x %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% if i == 3 %}{% break %}{% endif %}{% endfor %}",
            "13",
        ),
        (
            "{% set a, b = 1, 2 %}{% set ns = namespace(n=0) %}{% for i in x %}{% set ns.n = ns.n + i %}{% set a = i %}{% endfor %}{{ ns.n }}{{ a }}{{ b }}",
            "612",
        ),
        (
            "{% macro m(a, b='x') %}{{ a }}{{ b }}{{ g }}{% endmacro %}{% set g = '!' %}{{ m(1) }}{{ m(b=2, a=3) }}",
            "1x!32!",
        ),
        (
            "{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
            "3210",
        ),
        (
            "{% macro box() %}[{{ caller('c') }}]{% endmacro %}{% call(v) box() %}{{ v }}d{% endcall %}",
            "[cd]",
        ),
        ("{% for i in x %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "123"),
        (
            "{% set t %}a{{ 1 }}{% endset %}{{ t ~ t }}{% filter upper | replace('A', 'c') %}ab{% endfilter %}",
            "a1a1cB",
        ),
        ("{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{% do x %}.", "."),
    ] {
        assert_eq!(render(source), text, "{source}");
    }
}

#[test]
fn white_space_around_tags_goes_as_transformers_has_it() {
    for (source, text) in [
        ("  {% if true %}\nx\n  {% endif %}\ny\n", "x\ny"),
        ("a {%- generation -%} b {% endgeneration %}c", "ab c"),
        ("a\n  {# note #}\n  {{ 1 }}\nb\n\n", "a\n  1\nb\n"),
        ("a  {{- 1 -}}  \n b", "a1b"),
        ("a\n  {%+ if true %}b{% endif +%}\nc", "a\n  b\nc"),
    ] {
        assert_eq!(render(source), text, "{source}");
    }
}

#[test]
fn faults_say_what_is_wrong() {
    for (source, what) in [
        ("{% for %}", "line 1: the end of the tag stands where a name must"),
        ("\n{% if x %}", "line 2: `endif` is missing"),
        ("{{ x", "line 1: a tag does not end with `}}`"),
        ("{{ 'x }}", "line 1: a text in quotes does not end"),
        ("{% include 'x' %}", "line 1: the tag `include` is unknown"),
        ("{% break %}", "line 1: `break` stands outside of a loop"),
        ("{{ f(*x) }}", "line 1: `*` and `**` before arguments are not supported"),
        ("{{ a.b }}", "an undefined value has no attribute `b`"),
        ("{{ f() }}", "`f` is not a function"),
        ("{{ 1 + 'a' }}", "a number and a text have no such operator"),
        ("{{ x | shuffle }}", "there is no filter `shuffle`"),
        ("{{ x is prime }}", "there is no test `prime`"),
        ("{{ 'a'.encode() }}", "a text has no method `encode`"),
        ("{{ namespace() | tojson }}", "a namespace has no form in JSON"),
        ("{{ 1 // 0 }}", "division by zero"),
        ("{{ 9 ** 99 }}", "a number is too large"),
    ] {
        assert_eq!(render(source), what, "{source}");
    }
}

#[test]
fn what_was_held_is_given_back_and_what_is_alive_is_counted() {
    let source = "{% set ns = namespace(s='ab', l=[]) %}{% for i in range(8) %}\
        {% set ns.s = ns.s ~ ns.s %}{% set ns.l = ns.l + [ns.s, {'k': ns}] %}{% endfor %}\
        {% macro m(v) %}{{ v }}{% endmacro %}{{ m(ns.l | length) }}";
    let program = parse(source).unwrap();
    let meter = Meter::new(0);
    let mut run = Run::new(&program, &meter, None);
    assert_eq!(run.render(&mut |_| Ok(None)).unwrap(), "16");
    // The texts of 4 to 512 bytes, and the rest.
    let held = meter.bytes_held();
    assert!((1000..20_000).contains(&held), "{held}");
    let steps = meter.steps_taken();
    assert!((100..1000).contains(&steps), "{steps}");
    drop(run);
    assert_eq!(meter.bytes_held(), 0);
}
