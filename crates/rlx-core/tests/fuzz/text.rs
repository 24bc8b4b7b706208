//! Text IR of all three stages: whole text reads back to what it says, broken text is an error with
//! a place, and no text makes a parser panic.

use super::graphs::{Rng, random_graph};
use super::modules::random_module;
use super::seeds;
use crate::targets;
use rlx_core::Code;
use rlx_core::ir::GraphModule;
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::parse::{parse, parse_hir, parse_lir};
use rlx_core::lower::{ProgramSpec, lower, lower_module};
use rlx_core::passes::optimise;
use rlx_core::plan::plan;
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::DType;

fn planned(g: &Graph, target: &Target) -> Program {
    let options = CompileOptions::default();
    let (g, _) = optimise(g.clone(), target, &options).unwrap();
    let states = g.params.iter().filter(|p| p.kind == ParamKind::State);
    let states: Vec<StateDecl> = states
        .map(|p| {
            let ty = g.ty(p.value).clone();
            StateDecl { name: p.name.clone(), bytes: ty.bytes().unwrap(), ty }
        })
        .collect();
    plan(g, &states, target, &options).unwrap()
}

fn target(seed: u64) -> Target {
    match seed % 3 {
        0 => Target::reference(),
        1 => targets::host(),
        _ => targets::gpu(),
    }
}

#[test]
fn every_stage_of_random_graphs_reads_back() {
    seeds("RLX_FUZZ_ROUND_TRIPS", 300, |seed| {
        let (g, _) = random_graph(&mut Rng(seed * 104_729 + 3));
        let g = g.renumbered();
        assert_eq!(parse(&g.to_string()).unwrap(), g);
        let program = planned(&g, &target(seed));
        assert_eq!(parse_lir(&format!("{program:#}")).unwrap(), program, "{program}");
        let bare = Program { graph: Graph::new(&program.name), ..program.clone() };
        assert_eq!(parse_lir(&program.to_string()).unwrap(), bare);

        let m = random_module(&mut Rng(seed * 7919 + 1));
        let text = m.to_string();
        assert_eq!(parse_hir(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), m, "{text}");
        let lowered = lower_module(&m, DType::F16).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(parse(&lowered.to_string()).unwrap(), lowered.renumbered());
        if m.is_language_model() {
            let g = lower(&m, &ProgramSpec::verify(3, true), DType::F32).unwrap();
            assert_eq!(parse(&g.to_string()).unwrap(), g.renumbered());
        }
    });
}

/// Changes a text in one of the ways that hands and disks do.
fn mutate(text: &mut String, rng: &mut Rng) {
    let boundary = |text: &str, mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let at = boundary(text, rng.below(text.len().max(1)));
    let end = boundary(text, (at + 1 + rng.below(8)).min(text.len()));
    const WORDS: &[&str] = &[
        "%",
        "{",
        "}",
        "[",
        "]",
        "<",
        ">",
        ",",
        "=",
        "x",
        "-",
        "+",
        "//",
        "\"",
        "\n",
        "\r",
        "\0",
        "é",
        "0",
        "-1",
        "1e99",
        "99999999999999999999",
        "NaN",
        "inf",
        "true",
        "%0",
        "%1",
        "->",
        "tensor<",
        "state<",
        "SEQ",
        "mod(",
        "f16",
        "q4_k",
        "func @f {",
        "return",
        "input",
        "if",
        "segments = 9",
    ];
    let lines: Vec<&str> = text.lines().collect();
    let (a, b) = (rng.below(lines.len().max(1)), rng.below(lines.len().max(1)));
    match rng.below(7) {
        0 => text.truncate(at),
        1 => text.replace_range(at..end, ""),
        2 => text.insert_str(at, WORDS[rng.below(WORDS.len())]),
        3 => text.replace_range(at..end, WORDS[rng.below(WORDS.len())]),
        4 if a < lines.len() => {
            let mut lines = lines;
            lines.swap(a, b);
            *text = lines.join("\n");
        }
        5 if a < lines.len() => {
            let mut lines = lines;
            lines.insert(a, lines[b]);
            *text = lines.join("\n");
        }
        _ => {
            // One digit for another: sizes, names, numbers.
            let digits: Vec<usize> =
                text.bytes().enumerate().filter(|b| b.1.is_ascii_digit()).map(|b| b.0).collect();
            if !digits.is_empty() {
                let at = digits[rng.below(digits.len())];
                text.replace_range(at..=at, &rng.below(10).to_string());
            }
        }
    }
}

#[test]
fn broken_text_of_every_stage_is_an_error_with_a_place_or_reads_back() {
    let (mut fine, mut broken) = (0u64, 0u64);
    let n = seeds("RLX_FUZZ_TEXTS", 10_000, |seed| {
        let mut rng = Rng(seed * 2_654_435_761 + 99);
        // A new graph every so often: most of the time goes to the parsers.
        let (g, _) = random_graph(&mut Rng(seed / 50));
        let mut text = match seed % 3 {
            0 => g.to_string(),
            1 => random_module(&mut Rng(seed / 50)).to_string(),
            _ => format!("{:#}", planned(&g, &target(seed / 50))),
        };
        for _ in 0..1 + rng.below(3) {
            mutate(&mut text, &mut rng);
        }
        match GraphModule::parse(&text) {
            Ok(module) => {
                fine += 1;
                let again = match &module {
                    GraphModule::Lir(p) => format!("{p:#}"),
                    other => other.inspect(),
                };
                let read = GraphModule::parse(&again).unwrap_or_else(|e| panic!("{e}\n{again}"));
                let text = |m: &GraphModule| match m {
                    GraphModule::Lir(p) => format!("{p:#}"),
                    other => other.inspect(),
                };
                assert_eq!(text(&read), again);
                // What reads may still be wrong: lowering says so.
                if let GraphModule::Hir(_) = &module {
                    let _ = module.lower();
                }
            }
            Err(e) => {
                broken += 1;
                assert_eq!(e.code, Code::BadGraph, "{e}");
                let placed = e.at.contains("line ") || e.at.starts_with('@');
                assert!(placed, "no place: {e}\n{text}");
            }
        }
    });
    println!("{n} texts: {broken} errors, {fine} that read back");
    assert!(fine > 0 && broken > fine);
}

#[test]
fn deep_nesting_and_long_text_are_errors() {
    let say = |text: &str| GraphModule::parse(text).unwrap_err().to_string();
    let mut nested =
        String::from("func @f {\n  input %x : tensor<4xf32>\n  input %p : tensor<bool>\n");
    for _ in 0..40 {
        nested += "%0 = if %p, %x, %x -> tensor<4xf32> [\nfunc @then {\n";
    }
    assert!(say(&nested).contains("line "), "{}", say(&nested));
    let lists = format!("func @f {{\n  %0 = reshape {{dims = {}", "[".repeat(100_000));
    assert!(say(&lists).contains("at most 8 nested lists (line 2, column"), "{}", say(&lists));
    let dims = format!("func @f {{\n  input %x : tensor<{}", "min(".repeat(100_000));
    assert!(say(&dims).contains("more than 16 nested functions (line 2"), "{}", say(&dims));
    let long = "#".repeat(17 << 20);
    assert!(say(&long).starts_with("the text has 17825792 bytes"));
    assert_eq!(
        say(""),
        "found the end of the text, expected module, func or program (line 1, column 1)"
    );
}
