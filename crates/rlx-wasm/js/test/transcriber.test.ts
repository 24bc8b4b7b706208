// What a transcriber makes of sounds and of streams, with a fake model; the real one is in tests/browser/sound.test.mjs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError } from '../src/error.js';
import { folderOf } from '../src/folder.js';
import type { HeardText, Samples, SoundInput, SoundStream, TranscribeOptions, TranscriberOptions } from '../src/index.js';
import { transcriberFiles } from '../src/network_files.js';
import type { FileItem } from '../src/options.js';
import { soundOf } from '../src/sound_source.js';
import { Transcriber } from '../src/transcriber.js';
import { FakeSession } from './fakes.js';

const fault = (code: string, what: RegExp, text?: string) => (error: unknown) => {
  assert.ok(error instanceof RlxError, String(error));
  assert.equal(error.code, code);
  assert.match(error.what, what);
  if (text !== undefined) assert.equal(error.text, text);
  return true;
};

const open = () => {
  const wasm = new FakeSession();
  return { wasm, transcriber: new Transcriber({ wasm, host: null }) };
};

/** A sound whose samples are 0, 1, 2, ... from `from` on. */
const numbers = (n: number, from = 0): Samples => ({ samples: Float32Array.from({ length: n }, (_, i) => from + i), sampleRate: 100 });

async function* stream(...sizes: number[]) {
  let from = 0;
  for (const n of sizes) {
    yield numbers(n, from);
    from += n;
  }
}

const read = async (heard: AsyncIterable<HeardText>) => {
  const all: HeardText[] = [];
  for await (const piece of heard) all.push(piece);
  return all;
};

test('a transcriber\'s folder has small files, of which most may be missing', () => {
  const { texts, items } = transcriberFiles({ model: 'https://a/b/' });
  const rows = texts(folderOf(items as FileItem[])).map(({ name, else: without }) => [name, typeof without === 'object' ? [without.name, without.else] : without]);
  assert.deepEqual(rows, [
    ['config.json', undefined], ['vocab.json', 'none'], ['preprocessor_config.json', ['processor_config.json', 'none']],
    ['tokenizer_config.json', 'none'], ['special_tokens_map.json', 'none'], ['added_tokens.json', 'none'],
  ]);
  const given = transcriberFiles({ model: new Blob(), config: new Blob(), vocab: new Blob(), addedTokens: new Blob() });
  assert.deepEqual(given.texts(undefined).map(({ name }) => name), ['config.json', 'vocab.json', 'added_tokens.json']);
  const other = transcriberFiles({ model: 'https://a/b/', vocab: 'https://c/letters' });
  assert.deepEqual(other.texts(folderOf(other.items as FileItem[])).map(({ from }) => String(from)).slice(0, 2), ['https://c/letters', 'https://a/b/config.json']);
});

test('options of a transcriber that are wrong are usage', () => {
  const wrong: [unknown, RegExp][] = [
    [{}, /model must be/],
    [{ model: 'https://a/', vocab: 3 }, /vocab must be an address or a Blob/],
    [{ model: 'https://a/', pieceSeconds: 0 }, /pieceSeconds is 0, it must be a number above 0/],
    [{ model: 'https://a/', pieceSeconds: NaN }, /pieceSeconds is NaN/],
    [{ model: 'https://a/', pieceSeconds: '30' }, /pieceSeconds is 30/],
    [{ model: 'https://a/', tokenizer: 'https://b' }, /tokenizer is not an option of load/],
    [null, /object of options/],
  ];
  for (const [options, what] of wrong) assert.throws(() => transcriberFiles(options as TranscriberOptions), fault('usage', what));
});

test('a sound is heard in pieces: text, words and progress are told as they come', async () => {
  const { wasm, transcriber } = open();
  assert.equal(transcriber.sampleRate, 100);
  const texts: string[] = [];
  const progress: object[] = [];
  const answer = await transcriber.transcribe(numbers(10), { timestamps: true, onText: (text) => texts.push(text), onProgress: (told) => progress.push(told) });
  assert.deepEqual(texts, ['0 1 2 3 ', '4 5 6 7 ', '8 9 ']);
  assert.equal(answer.text, texts.join(''));
  assert.deepEqual(answer.words, [{ word: '0 1 2 3', start: 0, end: 0.04 }, { word: '4 5 6 7', start: 0.04, end: 0.08 }, { word: '8 9', start: 0.08, end: 0.1 }]);
  assert.deepEqual(progress, [{ seconds: 0.04, total: 0.1 }, { seconds: 0.08, total: 0.1 }, { seconds: 0.1, total: 0.1 }]);
  assert.deepEqual(await transcriber.transcribe(numbers(0)), { text: '' });
  assert.equal(wasm.kept, 0);
});

test('channels are their mean, in f32; what a listener throws ends nothing', async () => {
  const { transcriber } = open();
  const samples = [Float32Array.of(1, 2, 0.1), Float32Array.of(3, 6, 0.7), Float32Array.of(5, 1, 0.3)];
  const thirds = [3, 3, Math.fround(Math.fround(Math.fround(Math.fround(0.1) + Math.fround(0.7)) + Math.fround(0.3)) / 3)];
  assert.equal((await transcriber.transcribe({ samples, sampleRate: 100 })).text, `${thirds.join(' ')} `);
  const buffer = { sampleRate: 100, numberOfChannels: 3, getChannelData: (i: number) => samples[i] } as unknown as AudioBuffer;
  const uncaught: unknown[] = [];
  const globals = globalThis as { reportError?: (error: unknown) => void };
  globals.reportError = (error) => uncaught.push(error);
  try {
    const onText = () => {
      throw new Error('of the page');
    };
    assert.equal((await transcriber.transcribe(buffer, { onText })).text, `${thirds.join(' ')} `);
  } finally {
    delete globals.reportError;
  }
  assert.equal(uncaught.length, 1);
});

test('a long sound is given in parts, so that little of it waits in the module', async () => {
  const { wasm, transcriber } = open();
  const samples = new Float32Array(3 * 65_536).fill(1);
  // One piece of the fake takes 5 ms: the test looks at the first two, and cancels.
  const stop = new AbortController();
  let pieces = 0;
  const call = transcriber.transcribe({ samples, sampleRate: 100 }, { signal: stop.signal, onText: () => ++pieces === 2 && stop.abort() });
  await assert.rejects(call, fault('cancelled', /cancelled/, '1 1 1 1 1 1 1 1 '));
  assert.equal(wasm.most, 65_536);
  assert.equal((await transcriber.transcribe(numbers(3))).text, '0 1 2 ');
  assert.equal(wasm.kept, 0);
});

test('what is no sound is refused by name, and the model goes on', async () => {
  const { wasm, transcriber } = open();
  const samples = new Float32Array(6);
  const wrong: [unknown, string, RegExp][] = [
    [null, 'usage', /sound is no sound/],
    ['a.wav', 'usage', /sound is no sound/],
    [[0, 1], 'usage', /sound is no sound/],
    [{ samples: [1, 2], sampleRate: 100 }, 'usage', /sound is no sound/],
    [{ samples: new Float64Array(3), sampleRate: 100 }, 'usage', /sound is no sound/],
    [{ samples: [], sampleRate: 100 }, 'usage', /sound has no channel/],
    [{ samples: [samples, samples.subarray(1)], sampleRate: 100 }, 'usage', /channels of 6 and 5 samples/],
    [{ samples }, 'usage', /undefined samples a second/],
    [{ samples, sampleRate: 0 }, 'usage', /has 0 samples a second/],
    [{ samples, sampleRate: -100 }, 'usage', /has -100 samples/],
    [{ samples, sampleRate: 99.5 }, 'usage', /has 99.5 samples/],
    [{ samples, sampleRate: 2 ** 32 + 100 }, 'usage', /has 4294967396 samples/],
    [{ samples, sampleRate: NaN }, 'usage', /has NaN samples/],
    [{ samples, sampleRate: 48 }, 'unsupported', /48 samples a second/],
    [{ samples: Float32Array.of(0, 1, NaN), sampleRate: 100 }, 'usage', /sample 2 of sound is no finite number/],
    [{ samples: [samples, Float32Array.of(0, 0, 0, 0, Infinity, 0)], sampleRate: 100 }, 'usage', /sample 4 of sound is no finite/],
    [new Blob(['RIFF']), 'usage', /nothing here to decode sound by/],
  ];
  for (const [sound, code, what] of wrong) await assert.rejects(transcriber.transcribe(sound as SoundInput), fault(code, what), String(what));
  for (const options of [null, { words: true }]) await assert.rejects(transcriber.transcribe(numbers(1), options as unknown as TranscribeOptions), fault('usage', /option/));
  assert.equal((await transcriber.transcribe(numbers(1))).text, '0 ');
  assert.equal(wasm.kept, 0);
});

test('chunks of any sizes are heard as the whole is', async () => {
  const { wasm, transcriber } = open();
  const want = (await transcriber.transcribe(numbers(23))).text;
  for (const sizes of [[23], [1, 22], [0, 5, 0, 0, 7, 1, 1, 9], Array<number>(23).fill(1)]) {
    const pieces = await read(transcriber.listen(stream(...sizes)));
    assert.equal(pieces.map(({ text }) => text).join(''), want);
    assert.deepEqual(pieces.map(({ seconds }) => Math.round(seconds * 100)), [4, 8, 12, 16, 20, 23]);
    assert.ok(pieces.every((piece) => !('words' in piece)));
  }
  const web = new ReadableStream({
    start(controller) {
      for (const from of [0, 8, 16]) controller.enqueue(numbers(from === 16 ? 7 : 8, from));
      controller.close();
    },
  });
  const pieces = await read(transcriber.listen(web, { timestamps: true }));
  assert.deepEqual(pieces.flatMap(({ words }) => words!.map(({ word }) => word)).join(' '), want.trim());
  assert.deepEqual(await read(transcriber.listen(stream())), []);
  assert.equal((await read(transcriber.listen(stream(0))))[0]!.text, '');
  assert.equal(wasm.kept, 0);
});

test('a stream\'s chunks are asked for one at a time, when they are needed', async () => {
  const { wasm, transcriber } = open();
  let asked = 0;
  const source = async function* () {
    for (; asked < 1000; asked++) yield numbers(2, asked * 2);
  };
  for await (const { text } of transcriber.listen(source())) {
    assert.ok(asked <= 12, `${asked}`);
    if (text.startsWith('16 ')) break;
  }
  assert.ok(wasm.most <= 6, `${wasm.most}`);
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(wasm.kept, 0);
});

test('calls have their turns between a stream\'s pieces, and while it is silent', async () => {
  const { wasm, transcriber } = open();
  let go = () => {};
  const source = async function* () {
    yield numbers(5);
    await new Promise<void>((resolve) => (go = resolve));
    yield numbers(2, 5);
  };
  const listening = transcriber.listen(source());
  assert.equal((await listening.next()).value!.text, '0 1 2 3 ');
  const rest = read(listening);
  assert.equal((await transcriber.transcribe(numbers(6, 50))).text, '50 51 52 53 54 55 ');
  go();
  assert.equal((await rest).map(({ text }) => text).join(''), '4 5 6 ');
  assert.equal(wasm.kept, 0);
});

/** A source that gives six samples and then nothing, and tells when it was closed. */
function endless() {
  const told = { closed: 0 };
  let given = false;
  const source: AsyncIterable<Samples> = {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        if (given) return new Promise<never>(() => {});
        given = true;
        return Promise.resolve({ done: false, value: numbers(6) });
      },
      return: () => {
        told.closed += 1;
        return Promise.resolve({ done: true, value: undefined });
      },
    }),
  };
  return { source, told };
}

test('stop hears what has come; a silent source is left behind', async () => {
  const { wasm, transcriber } = open();
  const { source, told } = endless();
  const listening = transcriber.listen(source);
  assert.equal((await listening.next()).value!.text, '0 1 2 3 ');
  const last = listening.next();
  setTimeout(() => listening.stop(), 10);
  assert.equal((await last).value!.text, '4 5 ');
  assert.deepEqual(await listening.next(), { done: true, value: undefined });
  listening.stop();
  assert.equal(told.closed, 1);
  const early = transcriber.listen(stream(9));
  early.stop();
  assert.deepEqual(await read(early), []);
  assert.equal(wasm.kept, 0);
});

test('aborting ends what listens, before and while it waits for sound or for the model', async () => {
  const { wasm, transcriber } = open();
  await assert.rejects(read(transcriber.listen(stream(9), { signal: AbortSignal.abort() })), fault('cancelled', /cancelled/));
  await assert.rejects(transcriber.transcribe(numbers(9), { signal: AbortSignal.abort() }), fault('cancelled', /cancelled/));
  const { source, told } = endless();
  const stop = new AbortController();
  const listening = transcriber.listen(source, { signal: stop.signal });
  await listening.next();
  const next = listening.next();
  setTimeout(() => stop.abort(), 10);
  await assert.rejects(next, fault('cancelled', /cancelled/, '0 1 2 3 '));
  assert.equal(told.closed, 1);
  assert.equal((await transcriber.transcribe(numbers(2))).text, '0 1 ');
  assert.equal(wasm.kept, 0);
});

test('leaving the loop closes the source', async () => {
  const { wasm, transcriber } = open();
  const { source, told } = endless();
  for await (const piece of transcriber.listen(source)) {
    assert.equal(piece.text, '0 1 2 3 ');
    break;
  }
  assert.equal(told.closed, 1);
  let cancelled = false;
  const web = new ReadableStream<Samples>({
    start: (controller) => controller.enqueue(numbers(6)),
    cancel: () => {
      cancelled = true;
    },
  });
  const listening = transcriber.listen(web);
  await listening.next();
  const waits = listening.next();
  await listening.return!();
  assert.equal((await waits).value!.text, '4 5 ');
  assert.ok(cancelled);
  assert.equal(wasm.kept, 0);
});

test('sources that fail, chunks that are none and rates that change are errors by name', async () => {
  const { wasm, transcriber } = open();
  const failing = async function* () {
    yield numbers(5);
    throw new Error('the cable is out');
  };
  await assert.rejects(read(transcriber.listen(failing())), fault('io', /the source of the sound failed: the cable is out/, '0 1 2 3 '));
  const chunks = async function* (...all: unknown[]) {
    yield* all as Samples[];
  };
  await assert.rejects(read(transcriber.listen(chunks(numbers(5), { ...numbers(1), sampleRate: 99 }))), fault('usage', /100 samples a second at first, and then 99/));
  await assert.rejects(read(transcriber.listen(chunks(numbers(5), 7))), fault('usage', /chunk 1 is no sound/));
  await assert.rejects(read(transcriber.listen(chunks(numbers(5), { samples: Float32Array.of(0, NaN), sampleRate: 100 }))), fault('usage', /sample 1 of chunk 1/));
  await assert.rejects(read(transcriber.listen(chunks({ ...numbers(1), sampleRate: 48 }))), fault('unsupported', /48/));
  for (const source of [null, 7, numbers(3), new Blob()]) assert.throws(() => transcriber.listen(source as unknown as SoundStream), fault('usage', /listen takes/));
  assert.throws(() => transcriber.listen(stream(1), { onText() {} } as object), fault('usage', /onText is not an option/));
  const read1 = new ReadableStream<Samples>();
  read1.getReader();
  await assert.rejects(read(transcriber.listen(read1)), fault('usage', /read by somebody else/));
  const microphone = { getAudioTracks: () => [] } as unknown as MediaStream;
  await assert.rejects(read(transcriber.listen(microphone)), fault('usage', /nothing here to read a MediaStream by/));
  assert.equal(wasm.kept, 0);
});

test('dispose ends calls that hear and those that wait for sound', async () => {
  const { wasm, transcriber } = open();
  const { source, told } = endless();
  const listening = transcriber.listen(source);
  await listening.next();
  const waits = assert.rejects(listening.next(), fault('disposed', /the transcriber was disposed/));
  const hears = assert.rejects(transcriber.transcribe(numbers(9)), fault('disposed', /disposed/));
  await new Promise((resolve) => setTimeout(resolve, 2));
  transcriber.dispose();
  await Promise.all([waits, hears]);
  assert.equal(told.closed, 1);
  assert.throws(() => transcriber.listen(stream(1)), fault('disposed', /disposed/));
  await assert.rejects(transcriber.transcribe(numbers(1)), fault('disposed', /disposed/));
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(wasm.log.filter((line) => line === 'dispose').length, 1);
});

test('parts of a sound are read as they are asked for', async () => {
  const samples = Float32Array.of(1, 2, NaN);
  const sound = await soundOf({ samples, sampleRate: 8000 }, 16000);
  assert.deepEqual([sound.rate, sound.frames, [...sound.part(0, 2)]], [8000, 3, [1, 2]]);
  assert.throws(() => sound.part(1, 3), fault('usage', /sample 2 of sound/));
});
