/** How an instance of the wasm module ends, with modules of a few bytes in place of ours. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Instance } from '../src/instance.js';
import type { BoundEngine } from '../src/instance.js';
import { Pending } from '../src/pending.js';
import { RlxError } from '../src/error.js';
import type { WasmEngine } from '../src/wasm.js';
import { Workers } from '../src/workers.js';

/** One function, `trap`, whose one instruction is `unreachable`, and a memory. */
const HELPER = new Uint8Array([
  0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // magic, version
  1, 4, 1, 0x60, 0, 0, // types: one function, no parameters, no results
  3, 2, 1, 0, // functions: one, of that type
  5, 3, 1, 0, 1, // memories: one, of one page
  7, 17, 2, 4, 0x74, 0x72, 0x61, 0x70, 0, 0, 6, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79, 2, 0, // exports: `trap`, `memory`
  10, 5, 1, 3, 0, 0, 0x0b, // code: one body without locals
]);
const { trap, memory } = new WebAssembly.Instance(new WebAssembly.Module(HELPER)).exports as { trap(): void; memory: WebAssembly.Memory };

type Exports = { trap(): unknown; add(a: number, b: number): number; memory: WebAssembly.Memory };

/** An instance whose exports are these, with how often it was entered and stopped. */
function setUp(more: object = {}) {
  const seen = { entered: 0, stopped: 0 };
  const instance = new Instance(() => {
    seen.stopped += 1;
  });
  const add = (a: number, b: number) => {
    seen.entered += 1;
    return a + b;
  };
  const exports = instance.guard({ trap, memory, add, ...more } as WebAssembly.Exports) as unknown as Exports;
  return { instance, exports, seen };
}

const never = () => new Promise<never>(() => {});
const STOPPED = { name: 'RlxError', code: 'internal', what: 'the wasm module stopped: unreachable' };

test('exports answer as they do, whoever calls', () => {
  const { instance, exports } = setUp();
  assert.equal(exports.memory, memory);
  assert.equal(exports.add(1, 2), 3);
  assert.equal(instance.call(() => exports.add(3, 4)), 7);
  assert.equal(instance.stopped, undefined);
});

test('a trap under a call is thrown, settles what is pending, and nothing enters again', async () => {
  const { instance, exports, seen } = setUp();
  const pending = [instance.wait(never), instance.wait(never)];
  assert.throws(() => instance.call(() => exports.trap()), STOPPED);
  for (const each of pending) await assert.rejects(each, STOPPED);
  assert.throws(() => instance.call(() => exports.add(1, 2)), STOPPED);
  await assert.rejects(instance.wait(async () => exports.add(1, 2)), STOPPED);
  assert.deepEqual(exports.add(1, 2), []);
  assert.throws(() => instance.call(() => exports.trap()), STOPPED);
  assert.deepEqual(seen, { entered: 0, stopped: 1 });
});

test('a trap under the browser is thrown to nobody, and settles what is pending', async () => {
  const { instance, exports, seen } = setUp();
  const pending = instance.wait(never);
  assert.deepEqual(exports.trap(), []);
  await assert.rejects(pending, STOPPED);
  assert.equal(seen.stopped, 1);
});

test('an exception of JavaScript that crosses the module ends it too, and a call after it is no call under way', () => {
  const { instance, exports } = setUp({
    add: () => {
      throw new RangeError('Maximum call stack size exceeded');
    },
  });
  const stopped = { code: 'internal', what: 'the wasm module stopped: Maximum call stack size exceeded' };
  assert.throws(() => instance.call(() => exports.add(1, 2)), stopped);
  assert.deepEqual(exports.add(1, 2), []);
});

test("Rust's error, thrown by the glue, ends nothing", () => {
  const { instance, exports } = setUp();
  const json = '{"code":"usage","what":"x","at":"","hint":""}';
  assert.throws(() => instance.call(() => {
    throw json;
  }), (error) => error === json);
  assert.equal(instance.call(() => exports.add(1, 2)), 3);
});

test("the first panic's words are the error's; without any, `unreachable` hints at memory", () => {
  const said = setUp();
  said.instance.panicked('index out of bounds (src/a.rs:7)');
  said.instance.panicked('a panic on the way out (src/b.rs:1)');
  assert.throws(() => said.instance.call(() => said.exports.trap()), {
    what: 'the wasm module stopped: index out of bounds (src/a.rs:7)',
    hint: 'load the model again or call engine.reload(); this is a bug in RLX, please report it',
  });
  const silent = setUp();
  assert.throws(() => silent.instance.call(() => silent.exports.trap()), ({ hint }: RlxError) => /no memory/.test(hint));
});

/** An engine that notes what is called, and traps where `traps` says. */
function boundTo(exports: Exports, log: string[], traps: string[] = []): BoundEngine {
  const method = (name: string) => () => {
    log.push(name);
    if (traps.includes(name)) exports.trap();
    return '';
  };
  const engine: Partial<BoundEngine> = {};
  for (const name of ['start', 'cancel', 'dispose', 'free'] as const) engine[name] = method(name);
  return engine as BoundEngine;
}

test('an engine that is disposed is freed, and leaves the instance to the next one', () => {
  const { instance, exports } = setUp();
  const log: string[] = [];
  const engine = instance.engine(() => boundTo(exports, log), () => log.push('left'));
  engine.cancel();
  engine.dispose();
  // What comes too late does not reach the module, where the next one may be.
  engine.dispose();
  engine.cancel();
  assert.throws(() => engine.start(''), { code: 'disposed' });
  assert.deepEqual(log, ['cancel', 'dispose', 'free', 'left']);
});

test('an engine that could not be made leaves it too', () => {
  const { instance } = setUp();
  let left = 0;
  const make = () => {
    throw '{"code":"usage","what":"x"}';
  };
  assert.throws(() => instance.engine(make, () => {
    left += 1;
  }));
  assert.equal(left, 1);
});

for (const where of ['start', 'cancel', 'dispose', 'free']) {
  test(`an engine that trapped in ${where} can be ended, and leaves its instance to nobody`, () => {
    const { instance, exports, seen } = setUp();
    const log: string[] = [];
    const engine: WasmEngine = instance.engine(() => boundTo(exports, log, [where]), () => log.push('left'));
    if (where === 'start') assert.throws(() => engine.start(''), STOPPED);
    engine.cancel();
    engine.dispose();
    assert.deepEqual([seen.stopped, log.includes('left'), log.at(-1)], [1, false, where]);
    assert.throws(() => engine.start(''), STOPPED);
  });
}

test('a promise of Pending settles as it does alone, or as all end, whichever comes first', async () => {
  const pending = new Pending();
  assert.equal(await pending.add(Promise.resolve(7)), 7);
  await assert.rejects(pending.add(Promise.reject(new Error('its own'))), /its own/);
  const open = pending.add(never());
  const reason = new RlxError('disposed', 'the engine was disposed');
  pending.end(reason);
  await assert.rejects(open, reason);
  await assert.rejects(pending.add(never()), reason);
  await assert.rejects(pending.add(Promise.reject(new Error('too late'))), reason);
});

/** What `Workers` does with a `Worker`: `answer` says what each does once it is sent something. */
async function withWorkers<T>(answer: (worker: FakeWorker) => void, work: (made: FakeWorker[]) => Promise<T>): Promise<T> {
  const made: FakeWorker[] = [];
  const scope = globalThis as { Worker?: unknown };
  scope.Worker = class extends FakeWorker {
    constructor() {
      super(answer);
      made.push(this);
    }
  };
  try {
    return await work(made);
  } finally {
    delete scope.Worker;
  }
}

class FakeWorker {
  onmessage: (event: { data: unknown }) => void = () => {};
  onerror: () => void = () => {};
  ended = false;
  constructor(private readonly answer: (worker: FakeWorker) => void) {}
  postMessage() {
    queueMicrotask(() => this.answer(this));
  }
  terminate() {
    this.ended = true;
  }
}

const shared = { module: new WebAssembly.Module(HELPER), memory };

test('workers that start are counted, and a trap of one is told in its words', async () => {
  let ready = 0;
  const answer = (worker: FakeWorker) => (ready++ < 2 ? worker.onmessage({ data: { ready: true } }) : worker.onerror());
  await withWorkers(answer, async (made) => {
    const traps: string[] = [];
    const workers = new Workers(shared, ({ message }) => traps.push(message));
    assert.equal(await workers.atLeast(3), 2);
    assert.equal(await workers.atLeast(1), 1);
    assert.equal(made.length, 3);
    made[1]!.onmessage({ data: { trap: 'out of bounds (src/a.rs:1)' } });
    assert.deepEqual(traps, ['out of bounds (src/a.rs:1)']);
    workers.end();
    assert.ok(made.every(({ ended }) => ended));
  });
});

test('whoever waits for workers that are ended goes on without them', { timeout: 5000 }, async () => {
  await withWorkers(() => {}, async () => {
    const workers = new Workers(shared, () => {});
    const waiting = workers.atLeast(2);
    workers.end();
    assert.equal(await waiting, 0);
  });
});
