// `rlx verify` in the page: networks of every kind against what PyTorch recorded of them, each output within the
// tolerance of its record, through `Session`.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { EXECUTORS, launch, mounts, openPage, root, startServer, withLogs } from './harness.mjs';

/** What of a record a page has no way to make; every other output is compared. */
const LEFT = {
  // Vectors of a pooling are asked for by a folder's own files.
  modernbert: ['out.cls_embedding', 'out.mean_embedding'],
  // The command line counts these from the configuration.
  wav2vec2: ['out.batch_frames'],
  wav2vec2_stable: ['out.batch_frames'],
  // Points between layers, which a session does not return.
  sam: ['out.image_positional_embeddings'],
  flux2: ['out.rope_cos', 'out.rope_sin', 'out.sigmas', 'out.timesteps'],
  // Made with another configuration; features that nothing reads.
  sam2: ['out.boxes_first_iou_scores', 'out.boxes_first_pred_masks', 'out.fpn_hidden_states.0', 'out.fpn_hidden_states.1', 'out.fpn_hidden_states.2'],
};
const FOLDERS = ['vit', 'dinov2_registers', 'modernbert', 'wav2vec2', 'wav2vec2_stable', 'sam', 'sam2', 'sam2_video', 'sam3', 'flux2', 'flux2_vae'];
/** A GPU in software compiles each kernel for a while: with RLX_WIDE it runs all. */
const FEW = ['vit', 'wav2vec2', 'sam', 'flux2_vae'];

/** One build for the CPU, and the GPU. */
const executors = EXECUTORS.filter(({ build }) => build === 'rlx-relaxed.wasm');
let server, browser;
const pages = new Map();
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

for (const { device, adapter, page: options } of executors) {
  const folders = device === 'cpu' || process.env.RLX_WIDE ? FOLDERS : FEW;
  for (const folder of folders) {
    test(`${folder} on ${device}, as recorded`, { timeout: 300_000 }, async (t) => {
      if (!pages.has(device)) pages.set(device, await openPage(browser, `${server.url}/pages/empty.html`, options));
      const { rows, left, info } = await withLogs(pages.get(device), (page) => page.evaluate(async ({ path, device }) => {
        const { Session } = await import('/dist/index.js');
        const { verified } = await import('/support/records.mjs');
        return verified(Session, path, device);
      }, { path: `/fixtures/${folder}/`, device }));
      assert.deepEqual(left.sort(), LEFT[folder] ?? []);
      assert.match(info.adapter, device === 'cpu' ? /simd/ : adapter);
      assert.ok(rows.length > 0);
      for (const { name, apart, most } of rows) assert.ok(apart <= most, `${name}: ${apart} of the largest, ${most} allowed`);
      const worst = rows.reduce((a, b) => (b.apart / b.most > a.apart / a.most ? b : a));
      t.diagnostic(`${rows.length} outputs, ${worst.name} is the furthest: ${worst.apart.toExponential(1)} of ${worst.most}`);
    });
  }
}
