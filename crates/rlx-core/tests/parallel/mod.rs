//! Ranks that run a model together, on devices of plain loops: they give what one device gives.

use crate::language::{FIXTURES, generate};
use crate::load::{Hand, headers, model, wait};
use rlx_core::compare::difference;
use rlx_core::gguf::{HeaderReader, Progress, TensorSpec, Value, Writer};
use rlx_core::models;
use rlx_core::plan::{Origin, Share};
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::{Device, SharedBytes};
use rlx_core::runtime::generate::engine::Engine;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::target::{Ranks, Target};
use rlx_core::types::DType;
use std::sync::Arc;

mod exchanges;
mod weights;

/// A group of so many ranks that split every weight which divides, so small that a model's would not be else.
pub fn group(ranks: usize) -> Arc<dyn Device> {
    let every = Ranks { gathered: 0, ..Ranks::ONE };
    let target = Target::reference().with_ranks(every);
    Arc::new(ReferenceDevice::group(&target, ranks).expect("one kind of device"))
}

fn fixture(path: &str) -> Vec<u8> {
    std::fs::read(format!("{FIXTURES}/{path}")).expect("the fixture is there")
}

/// The model with four heads of keys and values: each of its own as often as that takes.
pub fn with_four_heads(file: &[u8]) -> Vec<u8> {
    let mut reader = HeaderReader::new("a fixture", Some(file.len() as u64));
    assert_eq!(reader.push(file).unwrap(), Progress::Done);
    let header = reader.into_header().expect("the header is whole");
    let key = header.metadata.iter().find(|(key, _)| key.ends_with("attention.head_count_kv"));
    let heads = key.expect("it has heads").1.value.as_integer().expect("a number") as u64;
    let metadata: Vec<(String, Value)> = header
        .metadata
        .iter()
        .map(|(key, entry)| match key.ends_with("attention.head_count_kv") {
            true => (key.into(), Value::U32(4)),
            false => (key.into(), entry.value.clone()),
        })
        .collect();
    let (mut specs, mut contents) = (Vec::new(), Vec::new());
    for t in &header.tensors {
        let bytes = &file[t.offset as usize..(t.offset + t.bytes) as usize];
        let (mut dims, mut own) = (t.dims.clone(), bytes.to_vec());
        if ["attn_k.weight", "attn_v.weight"].iter().any(|n| t.name.ends_with(n)) {
            let head = bytes.len() / heads as usize;
            let copies = 4 / heads as usize;
            own = bytes.chunks(head).flat_map(|h| h.repeat(copies)).collect();
            dims[0] *= copies as u64;
        }
        specs.push(TensorSpec { name: t.name.clone(), dtype: t.dtype, dims });
        contents.push(own);
    }
    let writer = Writer::new(&metadata, &specs).unwrap();
    let mut out = writer.header().to_vec();
    for (i, bytes) in contents.iter().enumerate() {
        assert_eq!(bytes.len() as u64, writer.bytes(i));
        out.extend_from_slice(bytes);
        out.extend(vec![0; writer.padding(i) as usize]);
    }
    out
}

fn options() -> ModelOptions {
    let mut options = ModelOptions::chat(16).with_logits();
    options.context = Some(64);
    options.compile.kv = DType::F32;
    options
}

/// Tokens and logits of a model on a device.
fn answer(device: Arc<dyn Device>, file: &[u8], options: &ModelOptions) -> (Vec<u32>, Vec<f32>) {
    let map: SharedBytes = Arc::new(file.to_vec());
    let (files, compiled, session) = model(&[map], device, options, Hand::Pieces(100)).unwrap();
    let tokenizer = Arc::new(models::tokenizer(&files).unwrap());
    let mut engine = Engine::new(session, Arc::new(compiled), tokenizer).unwrap();
    let (tokens, logits) = generate(&mut engine, vec![1, 5, 9, 2, 7, 3], 6, true);
    (tokens, logits.expect("logits were asked for"))
}

fn compiled(file: &[u8], ranks: Ranks) -> rlx_core::Result<CompiledModel> {
    let map: SharedBytes = Arc::new(file.to_vec());
    let files = headers(&[map]).unwrap();
    CompiledModel::from_gguf(&files, &Target::reference().with_ranks(ranks), &options())
}

#[track_caller]
fn agrees(name: &str, file: &[u8], ranks: usize) {
    let (want, logits) = answer(Arc::new(ReferenceDevice::new()), file, &options());
    let device = group(ranks);
    let (got, own) = answer(device.clone(), file, &options());
    let off = difference(&own, &logits).relative();
    println!("{name} on {ranks} ranks: {off:.2e} of the largest");
    assert!(off <= 2e-6, "{name} on {ranks} ranks: off by {off:e}");
    assert_eq!(got, want, "{name} on {ranks} ranks");
    assert_eq!(device.counters().live_bytes, 0, "everything was freed");
}

#[test]
fn two_and_four_ranks_give_what_one_gives() {
    for name in ["llama", "gemma3", "qwen3moe", "phi3", "qwen3", "llama-q6_k"] {
        let file = fixture(&format!("gguf/{name}.gguf"));
        agrees(name, &file, 2);
        // The third model's experts are 32 wide, eight for each rank.
        if name != "phi3" {
            agrees(name, &with_four_heads(&file), 4);
        }
    }
}

/// Its delta nets are whole on every rank, its attention and its feed-forwards are not.
#[test]
fn two_ranks_run_delta_nets() {
    agrees("qwen35", &fixture("gguf/qwen35.gguf"), 2);
}

/// The one head of keys and values is every rank's, queries are split.
#[test]
fn four_ranks_share_one_head() {
    agrees("gemma3", &fixture("gguf/gemma3.gguf"), 4);
}

#[test]
fn recorded_tokens_of_two_ranks_are_llama_cpps() {
    crate::recorded::greedy_tokens_are_llama_cpps(group(2), 1, 8);
}

#[test]
fn ranks_that_do_not_divide_the_heads_are_told_which_do() {
    let e = compiled(&fixture("gguf/llama.gguf"), Ranks::of(3)).expect_err("two heads");
    assert_eq!(e.what, "a layer has 2 heads of keys and values, 3 devices do not divide them");
    assert_eq!(e.hint, "take 1 or 2 devices");
}

#[test]
fn each_rank_has_its_share_of_weights_and_caches() {
    let file = fixture("gguf/llama.gguf");
    let one = compiled(&file, Ranks::ONE).unwrap();
    let two = compiled(&file, Ranks { gathered: 0, ..Ranks::of(2) }).unwrap();
    let norms = |name: &str| name.contains("norm") || name.contains("rope");
    for e in &two.plan.entries {
        let share = Share::of(&e.name);
        let whole = norms(&e.name) || e.name == "token_embd.weight";
        assert_eq!(share.is_none(), whole, "{}", e.name);
    }
    assert_eq!(two.plan.ranks.len(), 1);
    let (whole, own) = (one.plan.bytes(), two.plan.bytes());
    let embedding = 600 * 64 * 2;
    assert!(own < embedding + (whole - embedding) * 11 / 20, "{own} of {whole} bytes");
    let caches = |m: &CompiledModel| -> u64 {
        m.states.iter().filter(|s| s.name.starts_with("blk")).map(|s| s.bytes).sum()
    };
    assert!(caches(&one) > 0);
    assert_eq!(caches(&two) * 2, caches(&one));
    // Two sums a layer, and the logits put together.
    let decode = &two.programs[two.program("decode").unwrap()];
    let count = |op: &str| decode.steps.iter().filter(|s| s.op.name() == op).count();
    assert_eq!((count("all_reduce"), count("all_gather")), (4, 1));
    let rows = two.plan.entries.iter().filter(|e| matches!(e.origin, Origin::Rows(_))).count();
    assert_eq!(rows, 4, "the attention's outputs and the feed-forwards' last products");
}

/// A head that is the embedding too is read whole: it would be twice on each rank.
#[test]
fn what_is_read_whole_elsewhere_stays_whole() {
    let two = compiled(&fixture("gguf/qwen3.gguf"), Ranks { gathered: 0, ..Ranks::of(2) }).unwrap();
    let head: Vec<&str> =
        two.plan.entries.iter().map(|e| e.name.as_str()).filter(|n| n.contains("embd")).collect();
    assert_eq!(head, ["token_embd.weight"]);
}

/// Polls a device until it has answered.
pub fn answered(device: &dyn Device, t: rlx_core::runtime::device::Ticket) -> rlx_core::Result<()> {
    wait(|cx| device.poll(t, cx)).map(|_| ())
}
