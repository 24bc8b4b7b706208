/** The module that holds answers to a form. Only a call that asks for a form fetches it. */

import { toRlxError } from './error.js';
import type { Instance } from './instance.js';
import type { BoundVocabulary, GrammarGlue } from './rlx_grammar.js';
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

/** The one instance, until it traps. */
let started: Promise<{ instance: Instance; glue: GrammarGlue }> | undefined;

function module(): NonNullable<typeof started> {
  const starting = (started ??= single(file(), lazyGrammar.glue));
  starting.catch(() => {
    if (started === starting) started = undefined;
  });
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

  constructor(private readonly bytes: Uint8Array) {}

  /** Fetches the module and reads the vocabulary, if that is not done. */
  async ready(): Promise<void> {
    if (this.#made && !this.#made.instance.stopped) return;
    const { instance, glue } = await module();
    if (instance.stopped) {
      started = undefined;
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
