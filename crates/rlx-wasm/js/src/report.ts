/** What a report of a device has beside the tuning: the rate of its copies, and the forms of products on layers of models. */

import { RlxError } from './error.js';
import { platform } from './platform.js';
import { headerOf } from './report_models.js';
import type { ReportModel } from './report_models.js';
import type { DeviceReport, FormsReport } from './report_types.js';
import type { WasmEngine, WasmTimed, WasmTuned } from './wasm.js';

/** Most bytes that are copied: above the last cache of today's cards. */
const COPY_BYTES = 256 * 1024 * 1024;
/** Bytes of a workgroup: a quad of words a thread. */
const GROUP_BYTES = 256 * 16;
/** Copies take about so many milliseconds, and are at most so many. */
const COPY_MS = 100;
const MOST_COPIES = 256;

const COPY = `@group(0) @binding(0) var<storage, read> given: array<vec4u>;
@group(0) @binding(1) var<storage, read_write> taken: array<vec4u>;
@compute @workgroup_size(256)
fn copy(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (id.y * groups.x + id.x) * 256u + thread;
  if i < arrayLength(&taken) { taken[i] = given[i]; }
}`;

// The numbers of GPUBufferUsage: npm `webgpu` defines no such globals.
const STORAGE = 0x80;

/** Bytes a second that a kernel reads and writes, both counted, which copies a buffer. */
export async function copyRate(device: GPUDevice): Promise<number> {
  const { maxBufferSize, maxStorageBufferBindingSize } = device.limits;
  const size = Math.floor(Math.min(COPY_BYTES, maxBufferSize, maxStorageBufferBindingSize) / GROUP_BYTES) * GROUP_BYTES;
  device.pushErrorScope('out-of-memory');
  const buffers = [0, 1].map(() => device.createBuffer({ size, usage: STORAGE, label: 'copied' }));
  try {
    const full = await device.popErrorScope();
    if (full) throw new RlxError('out_of_memory', `the GPU has no room for two buffers of ${size} bytes`);
    const module = device.createShaderModule({ code: COPY });
    const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: 'copy' } });
    const group = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
    const run = async (times: number) => {
      const begin = platform.now();
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      for (let i = 0; i < times; i++) pass.dispatchWorkgroups(256, Math.ceil(size / GROUP_BYTES / 256));
      pass.end();
      device.queue.submit([encoder.finish()]);
      await device.queue.onSubmittedWorkDone();
      return Math.max(platform.now() - begin, 0.01); // a coarse clock may stand still
    };
    await run(1); // memory is touched
    const once = await run(1);
    const times = Math.min(MOST_COPIES, Math.floor(COPY_MS / once));
    // What a submission costs by itself is in both.
    const ms = times > 1 ? Math.max(await run(1 + times) - await run(1), 0.01) / times : once;
    return 2 * size / (ms / 1000);
  } finally {
    for (const buffer of buffers) buffer.destroy();
  }
}

/** Times the forms of products on one layer of a model, whose headers the engine gets; it opens none. */
export async function formsOf(model: ReportModel, engine: WasmEngine): Promise<FormsReport> {
  const none = { recommended: null, chosen: null, decode_ms: null, prompt_ms: null };
  const name = `${model.name} q4_k_m`;
  try {
    engine.pushHeader(0, name, -1, headerOf(model));
    await engine.trial(1);
    const text = engine.timed();
    if (text === undefined) return { model: name, ...none, failed: 'the device was not timed' };
    const { recommended, chosen, decodeMs, promptMs } = JSON.parse(text) as WasmTimed;
    return { model: name, recommended, chosen, decode_ms: decodeMs, prompt_ms: promptMs, failed: null };
  } catch (error) {
    const { what, message } = error as { what?: string; message?: string };
    return { model: name, ...none, failed: (what ?? message ?? 'it failed').slice(0, 300) };
  }
}

/** The times by choice and by what was tried for it. */
function choicesOf({ tried, ms }: WasmTuned): DeviceReport['choices'] {
  const choices: DeviceReport['choices'] = {};
  tried.forEach((text, i) => {
    const [choice = '', ...words] = text.split(' ');
    const word = words.find((each) => each.startsWith(`${choice}=`)) ?? '';
    (choices[choice] ??= {})[word.slice(choice.length + 1)] = ms[i]!;
  });
  return choices;
}

/** The report: its members are those of `rlx devices --report`, in the same order. */
export function reportOf(tuned: WasmTuned, { software, rate, forms }: { software: boolean; rate: number; forms: FormsReport[] }): DeviceReport {
  const { version, kernels, adapter, features, demoted, subgroups, target, tuning } = tuned;
  return {
    format: 'rlx-device-report', version: 1,
    rlx: version, kernels,
    date: new Date().toISOString().slice(0, 10),
    from: 'page', system: globalThis.navigator?.userAgent ?? '',
    adapter, driver: '', software, features, demoted, subgroups, target,
    copy_bytes_per_second: rate, tuning, choices: choicesOf(tuned), forms,
  };
}
