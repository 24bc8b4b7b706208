// Ends what an engine runs on at a step of its life: the GPU device, the wasm module, the worker. Runs in the thread
// of the engine, a page's or a worker's, before the engine does.

import { trap } from './traps.mjs';

/**
 * Steps are methods of WebGPU, exports of the module without `rlxengine_`, `phase:NAME` of a load, and `chunk`.
 *
 * `control.fate` is `{ act, at }`: when the steps of `at` have been passed, one after another with any others between,
 * `act` happens at the last of them: `lose` (the device), `refuse` (the promise of the step rejects), `trap`, `close`
 * (the worker), `throw` (an error of the application's own, caught by nobody), or a function. Without steps it happens at once. `live` are the bytes of
 * the GPU's buffers, `devices` all devices.
 */
export function fates(fate) {
  const control = { fate: undefined, live: 0, devices: [], step, set };
  let left = [];
  let closed = false;
  function set(fate) {
    control.fate = fate;
    left = [...fate?.at ?? []];
    if (fate && left.length === 0) acts[fate.act]();
  }
  const acts = {
    lose: () => control.devices.at(-1).destroy(),
    refuse: () => Promise.reject(new DOMException('the GPU process ended', 'OperationError')),
    trap,
    close: () => {
      closed = true;
      close();
    },
    throw: () => setTimeout(() => {
      throw new Error('an error of the application');
    }),
  };
  function step(name) {
    if (left[0] !== name) return undefined;
    left.shift();
    if (left.length > 0) return undefined;
    const { act } = control.fate;
    control.fate = undefined;
    return typeof act === 'function' ? act() : acts[act]();
  }

  set(fate);

  /** What an object's method answers, noted, or what fate answers in its place. */
  const wrap = ({ prototype }, name, note = (answer) => answer) => {
    const method = prototype[name];
    prototype[name] = function (...args) {
      if (name === 'requestDevice') return method.apply(this, args).then((device) => note(device)).then((device) => step(name) ?? device);
      return step(name) ?? note(method.apply(this, args), ...args);
    };
  };
  if (globalThis.GPU) {
    for (const name of ['createShaderModule', 'createComputePipelineAsync']) wrap(GPUDevice, name);
    for (const name of ['writeBuffer', 'submit']) wrap(GPUQueue, name);
    wrap(GPU, 'requestAdapter');
    wrap(GPUBuffer, 'mapAsync');
    wrap(GPUAdapter, 'requestDevice', (device) => {
      control.devices.push(device);
      return device;
    });
    const sizes = new WeakMap();
    wrap(GPUDevice, 'createBuffer', (buffer, { size }) => {
      control.live += size;
      sizes.set(buffer, size);
      return buffer;
    });
    const { destroy } = GPUBuffer.prototype;
    GPUBuffer.prototype.destroy = function () {
      control.live -= sizes.get(this) ?? 0;
      sizes.delete(this);
      return destroy.call(this);
    };
  }

  const { instantiate } = WebAssembly;
  WebAssembly.instantiate = async (module, imports) => {
    const { exports } = await instantiate.call(WebAssembly, module, imports);
    const wrapped = Object.entries(exports).map(([name, value]) => [name, typeof value !== 'function' ? value : (...args) => {
      step(name.replace('rlxengine_', ''));
      return value(...args);
    }]);
    return { instance: { exports: Object.fromEntries(wrapped) }, module };
  };

  // A worker's engine tells its user of phases and chunks.
  const { postMessage } = MessagePort.prototype;
  MessagePort.prototype.postMessage = function (data, ...more) {
    if (data?.progress) step(`phase:${data.progress.phase}`);
    if (data?.chunk) step('chunk');
    if (closed) return undefined; // it ends a little later
    return postMessage.call(this, data, ...more);
  };
  return control;
}
