//! What examples that time kernels share: a GPU, buffers, launches, and numbers that repeat.

use rlx_core::Result;
use rlx_core::ir::lir::{Phase, Slice, Space, Step};
use rlx_core::ops::Op;
use rlx_core::types::Type;
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{Binding, BindingKind, Command, Gpu, Usage};
use rlx_webgpu::kernels::{Access, BindingResource, Kernel};
use std::task::{Poll, Waker};

/// The GPU and its next number.
pub struct Run {
    pub gpu: NativeGpu,
    pub next: u32,
}

/// A buffer and its bytes.
#[derive(Clone, Copy)]
pub struct Memory {
    pub id: u32,
    pub bytes: u64,
}

impl Run {
    /// A number that nothing has.
    pub fn id(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// A buffer.
    pub fn buffer(&mut self, bytes: u64, usage: Usage) -> Memory {
        let (id, bytes) = (self.id(), bytes.next_multiple_of(16));
        self.gpu.create_buffer(id, bytes, usage, "example");
        Memory { id, bytes }
    }

    /// Polls until there is an answer.
    pub fn wait<T>(&self, poll: impl Fn(&NativeGpu, &mut std::task::Context<'_>) -> Poll<T>) -> T {
        let mut cx = std::task::Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(value) = poll(&self.gpu, &mut cx) {
                return value;
            }
        }
    }

    /// A launch of a kernel over the buffers that `of` has for what it binds.
    pub fn launch(
        &mut self,
        kernel: &Kernel,
        of: impl Fn(&BindingResource) -> Memory,
    ) -> Result<Command> {
        let (pipeline, bind_group) = (self.id(), self.id());
        let constants = self.buffer(256, Usage::Uniform);
        let words: Vec<u8> = kernel.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.gpu.write_buffer(constants.id, 0, &words);
        let mut kinds = vec![BindingKind::Uniform];
        let mut bindings = vec![Binding { buffer: constants.id, offset: 0, size: 256 }];
        for (memory, access) in &kernel.memory {
            let memory = of(memory);
            kinds.push(match access {
                Access::Read => BindingKind::Read,
                Access::ReadWrite => BindingKind::ReadWrite,
            });
            bindings.push(Binding { buffer: memory.id, offset: 0, size: memory.bytes });
        }
        self.gpu.create_pipeline(pipeline, &kernel.wgsl, kernel.entry, &kinds);
        self.wait(|gpu, cx| gpu.poll_pipeline(pipeline, cx))?;
        self.gpu.create_bind_group(bind_group, pipeline, &bindings);
        Ok(Command::Dispatch { pipeline, bind_group, groups: kernel.groups })
    }

    /// Bytes of a buffer.
    pub fn read(&mut self, memory: Memory, from: u64, bytes: u64) -> Result<Vec<u8>> {
        let back = self.buffer(bytes, Usage::Readback).id;
        let (list, read) = (self.id(), self.id());
        let copy =
            Command::Copy { from: memory.id, from_offset: from, to: back, to_offset: 0, bytes };
        self.gpu.record(list, &[copy]);
        self.gpu.submit(&[list]);
        self.gpu.read(read, back, bytes);
        let got = self.wait(|gpu, cx| gpu.poll_read(read, cx));
        self.gpu.free_list(list);
        self.gpu.destroy_buffer(back);
        got
    }
}

/// Numbers that repeat.
pub struct Rng(pub u64);

impl Rng {
    /// 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// About normal: a sum of four in [-1, 1).
    pub fn float(&mut self) -> f32 {
        (0..4).map(|_| (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0).sum()
    }
}

/// A value in the arena.
pub fn arena(offset: u64, ty: Type) -> Result<Slice> {
    let bytes = ty.bytes()?;
    Ok(Slice { space: Space::Arena, index: 0, offset, ty, bytes })
}

/// A step whose first result is at this byte of the arena, and others behind it.
pub fn step(op: impl Into<Op>, operands: Vec<Slice>, at: u64) -> Result<Step> {
    let op = op.into();
    let types: Vec<&Type> = operands.iter().map(|s| &s.ty).collect();
    let (mut results, mut at) = (Vec::new(), at);
    for ty in op.infer(&types)? {
        let result = arena(at, ty)?;
        at += result.bytes.next_multiple_of(256);
        results.push(result);
    }
    let (label, regions) = (op.name().into(), Vec::new());
    let (part, live, phase) = (None, None, Phase::Steady);
    Ok(Step { op, operands, results, regions, part, live, phase, label })
}
