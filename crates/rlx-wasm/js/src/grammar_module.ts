/** The module that holds answers to a form. Only a call that asks for a form fetches it. */

import { toRlxError } from './error.js';
import type { Instance } from './instance.js';
import type { BoundVocabulary, GrammarGlue } from './rlx_grammar.js';
import type { WasmSource } from './types.js';
import { single } from './wasm_module.js';

/** As in `lazy.ts`. */
export const lazyGrammar = { glue: () => import('./rlx_grammar.js') };

/** Bundlers know this form and bring the file along. */
const file = () => new URL('./rlx-grammar.wasm', import.meta.url);

/** An answer under way; freed with `end`. */
export interface Matcher {
  step(sampled: Uint32Array): Uint32Array;
  over(): boolean;
  end(): void;
}

type Started = Promise<{ instance: Instance; glue: GrammarGlue }>;

/** One instance of a module for all engines, until it traps; the package's own has no key. */
const modules = new Map<WasmSource | undefined, Started>();

function module(wasm: WasmSource | undefined): Started {
  const starting = modules.get(wasm) ?? single(wasm ?? file(), lazyGrammar.glue);
  modules.set(wasm, starting);
  starting.catch(() => modules.delete(wasm));
  return starting;
}

/** Calls into the module. */
function inside<T>(instance: Instance, work: () => T): T {
  try {
    return instance.call(work);
  } catch (error) {
    throw toRlxError(error);
  }
}

/** A vocabulary in the module, made again after a trap. */
export class ModuleVocabulary {
  #made: { instance: Instance; bound: BoundVocabulary } | undefined;

  constructor(private readonly bytes: Uint8Array, private readonly wasm?: WasmSource) {}

  /** Fetches the module and reads the vocabulary, if that is not done. */
  async ready(): Promise<void> {
    if (this.#made && !this.#made.instance.stopped) return;
    const { instance, glue } = await module(this.wasm);
    if (instance.stopped) {
      modules.delete(this.wasm);
      return this.ready();
    }
    this.#made = { instance, bound: inside(instance, () => new glue.RlxVocabulary(this.bytes)) };
  }

  /** The start of an answer. Throws for a grammar that is none. */
  matcher(kind: string, text: string): Matcher {
    const { instance, bound } = this.#made!;
    const matcher = inside(instance, () => bound.matcher(kind, text));
    return {
      step: (sampled) => inside(instance, () => matcher.step(sampled)),
      over: () => inside(instance, () => matcher.over()),
      end: () => {
        if (!instance.stopped) instance.call(() => matcher.free());
      },
    };
  }
}
