//! What every executor owes a model of block diffusion: the recorded passes of LLaDA 2.0 and of LLaDA 2.1, which edits
//! what it placed, and answers that go on from caches as if these were new.
//!
//! The model and the record are `tests/fixtures/llada2`, whose README says what they are.

use crate::load::{Hand, fill, wait};
use rlx_core::models::Checkpoint;
use rlx_core::runtime::device::{Device, SharedBytes, Submission, Write, WriteTo};
use rlx_core::runtime::generate::engine::{BlockOptions, Engine, GenerateOptions, Progress};
use rlx_core::runtime::generate::machine::Reason;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::{Opening, Session};
use rlx_core::safetensors::{Header, HeaderReader, json::Json};
use rlx_core::sample::canvas::{EDITED, FINISHED, FIXED, Filling, IDS};
use rlx_core::sample::{Control, SampleParams};
use rlx_core::text::{Tokenizer, VocabData};
use rlx_core::types::DType;
use std::path::Path;
use std::sync::Arc;

const BLOCK: usize = 8;
const CHUNK: u64 = 16;
const MASK: u32 = 260;

/// The recorded runs: the name before each of their tensors, and how they fill blocks.
const RUNS: [(&str, Filling); 2] = [
    ("sample", Filling { steps: Some(5), threshold: 0.55, editing: None, post: 0 }),
    ("edit", Filling { steps: None, threshold: 0.5, editing: Some(0.3), post: 2 }),
];

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let path = folder.join("tests/fixtures/llada2").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn header(bytes: &[u8]) -> Header {
    let mut reader = HeaderReader::new("llada2", Some(bytes.len() as u64));
    reader.push(bytes).unwrap();
    reader.into_header().unwrap()
}

/// Recorded integers.
fn recorded(name: &str) -> Vec<u32> {
    let bytes = read("io.safetensors");
    let place = &header(&bytes).tensors[name];
    let range = place.offset as usize..(place.offset + place.bytes) as usize;
    bytes[range].as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as u32).collect()
}

/// The model on a device, with blocks of 8 positions.
fn load(device: &Arc<dyn Device>) -> (CompiledModel, Session) {
    let weights = read("model.safetensors");
    let (config, header) = (read("config.json"), header(&weights));
    let config = Json::parse(&config, "config.json", 0).unwrap();
    let checkpoint = Checkpoint::transformers(&config, &header);
    let mut options = ModelOptions::chat(CHUNK);
    (options.block, options.context) = (Some(BLOCK as u64), Some(64));
    options.compile.kv = DType::F32;
    let compiled = CompiledModel::new(&checkpoint, device.target(), &options).unwrap();
    let names: Vec<&str> = compiled.specs.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["denoise", "prefill"], "a block is filled where a token would be sampled");
    let opening = Opening::programs(device.clone(), &compiled).unwrap();
    let session = fill(opening, &[Arc::new(weights) as SharedBytes], Hand::Kept).unwrap();
    (compiled, session)
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Both recorded runs, canvas by canvas.
pub fn passes_place_the_recorded_tokens(device: &Arc<dyn Device>) {
    let (_, session) = load(device);
    let run = |program: &str, writes: &[Write]| -> Vec<u32> {
        let ticket = session.submit(program, &Submission::new(writes)).unwrap();
        let values = wait(|cx| session.poll(ticket, cx)).unwrap().values;
        let first = values.first().map_or(&[][..], |v| v.as_slice());
        first.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
    };
    let state = |name: &str, words: &[u32]| Write {
        to: WriteTo::State(session.state(name).unwrap()),
        offset: 0,
        bytes: bytes(words),
    };
    let control = |past: usize| {
        let (past, len) = (past as u32, BLOCK as u32);
        Control { past, len, capacity: 64, limit: 99, ..Control::default() }.to_words()
    };
    let prompt = recorded("in.prompt_ids");
    for (name, filling) in RUNS {
        let blocks = recorded(&format!("{name}.block"));
        let canvases = recorded(&format!("{name}.x"));
        let width = canvases.len() / (blocks.len() + 1);
        // The prompt's whole block.
        let params = SampleParams::default().to_words();
        let ids = Write { to: WriteTo::Input(0), offset: 0, bytes: bytes(&prompt[..BLOCK]) };
        run("prefill", &[state("ctl", &control(0)), state("params", &params), ids]);
        let mut last = usize::MAX;
        let mut said = Vec::new();
        for (pass, &block) in blocks.iter().enumerate() {
            let at = block as usize * BLOCK;
            let own = |pass: usize| &canvases[pass * width + at..][..BLOCK];
            let begin = if at == last {
                Vec::new()
            } else {
                if last != usize::MAX {
                    assert_eq!(said[FINISHED], 1, "{name}, before pass {pass}");
                    let again = run("denoise", &[]);
                    assert_eq!(again, said, "{name}: a finished block changes nothing");
                }
                let begun = prompt.get(at..).unwrap_or(&[]);
                let canvas = filling.canvas(MASK, at as u32, begun, BLOCK);
                assert_eq!(&canvas[IDS..], own(pass));
                vec![state("ctl", &control(at)), state("canvas", &canvas)]
            };
            said = run("denoise", &begin);
            assert_eq!(&said[IDS..], own(pass + 1), "{name}, pass {pass}");
            let changed = |was: bool| {
                let both = own(pass).iter().zip(own(pass + 1));
                both.filter(|(a, b)| a != b && (**a == MASK) == was).count() as u32
            };
            assert_eq!((said[FIXED], said[EDITED]), (changed(true), changed(false)), "{name}");
            last = at;
        }
        assert_eq!(said[FINISHED], 1, "{name}");
    }
}

/// A tokenizer of as many tokens as the model has, each its number between spaces.
fn tokenizer() -> Arc<Tokenizer> {
    let data = VocabData {
        model: "gpt2".into(),
        pre: "llama-bpe".into(),
        tokens: (0..263).map(|n| format!("<{n}>")).collect(),
        ..VocabData::default()
    };
    Arc::new(Tokenizer::new(data).unwrap())
}

struct Answer {
    tokens: Vec<u32>,
    reused: usize,
    fixed: u32,
    reason: Reason,
}

fn ask(engine: &mut Engine, prompt: &[u32], options: &GenerateOptions) -> Answer {
    let mut generation = engine.start(prompt.to_vec(), options).unwrap();
    loop {
        let progress = wait(|cx| generation.poll_next(engine, cx));
        if let Some(Progress::Done(reason)) = progress {
            return Answer {
                tokens: generation.tokens().to_vec(),
                reused: generation.reused_tokens(),
                fixed: generation.passes().iter().map(|p| p.fixed).sum(),
                reason,
            };
        }
    }
}

/// Answers of the engine, with few and with many passes in flight, on new caches and on those of another prompt.
pub fn answers_go_on_from_whole_blocks(device: &Arc<dyn Device>) {
    let new = || {
        let (compiled, session) = load(device);
        Engine::new(session, Arc::new(compiled), tokenizer()).unwrap()
    };
    let prompt = recorded("in.prompt_ids");
    let options = |ahead: usize, run: usize, max_tokens| GenerateOptions {
        max_tokens: Some(max_tokens),
        ahead,
        ignore_stops: true,
        blocks: BlockOptions {
            steps: RUNS[run].1.steps,
            threshold: Some(RUNS[run].1.threshold),
            editing_threshold: RUNS[run].1.editing,
            max_post_steps: Some(RUNS[run].1.post),
        },
        ..GenerateOptions::default()
    };
    for ahead in [1, 4] {
        let mut engine = new();
        for (run, name) in [(0, "out.sampled"), (1, "out.edit_sampled")] {
            let answer = ask(&mut engine, &prompt, &options(ahead, run, 27));
            assert_eq!(answer.tokens, recorded(name)[prompt.len()..], "{name}");
            // The prompt's whole block is there for the second run, which masks one token again.
            assert_eq!((answer.reused, answer.fixed), (8 * run, 27 + run as u32));
            assert_eq!(answer.reason, Reason::Length);
        }
        // The answer is part of the next prompt: its finished blocks stand in the caches, but for the last.
        let mut next: Vec<u32> = recorded("out.edit_sampled")[..37].to_vec();
        next.extend([7, 9, 11]);
        let warm = ask(&mut engine, &next, &options(ahead, 0, 9));
        assert_eq!(warm.reused, 32);
        assert_eq!(warm.tokens, ask(&mut new(), &next, &options(ahead, 0, 9)).tokens);
        // Another prompt from its second block on.
        next[10] ^= 1;
        let warm = ask(&mut engine, &next, &options(ahead, 0, 9));
        assert_eq!(warm.reused, 8);
        assert_eq!(warm.tokens, ask(&mut new(), &next, &options(ahead, 0, 9)).tokens);
    }
    // A block for which there is no room.
    let mut engine = new();
    let answer = ask(&mut engine, &prompt, &options(4, 0, 1000));
    assert_eq!((answer.tokens.len(), answer.reason), (64 - prompt.len(), Reason::Length));
}

/// The same seed gives the same answer, another one another; what blocks do not have is refused.
pub fn sampled_blocks_depend_on_the_seed(device: &Arc<dyn Device>) {
    let (compiled, session) = load(device);
    let mut engine = Engine::new(session, Arc::new(compiled), tokenizer()).unwrap();
    let prompt = recorded("in.prompt_ids");
    let options = |seed| GenerateOptions {
        max_tokens: Some(19),
        params: SampleParams { temperature: 1.5, min_p: 0.02, seed, ..SampleParams::default() },
        ignore_stops: true,
        ..GenerateOptions::default()
    };
    let mut draw = |seed| ask(&mut engine, &prompt, &options(seed)).tokens;
    let first = draw(1);
    assert!(first.iter().all(|&id| id != MASK && id < 263), "{first:?}");
    assert_eq!(draw(1), first);
    assert_ne!(draw(2), first);
    let refused = |options: GenerateOptions| {
        let (compiled, session) = load(device);
        let mut engine = Engine::new(session, Arc::new(compiled), tokenizer()).unwrap();
        engine.start(prompt.clone(), &options).map(|_| ()).unwrap_err().what
    };
    let params = SampleParams { top_k: 3, ..SampleParams::default() };
    assert_eq!(
        refused(GenerateOptions { params, ..GenerateOptions::default() }),
        "a model that fills blocks samples by temperature, min_p and seed alone"
    );
    let blocks = BlockOptions { threshold: Some(2.0), ..BlockOptions::default() };
    assert_eq!(
        refused(GenerateOptions { blocks, ..GenerateOptions::default() }),
        "threshold 2 is out of range: 0 to 1"
    );
}

/// What is said of configurations and options that do not fit.
#[allow(dead_code)] // for the core, whose refusals are the same on every device
pub fn blocks_that_do_not_fit_are_refused(device: &Arc<dyn Device>) {
    let header = header(&read("model.safetensors"));
    let text = String::from_utf8(read("config.json")).unwrap();
    let refused = |key: &str, value: &str, block: Option<u64>, chunk: u64| {
        // The last value of a key would be the same key twice, so the line that has it goes.
        let has = |line: &&str| !line.contains(&format!("\"{key}\":"));
        let kept: Vec<&str> = text.lines().filter(has).collect();
        let text = kept.join("\n").replacen('{', &format!("{{\"{key}\": {value},"), 1);
        let config = Json::parse(text.as_bytes(), "config.json", 0).unwrap();
        let checkpoint = Checkpoint::transformers(&config, &header);
        let options = ModelOptions { block, context: Some(64), ..ModelOptions::chat(chunk) };
        let made = CompiledModel::new(&checkpoint, device.target(), &options);
        made.map(|_| ()).unwrap_err().to_string()
    };
    let cases = [
        ("block_length", "0", None, "block_length is 0"),
        ("block_length", "5000", None, "blocks of 5000 positions, at most 4096 are read"),
        ("block_length", "8", Some(0), "blocks of 0 positions, expected 1 or more"),
        ("block_length", "8", Some(12), "a prompt's chunk of 16 rows is no whole number of them"),
        ("block_length", "8", Some(128), "a prompt's chunk of 16 rows is no whole number of them"),
        ("mask_token_id", "263", None, "the mask is token 263, and there are 263 tokens"),
        ("n_group", "5", None, "12 experts in 5 groups, expected equal groups of two or more"),
        ("topk_group", "9", None, "a row chooses 3 experts in 9 of 4 groups of 3"),
        ("score_function", "\"exp\"", None, "scores of experts by `exp`"),
        ("rotary_dim", "8", None, "8 rotary dimensions, and partial_rotary_factor says 16"),
        ("use_qkv_bias", "true", None, "adds biases to q, k and v"),
    ];
    for (key, value, block, expected) in cases {
        let said = refused(key, value, block, CHUNK);
        assert!(said.contains(expected), "{key} = {value}, {block:?}: {said}");
    }
    let said = refused("block_length", "8", Some(128), 128);
    assert!(said.contains("blocks of 128 positions: the context holds 64"), "{said}");
}
