// Runs in Deno: reads a job (one line of JSON) from its argument, answers the questions on WebGPU,
// prints one line of JSON: what differs and `engine.info()`.

import { readFileSync } from 'node:fs';
import { Engine } from '../../crates/rlx-wasm/js/dist/index.js';
import { differences } from '../support/parity.mjs';

const { model, questions, maxTokens } = JSON.parse(Deno.args[0]);
const engine = await Engine.load({ model: model.map((path) => new Blob([readFileSync(path)])), device: 'webgpu' });
const found = await differences(engine, questions, maxTokens);
console.log(JSON.stringify({ found, info: engine.info() }));
engine.dispose();
Deno.exit(0);
