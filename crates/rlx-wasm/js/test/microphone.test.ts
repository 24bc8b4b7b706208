// How a MediaStream is read, with a fake of a browser's sound; a real one is in tests/browser/sound.test.mjs.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { RlxError } from '../src/error.js';
import type { Samples } from '../src/index.js';
import { Microphone } from '../src/microphone.js';

type Message = { data: Float32Array | null };
interface Node {
  port: { onmessage?: (message: Message) => void; postMessage: (value: null) => void };
  onprocessorerror?: () => void;
  connect(): void;
  disconnect(): void;
}

const globals = globalThis as { AudioContext?: unknown; AudioWorkletNode?: unknown };
let nodes: Node[];
let modules: string[];
let closed: number;
/** What loads the worklet's script; null where a page has no worklets. */
let load: ((address: URL) => Promise<void>) | null;

beforeEach(() => {
  [nodes, modules, closed] = [[], [], 0];
  load = async (address) => void modules.push(address.href);
  globals.AudioContext = class {
    sampleRate = 48_000;
    audioWorklet = load ? { addModule: load } : undefined;
    resume = async () => {};
    createMediaStreamSource = () => ({ connect() {} });
    close = async () => void (closed += 1);
  };
  globals.AudioWorkletNode = class {
    // It answers a stop with its last samples, and then with null.
    port: Node['port'] = {
      postMessage: () => {
        this.port.onmessage!({ data: Float32Array.of(9) });
        this.port.onmessage!({ data: null });
      },
    };
    constructor() {
      nodes.push(this as Node);
    }
    connect() {}
    disconnect() {}
  };
});
afterEach(() => {
  delete globals.AudioContext;
  delete globals.AudioWorkletNode;
});

const track = { readyState: 'live' };
const stream = (...tracks: object[]) => ({ getAudioTracks: () => tracks }) as unknown as MediaStream;
const settled = () => new Promise((resolve) => setTimeout(resolve));
const code = (code: string, what: RegExp) => (error: unknown) => {
  assert.ok(error instanceof RlxError, String(error));
  assert.equal(error.code, code);
  assert.match(error.what, what);
  return true;
};

async function opened() {
  const microphone = new Microphone(stream(track));
  await settled();
  return { microphone, say: (samples: Float32Array) => nodes[0]!.port.onmessage!({ data: samples }) };
}

test('samples wait until they are asked for, and the last ones come behind a stop', async () => {
  const { microphone, say } = await opened();
  assert.match(modules[0]!, /\/sound_worklet\.js$/);
  say(Float32Array.of(1, 2));
  say(Float32Array.of(3));
  assert.deepEqual(await microphone.next(), { samples: Float32Array.of(1, 2), sampleRate: 48_000 });
  assert.deepEqual([...(await microphone.next() as Samples).samples], [3]);
  const next = microphone.next();
  microphone.stop();
  assert.deepEqual([...(await next as Samples).samples], [9]);
  assert.equal(await microphone.next(), undefined);
  say(Float32Array.of(4));
  assert.equal(await microphone.next(), undefined);
  microphone.close();
  assert.equal(closed, 1);
});

test('it ends when its tracks have, and closing leaves out what waits', async () => {
  const ends = { readyState: 'live' };
  const microphone = new Microphone(stream(ends));
  await settled();
  const next = microphone.next();
  ends.readyState = 'ended';
  assert.deepEqual([...(await next as Samples).samples], [9]);
  assert.equal(await microphone.next(), undefined);
  const other = await opened();
  nodes[1]!.port.onmessage!({ data: Float32Array.of(1) });
  other.microphone.close();
  assert.equal(await other.microphone.next(), undefined);
});

test('a model that is too slow ends it, with what came until then', async () => {
  const { microphone, say } = await opened();
  const second = new Float32Array(48_000);
  for (let i = 0; i < 400; i += 1) say(second);
  let seconds = 0;
  await assert.rejects(async () => {
    for (; await microphone.next(); seconds += 1);
  }, code('out_of_memory', /349 seconds of sound wait to be heard/));
  assert.equal(seconds, 349);
  assert.equal(closed, 1);
});

test('a stop before the script is there ends it at once', async () => {
  let go = () => {};
  load = () => new Promise((resolve) => (go = resolve));
  const microphone = new Microphone(stream(track));
  const next = microphone.next();
  microphone.stop();
  assert.equal(await next, undefined);
  go();
  await settled();
  assert.equal(nodes.length, 0);
  assert.equal(closed, 1);
});

test('what a page may not do is an error by name', async () => {
  assert.throws(() => new Microphone(stream()), code('usage', /has no sound/));
  load = async () => {
    throw new DOMException('blocked', 'AbortError');
  };
  await assert.rejects(new Microphone(stream(track)).next(), code('io', /the script that reads a MediaStream does not load/));
  load = null;
  await assert.rejects(new Microphone(stream(track)).next(), code('unsupported', /may not read a MediaStream/));
  load = async () => {};
  const { microphone } = await opened();
  nodes[0]!.onprocessorerror!();
  await assert.rejects(microphone.next(), code('internal', /failed/));
  globals.AudioWorkletNode = class {
    constructor() {
      throw new DOMException('no', 'NotSupportedError');
    }
  };
  await assert.rejects(new Microphone(stream(track)).next(), code('io', /does not let this page read/));
});
