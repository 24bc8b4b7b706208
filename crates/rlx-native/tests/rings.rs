//! Layers with a window keep the last positions only, and a model answers as one does that keeps all of them,
//! whatever it was asked before.

use rlx_core::Error;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::target::Activations;
use rlx_native::devices::{self, DeviceRow, OpenOptions};
use rlx_native::generate::{Answer, generate};
use rlx_native::load::{Model, put};
use rlx_native::network::CheckpointFiles;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Rows of a chunk.
const CHUNK: u64 = 16;
/// Positions that a ring has beyond its window of 15.
const SPARE: u64 = 25;

struct On {
    row: &'static DeviceRow,
    device: Arc<dyn Device>,
    source: CheckpointFiles,
    context: Option<u64>,
}

fn on(name: &str) -> On {
    let row = devices::find(name).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let source = CheckpointFiles::open(&root.join("tests/fixtures/gguf/gemma3.gguf")).unwrap();
    let device = (row.open)(&OpenOptions { threads: Some(1), ..OpenOptions::default() }).unwrap();
    On { row, device, source, context: None }
}

impl On {
    fn compiled(&self, spare: Option<u64>) -> CompiledModel {
        let mut options = ModelOptions::chat(CHUNK);
        options.activations = Activations::F32.into();
        options.compile.cache_spare = spare;
        options.context = self.context;
        CompiledModel::new(&self.source.checkpoint(), self.device.target(), &options).unwrap()
    }

    fn model(&self, spare: Option<u64>) -> Model {
        let compiled = self.compiled(spare);
        let (maps, device) = (self.source.maps(), self.device.clone());
        let keeps = self.row.keeps_maps;
        let session = put(&compiled, maps, device, keeps, &mut |_, _, _| {}, &mut |_, _| {});
        let tokenizer = self.source.language().unwrap().tokenizer;
        let engine = Engine::new(session.unwrap(), Arc::new(compiled), Arc::new(tokenizer));
        Model {
            engine: engine.unwrap(),
            template: Err(Error::usage("these tests ask with ids")),
            kv: rlx_core::types::DType::F32,
            activations: Activations::F32.into(),
            chosen: None,
            temperature: None,
            form: None,
            load_time: Duration::ZERO,
        }
    }
}

fn ask(model: &mut Model, prompt: &[u32], tokens: usize) -> Answer {
    let options = GenerateOptions {
        max_tokens: Some(tokens),
        ignore_stops: true,
        ..GenerateOptions::default()
    };
    generate(model, prompt.to_vec(), &options, &|| false, &mut |_| Ok(())).unwrap()
}

/// Ids of no meaning.
fn ids(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| 20 + (i * 37 + seed * 101) % 400).collect()
}

/// Prompts of several rings, and an answer that goes once around one.
fn answers(on: &On) {
    let (mut rings, mut whole) = (on.model(Some(SPARE)), on.model(None));
    for (n, tokens) in [(5, 60), (40, 4), (41, 4), (90, 20)] {
        let prompt = ids(n, n);
        let want = ask(&mut whole, &prompt, tokens).tokens;
        assert_eq!(ask(&mut rings, &prompt, tokens).tokens, want, "{n} tokens");
    }
}

#[test]
fn a_window_keeps_the_last_positions() {
    let on = on("cpu");
    let positions = |spare| -> Vec<u64> {
        let compiled = on.compiled(spare);
        let caches = compiled.states.iter().filter(|s| s.name.starts_with("blk."));
        caches.map(|s| s.ty.shape.static_dims().unwrap()[1]).collect()
    };
    let (rings, whole) = (positions(Some(SPARE)), positions(None));
    assert!(whole.iter().all(|&n| n == 512), "{whole:?}");
    // 15 before the row's own, and 25, in whole eights. The sixth layer has no window.
    assert!(rings.iter().all(|n| [40, 512].contains(n)), "{rings:?}");
    assert_eq!(rings.iter().filter(|&&n| n == 512).count(), 2, "{rings:?}");
    answers(&on);
}

#[test]
fn on_the_reference_too() {
    answers(&on("reference"));
}

#[test]
#[ignore = "a minute on a GPU in software: npm test -- --only wide"]
fn on_webgpu_too() {
    answers(&on("webgpu"));
}

#[test]
fn a_conversation_goes_on_where_the_rings_still_have_what_it_sees() {
    let on = on("cpu");
    let (mut model, mut fresh) = (on.model(Some(SPARE)), on.model(None));
    let mut check = |prompt: &[u32], reused: std::ops::Range<usize>| {
        fresh.engine.reset();
        let want = ask(&mut fresh, prompt, 6);
        let got = ask(&mut model, prompt, 6);
        assert_eq!(got.tokens, want.tokens, "after {} reused tokens", got.reused_tokens);
        assert!(reused.contains(&got.reused_tokens), "{} reused tokens", got.reused_tokens);
        got.tokens
    };
    let first = ids(60, 1);
    let said = check(&first, 0..1);
    // It goes on.
    let longer: Vec<u32> = first.iter().chain(&said).copied().chain(ids(5, 2)).collect();
    check(&longer, 65..66);
    // The same again, and another end.
    check(&longer, 70..71);
    let edited: Vec<u32> = longer[..58].iter().copied().chain(ids(9, 3)).collect();
    check(&edited, 58..59);
    // Positions that the rows behind 30 see were overwritten.
    let other: Vec<u32> = longer[..30].iter().copied().chain(ids(40, 4)).collect();
    check(&other, 0..1);
}

/// Read again from its first token where a ring has lost what is kept, and as with caches of all positions.
#[test]
fn an_answer_goes_on_where_the_context_is_full() {
    let on = On { context: Some(96), ..on("cpu") };
    let options = GenerateOptions {
        max_tokens: Some(160),
        ignore_stops: true,
        slide: Some(ids(20, 2)),
        ..GenerateOptions::default()
    };
    let [got, want] = [Some(SPARE), None].map(|spare| {
        let mut model = on.model(spare);
        generate(&mut model, ids(60, 2), &options, &|| false, &mut |_| Ok(())).unwrap()
    });
    assert_eq!(got.tokens, want.tokens);
    // It slid behind 37, 77, 116 and 155 tokens, and 38 stayed.
    assert_eq!(got.left_out, Some(155 - 38));
}
