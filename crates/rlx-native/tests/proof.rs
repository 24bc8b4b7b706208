//! Proof that the program is what runs: its text, changed, changes the answer; a pass, switched
//! off, changes launches and nothing else.

use crate::opened::opened;
use rlx_core::compare::difference;
use rlx_core::ir::parse::parse;
use rlx_core::lower::ProgramSpec;
use rlx_core::plan::plan;
use rlx_core::runtime::device::{Device, Submission, Write, WriteTo};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::sample::{Control, SampleParams};
use rlx_native::block_on::block_on;
use rlx_native::devices::DeviceRow;
use rlx_native::files::ModelSource;
use rlx_native::load::put;
use std::path::Path;
use std::sync::Arc;

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../models/rustdoc-29m/rustdoc-29m-q4_k_m-00001-of-00003.gguf"
);

/// "What does Vec::push do?" in the model's chat format, and the recorded second token.
const PROMPT: [u32; 19] = [
    8188, 8189, 84, 309, 198, 460, 498, 788, 267, 1801, 348, 30, 8190, 198, 8189, 2158, 549, 588,
    198,
];
const FIRST: u32 = 4478;
const SECOND: u32 = 267;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn options(row: &DeviceRow, without: &[&str]) -> ModelOptions {
    let mut options = ModelOptions::chat(32);
    options.context = Some(64);
    options.programs = vec![ProgramSpec::prefill_last(32), ProgramSpec::decode().with_logits()];
    options.activations = (row.target)().policy.activations;
    options.compile.without = without.iter().map(|s| (*s).to_owned()).collect();
    options
}

/// Runs the prompt and one decode step: the two tokens, and the logits of the second.
fn run(
    compiled: &CompiledModel,
    source: &ModelSource,
    row: &DeviceRow,
    device: Arc<dyn Device>,
) -> (u32, u32, Vec<f32>) {
    let session = put(
        compiled,
        &source.maps,
        device.clone(),
        row.keeps_maps,
        &mut |_, _, _| {},
        &mut |_, _| {},
    )
    .expect("the model loads");
    let control =
        Control { len: PROMPT.len() as u32, limit: 8, capacity: 64, ..Control::default() };
    let state = |name: &str| WriteTo::State(session.state(name).expect("a state"));
    let writes = [
        Write { to: state("ctl"), offset: 0, bytes: words(&control.to_words()) },
        Write { to: state("params"), offset: 0, bytes: words(&SampleParams::default().to_words()) },
        Write { to: WriteTo::Input(0), offset: 0, bytes: words(&PROMPT) },
    ];
    let submit = |i: usize, writes: &[Write]| {
        let name = &compiled.specs[i].name;
        let ticket = session.submit(name, &Submission::new(writes)).expect("it submits");
        block_on(|cx| session.poll(ticket, cx)).expect("it answers").values
    };
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let first = word(&submit(0, &writes)[0]);
    let step = submit(1, &[]);
    let floats = |c: &[u8]| f32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    let logits = step[1].chunks_exact(4).map(floats).collect();
    (first, word(&step[0]), logits)
}

/// The compiled model with its decode program replaced by what this text says.
fn with_decode(compiled: &CompiledModel, text: &str, device: &dyn Device) -> CompiledModel {
    let mut out = compiled.clone();
    let graph = parse(text).expect("printed MIR parses");
    let mut program =
        plan(graph, &compiled.states, device.target(), &compiled.options[1]).expect("it plans");
    compiled.plan.bind(&mut program).expect("its weights are the model's");
    out.programs[1] = program;
    out
}

fn for_each_device(check: impl Fn(&DeviceRow, Arc<dyn Device>, &ModelSource)) {
    let source = ModelSource::open(Path::new(MODEL)).expect("the default model opens");
    for (row, device) in opened("proof") {
        check(row, device, &source);
    }
}

fn compile(source: &ModelSource, device: &dyn Device, options: &ModelOptions) -> CompiledModel {
    CompiledModel::from_gguf(&source.files, device.target(), options).expect("it compiles")
}

#[test]
fn the_printed_program_parsed_again_gives_the_same_logits() {
    for_each_device(|row, device, source| {
        let options = options(row, &[]);
        let compiled = compile(source, &*device, &options);
        let text = compiled.programs[1].graph.to_string();
        let parsed = with_decode(&compiled, &text, &*device);
        assert_eq!(
            parsed.programs[1].fingerprint, compiled.programs[1].fingerprint,
            "{}",
            row.name
        );
        let (first, second, logits) = run(&compiled, source, row, device.clone());
        assert_eq!((first, second), (FIRST, SECOND), "{}", row.name);
        assert_eq!(
            run(&parsed, source, row, device.clone()),
            (first, second, logits),
            "{}",
            row.name
        );
    });
}

#[test]
fn gelu_for_silu_in_one_layer_of_the_text_changes_the_logits() {
    for_each_device(|row, device, source| {
        let options = options(row, &[]);
        let compiled = compile(source, &*device, &options);
        let text = compiled.programs[1].graph.to_string();
        // An epilogue where it fused, a step of an elementwise region where it did not.
        let (from, to) = match text.contains("= silu") {
            true => ("= silu", "= gelu"),
            false => ("[silu, ", "[gelu, "),
        };
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed, "{}: the text has a silu", row.name);
        let changed = with_decode(&compiled, &changed, &*device);
        let logits = run(&compiled, source, row, device.clone()).2;
        let other = run(&changed, source, row, device.clone()).2;
        let apart = difference(&other, &logits).relative();
        assert!(apart > 1e-2 && apart.is_finite(), "{}: {apart:e}", row.name);
    });
}

#[test]
fn a_pass_switched_off_changes_launches_and_not_tokens() {
    for_each_device(|row, device, source| {
        if !device.target().fusions.segments {
            return; // nothing to switch off: the reference fuses nothing
        }
        let launches = |without: &[&str]| {
            let options = options(row, without);
            let compiled = compile(source, &*device, &options);
            let before = device.counters().dispatches;
            let (first, second, _) = run(&compiled, source, row, device.clone());
            assert_eq!((first, second), (FIRST, SECOND), "{} without {without:?}", row.name);
            device.counters().dispatches - before
        };
        // q, k and v of eight layers are three launches instead of one, in both programs.
        assert_eq!(launches(&["segments"]) - launches(&[]), 2 * 8 * 2, "{}", row.name);
    });
}
