//! Before anything is built: do the optional features of WGSL that kernels use do what they should?
//!
//! A probe is one shader of one workgroup and the words that it must write. What is wrong, or does not
//! compile, is not used. For shuffles that also says whether lanes lie side by side in a workgroup of
//! one dimension, which WGSL does not promise and kernels need.
//!
//! Where the width of subgroups is not known, shaders of other workgroups and registers tell it before. If they
//! find different ones, the compiler chooses for each shader, and the fewest that the host allows count.

use super::{Buffer, WebGpuDevice};
use crate::gpu::{
    Binding, BindingKind, Command, Gpu, PACKED_DOT, SHADER_F16, SUBGROUPS, Usage, Width,
};
use crate::kernels::fill;
use core::task::{Context, Poll};
use rlx_core::{Code, Result};

/// Threads of the shuffles' workgroup: that of the kernels that use them.
const THREADS: u32 = 256;
/// Threads and vectors in registers of the shaders that measure subgroups: the workgroups that kernels have, and
/// one as full as the fullest kernel.
const WIDTHS: [(u32, u32); 4] = [(64, 1), (128, 1), (256, 1), (256, 40)];
/// Threads of the products'.
const PAIRS: u32 = 64;

/// Pairs of words whose four signed bytes have every sign and both ends.
const WORDS: [u32; 8] = [
    0x7f7f_7f7f,
    0x8080_8080,
    0x8181_8181,
    0x7f80_7f80,
    0xff01_ff01,
    0x0000_0080,
    0x1234_5678,
    0xfedc_ba98,
];

/// What a probe runs and must find.
struct Probe {
    asks: Asks,
    wgsl: String,
    entry: &'static str,
    /// The buffer before.
    before: Vec<u32>,
}

/// What a probe's answer is for.
enum Asks {
    /// Whether a feature works: then the buffer is this afterwards.
    Works(&'static str, Vec<u32>),
    /// How many lanes the subgroups of its threads have.
    Width(u32),
}

impl Probe {
    fn shuffle(lanes: u32, enable: bool) -> Probe {
        let masks: Vec<u32> = (0..lanes.ilog2()).map(|m| 1 << m).collect();
        let shuffles: String = (1u32..)
            .zip(&masks)
            .map(|(m, mask)| {
                let at = m * THREADS;
                format!("b[{at}u + thread] = subgroupShuffleXor(x, {mask}u);\n    ")
            })
            .collect();
        let x = |thread: u32| (thread as f32 + 0.5).to_bits();
        let mut after: Vec<u32> = (0..THREADS).map(x).collect();
        let mut before = after.clone();
        for mask in masks {
            after.extend((0..THREADS).map(|thread| x(thread ^ mask)));
        }
        before.resize(after.len(), 0);
        let wgsl = fill(
            wgsl!("probe_shuffle.wgsl"),
            &[
                ("enable", if enable { "enable subgroups;" } else { "" }),
                ("threads", &THREADS.to_string()),
                ("shuffles", &shuffles),
            ],
        );
        Probe { asks: Asks::Works(SUBGROUPS, after), wgsl, entry: "probe_shuffle", before }
    }

    fn width((threads, registers): (u32, u32), enable: bool) -> Probe {
        let each = |separator: &str, line: &dyn Fn(u32) -> String| {
            (0..registers).map(line).collect::<Vec<_>>().join(separator)
        };
        let next = |i: u32| (i + 1) % registers;
        let wgsl = fill(
            wgsl!("probe_width.wgsl"),
            &[
                ("enable", if enable { "enable subgroups;" } else { "" }),
                ("threads", &threads.to_string()),
                (
                    "declare",
                    &each("\n    ", &|i| {
                        format!("var r{i} = load({threads}u + 4u * thread + {i}u);")
                    }),
                ),
                ("turn", &each(" ", &|i| format!("r{i} = r{i} * r{} + r{i};", next(i)))),
                ("sum", &each(" + ", &|i| format!("r{i}"))),
            ],
        );
        let before = vec![0; (5 * threads + registers + 3) as usize];
        Probe { asks: Asks::Width(threads), wgsl, entry: "probe_width", before }
    }

    fn dot() -> Probe {
        let pairs: Vec<(u32, u32)> =
            WORDS.iter().flat_map(|&a| WORDS.iter().map(move |&b| (a, b))).collect();
        let z = |i: u32| i as i32 * 4 - 128;
        let mut before: Vec<u32> = pairs.iter().map(|p| p.0).collect();
        before.extend(pairs.iter().map(|p| p.1));
        before.extend((0..PAIRS).map(|i| z(i) as u32));
        let mut after = before.clone();
        after.extend(pairs.iter().map(|(a, b)| {
            let bytes = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
            bytes.map(|(a, b)| i32::from(a as i8) * i32::from(b as i8)).sum::<i32>() as u32
        }));
        after.extend(
            (0..PAIRS).map(|i| {
                u32::from_le_bytes([0, 1, 2, 3].map(|j| (z(i) + j).clamp(-127, 127) as u8))
            }),
        );
        before.resize(after.len(), 0);
        let wgsl = wgsl!("probe_dot.wgsl").into();
        Probe { asks: Asks::Works(PACKED_DOT, after), wgsl, entry: "probe_dot", before }
    }
}

/// Threads of the f16 products'.
const HALVES: u32 = 64;

impl Probe {
    /// Products and sums that are numbers of 11 bits, so that none is rounded.
    fn half() -> Probe {
        let x = |i: u32| (i as f32 - 32.0) / 64.0;
        let y = |i: u32| 2.0 * i as f32 - 63.0;
        let z = |i: u32| (i % 32) as f32 / 64.0;
        let all = |f: &dyn Fn(u32) -> f32| (0..HALVES).map(f).collect::<Vec<f32>>();
        let mut before = [all(&x), all(&y), all(&z)].concat();
        let mut after = before.clone();
        after.extend((0..HALVES).flat_map(|thread| {
            [0, 1, 2, 3].map(|j| (63 - thread + 16 * j) % HALVES).map(|i| x(i) * y(i) + z(i))
        }));
        before.resize(after.len(), 0.0);
        let bits = |all: Vec<f32>| -> Vec<u32> { all.into_iter().map(f32::to_bits).collect() };
        Probe {
            asks: Asks::Works(SHADER_F16, bits(after)),
            wgsl: wgsl!("probe_half.wgsl").into(),
            entry: "probe_half",
            before: bits(before),
        }
    }
}

/// A probe on the GPU.
struct Running {
    probe: Probe,
    pipeline: u32,
    /// Around its shader: one that does not compile is this probe's answer, no fault to report.
    scopes: Option<u32>,
    /// Its memory and the readback buffer, bind group, list and read, once its pipeline is there.
    launched: Option<Launched>,
}

struct Launched {
    buffers: [Buffer; 2],
    group: u32,
    list: u32,
    read: u32,
    /// Around all that was made and submitted.
    scopes: u32,
    /// What was read.
    bytes: Option<Result<Vec<u8>>>,
}

/// The probes of a device's features, under way.
pub struct Probes {
    running: Vec<Running>,
    /// Lanes that shaders found, where the width of subgroups is asked for; then features are asked for.
    found: Option<Vec<u32>>,
}

impl Probes {
    /// Starts a probe for each optional feature that the device's kernels would use.
    pub fn new<G: Gpu>(device: &WebGpuDevice<G>) -> Self {
        let wgsl = device.works.get();
        let mut probes = Probes { running: Vec::new(), found: None };
        // Devices of tests count on lanes of their own.
        if matches!(device.width.get(), Width::Range(least, _) if wgsl.subgroup == Some(least)) {
            let shaders = WIDTHS.map(|shader| Probe::width(shader, wgsl.enable_subgroups));
            probes.start(device, shaders);
            probes.found = Some(Vec::new());
        } else {
            probes.features(device);
        }
        probes
    }

    fn features<G: Gpu>(&mut self, device: &WebGpuDevice<G>) {
        let wgsl = device.works.get();
        let shuffle =
            (wgsl.lanes() > 1).then(|| Probe::shuffle(wgsl.lanes(), wgsl.enable_subgroups));
        let half = wgsl.f16.then(Probe::half);
        let features = shuffle.into_iter().chain(wgsl.packed_dot.then(Probe::dot)).chain(half);
        self.start(device, features);
    }

    fn start<G: Gpu>(&mut self, device: &WebGpuDevice<G>, probes: impl IntoIterator<Item = Probe>) {
        let ids = &mut device.state.lock().ids;
        self.running.extend(probes.into_iter().map(|probe| {
            let (pipeline, scopes) = (ids.next(), ids.next());
            device.gpu.push_scopes();
            device.gpu.create_pipeline(
                pipeline,
                &probe.wgsl,
                probe.entry,
                &[BindingKind::ReadWrite],
            );
            device.gpu.pop_scopes(scopes);
            Running { probe, pipeline, scopes: Some(scopes), launched: None }
        }));
    }

    /// Goes on. Once it has answered, the device builds kernels of what works alone, and its
    /// information says what does not.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn poll<G: Gpu>(
        &mut self,
        device: &WebGpuDevice<G>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        loop {
            while let Some(running) = self.running.last_mut() {
                let answer = match running.poll(device, cx) {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => return Poll::Pending,
                };
                running.free(device);
                let Some(Running { probe, .. }) = self.running.pop() else { break };
                if let Err(e) = device.alive() {
                    return Poll::Ready(Err(e));
                }
                match answer {
                    Err(e) if matches!(e.code, Code::DeviceLost | Code::OutOfMemory) => {
                        return Poll::Ready(Err(e));
                    }
                    answer => self.take(device, &probe.asks, answer),
                }
            }
            let Some(found) = self.found.take() else { return Poll::Ready(Ok(())) };
            device.set_width(device.width.get().measured(found.into_iter()));
            self.features(device);
        }
    }

    /// What a probe has found.
    fn take<G: Gpu>(&mut self, device: &WebGpuDevice<G>, asks: &Asks, answer: Result<Vec<u32>>) {
        let (feature, after) = match asks {
            Asks::Works(feature, after) => (feature, after),
            Asks::Width(threads) => {
                // A shader that does not compile has found none.
                let lanes = answer.unwrap_or_else(|_| vec![0]);
                self.found.get_or_insert_default().extend(lanes.iter().take(*threads as usize));
                return;
            }
        };
        let why = match answer {
            Ok(found) if found == *after => return,
            Ok(_) => "a probe computes wrong values".into(),
            Err(e) => e.what,
        };
        let works = device.works.get().without(&[feature]);
        device.works.set(works);
        device.wgsl.set(works);
        device.broken.lock().push(format!("{feature}: {why}"));
    }
}

impl Running {
    /// The buffer afterwards.
    fn poll<G: Gpu>(
        &mut self,
        d: &WebGpuDevice<G>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<u32>>> {
        if let Some(scopes) = self.scopes {
            if d.gpu.poll_scopes(scopes, cx).is_pending() {
                return Poll::Pending;
            }
            self.scopes = None;
        }
        let launched = match &mut self.launched {
            Some(launched) => launched,
            None => {
                match d.gpu.poll_pipeline(self.pipeline, cx) {
                    Poll::Ready(ready) => ready?,
                    Poll::Pending => return Poll::Pending,
                }
                self.launched.insert(self.probe.launch(d, self.pipeline))
            }
        };
        if launched.bytes.is_none() {
            match d.gpu.poll_read(launched.read, cx) {
                Poll::Ready(bytes) => launched.bytes = Some(bytes),
                Poll::Pending => return Poll::Pending,
            }
        }
        match d.gpu.poll_scopes(launched.scopes, cx) {
            Poll::Ready(fault) => fault?,
            Poll::Pending => return Poll::Pending,
        }
        let bytes = launched.bytes.take().unwrap_or(Ok(Vec::new()))?;
        let words = bytes.as_chunks().0.iter().map(|w| u32::from_le_bytes(*w));
        Poll::Ready(Ok(words.collect()))
    }

    fn free<G: Gpu>(&mut self, d: &WebGpuDevice<G>) {
        if let Some(launched) = self.launched.take() {
            d.gpu.free_list(launched.list);
            d.gpu.free_bind_group(launched.group);
            d.destroy(&mut d.state.lock(), launched.buffers);
        }
        d.gpu.free_pipeline(self.pipeline);
    }
}

impl Probe {
    fn launch<G: Gpu>(&self, d: &WebGpuDevice<G>, pipeline: u32) -> Launched {
        let s = &mut *d.state.lock();
        let bytes: Vec<u8> = self.before.iter().flat_map(|w| w.to_le_bytes()).collect();
        let size = bytes.len() as u64;
        d.gpu.push_scopes();
        let memory = d.create(s, size, Usage::Storage, "probe");
        let back = d.create(s, size, Usage::Readback, "probe's answer");
        let [group, list, read, scopes] = core::array::from_fn(|_| s.ids.next());
        d.gpu.write_buffer(memory.id, 0, &bytes);
        let bound = Binding { buffer: memory.id, offset: 0, size };
        d.gpu.create_bind_group(group, pipeline, &[bound]);
        let copy = Command::Copy {
            from: memory.id,
            from_offset: 0,
            to: back.id,
            to_offset: 0,
            bytes: size,
        };
        let dispatch = Command::Dispatch { pipeline, bind_group: group, groups: [1, 1, 1] };
        d.gpu.record(list, &[dispatch, copy]);
        d.gpu.submit(&[list]);
        d.gpu.read(read, back.id, size);
        d.gpu.pop_scopes(scopes);
        Launched { buffers: [memory, back], group, list, read, scopes, bytes: None }
    }
}
