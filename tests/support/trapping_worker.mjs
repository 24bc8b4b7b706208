// Imported before the package's worker: one that joins no pool, and traps once the page asks for it.

import { trap } from './traps.mjs';

/** The word that the page writes. Only a stack that is all but full would come to it. */
export const WORD = 0;
export const ASKED = 7;

if (!globalThis.document) {
  const instantiate = WebAssembly.instantiate;
  WebAssembly.instantiate = async (module, imports) => {
    const { exports } = await instantiate.call(WebAssembly, module, imports);
    const joinPool = () => {
      const words = new Int32Array(exports.memory.buffer);
      for (let word = 0; word !== ASKED; word = Atomics.load(words, WORD)) Atomics.wait(words, WORD, word, 100);
      trap();
    };
    return { instance: { exports: { ...exports, joinPool } }, module };
  };
}
