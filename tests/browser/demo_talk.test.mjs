// The demo's speech to text: a file and a microphone become the text that the model hears, and nothing leaves the page.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hearingModel } from '../support/hearing_model.mjs';
import { faults, SMALL, startDemo } from './demo_pages.mjs';

/** A WAV file of a second of noise, 16 bits, one channel. */
function wav(samples = 16_000) {
  const out = Buffer.alloc(44 + samples * 2);
  out.write('RIFF', 0);
  out.writeUInt32LE(36 + samples * 2, 4);
  out.write('WAVEfmt ', 8);
  out.writeUInt32LE(16, 16);
  out.writeUInt16LE(1, 20);
  out.writeUInt16LE(1, 22);
  out.writeUInt32LE(16_000, 24);
  out.writeUInt32LE(32_000, 28);
  out.writeUInt16LE(2, 32);
  out.writeUInt16LE(16, 34);
  out.write('data', 36);
  out.writeUInt32LE(samples * 2, 40);
  for (let i = 0; i < samples; i++)
    out.writeInt16LE((((i * 2_654_435_761) % 65_536) - 32_768) >> (1 + ((i / 900) & 3)), 44 + i * 2);
  return out;
}

let demo, page, logs;
const elsewhere = [];
before(async () => {
  demo = await startDemo({ files: hearingModel('/hears/') });
  ({ page, logs } = await demo.open(`${SMALL}#talk`, { viewport: { width: 1280, height: 900 } }));
  page.context().on('request', (request) => {
    if (!request.url().startsWith(demo.server.url) && !/^(blob|data):/.test(request.url()))
      elsewhere.push(request.url());
  });
  // A microphone that hears noise, and tells whether it is on.
  await page.addInitScript(() => {
    navigator.mediaDevices.getUserMedia = async () => {
      if (globalThis.refuse) throw new DOMException('no', globalThis.refuse);
      const context = new AudioContext();
      const buffer = new AudioBuffer({ length: 16_000, sampleRate: 16_000 });
      buffer.copyToChannel(
        Float32Array.from({ length: 16_000 }, () => Math.random() - 0.5),
        0,
      );
      const to = context.createMediaStreamDestination();
      const node = new AudioBufferSourceNode(context, { buffer, loop: true });
      node.connect(to);
      node.start();
      globalThis.track = to.stream.getTracks()[0];
      return to.stream;
    };
  });
  await page.reload();
});
after(() => demo?.close());

const text = () => page.locator('#talk-text').textContent();
const over = () => page.locator('#talk-speed').waitFor();

async function loadModel(address) {
  if (!(await page.locator('#model-address').isVisible())) await page.locator('.need summary').first().click();
  await page.locator('#model-address').fill(address);
  await page.locator('#model-address').press('Enter');
}

test('nothing is fetched before a button is pressed, and a model that hears nothing is refused with a way out', async () => {
  await page.locator('#talk-fetch').waitFor();
  assert.match(await page.locator('#talk-fetch').textContent(), /about 378 MB/);
  assert.equal(await page.locator('#talk-microphone').isDisabled(), true);
  assert.deepEqual(elsewhere, []);
  await loadModel('fixtures/vit/');
  await page.locator('#talk-model-error').waitFor();
  assert.match(await page.locator('#talk-model-error').textContent(), /vit makes vectors of images.* wav2vec 2\.0/);
  await loadModel('hears/');
  await page.locator('#talk-ready').waitFor();
  assert.match(await page.locator('#talk-ready').textContent(), /^hears listens on the CPU/);
});

test('a file becomes text, and one that is no sound an error that the next choice ends', async () => {
  const choose = (name, buffer) => page.locator('#talk-file').setInputFiles({ name, mimeType: 'audio/wav', buffer });
  await choose('noise.wav', wav());
  await over();
  const first = await text();
  assert.ok(first.length > 50, first);
  assert.match(await page.locator('#talk-speed').textContent(), /^1\.0 seconds of sound, heard in \d+\.\d\.$/);
  assert.equal(await page.locator('#talk-text').getAttribute('aria-busy'), 'false');
  await choose('text.wav', Buffer.from('no sound'));
  await page.locator('#talk-error').waitFor();
  assert.match(
    await page.locator('#talk-error').textContent(),
    /cannot decode this file as a sound \(text\.wav\).*MP3/,
  );
  await choose('silence.wav', wav(8));
  await over();
  assert.match(await text(), /^Nothing was said in it/);
  assert.equal(await page.locator('#talk-error').count(), 0);
  await choose('noise.wav', wav());
  await page.waitForFunction((first) => document.getElementById('talk-text')?.textContent === first, first);
});

test('a microphone is heard until it is stopped, and off when the view is left; a refused one is explained', async () => {
  await page.locator('#talk-microphone').click();
  await page.locator('#talk-stop').waitFor();
  await page.waitForFunction(() => globalThis.track?.readyState === 'live');
  await page.waitForTimeout(500);
  await page.locator('#talk-stop').click();
  await over();
  assert.ok((await text()).length > 20);
  assert.match(await page.locator('#talk-speed').textContent(), /seconds of your microphone/);
  assert.equal(await page.evaluate(() => globalThis.track.readyState), 'ended');
  await page.locator('#talk-microphone').click();
  await page.waitForFunction(() => globalThis.track.readyState === 'live');
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  await page.waitForFunction(() => globalThis.track.readyState === 'ended');
  await page.getByRole('link', { name: 'Talk', exact: true }).click();
  await page.evaluate(() => (globalThis.refuse = 'NotAllowedError'));
  await page.locator('#talk-microphone').click();
  await page.locator('#talk-error').waitFor();
  assert.match(await page.locator('#talk-error').textContent(), /gave no microphone.*Allow this page/);
  assert.deepEqual(elsewhere, []);
  assert.deepEqual(
    faults(logs).filter((line) => !/404/.test(line)),
    [],
  );
});
