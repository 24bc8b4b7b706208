// A model's logits and greedy ids, through the package's own parts: what `Engine` has no name for.

/**
 * Loads `files` (Blobs) on `device` and runs `prompt` (ids) greedily. `base` is where the package's modules
 * are. `context` is how many positions the caches have, where it is not the usual number. Answers
 * `{ logits, tokens, info, error }`.
 */
export async function logitsOf({ base, files, device, gpu, kv, activations, context = null, prompt, maxTokens, threads = 1 }) {
  const part = (name) => import(`${base}/${name}.js`);
  const [{ loadModule }, { findModel, languageFiles, openModel }, { GpuHost }, { load }, { platform }, { ShardReader }, { BlobSource }] =
    await Promise.all(['wasm_module', 'folder', 'gpu_host', 'loader', 'platform', 'shard', 'source'].map(part));
  const module = await loadModule(undefined, threads);
  const host = device === 'webgpu' ? await GpuHost.create(gpu) : null;
  const options = { device, fallbackReason: null, contextLength: context, kv, activations, threads: module.threads, logits: true };
  const engine = module.create(JSON.stringify(options), platform, host);
  const abort = new AbortController();
  const open = async (file) => new ShardReader(new BlobSource(file), abort.signal);
  await load(await openModel(engine, await findModel(languageFiles(files), open), open), { engine, host, abort });
  engine.start(JSON.stringify({ prompt_ids: prompt, temperature: 0, max_tokens: maxTokens }));
  let event;
  do event = JSON.parse(await engine.nextEvent());
  while (event.type !== 'done');
  const info = JSON.parse(engine.info());
  const error = host?.takeError();
  engine.dispose();
  host?.dispose();
  return { logits: event.logits, tokens: event.tokens, info, error };
}

/** The largest difference, relative to the largest of `expected`. */
export function difference(logits, expected) {
  if (logits?.length !== expected.length) return Infinity;
  const largest = Math.max(...expected.map(Math.abs));
  return Math.max(...expected.map((x, i) => Math.abs(x - logits[i]))) / largest;
}
