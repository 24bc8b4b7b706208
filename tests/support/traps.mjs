// Makes the wasm module trap, from outside: in its exports, and in what they call of the page. Runs in a page.

/** A module of one function, `trap`, whose one instruction is `unreachable`. */
const HELPER = [
  0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // magic, version
  1, 4, 1, 0x60, 0, 0, // types: one function, no parameters, no results
  3, 2, 1, 0, // functions: one, of that type
  7, 8, 1, 4, 0x74, 0x72, 0x61, 0x70, 0, 0, // exports: it is `trap`
  10, 5, 1, 3, 0, 0, 0x0b, // code: one body without locals
];

/** Traps as the module itself does: a `WebAssembly.RuntimeError`, thrown by the engine that runs it. */
export const { trap } = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(HELPER))).exports;

/**
 * Wraps the exports of every instance made from now on, and the clocks that the module reads. `control.due`,
 * when it is set, is asked at each of these entries, and says true where a trap shall be:
 *
 * `name`      the export's, or `clock`: then the module has borrowed what it works on
 * `instance`  the number of the instance that is entered, or that reads the clock: 1 is the first
 * `own`       whether a call of the package's is under way; else the browser has come in, by a microtask or a callback
 *
 * It traps once, and is then not due any more. `control.last` is the number of the instance that was entered last.
 */
export function setTraps() {
  const control = { due: undefined, instances: 0, last: 0 };
  const entered = [];
  const enter = (name) => {
    const instance = entered.at(-1);
    if (instance === undefined || !control.due?.({ name, instance: instance.number, own: instance.calls > 0 })) return;
    control.due = undefined;
    trap();
  };
  const instantiate = WebAssembly.instantiate;
  WebAssembly.instantiate = async (module, imports) => {
    const { exports } = await instantiate.call(WebAssembly, module, imports);
    const instance = { number: ++control.instances, calls: 0 };
    const wrapped = Object.entries(exports).map(([name, value]) => {
      if (typeof value !== 'function') return [name, value];
      const own = name.startsWith('rlxengine_') ? 1 : 0;
      return [name, (...args) => {
        control.last = instance.number;
        entered.push(instance);
        instance.calls += own;
        try {
          enter(name);
          return value(...args);
        } finally {
          instance.calls -= own;
          entered.pop();
        }
      }];
    });
    return { instance: { exports: Object.fromEntries(wrapped) }, module };
  };
  for (const clock of [Date, performance]) {
    const now = clock.now.bind(clock);
    clock.now = () => {
      enter('clock');
      return now();
    };
  }
  return control;
}

/** The same module with a memory of at most `pages` of 64 KiB, or what it begins with: allocations then fail in earnest. */
export function limitMemory(bytes, pages) {
  const [MEMORY, HEADER] = [5, 8];
  let at = HEADER;
  const number = () => {
    let [value, shift, byte] = [0, 0];
    do {
      byte = bytes[at++];
      value |= (byte & 0x7f) << shift;
      shift += 7;
    } while (byte & 0x80);
    return value;
  };
  const written = (value) => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...written(value >>> 7)]);
  for (;;) {
    const start = at;
    const id = bytes[at++];
    const end = number() + at;
    if (id !== MEMORY) {
      at = end;
      continue;
    }
    const [count, flags, initial] = [number(), number(), number()];
    if (count !== 1 || flags !== 0) throw new Error(`a module with ${count} memories, flags ${flags}`);
    const section = [1, 1, ...written(initial), ...written(Math.max(pages, initial))];
    const parts = [bytes.subarray(0, start), new Uint8Array([MEMORY, section.length, ...section]), bytes.subarray(end)];
    return new Blob(parts, { type: 'application/wasm' });
  }
}
