/** Stand-ins for the parts that need a browser or the wasm module. */

import type { RlxError } from '../src/error.js';
import type { PipelineModel } from '../src/generator_types.js';
import { lazy } from '../src/lazy.js';
import { asksOf } from '../src/openai/asks.js';
import type { FormRequest } from '../src/openai/asks.js';
import type { Store } from '../src/store.js';
import type { WasmEngine, WasmEvent } from '../src/wasm.js';
import type { WasmSession } from '../src/wasm_session.js';

/** Tries that take no time. */
export const QUICK = { tries: 3, firstTries: 2, pauseMs: 1, longestMs: 50, stallMs: 2000 };

export const bytesOf = (n: number, seed = 0): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length: n }, (_, i) => (i * 31 + (i >> 8) * 7 + seed) & 255);

/** What ends a stream but its last byte: a fault there, or a signal anywhere. `over` is told of any end. */
interface Ends {
  fail?: Error | undefined;
  signal?: AbortSignal | undefined;
  over?: (() => void) | undefined;
}

/** A stream of bytes, as bodies are, in chunks of the given length; then its end or a fault. */
export function streamOf(bytes: Uint8Array, chunkBytes: number, { fail, signal, over }: Ends = {}): ReadableStream<Uint8Array> {
  let at = 0;
  let stop = () => {};
  const ended = () => {
    signal?.removeEventListener('abort', stop);
    over?.();
  };
  return new ReadableStream({
    type: 'bytes',
    start(out) {
      stop = () => {
        out.error(signal!.reason);
        ended();
      };
      signal?.addEventListener('abort', stop);
    },
    pull(out) {
      if (at < bytes.byteLength) {
        out.enqueue(bytes.slice(at, at + chunkBytes));
        at += chunkBytes;
        return;
      }
      if (fail) {
        out.error(fail);
      } else {
        out.close();
        out.byobRequest?.respond(0); // whoever reads into a buffer of his own gets it back
      }
      ended();
    },
    cancel: ended,
  }, { highWaterMark: 0 });
}

/** A browser's locks for the time of a test: whoever asks for a name waits for those who asked before. */
export function withLocks(t: { after(work: () => void): void }): void {
  const held = new Map<string, (() => void)[]>();
  type Work = (lock: object | null) => unknown;
  const request = async (name: string, ...rest: [Work] | [LockOptions, Work]) => {
    const work = rest.at(-1) as Work;
    const { ifAvailable = false, signal } = (rest.length > 1 ? rest[0] : {}) as LockOptions;
    const waiting = held.get(name);
    if (waiting && ifAvailable) return work(null);
    if (waiting) {
      await new Promise<void>((go, stop) => {
        waiting.push(go);
        signal?.addEventListener('abort', () => {
          waiting.splice(waiting.indexOf(go), 1);
          stop(signal.reason);
        });
      });
    } else {
      held.set(name, []);
    }
    try {
      return await work({});
    } finally {
      const next = held.get(name)!.shift();
      if (next) next();
      else held.delete(name);
    }
  };
  const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator') ?? { configurable: true, value: undefined };
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value: { locks: { request } } });
  t.after(() => Object.defineProperty(globalThis, 'navigator', before));
}

/**
 * A browser's storage in memory, as its file system behaves: an item is there, empty, from the
 * moment it is opened for writing, and has its bytes when `close` resolves, a while later. It
 * notes what was done, in order, and can fail at any of it.
 */
export class FakeStore implements Store {
  items = new Map<string, Blob>();
  holds?: (bytes: number) => Promise<boolean>;
  quota = Infinity;
  /** What was done: `write`, `chunk` (of many in a row one), `close`, `abort`, `read`, `remove`, `names`, and to what. */
  log: string[] = [];
  /** FormRequest at every operation, under the name it has in the log; what it answers is thrown. */
  fails: (operation: string) => Error | undefined = () => undefined;
  #bytes: string[] = [];

  /** `record`, `part` for that of a file that is not complete, or `bytes 1` for pieces of the first file that was written. */
  #word(name: string): string {
    if (name.endsWith('.json')) return name.endsWith('.part.json') ? 'part' : 'record';
    const item = name.replace(/\.\d+\.bytes$/, '');
    if (!this.#bytes.includes(item)) this.#bytes.push(item);
    return `bytes ${this.#bytes.indexOf(item) + 1}`;
  }

  #note(operation: string): void {
    const error = this.fails(operation);
    if (error) throw error;
    if (!(operation.startsWith('chunk') && this.log.at(-1) === operation)) this.log.push(operation);
  }

  async read(name: string) {
    this.#note(`read ${this.#word(name)}`);
    return this.items.get(name);
  }

  async write(name: string) {
    const word = this.#word(name);
    this.#note(`write ${word}`);
    if (!this.items.has(name)) this.items.set(name, new Blob());
    const parts: Uint8Array<ArrayBuffer>[] = [];
    let over = false;
    /** After a fault, as after its end, a file takes nothing more. */
    const step = async (work: () => Promise<void> | void) => {
      if (over) throw new TypeError('the file was closed');
      try {
        await work();
      } catch (error) {
        over = true;
        throw error;
      }
    };
    return {
      write: (chunk: Uint8Array) => step(() => {
        this.#note(`chunk ${word}`);
        parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
        const used = parts.reduce((sum, part) => sum + part.byteLength, 0);
        if (used > this.quota) throw new DOMException('full', 'QuotaExceededError');
      }),
      close: () => step(async () => {
        await new Promise((resolve) => setTimeout(resolve, 2));
        this.#note(`close ${word}`);
        this.items.set(name, new Blob(parts));
        over = true;
      }),
      abort: async () => {
        over = true;
        this.#note(`abort ${word}`);
      },
    };
  }

  async remove(name: string) {
    this.#note(`remove ${this.#word(name)}`);
    this.items.delete(name);
  }

  async names() {
    this.#note('names');
    return [...this.items.keys()];
  }
}

/** An engine that answers with given events and keeps what it was told. */
export class FakeEngine implements WasmEngine {
  /** Lets its instance stop. */
  stop: (reason: RlxError) => void = () => {};
  readonly ended = new Promise<RlxError>((resolve) => {
    this.stop = resolve;
  });
  log: string[] = [];
  started: unknown[] = [];
  events: WasmEvent[] = [];
  #queue: WasmEvent[] = [];
  #cancelled = false;
  /** What prompts end with. */
  promptEnd = '';
  /** Called before each event; lets a test act in the middle of an answer. */
  before: (n: number) => Promise<void> | void = () => {};
  #n = 0;

  constructor(
    public headerBytes: number[] = [],
    public tables: Float64Array[] = [],
  ) {}

  #headers: number[] = [];
  pushHeader(shard: number, _name: string, _bytes: number, chunk: Uint8Array) {
    this.#headers[shard] = (this.#headers[shard] ?? 0) + chunk.byteLength;
    this.log.push(`header ${shard}`);
    return this.#headers[shard]! >= this.headerBytes[shard]!;
  }

  /** Texts as they were given: name, name in errors, content. */
  texts: [string, string, string][] = [];
  text(name: string, at: string, bytes: Uint8Array) {
    this.texts.push([name, at, new TextDecoder().decode(bytes)]);
  }

  /** The fake's index is a list of names. */
  index(_at: string, bytes: Uint8Array) {
    return JSON.parse(new TextDecoder().decode(bytes)) as string[];
  }

  memoryBytes() {
    return 65536;
  }

  async tune() {
    return JSON.stringify({ key: 'a fake; ; rlx 0.0.0', tuning: 'parts=64' });
  }

  async estimate() {
    return '{}';
  }

  async open() {
    this.log.push('open');
  }

  timed(): string | undefined {
    return undefined;
  }

  excerpt() {
    return JSON.stringify({ device: 'a fake; ; rlx 0.0.0', class: 'fake', scale: 1 });
  }
  async trial() {}

  placements(shard: number) {
    return this.tables[shard]!;
  }

  puts: { shard: number; at: number; bytes: Uint8Array }[] = [];
  put(shard: number, at: number, bytes: Uint8Array) {
    this.puts.push({ shard, at, bytes: bytes.slice() });
  }

  checks() {
    return false;
  }
  found() {
    return undefined;
  }
  async finishLoad() {
    this.log.push('finish');
  }

  /** Each character is a token; with `special` there is one before them. */
  tokenize(text: string, special: boolean) {
    return Uint32Array.from([...(special ? [1] : []), ...Array.from(text, (c) => c.codePointAt(0) ?? 0)]);
  }

  tokenizeMessages(requestJson: string) {
    return this.tokenize(requestJson, true);
  }

  templateText = '';
  /** That of conversations with tools, if it is another. */
  toolTemplateText?: string;
  template(tools: boolean) {
    return (tools ? this.toolTemplateText : undefined) ?? this.templateText;
  }

  detokenize(ids: Uint32Array) {
    return String.fromCodePoint(...ids);
  }

  cached() {
    return new Uint32Array();
  }

  async restore(tokens: Uint32Array) {
    this.log.push(`restore ${tokens.join()}`);
  }

  /** The characters of ASCII, each under its code, and a token that ends answers. */
  vocabulary() {
    const characters = Array.from({ length: 128 }, (_, code) => [0, 1, 0, 0, 0, code]);
    const end = [...new TextEncoder().encode('<end>')];
    return Uint8Array.from([...characters.flat(), 2, end.length, 0, 0, 0, ...end]);
  }

  /** Whether calls of `start` were given a constraint. */
  constrained: boolean[] = [];
  start(request: string, constraint?: Parameters<WasmEngine['start']>[1]) {
    this.started.push(JSON.parse(request));
    this.constrained.push(constraint !== undefined);
    this.#queue = [...this.events];
    this.#cancelled = false;
    this.#n = 0;
    return this.promptEnd;
  }

  async nextEvent() {
    await this.before(this.#n++);
    await new Promise((resolve) => setTimeout(resolve, 0));
    const done: WasmEvent = { type: 'done', reason: 'cancelled', promptTokens: 1, completionTokens: 1 };
    const event = this.#cancelled ? done : this.#queue.shift()!;
    return JSON.stringify(event);
  }

  cancel() {
    this.log.push('cancel');
    this.#cancelled = true;
  }

  info() {
    return JSON.stringify({ model: { name: 'fake' } });
  }

  dispose() {
    this.log.push('dispose');
  }
}

/**
 * For the time of a test, takes the place of what holds answers to forms: checks and keeps what calls ask for, and lets all
 * tokens through; or says that a grammar is none.
 */
export function withHeld(t: { after(work: () => void): void }, wrong?: RlxError): FormRequest[] {
  const asked: FormRequest[] = [];
  const before = lazy.held;
  lazy.held = async () => ({
    async hold(_cx, { response_format, grammar, tool_choice, parallel_tool_calls }, _form, tools = []) {
      const form = Object.fromEntries(Object.entries({ response_format, grammar, tool_choice, parallel_tool_calls }).filter(([, value]) => value !== undefined));
      asksOf(form, tools);
      if (wrong) throw wrong;
      asked.push(form);
      return () => ({ next: () => undefined, begin() {}, end() {} });
    },
  });
  t.after(() => {
    lazy.held = before;
  });
  return asked;
}

/** A session whose entry answers with its name, a while after it was started; `wrong` and `lost` are faults. */
export class FakeSession implements WasmSession {
  log: string[] = [];
  #entry = '';
  #cancelled = false;

  text() {}
  index() {
    return [];
  }
  pushHeader() {
    return true;
  }
  async open() {}
  placements() {
    return new Float64Array();
  }
  put() {}
  async finishLoad() {}
  async inspect() {
    return '{"model":null,"target":"cpu","programs":[]}';
  }
  program() {
    return '{}';
  }
  trace() {}
  async traceReady() {
    return '{"past":0,"rows":1,"bytes":0,"steps":[]}';
  }
  async traceRun() {
    return '[]';
  }
  endTrace() {}
  entries() {
    return '[]';
  }
  input() {}
  inputBuffer() {}
  inputKept() {}
  inputImage() {}
  read() {}
  keptBuffer() {
    return undefined;
  }
  freeKept(kept: number) {
    this.log.push(`free ${kept}`);
  }

  start(entry: string) {
    this.log.push(`start ${entry}`);
    this.#entry = entry;
    this.#cancelled = false;
    if (entry === 'wrong') throw JSON.stringify({ code: 'usage', what: 'the model has no entry wrong', at: '', hint: '' });
  }

  async outputs() {
    if (this.#entry === 'lost') throw JSON.stringify({ code: 'device_lost', what: 'the device was lost', at: '', hint: '' });
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.log.push(`end ${this.#entry}`);
    if (this.#cancelled) throw JSON.stringify({ code: 'cancelled', what: 'the call was cancelled', at: '', hint: '' });
    return this.#entry;
  }

  output() {
    return new Uint8Array();
  }
  embedder() {
    return undefined;
  }
  embed() {}
  async batch() {
    return '{}';
  }
  vectors() {
    return new Float32Array();
  }

  /** Pieces of four samples at 100 a second, whose text is their numbers; sounds of another rate are unsupported. */
  #sounds = new Map<number, { samples: number[]; seconds: number; over: boolean }>();
  soundRate() {
    return 100;
  }
  hear(rate: number) {
    if (rate !== 100) throw JSON.stringify({ code: 'unsupported', what: `${rate} samples a second`, at: '', hint: '' });
    const id = ++this.#number;
    this.#sounds.set(id, { samples: [], seconds: 0, over: false });
    this.log.push(`hear ${id}`);
    return id;
  }
  #number = 0;
  pushSound(id: number, samples: Float32Array) {
    this.#sounds.get(id)!.samples.push(...samples);
    this.most = Math.max(this.most, this.#sounds.get(id)!.samples.length);
  }
  /** Most samples of a sound that were here at a time. */
  most = 0;
  endSound(id: number) {
    this.#sounds.get(id)!.over = true;
  }
  async heard(id: number) {
    this.#cancelled = false;
    const sound = this.#sounds.get(id)!;
    if (sound.samples.length <= 4 && !sound.over) return '{"step":"sound","text":"","words":[],"seconds":0}';
    await new Promise((resolve) => setTimeout(resolve, 5));
    if (this.#cancelled) throw JSON.stringify({ code: 'cancelled', what: 'the call was cancelled', at: '', hint: '' });
    const piece = sound.samples.splice(0, 4);
    const start = sound.seconds;
    sound.seconds += piece.length / 100;
    const words = piece.length > 0 ? [{ word: piece.join(' '), start, end: sound.seconds }] : [];
    this.log.push(`heard ${id}`);
    const step = sound.over && sound.samples.length === 0 ? 'end' : 'piece';
    return JSON.stringify({ step, text: piece.map((x) => `${x} `).join(''), words, seconds: sound.seconds });
  }
  freeSound(id: number) {
    this.#sounds.delete(id);
    this.log.push(`free sound ${id}`);
  }
  /** How many sounds are not freed. */
  get kept() {
    return this.#sounds.size;
  }
  #seen = 0;
  /** What `findMasks` was given. */
  prompts: [seen: number, points: number[], frame: number[], all: boolean][] = [];
  look(width: number, height: number, rgba: Uint8Array) {
    this.start(`look ${width}x${height}: ${rgba.join()}`);
  }
  async seen() {
    await this.outputs();
    this.#seen += 1;
    return String(this.#seen);
  }
  findMasks(seen: number, points: Float64Array, frame: Float64Array, all: boolean) {
    this.start(`masks of ${seen}`);
    this.prompts.push([seen, [...points], [...frame], all]);
  }
  async masks() {
    await this.outputs();
    return '[0.75,0.5]';
  }
  knowsWords() {
    return true;
  }
  /** What `findThings` was given. */
  questions: [seen: number, words: string | undefined, boxes: number[], threshold: number][] = [];
  findThings(seen: number, words: string | undefined, boxes: Float64Array, threshold: number) {
    this.start(`things of ${seen}`);
    this.questions.push([seen, words, [...boxes], threshold]);
  }
  async things() {
    await this.outputs();
    return '[{"score":0.75,"box":[0,0,2,1]}]';
  }
  mask(i: number) {
    return Uint8Array.of(i, 1);
  }
  freeSeen(seen: number) {
    this.log.push(`free seen ${seen}`);
  }
  /** A pipeline whose images have one pixel: how many of so many steps are done. */
  #image = { done: -1, steps: 0, preview: false, there: '' };
  openPipeline() {
    return '{"scale":4,"longest":4096,"steps":2,"distilled":true}';
  }
  loadPart(model: string) {
    this.log.push(`load ${model}`);
    this.#image.there = model;
  }
  imagine(prompt: string, optionsJson: string) {
    this.log.push(`imagine ${prompt} ${optionsJson}`);
    const { steps = 2, preview = false, width = 0 } = JSON.parse(optionsJson) as { steps?: number; preview?: boolean; width?: number };
    if (width % 4 !== 0) throw JSON.stringify({ code: 'usage', what: `${width} pixels`, at: '', hint: '' });
    this.#image = { ...this.#image, done: -1, steps, preview };
    this.#cancelled = false;
  }
  neededParts(): PipelineModel[] {
    const { done, steps, there } = this.#image;
    const model = done < 0 ? 'text_encoder' : done < steps ? 'transformer' : 'vae';
    return there === model ? [] : [model];
  }
  async imagined() {
    const image = this.#image;
    await new Promise((resolve) => setTimeout(resolve, 5));
    if (this.#cancelled) throw JSON.stringify({ code: 'cancelled', what: 'the call was cancelled', at: '', hint: '' });
    image.done += 1;
    const { done, steps, preview } = image;
    this.log.push(`imagined ${done}`);
    if (done === 0) return '{}';
    if (done > steps) return '{"over":true,"width":1,"height":1}';
    return JSON.stringify({ step: done, steps, ...(preview && done < steps && { width: 1, height: 1 }) });
  }
  picture() {
    return Uint8Array.of(0, 0, 0, this.#image.done, 1, 2, 255).subarray(3);
  }

  cancel() {
    this.log.push('cancel');
    this.#cancelled = true;
  }
  info() {
    return '{}';
  }
  dispose() {
    this.log.push('dispose');
  }
}
