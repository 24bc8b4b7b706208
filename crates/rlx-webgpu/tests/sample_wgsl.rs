//! `sample` on a Vulkan device against rlx-core's sampler: id, control block and counts.
//!
//! A machine without an adapter fails these tests; Debian's `mesa-vulkan-drivers` is enough.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rlx_core::sample::{
    Control, GENERATED, IN_PROMPT, SampleParams, Scratch, bias_word, control, params, philox,
    sample,
};

/// Waits by asking again: wgpu's native futures are ready at once or after a poll of the device.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::yield_now();
    }
}

/// The kernel, and buffers for vocabularies up to a largest one.
struct Sampler {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    bind_group: wgpu::BindGroup,
    step: wgpu::Buffer,
    arena: wgpu::Buffer,
    ctl: wgpu::Buffer,
    params: wgpu::Buffer,
    counts: wgpu::Buffer,
    read: wgpu::Buffer,
}

/// Elements before the logits, to see that it is used where they begin.
const LOGITS_AT: u32 = 8;

impl Sampler {
    fn new(vocab_max: u64) -> Self {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN;
        let instance = wgpu::Instance::new(descriptor);
        let adapter = wait(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))
            .expect("a Vulkan adapter (install mesa-vulkan-drivers and libvulkan1)");
        // Default limits and no features: what every browser gives.
        let (device, queue) =
            wait(adapter.request_device(&wgpu::DeviceDescriptor::default())).expect("a device");
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("sample"),
            source: wgpu::ShaderSource::Wgsl(rlx_webgpu::kernels::sample::WGSL.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("sample"),
            layout: None,
            module: &module,
            entry_point: Some("sample"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        use wgpu::BufferUsages as Usage;
        let buffer = |size, usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let storage = Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC;
        let step = buffer(16, Usage::UNIFORM | Usage::COPY_DST);
        let arena = buffer(4 * (vocab_max.next_multiple_of(4) + u64::from(LOGITS_AT)), storage);
        let ctl = buffer(4 * control::WORDS as u64, storage);
        let params = buffer(4 * (params::WORDS as u64 + vocab_max.div_ceil(32)), storage);
        let counts = buffer(4 * vocab_max, storage);
        let read =
            buffer(4 * (control::WORDS as u64 + vocab_max), Usage::MAP_READ | Usage::COPY_DST);
        let buffers = [&step, &arena, &ctl, &params, &counts];
        let entries: Vec<_> = (0..)
            .zip(buffers)
            .map(|(binding, b)| wgpu::BindGroupEntry { binding, resource: b.as_entire_binding() })
            .collect();
        let bind_group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        Self { device, queue, pipeline, bind_group, step, arena, ctl, params, counts, read }
    }

    /// What the kernel makes of the control block and the counts in `n_steps` dispatches.
    fn run(&self, case: &Case, n_steps: u32) -> (Control, Vec<u32>) {
        let vocab = case.logits.len();
        let write = |buffer, at, words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            self.queue.write_buffer(buffer, at, &bytes);
        };
        let logits: Vec<u32> = case.logits.iter().map(|l| l.to_bits()).collect();
        write(&self.step, 0, &[vocab as u32, LOGITS_AT / 4, 0, 0]);
        write(&self.arena, 0, &[f32::INFINITY.to_bits(); LOGITS_AT as usize]);
        write(&self.arena, 4 * u64::from(LOGITS_AT), &logits);
        write(&self.ctl, 0, &case.control.to_words());
        write(&self.params, 0, &case.words);
        write(&self.counts, 0, &case.counts);

        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.bind_group, &[]);
        for _ in 0..n_steps {
            pass.dispatch_workgroups(1, 1, 1);
        }
        drop(pass);
        let ctl_bytes = 4 * control::WORDS as u64;
        let size = ctl_bytes + 4 * vocab as u64;
        encoder.copy_buffer_to_buffer(&self.ctl, 0, &self.read, 0, ctl_bytes);
        encoder.copy_buffer_to_buffer(&self.counts, 0, &self.read, ctl_bytes, size - ctl_bytes);
        self.queue.submit([encoder.finish()]);
        let slice = self.read.slice(..size);
        slice.map_async(wgpu::MapMode::Read, |result| result.expect("mapped"));
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the device answers");
        let words: Vec<u32> = slice
            .get_mapped_range()
            .expect("mapped")
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&bytes| u32::from_le_bytes(bytes))
            .collect();
        self.read.unmap();
        let (block, counts) = words.split_first_chunk().expect("the control block");
        assert_eq!(block[8..], [0; 8], "reserved words");
        (Control::from_words(block), counts.to_vec())
    }
}

struct Case {
    logits: Vec<f32>,
    words: Vec<u32>,
    counts: Vec<u32>,
    control: Control,
}

impl Case {
    fn expected(&self, n_steps: u32) -> (Control, Vec<u32>) {
        let (mut control, mut counts) = (self.control, self.counts.clone());
        for _ in 0..n_steps {
            let mut scratch = Scratch::default();
            sample(&self.logits, &self.words, &mut counts, &mut control, &mut scratch);
        }
        (control, counts)
    }
}

/// Random numbers for the tests, from the sampler's own generator under another key.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 += 1;
        philox::philox4x32_10([self.0, 1, 2, 3], [4, 5])[0]
    }

    /// In -1..1.
    fn unit(&mut self) -> f32 {
        self.next() as i32 as f32 / 2_147_483_648.0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.next() as usize % of.len()]
    }
}

/// A case in which all logits and penalties are multiples of 1/4 with few bits when `penalties`
/// are on: there every product and sum is exact, so fusing them changes nothing.
fn random_case(random: &mut Random, vocab: usize, penalties: bool) -> Case {
    let grid = if penalties { 0.25 } else { random.pick(&[0.0, 0.0, 0.5, 0.01]) };
    let spread = random.pick(&[1.0, 8.0, 40.0]);
    let logits = (0..vocab).map(|_| {
        let logit = random.unit() * spread;
        match random.next() % 64 {
            0 => f32::NAN,
            1 => f32::NEG_INFINITY,
            _ if grid > 0.0 => (logit / grid).round() * grid,
            _ => logit,
        }
    });
    let logits: Vec<f32> = logits.collect();
    let counts = (0..vocab).map(|_| {
        let n = random.next() % 4;
        let bias = bias_word(random.pick(&[0.0, 0.0, 1.5, -2.25, 100.0, -100.0]));
        random.pick(&[0, 0, IN_PROMPT, n, IN_PROMPT | n, GENERATED]) | bias
    });
    let counts = counts.collect();
    let mut p = SampleParams {
        temperature: random.pick(&[0.0, 0.1, 0.7, 1.0, 1.0, 3.0, 100.0]),
        top_k: random.pick(&[0, 0, 1, 2, 40, 300, 5000]),
        top_p: random.pick(&[1.0, 1.0, 1e-10, 0.3, 0.5, 0.9, 0.999]),
        min_p: random.pick(&[0.0, 0.0, 0.05, 0.5]),
        seed: u64::from(random.next()) << 32 | u64::from(random.next()),
        stop_ids: (0..random.pick(&[0, 1, 16])).map(|_| random.next() % vocab as u32).collect(),
        ..SampleParams::default()
    };
    if penalties {
        p.repetition_penalty = random.pick(&[1.0, 2.0, 0.5]);
        p.frequency_penalty = random.pick(&[0.0, 0.25, -0.5, 2.0]);
        p.presence_penalty = random.pick(&[0.5, -0.25, 1.0]);
    }
    p.validate().expect("valid parameters");
    let limit = random.pick(&[1, 2, 1000]);
    let past = random.next() % 1000;
    let len = random.pick(&[1, 7, 64]);
    let capacity = random.pick(&[past + len, past + len + 1, 4096]);
    let ring = random.pick(&[0, u32::MAX]);
    let done = random.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    let control = Control { past, len, token: 77, step: 0, done, limit, ring, capacity };
    let mut words = p.to_words().to_vec();
    let masked = random.pick(&[0, 0, 1]);
    words[params::MASKED] = masked;
    // All, half of them, few, none; without a mask nobody reads them.
    let least = random.pick(&[0, 1 << 31, 31 << 27, u32::MAX]);
    words.extend(
        (0..vocab.div_ceil(32))
            .map(|_| (0..32).map(|bit| u32::from(random.next() >= least) << bit).sum::<u32>()),
    );
    Case { logits, words, counts, control }
}

#[test]
fn random_cases_equal_the_core() {
    let sampler = Sampler::new(8192);
    let mut random = Random(0);
    let mut n_tokens = 0;
    for case_id in 0..600 {
        let vocab = [1, 2, 255, 256, 257, 1021, 8192][case_id % 7];
        let case = random_case(&mut random, vocab, case_id % 3 == 0);
        let expected = case.expected(2);
        n_tokens += expected.0.ring.wrapping_sub(case.control.ring);
        let words = &case.words[..params::WORDS];
        assert_eq!(sampler.run(&case, 2), expected, "case {case_id}: vocab {vocab}, {words:?}");
    }
    assert!(n_tokens > 600, "cases ended too early to say much: {n_tokens} tokens");
}

#[test]
fn a_vocabulary_of_128256_equals_the_core() {
    let sampler = Sampler::new(128_256);
    let mut random = Random(1 << 30);
    for case_id in 0..24 {
        let case = random_case(&mut random, 128_256, case_id % 3 == 0);
        assert_eq!(
            sampler.run(&case, 1),
            case.expected(1),
            "case {case_id}: {:?}",
            &case.words[..params::WORDS]
        );
    }
}

#[test]
fn sums_carry_past_32_bits_and_split_a_tie_of_every_id() {
    let sampler = Sampler::new(128_256);
    for (top_k, top_p) in [(0, 1.0), (0, 0.5), (70_001, 1.0), (70_001, 0.9), (0, 1e-9)] {
        for past in 0..4 {
            let p = SampleParams { temperature: 1.0, top_k, top_p, ..SampleParams::default() };
            let case = Case {
                logits: vec![-3.5; 128_256],
                words: p.to_words().to_vec(),
                counts: vec![0; 128_256],
                control: Control { past, len: 1, limit: 9, capacity: 99, ..Control::default() },
            };
            assert_eq!(sampler.run(&case, 1), case.expected(1), "{top_k} {top_p} {past}");
        }
    }
}

#[test]
fn words_that_no_parameters_give_equal_the_core() {
    let sampler = Sampler::new(16);
    let p = SampleParams { temperature: 1.0, seed: 3, ..SampleParams::default() };
    // A top-p of nothing keeps the best; a min-p above every weight falls back to it.
    for (word, value) in [(params::TOP_P, 0), (params::MIN_P, u32::MAX)] {
        let mut words = p.to_words().to_vec();
        words[word] = value;
        let case = Case {
            logits: vec![0.5, 0.75, 0.25, 0.75],
            words,
            counts: vec![0; 4],
            control: Control { len: 1, limit: 99, capacity: 99, ..Control::default() },
        };
        for n_steps in 1..=8 {
            let expected = case.expected(n_steps);
            assert_eq!(expected.0.token, 1);
            assert_eq!(sampler.run(&case, n_steps), expected, "word {word}, step {n_steps}");
        }
    }
}

#[test]
fn extreme_logits_equal_the_core() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let sampler = Sampler::new(16);
    for logits in [
        vec![nan, -inf],
        vec![-inf, -inf, nan],
        vec![-inf, nan, -3.0e38],
        vec![1.0, inf, 2.0, inf],
        vec![f32::MIN, f32::MAX, 0.0],
        vec![0.0, -0.0],
        vec![-0.0, 0.0],
        vec![1e-40, 2e-40, 0.0],
        vec![f32::MIN, -inf, f32::MIN],
    ] {
        for (temperature, top_k) in
            [(0.0, 0), (1e-45, 0), (1e-45, 2), (1e-3, 1), (1.0, 0), (1.0, 2), (100.0, 2)]
        {
            let p = SampleParams { temperature, top_k, seed: 3, ..SampleParams::default() };
            let case = Case {
                words: p.to_words().to_vec(),
                counts: vec![0; logits.len()],
                control: Control { len: 1, limit: 99, capacity: 99, ..Control::default() },
                logits: logits.clone(),
            };
            assert_eq!(
                sampler.run(&case, 3),
                case.expected(3),
                "{logits:?} at {temperature}, {top_k}"
            );
        }
    }
}
