// What is said in a sound, in a page: as transformers' pipeline and the command line say it, from files, samples, streams
// and a MediaStream, under a strict Content-Security-Policy.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { caller, launch, mounts, openPage, rlxBinary, root, startServer } from './harness.mjs';

const RATE = 16_000;
/** What transformers' pipeline hears in sounds of this length with the second model. */
const record = JSON.parse(readFileSync(join(root, 'tests/fixtures/sound/pieces.json'), 'utf8'));
const RECORDED = 'wav2vec2_stable';
const MODELS = ['wav2vec2', RECORDED];
const CASE = record.cases.find(({ samples }) => samples === 9601);
/** Names of files here, which are those of samples in the page. */
const FILES = ['mono.wav', 'stereo.wav', 'sound.flac'];

/** The sound of the record, which tools/transcripts.py computes in the same way. */
function sound(samples) {
  let state = 1n;
  return Float32Array.from({ length: samples }, (_, i) => {
    state = (state * 1_103_515_245n + 12_345n) % (1n << 31n);
    return ((Number((state >> 16n) % 256n) - 128) * (1 + Math.floor(i / 500) % 5)) / 1024;
  });
}

/** A WAV file of 32-bit floating-point numbers; each of `channels` is all samples of one. */
function wav(rate, ...channels) {
  const bytes = channels[0].length * channels.length * 4;
  const out = Buffer.alloc(44 + bytes);
  out.write('RIFF', 0);
  out.writeUInt32LE(36 + bytes, 4);
  out.write('WAVEfmt ', 8);
  out.writeUInt32LE(16, 16);
  out.writeUInt16LE(3, 20);
  out.writeUInt16LE(channels.length, 22);
  out.writeUInt32LE(rate, 24);
  out.writeUInt32LE(rate * channels.length * 4, 28);
  out.writeUInt16LE(channels.length * 4, 32);
  out.writeUInt16LE(32, 34);
  out.write('data', 36);
  out.writeUInt32LE(bytes, 40);
  channels.forEach((channel, c) => channel.forEach((x, i) => out.writeFloatLE(x, 44 + (i * channels.length + c) * 4)));
  return out;
}

const mono = sound(CASE.samples);
/** Two channels at another rate. */
const stereo = [sound(30_000), sound(30_001).subarray(1)];

let server, browser, page, logs, folder, native;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rlx-sound-'));
  const files = { 'mono.wav': wav(RATE, mono), 'stereo.wav': wav(44_100, ...stereo), 'sound.flac': readFileSync(join(root, 'tests/fixtures/sound/sound.flac')) };
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
  native = Object.fromEntries(MODELS.map((model) => {
    const at = join(folder, model);
    cpSync(join(root, 'tests/fixtures', model), at, { recursive: true });
    for (const [file, json] of Object.entries(record.files)) writeFileSync(join(at, file), JSON.stringify(json));
    const args = ['transcribe', '--model', at, '--device', 'cpu', '--piece-seconds', String(record.seconds), '--json', ...FILES.map((name) => join(folder, name))];
    const { sounds } = JSON.parse(execFileSync(rlxBinary(), args, { encoding: 'utf8' }));
    return [model, Object.fromEntries(FILES.map((name, i) => [name, { text: sounds[i].text, words: sounds[i].words }]))];
  }));
  const served = Object.fromEntries(Object.entries(files).map(([name, bytes]) => [`/sounds/${name}`, bytes]));
  for (const [name, json] of Object.entries(record.files)) served[`/vocabulary/${name}`] = Buffer.from(JSON.stringify(json));
  served['/sounds/text.wav'] = Buffer.from('no sound');
  served['/vocabulary/wrong.json'] = Buffer.from('{"<pad>": "a"}');
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') }, files: served, headers: { 'content-security-policy': "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'" } });
  browser = await launch();
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.mouse.click(5, 5); // browsers play, and render, no sound before
  const numbers = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');
  await page.evaluate(async ({ mono, stereo, seconds }) => {
    const { Transcriber, ImageFeatures } = await import('/dist/index.js');
    const fault = (work) => work().then(() => null, ({ code, what, at, hint, text }) => ({ code, what, at, hint, text }));
    const blob = async (name) => (await fetch(`/sounds/${name}`)).blob();
    const floats = (text) => new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
    const load = (model, more) => Transcriber.load({
      model: `/fixtures/${model}/`, vocab: '/vocabulary/vocab.json', tokenizerConfig: '/vocabulary/tokenizer_config.json',
      device: 'cpu', pieceSeconds: seconds, ...more,
    });
    // As the file has it: decoding at another rate has the browser resample.
    const flac = await new OfflineAudioContext(1, 1, 22_050).decodeAudioData(await (await blob('sound.flac')).arrayBuffer());
    const sounds = { 'mono.wav': { samples: floats(mono), sampleRate: 16_000 }, 'stereo.wav': { samples: stereo.map(floats), sampleRate: 44_100 }, 'sound.flac': flac };
    globalThis.t = { Transcriber, ImageFeatures, fault, blob, load, sounds, mono: sounds['mono.wav'] };
  }, { mono: numbers(mono), stereo: stereo.map(numbers), seconds: record.seconds });
});
after(async () => {
  await browser?.close();
  await server?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

const inPage = caller(() => ({ page, logs }));

test('the command line hears what is recorded', () => {
  const { text, words } = native[RECORDED]['mono.wav'];
  assert.equal(text, CASE.text);
  assert.deepEqual(words.map(({ word, start, end }) => [word, start, end]), CASE.words);
});

for (const [model, device] of [...MODELS.map((model) => [model, 'cpu']), [RECORDED, 'webgpu']]) {
  test(`${model} on ${device}: text and words of samples are the command line's`, async () => {
    const { answers, told, progress, info, rate } = await inPage(async ({ model, device }) => {
      const transcriber = await t.load(model, { device });
      const [answers, told, progress] = [{}, [], []];
      for (const [name, sound] of Object.entries(t.sounds)) answers[name] = await transcriber.transcribe(sound, { timestamps: true });
      await transcriber.transcribe(t.mono, { onText: (text) => told.push(text), onProgress: (now) => progress.push(now) });
      const info = transcriber.info();
      transcriber.dispose();
      return { answers, told, progress, info, rate: transcriber.sampleRate };
    }, { model, device });
    for (const name of FILES) assert.deepEqual(answers[name], native[model][name], name);
    assert.equal(told.join(''), native[model]['mono.wav'].text);
    assert.ok(told.length > 1);
    assert.equal(progress.length, 3);
    assert.deepEqual(progress.at(-1), { seconds: CASE.samples / RATE, total: CASE.samples / RATE });
    assert.equal(info.device, device);
    assert.equal(info.model.family, 'wav2vec2');
    assert.equal(rate, RATE);
  });
}

test('chunks of odd sizes, from a stream or an iterable, are heard as the whole is', async () => {
  const heard = await inPage(async () => {
    const transcriber = await t.load('wav2vec2_stable');
    const heard = {};
    for (const [name, size] of [['mono.wav', 1_111], ['stereo.wav', 797], ['mono.wav', 9_600]]) {
      const { samples, sampleRate } = t.sounds[name];
      const part = (from) => (Array.isArray(samples) ? samples.map((one) => one.slice(from, from + size)) : samples.slice(from, from + size));
      const length = Array.isArray(samples) ? samples[0].length : samples.length;
      async function* chunks() {
        for (let from = 0; from < length; from += size) yield { samples: part(from), sampleRate };
      }
      let from = 0;
      const stream = new ReadableStream({
        pull(controller) {
          if (from >= length) return controller.close();
          controller.enqueue({ samples: part(from), sampleRate });
          from += size;
        },
      });
      for (const [kind, source] of [['iterable', chunks()], ['stream', stream]]) {
        const all = [];
        for await (const piece of transcriber.listen(source, { timestamps: true })) all.push(piece);
        heard[`${name} ${size} ${kind}`] = { text: all.map(({ text }) => text).join(''), words: all.flatMap(({ words }) => words), pieces: all.length };
      }
    }
    transcriber.dispose();
    return heard;
  });
  assert.equal(Object.keys(heard).length, 6);
  for (const [name, { text, words, pieces }] of Object.entries(heard)) {
    assert.deepEqual({ text, words }, native[RECORDED][name.split(' ')[0]], name);
    assert.ok(pieces > 1, name);
  }
});

test('files are decoded by the browser; what is no sound is an error by name', async () => {
  const found = await inPage(async () => {
    const transcriber = await t.load('wav2vec2_stable');
    const ask = (sound) => transcriber.transcribe(sound).then(({ text }) => text);
    const found = {
      wav: await ask(await t.blob('mono.wav')),
      flac: await ask(await t.blob('sound.flac')),
      text: await t.fault(async () => ask(new File([await t.blob('text.wav')], 'text.wav'))),
      rate: await t.fault(() => ask({ samples: new Float32Array(9), sampleRate: 3_999 })),
      silence: await ask({ samples: new Float32Array(0), sampleRate: 8_000 }),
      short: await ask({ samples: new Float32Array(29), sampleRate: 16_000 }),
      later: await ask(t.mono),
    };
    transcriber.dispose();
    return found;
  });
  assert.equal(found.wav, CASE.text);
  assert.ok(found.flac.length > 0);
  assert.deepEqual(found.text, { code: 'bad_file', what: 'the browser cannot decode this file as a sound', at: 'text.wav', hint: 'give a WAV, MP3, FLAC, Ogg or another sound that it plays', text: undefined });
  assert.equal(found.rate.code, 'unsupported');
  assert.match(found.rate.what, /3999 samples a second/);
  assert.deepEqual([found.silence, found.short, found.later], ['', '', CASE.text]);
});

test('aborting keeps the text so far, other calls go on, and dispose ends them', async () => {
  const found = await inPage(async () => {
    const transcriber = await t.load('wav2vec2_stable');
    const stop = new AbortController();
    let first;
    const onText = (text) => {
      first ??= text;
      stop.abort();
    };
    const aborted = await t.fault(() => transcriber.transcribe(t.mono, { signal: stop.signal, onText }));
    // Two sounds by turns, and a listener that waits for sound meanwhile.
    const silent = transcriber.listen({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) });
    const waits = t.fault(() => silent.next());
    const both = await Promise.all([transcriber.transcribe(t.mono), transcriber.transcribe(t.sounds['stereo.wav'])]);
    const running = t.fault(() => transcriber.transcribe(t.mono, { onText: () => transcriber.dispose() }));
    const disposed = [await running, await waits, await t.fault(() => transcriber.transcribe(t.mono))];
    return { first, aborted, both: both.map(({ text }) => text), disposed };
  });
  assert.equal(found.aborted.code, 'cancelled');
  assert.equal(found.aborted.text, found.first);
  assert.ok(CASE.text.startsWith(found.first));
  assert.deepEqual(found.both, ['mono.wav', 'stereo.wav'].map((name) => native[RECORDED][name].text));
  assert.deepEqual(found.disposed.map(({ code }) => code), ['disposed', 'disposed', 'disposed']);
});

test('a MediaStream is heard until it is stopped, or its tracks end', async () => {
  const found = await inPage(async () => {
    const transcriber = await t.load('wav2vec2_stable');
    const context = new AudioContext();
    const play = () => {
      const { samples, sampleRate } = t.mono;
      const buffer = new AudioBuffer({ length: samples.length, sampleRate });
      buffer.copyToChannel(samples, 0);
      const to = context.createMediaStreamDestination();
      const node = new AudioBufferSourceNode(context, { buffer, loop: true });
      node.connect(to);
      node.start();
      return to.stream;
    };
    const read = async (listening, each) => {
      const all = [];
      for await (const piece of listening) {
        all.push(piece);
        each(all);
      }
      return all;
    };
    const stopped = transcriber.listen(play());
    const stream = play();
    const [byStop, byTracks] = await Promise.all([
      read(stopped, ({ length }) => length === 2 && stopped.stop()),
      read(transcriber.listen(stream), ({ length }) => length === 2 && stream.getTracks().forEach((track) => track.stop())),
    ]);
    const none = await t.fault(() => transcriber.listen(new MediaStream()).next());
    await context.close();
    transcriber.dispose();
    return { byStop, byTracks, none };
  });
  for (const pieces of [found.byStop, found.byTracks]) {
    assert.ok(pieces.length >= 3, `${pieces.length}`);
    assert.ok(pieces.map(({ text }) => text).join('').length > 100);
    assert.ok(pieces.at(-1).seconds > pieces.at(-2).seconds);
  }
  assert.equal(found.none.code, 'usage');
  assert.match(found.none.what, /has no sound/);
});

test('models of other kinds and wrong files are refused by name', async () => {
  const found = await inPage(async () => {
    const at = { model: '/fixtures/wav2vec2/', device: 'cpu' };
    return {
      image: await t.fault(() => t.Transcriber.load({ model: '/fixtures/vit/', device: 'cpu' })),
      vectors: await t.fault(() => t.ImageFeatures.load(at)),
      letters: await t.fault(() => t.Transcriber.load(at)),
      wrong: await t.fault(() => t.Transcriber.load({ ...at, vocab: '/vocabulary/wrong.json' })),
      pieces: await t.fault(() => t.load('wav2vec2', { pieceSeconds: 0.001 })),
      option: await t.fault(() => t.load('wav2vec2', { features: true })),
    };
  });
  assert.equal(found.image.code, 'unsupported');
  assert.match(found.image.what, /vit makes vectors of images/);
  assert.equal(found.vectors.code, 'unsupported');
  assert.match(found.vectors.what, /wav2vec2/);
  assert.equal(found.letters.code, 'io');
  assert.match(found.letters.what, /no vocab.json/);
  assert.equal(found.wrong.code, 'bad_file');
  assert.match(found.wrong.at, /vocabulary\/wrong\.json/);
  assert.equal(found.pieces.code, 'usage');
  assert.equal(found.pieces.at, 'pieceSeconds');
  assert.equal(found.option.code, 'usage');
});
