// Runs in the page: both engines on one GGUF, by their public interfaces.

/** Texts of about `n` tokens whose first characters differ, so that no engine reuses another run's. */
function prompt(run, n, perToken) {
  const words = 'the quick brown fox jumps over the lazy dog and then it rests a while in the sun ';
  return `${run} ${words.repeat(Math.ceil((n * perToken) / words.length))}`.slice(0, Math.round(n * perToken));
}

/** The model, fetched once: a page has no room for a copy of a large one for each engine. */
let fetched;
const files = async (model) => [(fetched ??= new File([await (await fetch(model)).blob()], 'model.gguf'))];

const engines = {
  async rlx({ model, threads, context, kv }) {
    const { Engine } = await import('/dist/index.js');
    const options = { model: await files(model), device: 'cpu', contextLength: context, kv, threads };
    const engine = await Engine.load(options);
    return {
      async turn(text, tokens) {
        const request = { messages: [{ role: 'user', content: text }], max_tokens: tokens, temperature: 0 };
        const start = performance.now();
        const { usage } = await engine.chat.completions.create(request);
        const info = engine.info();
        return {
          prompt_tokens: usage.prompt_tokens - info.reusedTokens,
          tokens: usage.completion_tokens,
          prefill_tokens_per_s: info.prefillTokensPerSecond,
          decode_tokens_per_s: info.decodeTokensPerSecond,
          wall_ms: performance.now() - start,
        };
      },
      about: () => {
        const { adapter, features, kv: cache, activations } = engine.info();
        return { adapter, features, kv: cache, activations };
      },
    };
  },

  async wllama({ model, threads, context, kv, flash }) {
    const { Wllama } = await import('/wllama/index.js');
    const quiet = { debug() {}, log() {}, warn() {}, error: console.error };
    const wllama = new Wllama({ default: '/wllama/wasm/wllama.wasm' }, { suppressNativeLog: true, logger: quiet });
    await wllama.loadModel(await files(model), {
      n_threads: threads, n_gpu_layers: 0, n_ctx: context, n_batch: 512, n_ubatch: 512, n_parallel: 1,
      cache_type_k: kv, cache_type_v: kv, flash_attn: flash, warmup: true,
    });
    return {
      async turn(text, tokens) {
        const start = performance.now();
        const { timings } = await wllama.createCompletion({
          prompt: text, max_tokens: tokens, temperature: 0, top_k: 1, ignore_eos: true, cache_prompt: false,
        });
        return {
          prompt_tokens: timings.prompt_n,
          tokens: timings.predicted_n,
          prefill_tokens_per_s: timings.prompt_per_second,
          decode_tokens_per_s: timings.predicted_per_second,
          wall_ms: performance.now() - start,
        };
      },
      about: () => ({ threads: wllama.getNumThreads(), multithread: wllama.isMultithread(), version: Wllama.getLibllamaVersion() }),
    };
  },
};

const loaded = {};

/** Loads an engine under a name and warms it up; what it says of itself. */
globalThis.load = async (name, kind, options) => {
  loaded[name] = await engines[kind](options);
  await loaded[name].turn('warm up', 2);
  return { ...loaded[name].about(), isolated: crossOriginIsolated };
};

/** One generation: `n` prompt tokens, then `tokens` more. */
globalThis.turn = (name, run, n, perToken, tokens) => loaded[name].turn(prompt(run, n, perToken), tokens);
