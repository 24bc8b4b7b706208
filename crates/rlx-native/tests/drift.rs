//! Two thousand tokens on WebGPU beside the CPU executor: logits are as close at the end as they were at
//! the beginning.

use rlx_core::compare::difference;
use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::lower::{CTL, PARAMS, ProgramSpec};
use rlx_core::runtime::device::{SharedBytes, Submission, Ticket, Write, WriteTo};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::Session;
use rlx_core::sample::{Control, SampleParams};
use rlx_core::target::Activations;
use rlx_core::types::{BlockFormat, DType};
use rlx_native::block_on::block_on;
use rlx_native::devices::{OpenOptions, find};
use rlx_native::load::put;
use rlx_native::tools::mix::Quant;
use rlx_native::tools::synth::{Shape, Weights, header};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

const TOKENS: u32 = 2_000;
const CONTEXT: u32 = 2_304;
/// Submissions in flight.
const AHEAD: usize = 8;
/// Deviation of what a matmul makes of a row of deviation 1: above 1, so that attention looks at few
/// positions. An average of all would hide one that is wrong.
const GAIN: f32 = 1.5;

/// A model of two layers, and its file.
fn model() -> (ModelFiles, SharedBytes) {
    let shape = Shape {
        width: 128,
        feed_forward: 192,
        heads: 2,
        kv_heads: 1,
        context: CONTEXT,
        tied: false,
        ..*Shape::find("llama-tiny").unwrap()
    };
    let writer = header(&shape, Quant::parse("f32", false).unwrap()).unwrap();
    let mut reader = HeaderReader::new("drift", Some(writer.file_bytes()));
    reader.push(writer.header()).unwrap();
    let files = ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap();
    let mut file = vec![0; writer.file_bytes() as usize];
    for (i, (name, (_, tensor))) in (0..).zip(&files.tensors) {
        let (norm, inputs) = (tensor.dims.len() == 1, *tensor.dims.last().unwrap() as f32);
        let sigma = match norm {
            true => 0.2,
            false if name.starts_with("token_embd") => 1.0,
            false => GAIN / inputs.sqrt(),
        };
        let bytes = &mut file[tensor.offset as usize..][..tensor.bytes as usize];
        Weights::new(tensor.dtype, sigma, 3, i).unwrap().fill(0, bytes);
        for x in bytes.as_chunks_mut::<4>().0.iter_mut().filter(|_| norm) {
            *x = (1.0 + f32::from_le_bytes(*x)).to_le_bytes();
        }
    }
    (files, Arc::new(file))
}

/// The model on a device, with one program: a token, and its logits.
struct Run {
    session: Session,
}

impl Run {
    fn new(device: &str, kv: DType, files: &ModelFiles, file: &SharedBytes) -> Self {
        let options = OpenOptions { threads: Some(1), ..OpenOptions::default() };
        let device = (find(device).unwrap().open)(&options).unwrap();
        let mut options = ModelOptions::chat(16);
        options.programs = vec![ProgramSpec::decode().with_logits()];
        options.activations = Activations::F32.into();
        options.compile.kv = kv;
        options.context = Some(CONTEXT.into());
        let compiled = CompiledModel::from_gguf(files, device.target(), &options).unwrap();
        let maps = [file.clone()];
        let session = put(&compiled, &maps, device, false, &mut |_, _, _| {}, &mut |_, _| {});
        Run { session: session.unwrap() }
    }

    fn state(&self, name: &str, words: &[u32]) -> Write {
        let bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Write { to: WriteTo::State(self.session.state(name).unwrap()), offset: 0, bytes }
    }

    /// Submits a step; `token` is what it reads, or what the step before it sampled.
    fn submit(&self, step: u32, token: Option<u32>) -> Ticket {
        let mut writes = Vec::new();
        if let Some(token) = token {
            let limit = u32::MAX;
            let control = Control {
                past: step,
                len: 1,
                token,
                step,
                limit,
                capacity: CONTEXT,
                ..Control::default()
            };
            writes.push(self.state(PARAMS, &SampleParams::default().to_words()));
            writes.push(self.state(CTL, &control.to_words()));
        }
        self.session.submit("decode_logits", &Submission::new(&writes)).unwrap()
    }

    /// The token that a step sampled, and its logits.
    fn answer(&self, ticket: Ticket) -> (u32, Vec<f32>) {
        let out = block_on(|cx| self.session.poll(ticket, cx)).unwrap().values;
        let token = u32::from_le_bytes(*out[0].first_chunk().unwrap());
        (token, out[1].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }
}

/// Greedy tokens of the GPU, and the same ones through the CPU: each of 2,000 rows of logits is within one
/// tolerance, some four times the largest that was seen, and at the end no larger than at the beginning.
///
/// What breaks it: rotary angles that are a row off from position 1,024 on (tried: token 1,024 is off by
/// 0.6), a split of attention that leaves out a position, a cache that is written one position late, sums
/// that lose bits with every position.
fn no_drift(kv: DType, tolerance: f64) {
    let (files, file) = model();
    let (gpu, cpu) = (Run::new("webgpu", kv, &files, &file), Run::new("cpu", kv, &files, &file));
    let (mut tickets, mut token) = (VecDeque::new(), 1);
    let (mut seen, mut submitted) = (BTreeSet::new(), 0);
    for step in 0..TOKENS {
        // On the GPU nothing but the first token comes from the host.
        while submitted < TOKENS && tickets.len() < AHEAD {
            tickets.push_back(gpu.submit(submitted, (submitted == 0).then_some(token)));
            submitted += 1;
        }
        let (next, got) = gpu.answer(tickets.pop_front().unwrap());
        let (_, want) = cpu.answer(cpu.submit(step, Some(token)));
        let off = difference(&got, &want).relative();
        assert!(off <= tolerance, "{kv}: logits of token {step} are off by {off:e}");
        let best = (0..got.len()).max_by(|&a, &b| got[a].total_cmp(&got[b]));
        assert_eq!(Some(next as usize), best, "{kv}: token {step} is the likeliest");
        token = next;
        if step >= TOKENS / 2 {
            seen.insert(token);
        }
    }
    // Where one token follows itself, every row of the caches is the same and none could be wrong.
    assert!(seen.len() > 20, "{kv}: only {} different tokens", seen.len());
}

#[test]
#[ignore = "minutes on a GPU in software: npm test -- --only wide"]
fn two_thousand_tokens_over_caches_of_f32_do_not_drift() {
    no_drift(DType::F32, 1e-5);
}

#[test]
#[ignore = "minutes on a GPU in software: npm test -- --only wide"]
fn two_thousand_tokens_over_caches_of_f16_do_not_drift() {
    no_drift(DType::F16, 1e-3);
}

#[test]
#[ignore = "minutes on a GPU in software: npm test -- --only wide"]
fn two_thousand_tokens_over_caches_of_q8_0_do_not_drift() {
    no_drift(DType::Block(BlockFormat::Q8_0), 5e-3);
}
