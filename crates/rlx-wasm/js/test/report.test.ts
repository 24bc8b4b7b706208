/** Reports of devices: the headers of the models whose layers are timed, and what becomes of times and failures. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { formsOf, reportOf } from '../src/report.js';
import { headerOf, MODELS } from '../src/report_models.js';
import type { WasmEngine, WasmTuned } from '../src/wasm.js';

const fixture = (name: string) => new URL(`../../../../../tests/fixtures/devices/${name}`, import.meta.url);
const json = (name: string) => JSON.parse(readFileSync(fixture(name), 'utf8')) as Record<string, unknown>;

/** rlx-native's tests hold the recorded headers against the shapes of `rlx synth`. */
test('headers are the recorded ones', () => {
  for (const model of MODELS) {
    const file = fixture(`${model.name}.gguf-header`);
    const header = headerOf(model);
    if (process.env.BLESS) writeFileSync(file, header);
    assert.deepEqual(Buffer.from(header), readFileSync(file), model.name);
  }
});

/** An engine that was timed like this, or failed. */
function engine(timed: () => string | undefined) {
  const given: [string, number][] = [];
  const it: Pick<WasmEngine, 'pushHeader' | 'trial' | 'timed'> = {
    pushHeader: (_shard, name, _fileBytes, bytes) => given.push([name, bytes.length]) > 0,
    trial: async () => {},
    timed,
  };
  return { engine: it as WasmEngine, given };
}

test('times, and why there are none, come into the report', async () => {
  const [model] = MODELS;
  const times = { key: 'k', from: 'measured', recommended: 'int16/int8', chosen: 'f32/int8', decodeMs: [2, 1], promptMs: [1, 2], times: '2 1 1 2' };
  const timed = engine(() => JSON.stringify(times));
  const forms = await formsOf(model!, timed.engine);
  assert.deepEqual(forms, { model: 'llama-125m q4_k_m', recommended: 'int16/int8', chosen: 'f32/int8', decode_ms: [2, 1], prompt_ms: [1, 2], failed: null });
  assert.deepEqual(timed.given, [['llama-125m q4_k_m', headerOf(model!).length]]);
  assert.equal((await formsOf(model!, engine(() => undefined).engine)).failed, 'the device was not timed');
  const broken = engine(() => {
    throw Object.assign(new Error('long'), { what: 'the GPU has too little memory' });
  });
  assert.deepEqual(await formsOf(model!, broken.engine), {
    model: 'llama-125m q4_k_m', recommended: null, chosen: null, decode_ms: null, prompt_ms: null, failed: 'the GPU has too little memory',
  });

  const tuned: WasmTuned = {
    key: 'a GPU; ; rlx 1.2.3, kernels 7', version: '1.2.3', kernels: 7, adapter: 'a GPU', features: ['subgroups'], demoted: [], subgroups: '32 lanes', target: 'webgpu', tuning: 'short=64x2 parts=64',
    tried: ['short short=256x1 parts=256', 'short short=64x2 parts=256', 'parts short=64x2 parts=64'], ms: [3, 2, 0.5],
  };
  const report = reportOf(tuned, { software: false, rate: 1e9, forms: [forms] });
  assert.deepEqual([report.rlx, report.kernels, report.from], ['1.2.3', 7, 'page']);
  assert.deepEqual(report.choices, { short: { '256x1': 3, '64x2': 2 }, parts: { 64: 0.5 } });
  assert.match(report.date, /^\d{4}-\d\d-\d\d$/);
  // One format: the members of both recorded reports, in their order.
  for (const name of ['gpu.json', 'page.json']) assert.deepEqual(Object.keys(report), Object.keys(json(name)));
  assert.deepEqual(Object.keys(forms), Object.keys((json('gpu.json').forms as object[])[0]!));
});
