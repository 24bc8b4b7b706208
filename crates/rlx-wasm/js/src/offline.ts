/** What a service worker keeps, so that a page answers without a network. The models are kept by the package itself. */

import { chooseBuild } from './builds.js';

/**
 * The wasm files of the package's `dist` that engines of this browser fetch: one, and where pages are cross-origin
 * isolated (`isolated`) a second one, whose CPU has threads; an engine on the GPU takes the first there too.
 * Sessions, embedders, looks inside and answers of a form fetch others.
 */
export function engineFiles({ isolated = false }: { isolated?: boolean } = {}): string[] {
  return (isolated ? [false, true] : [false]).map((threaded) => `${chooseBuild(threaded)}.wasm`);
}
