/**
 * Which of the wasm module's builds this browser runs.
 *
 * An engine that does not know one instruction refuses the whole module, so what goes beyond the
 * floor (simd128) is a build of its own, chosen before it is fetched. Builds have both devices: a
 * page downloads one and keeps it, whatever devices its engines take. Only threads are for the CPU
 * alone, so an engine on the GPU has a build without.
 */

/** The file's name without its ending. */
export type Build = 'rlx' | 'rlx-relaxed' | 'rlx-threads' | 'rlx-threads-relaxed';

/**
 * A module of one function, `() -> v128`, whose body is relaxed SIMD's dot product
 * (`i32x4.relaxed_dot_i8x16_i7x16_add_s`) of three splats.
 */
const RELAXED_DOT = [
  0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // magic, version
  1, 5, 1, 0x60, 0, 1, 0x7b, // types: one function, no parameters, a v128
  3, 2, 1, 0, // functions: one, of that type
  10, 19, 1, 17, 0, // code: one body without locals
  0x41, 0, 0xfd, 17, 0x41, 0, 0xfd, 17, 0x41, 0, 0xfd, 17, // i32.const 0, i32x4.splat, thrice
  0xfd, 0x93, 2, // the dot product
  0x0b,
];

/** The best build that runs here; `threaded` where the page may share memory with workers. */
export function chooseBuild(
  threaded: boolean,
  validate: (module: BufferSource) => boolean = WebAssembly.validate,
): Build {
  const relaxed = validate(new Uint8Array(RELAXED_DOT));
  return `rlx${threaded ? '-threads' : ''}${relaxed ? '-relaxed' : ''}`;
}

/** More workers cost more at their start than memory lets them give. */
const MOST_BY_DEFAULT = 8;

/** Threads of the CPU, the page's own included: one where the page may not share memory. */
export function chooseThreads(
  asked: number | undefined,
  page: { crossOriginIsolated?: boolean; Worker?: unknown; navigator?: { hardwareConcurrency?: number } } = globalThis,
): number {
  if (!page.crossOriginIsolated || !page.Worker) return 1;
  return asked ?? Math.min(page.navigator?.hardwareConcurrency ?? 1, MOST_BY_DEFAULT);
}
