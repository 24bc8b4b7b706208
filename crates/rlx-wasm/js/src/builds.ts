/**
 * Chooses the build of the wasm module that this browser runs.
 *
 * A browser that does not know one instruction rejects the whole module. So features beyond simd128
 * are separate builds, chosen before one is fetched. Every build has both devices: a page downloads
 * one build for all its engines. Only threads are for the CPU alone, so an engine on the GPU uses a
 * build without threads.
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

/** The best build that runs here; `threaded` if the page may share memory with workers. */
export function chooseBuild(
  threaded: boolean,
  validate: (module: BufferSource) => boolean = WebAssembly.validate,
): Build {
  const relaxed = validate(new Uint8Array(RELAXED_DOT));
  return `rlx${threaded ? '-threads' : ''}${relaxed ? '-relaxed' : ''}`;
}

/** Most threads by default: more take longer to start than they gain, because memory is the limit. */
const MOST_BY_DEFAULT = 8;

/** Threads of the CPU, including the page's own: one if the page may not share memory. */
export function chooseThreads(
  asked: number | undefined,
  page: { crossOriginIsolated?: boolean; Worker?: unknown; navigator?: { hardwareConcurrency?: number } } = globalThis,
): number {
  if (!page.crossOriginIsolated || !page.Worker) return 1;
  return asked ?? Math.min(page.navigator?.hardwareConcurrency ?? 1, MOST_BY_DEFAULT);
}
