// Drives Chromium for the browser tests: pages with and without WebGPU, the heap as the browser
// counts it, screenshots.

import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { runsOn } from '../support/parity.mjs';
import { STOPPED } from '../support/stopped.mjs';

export { startServer } from './server.mjs';

export const root = fileURLToPath(new URL('../../', import.meta.url));

/** The folder of recorded truth that is not tracked: beside the checkout or the nearest above it, or null. */
export const shared = (() => {
  for (let folder = root; folder !== dirname(folder); ) {
    folder = dirname(folder);
    const found = join(folder, 'shared');
    if (existsSync(join(found, 'reference'))) return found;
  }
  return null;
})();

/** Where a path of cases.json is: on this machine, and under the server's mounts. */
export const inRoot = (path) => (path.startsWith('../shared/') ? join(shared, path.slice('../shared/'.length)) : join(root, path));
export const atServer = (path) => (path.startsWith('../') ? path.slice('..'.length) : `/${path}`);

/**
 * The cases of a kind for an executor, and with the executors that ask for them those whose files are
 * not tracked: where the files are not there, these have a reason to be skipped, as `skip`.
 */
export function casesFor({ cases, wider }, kind, { name, wider: asks }) {
  const skip = shared ? false : 'no folder `shared` beside the checkout';
  const all = asks ? [...cases, ...wider.map((c) => ({ ...c, skip }))] : cases;
  return all.filter((c) => c.kind === kind && runsOn(c, name));
}

/** Works with a page that `openPage` opened: what goes wrong comes with what the page wrote to the console. */
export async function withLogs({ page, logs }, work) {
  try {
    return await work(page);
  } catch (error) {
    throw new Error(`${error.message}\n${logs.join('\n')}`, { cause: error });
  }
}

/** Calls functions in a page that is open by then; `opened` gives it and its logs. */
export const caller = (opened) => (body, argument) => withLogs(opened(), (page) => page.evaluate(body, argument));

/** Opens the pages of executors' cases: one for each case, but a single one for all that share a GPU device. */
export function casePages(browser, serverOf) {
  const shared = new Map();
  const open = async (executor) => {
    const { requests, url } = serverOf(executor);
    requests.length = 0;
    return openPage(browser, `${url}/pages/empty.html`, executor.page);
  };
  return async (executor, work) => {
    if (executor.page?.oneDevice && !shared.has(executor)) shared.set(executor, await open(executor));
    const opened = shared.get(executor) ?? await open(executor);
    try {
      return await withLogs(opened, work);
    } finally {
      if (!shared.has(executor)) await opened.context.close();
    }
  };
}

/** What tests leave for people to look at; not tracked. */
export const outFolder = join(root, 'tests', 'browser', 'out');

const QUIET = [
  '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];
// SwiftShader compiles a constant of zeros for workgroup memory to a store of each word, for which a kernel with tiles
// takes seconds more; without the toggle Dawn writes loops.
const WEBGPU = [
  '--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader',
  '--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension',
];
const NO_WEBGPU = ['--disable-features=WebGPU', '--disable-gpu'];

/** The system's Chromium: Playwright's own download is not needed. */
export function chromiumPath() {
  const path = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((name) => existsSync(name));
  if (!path) throw new Error('no Chromium: install it with `apt-get install chromium mesa-vulkan-drivers libvulkan1`');
  return path;
}

/** The command line, as `npm test` has built it by the time the browser is tested. */
export function rlxBinary() {
  process.env.RLX_AUTO ??= 'cpu'; // which device is the fastest is no part of a test
  const path = process.env.RLX_TEST_BINARY ?? join(root, 'target', 'debug', 'rlx');
  if (!existsSync(path)) throw new Error(`no ${path}: build it with \`cargo build\``);
  return path;
}

/** A browser; `webgpu: false` is one whose `navigator.gpu` gives no adapter. */
export function launch({ webgpu = true } = {}) {
  return chromium.launch({
    executablePath: chromiumPath(),
    args: [...QUIET, ...(webgpu ? WEBGPU : NO_WEBGPU)],
  });
}

/** A browser without WebGPU that keeps what pages store in a folder, and can be killed: `kill` resolves once it has ended. */
export async function launchKept(folder) {
  const context = await chromium.launchPersistentContext(folder, { executablePath: chromiumPath(), args: [...QUIET, ...NO_WEBGPU] });
  // The process with this folder that no other process of the browser began.
  const all = descendants(process.pid);
  const { pid } = all.find(({ pid, kind }) => kind === 'browser' && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder));
  const kill = async () => {
    const closed = new Promise((resolve) => context.once('close', resolve));
    const ending = [pid, ...descendants(pid).map((one) => one.pid)];
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      return; // it has ended
    }
    await closed;
    await ended(ending);
  };
  return { context, kill };
}

/** Waits until processes have ended: those that a killed browser began still write to its folder for a moment. */
async function ended(pids) {
  const lives = (pid) => {
    try {
      // A zombie has ended, and waits for its parent to ask how.
      return !readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /, '').startsWith('Z');
    } catch {
      return false;
    }
  };
  for (const begun = Date.now(); pids.some(lives); await new Promise((resolve) => setTimeout(resolve, 20))) {
    if (Date.now() - begun > PATIENCE) throw new Error(`processes ${pids.filter(lives).join(', ')} of a killed browser did not end`);
  }
}

/**
 * The page's executors: their name in cases.json, the device, the module's build that Chromium
 * takes, and what `openPage` needs to make it another one. `isolated`: on a page that may share
 * memory with workers, with two threads. `wider`: it runs the cases whose files are not tracked.
 */
export const EXECUTORS = [
  { name: 'page-cpu', device: 'cpu', build: 'rlx-relaxed.wasm', adapter: /^relaxed-simd, 1 thread$/, wider: true },
  { name: 'page-cpu', device: 'cpu', build: 'rlx.wasm', adapter: /^simd128, 1 thread$/, page: { relaxedSimd: false }, wider: true },
  { name: 'page-cpu', device: 'cpu', build: 'rlx-threads-relaxed.wasm', adapter: /^relaxed-simd, 2 threads$/, isolated: true },
  { name: 'page-cpu', device: 'cpu', build: 'rlx-threads.wasm', adapter: /^simd128, 2 threads$/, isolated: true, page: { relaxedSimd: false } },
  // A GPU in software: three tokens a second of the larger model. All of its cases run in one page, on one device.
  { name: 'page-webgpu', device: 'webgpu', build: 'rlx-relaxed.wasm', adapter: /swiftshader/i, page: { oneDevice: true }, wider: true },
];

/** Why a test is skipped that takes long on a GPU in software; `npm test -- --only wide` runs it. */
export const WIDE = !process.env.RLX_WIDE && 'minutes on a GPU in software: npm test -- --only wide';

/**
 * Runs in a page before its scripts: all of its engines get one GPU device, which keeps their kernels. A GPU in
 * software takes 20 s to compile the kernels of a model, and an equal kernel on the same device is not compiled
 * again as long as somebody has it.
 */
function shareDevice() {
  const kept = [];
  const { createComputePipelineAsync } = GPUDevice.prototype;
  GPUDevice.prototype.createComputePipelineAsync = async function (descriptor) {
    const pipeline = await createComputePipelineAsync.call(this, descriptor);
    kept.push(pipeline);
    return pipeline;
  };
  const { requestDevice } = GPUAdapter.prototype;
  let device;
  GPUAdapter.prototype.requestDevice = async function (descriptor) {
    device ??= requestDevice.call(this, descriptor);
    const given = await device;
    // Tests wrap methods of a device that they get: each gets it as it was.
    for (const object of [given, given.queue]) Reflect.ownKeys(object).forEach((name) => delete object[name]);
    return given;
  };
}

/** Milliseconds that one call of a page may take: a GPU in software compiles kernels for a minute. */
const PATIENCE = 300_000;

/** The processes that a process and its children began: what they are, their CPU time, where the kernel has them wait. */
function descendants(parent) {
  const read = (pid, name) => {
    try {
      return readFileSync(`/proc/${pid}/${name}`, 'utf8');
    } catch {
      return ''; // it ended
    }
  };
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map((pid) => {
    const [state, from, ...rest] = read(pid, 'stat').replace(/^.*\) /, '').split(' ');
    const kind = /--type=([\w-]+)/.exec(read(pid, 'cmdline'))?.[1] ?? 'browser';
    // Fields 14 and 15 of proc_pid_stat(5).
    return { pid: Number(pid), from: Number(from), state, ticks: Number(rest[9]) + Number(rest[10]), waits: read(pid, 'wchan'), kind };
  });
  const found = all.filter(({ from }) => from === parent);
  for (const { pid } of found) found.push(...all.filter(({ from }) => from === pid));
  return found;
}

/**
 * Makes calls of a page fail that take too long, where they would hang the test and all behind it. What the browser's
 * processes did goes to the log, and the browser is killed: nothing else of it would answer either.
 */
function bounded(page, patience) {
  const evaluate = page.evaluate.bind(page);
  page.evaluate = async (body, argument) => {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => {
        const processes = descendants(process.pid);
        for (const { pid, state, ticks, waits, kind } of processes) console.log(`${kind} ${pid}: ${state}, ${ticks} ticks of CPU, waits in ${waits}`);
        for (const { pid } of processes) {
          try {
            process.kill(pid, 'SIGKILL');
          } catch {
            // It ended with its parent.
          }
        }
        reject(new Error(`${STOPPED} for ${patience / 1000} s`));
      }, patience);
    });
    try {
      return await Promise.race([evaluate(body, argument), late]);
    } finally {
      clearTimeout(timer);
    }
  };
}

/** What pages of an origin keep about GPUs: every page of this process has what the ones before it found. */
const kept = new Map();

/**
 * A page that fails the test on an uncaught error; `logs` has what it wrote to the console.
 * `relaxedSimd: false` makes it one of a browser that refuses such modules; `oneDevice: true` one whose engines
 * share a GPU device. It is a later visit of one visitor, who has nothing in storage but what was found about
 * the GPU. Without `contest` the script does not come with which `auto` times devices: it takes any GPU. A call of
 * the page may take `patience` milliseconds.
 */
export async function openPage(browser, url, { relaxedSimd = true, oneDevice = false, contest = true, patience = PATIENCE, ...options } = {}) {
  const { origin } = new URL(url);
  const context = await browser.newContext({ ...options, storageState: { cookies: [], origins: kept.has(origin) ? [kept.get(origin)] : [] } });
  const close = context.close.bind(context);
  context.close = async () => {
    const { origins } = await context.storageState();
    const localStorage = origins.find((o) => o.origin === origin)?.localStorage.filter(({ name }) => name === 'rlx.checks') ?? [];
    if (localStorage.length > 0) kept.set(origin, { origin, localStorage });
    await close();
  };
  const page = await context.newPage();
  bounded(page, patience);
  const logs = [];
  page.on('console', (message) => logs.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => logs.push(`uncaught: ${error.stack ?? error}`));
  // Before any script of the page: every wasm memory it makes, for `heapMeter`.
  await page.addInitScript(() => {
    globalThis.rlxMemories = [];
    const note = ({ instance, exports } = {}) => {
      for (const value of Object.values(instance?.exports ?? exports ?? {})) {
        if (value instanceof WebAssembly.Memory) globalThis.rlxMemories.push(value);
      }
    };
    for (const method of ['instantiate', 'instantiateStreaming']) {
      const original = WebAssembly[method];
      WebAssembly[method] = async (...args) => {
        const result = await original.apply(WebAssembly, args);
        note(result);
        return result;
      };
    }
  });
  if (oneDevice) await page.addInitScript(shareDevice);
  if (!contest) await page.route('**/contest.js', (route) => route.abort());
  if (!relaxedSimd) {
    await page.addInitScript(() => {
      WebAssembly.validate = () => false;
    });
  }
  await page.goto(url);
  return { page, context, logs };
}

/**
 * Measures what a page holds: JS heap + ArrayBuffer backing stores + wasm memory, in bytes, over
 * CDP, so that the page does not count itself. Call `rlxSample()` in the page at each progress
 * event; `peak` is the largest sum over that of `start`.
 */
export async function heapMeter(page, context) {
  const cdp = await context.newCDPSession(page);
  let base = 0;
  let most = 0;
  let samples = 0;
  let busy;
  const measure = async () => {
    const { usedSize, backingStorageSize = 0 } = await cdp.send('Runtime.getHeapUsage');
    const { result } = await cdp.send('Runtime.evaluate', {
      expression: '(globalThis.rlxMemories ?? []).reduce((sum, memory) => sum + memory.buffer.byteLength, 0)',
    });
    return usedSize + backingStorageSize + result.value;
  };
  const sample = () => {
    busy ??= measure().then((bytes) => {
      most = Math.max(most, bytes);
      samples += 1;
      busy = undefined;
    });
    return busy;
  };
  // A bare binding: Playwright's own answers each call in the page, which thousands of chunks
  // would keep so busy that hardly a sample was taken.
  await cdp.send('Runtime.enable');
  await cdp.send('Runtime.addBinding', { name: 'rlxSampleNow' });
  cdp.on('Runtime.bindingCalled', ({ name }) => name === 'rlxSampleNow' && sample());
  await page.evaluate(() => {
    globalThis.rlxSample = () => globalThis.rlxSampleNow('');
  });
  return {
    async start() {
      await cdp.send('HeapProfiler.collectGarbage');
      base = most = await measure();
      samples = 0;
    },
    /** Waits for a sample under way; bytes over the start, and how often was measured. */
    async peak() {
      await busy;
      return { bytes: most - base, samples };
    },
    sample,
  };
}

/** Pictures of the page at a phone's and a desk's width, for people to look at. */
export async function screenshots(page, name) {
  mkdirSync(outFolder, { recursive: true });
  const paths = [];
  for (const [width, height] of [[360, 740], [1280, 800]]) {
    await page.setViewportSize({ width, height });
    const path = join(outFolder, `${name}-${width}.png`);
    await page.screenshot({ path });
    paths.push(path);
  }
  return paths;
}

/** Where the built package and the test support are mounted. */
export const mounts = {
  '/dist/': join(root, 'crates/rlx-wasm/js/dist'),
  '/support/': join(root, 'tests/support'),
  '/pages/': join(root, 'tests/browser/pages'),
  ...(shared && { '/shared/': shared }),
};
