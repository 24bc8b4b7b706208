//! Submissions: encoding lists, and waiting for their ends.

use super::tables::{Tables, Times};
use super::{MetalGpu, SLICE};
use crate::api::Metal;
use core::time::Duration;
use rlx_core::{Error, Result};
use rlx_webgpu::gpu::Command;
use std::collections::BTreeSet;

/// What a compute encoder has been told since it was opened: none of it is said twice.
#[derive(Default)]
struct Told {
    pipeline: Option<u32>,
    /// What is bound at each index.
    buffers: Vec<Option<(u32, u64)>>,
    sizes: Option<(usize, Vec<u8>)>,
}

impl<M: Metal> MetalGpu<M> {
    /// Notes which submissions have ended, without waiting.
    pub(super) fn look(&self, tables: &mut Tables<M>) {
        self.wait_within(tables, u64::MAX, Duration::ZERO);
    }

    /// Waits a slice for submission `number`; whether it has ended.
    pub(super) fn wait(&self, tables: &mut Tables<M>, number: u64) -> bool {
        self.wait_within(tables, number, SLICE)
    }

    fn wait_within(&self, tables: &mut Tables<M>, number: u64, at_most: Duration) -> bool {
        while tables.ended < number {
            let Some((next, committed)) = tables.under_way.front() else { break };
            match self.metal.ended(committed, at_most) {
                None => return false,
                Some(Ok(span)) => {
                    if tables.times.values().any(|t| t.numbers.contains(next)) {
                        tables.spans.insert(*next, span);
                    }
                }
                Some(Err(error)) => {
                    tables.lost = true;
                    // What a scope has caught is another call's.
                    tables.uncaught.get_or_insert(error);
                }
            }
            tables.ended = *next;
            tables.under_way.pop_front();
        }
        tables.ended >= number
    }

    /// The lists as one command buffer, behind the writes that wait.
    pub(super) fn submit_lists(&self, tables: &mut Tables<M>, lists: &[u32]) -> Result<()> {
        let mut commands = Vec::new();
        for list in lists {
            let all = tables.lists.get(list);
            commands
                .extend(all.ok_or_else(|| Error::internal(format!("the GPU has no list {list}")))?);
        }
        self.submit_commands(tables, &commands)
    }

    /// A command buffer for each dispatch, with the copies behind it.
    pub(super) fn submit_each(&self, tables: &mut Tables<M>, lists: &[u32]) -> Result<Times> {
        let mut numbers = Vec::new();
        for list in lists {
            let missing = || Error::internal(format!("the GPU has no list {list}"));
            let commands = tables.lists.get(list).ok_or_else(missing)?.clone();
            for command in commands {
                self.submit_commands(tables, &[command])?;
                if matches!(command, Command::Dispatch { .. }) {
                    numbers.push(tables.last);
                }
            }
        }
        Ok(Times { numbers })
    }

    fn submit_commands(&self, tables: &mut Tables<M>, commands: &[Command]) -> Result<()> {
        let mut encoded = self.metal.commands()?;
        let mut used = BTreeSet::new();
        for write in core::mem::take(&mut tables.writes) {
            let to = tables.buffers.get(&write.to);
            let to = to.ok_or_else(|| Error::internal("a write lost its buffer"))?;
            self.metal.copy(
                &mut encoded,
                (&write.from, 0),
                (&to.buffer, write.offset),
                write.bytes,
            );
            used.insert(write.to);
        }
        let mut told = Told::default();
        for command in commands {
            self.encode(tables, &mut encoded, command, &mut told, &mut used)?;
        }
        tables.last += 1;
        let number = tables.last;
        for id in used {
            if let Some(buffer) = tables.buffers.get_mut(&id) {
                buffer.used = number;
            }
        }
        tables.under_way.push_back((number, self.metal.commit(encoded)));
        Ok(())
    }

    fn encode(
        &self,
        tables: &Tables<M>,
        encoded: &mut M::Commands,
        command: &Command,
        told: &mut Told,
        used: &mut BTreeSet<u32>,
    ) -> Result<()> {
        let buffer = |id: u32| {
            let missing = || Error::internal(format!("the GPU has no buffer {id}"));
            tables.buffers.get(&id).ok_or_else(missing)
        };
        match *command {
            Command::Dispatch { pipeline, bind_group, groups } => {
                let made = tables.pipelines.get(&pipeline).and_then(|made| made.as_ref().ok());
                let group = tables.bind_groups.get(&bind_group);
                let (Some(made), Some(group)) = (made, group) else {
                    let what = format!("pipeline {pipeline} or bind group {bind_group}");
                    return Err(Error::internal(format!("the GPU has no {what}")));
                };
                if told.pipeline != Some(pipeline) {
                    self.metal.set_pipeline(encoded, &made.state);
                    for (index, bytes) in (0u32..).zip(&made.memory) {
                        self.metal.set_threadgroup_memory(encoded, index, *bytes);
                    }
                    told.pipeline = Some(pipeline);
                }
                let behind = group.bindings.len();
                if told.buffers.len() <= behind {
                    told.buffers.resize(behind + 1, None);
                }
                for (index, binding) in (0u32..).zip(&group.bindings) {
                    let bound = buffer(binding.0)?;
                    used.insert(binding.0);
                    if told.buffers[index as usize] != Some(*binding) {
                        self.metal.set_buffer(encoded, index, &bound.buffer, binding.1);
                        told.buffers[index as usize] = Some(*binding);
                        // It may stand where sizes stood.
                        if told.sizes.as_ref().is_some_and(|s| s.0 == index as usize) {
                            told.sizes = None;
                        }
                    }
                }
                let sizes = Some((behind, group.sizes.clone()));
                if !group.sizes.is_empty() && told.sizes != sizes {
                    self.metal.set_bytes(encoded, behind as u32, &group.sizes);
                    told.buffers[behind] = None;
                    told.sizes = sizes;
                }
                self.metal.dispatch(encoded, groups, made.threads);
            }
            Command::Copy { from, from_offset, to, to_offset, bytes } => {
                let (source, target) = (buffer(from)?, buffer(to)?);
                let fits = |at: u64, of: u64| at.checked_add(bytes).is_some_and(|end| end <= of);
                if !fits(from_offset, source.bytes) || !fits(to_offset, target.bytes) {
                    return Err(Error::internal(format!("a copy of {bytes} bytes does not fit")));
                }
                *told = Told::default();
                used.extend([from, to]);
                let from = (&source.buffer, from_offset);
                self.metal.copy(encoded, from, (&target.buffer, to_offset), bytes);
            }
        }
        Ok(())
    }
}
