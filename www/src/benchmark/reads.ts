/** Reads memory again and again, to see how fast that is: a few instructions of wasm, in as many workers as asked for. */

const PAGE = 65_536;
/** Bytes of one turn of the loop. */
const STRIDE = 64;

const leb = (n: number): number[] => (n < 128 ? [n] : [(n & 127) | 128, ...leb(n >>> 7)]);
const section = (id: number, content: readonly number[]) => [id, ...leb(content.length), ...content];
/** `v128.load` from the address in local 0, and that offset beyond it. */
const load = (offset: number) => [0x20, 0, 0xfd, 0, 4, ...leb(offset)];
/** `local.get`, `v128.xor` with what the stack has, `local.set`: each of four sums waits for itself alone. */
const mix = (local: number) => [0x20, local, 0xfd, 0x51, 0x21, local];

/**
 * A module with a memory of so many pages, and `read(end)`, which reads all bytes before `end`, a multiple of 64. What it
 * answers depends on all of them, so that no compiler may leave a load out.
 */
export function readingModule(pages: number): Uint8Array<ArrayBuffer> {
  const loop = [
    0x03,
    0x40, // loop
    ...[0, 1, 2, 3].flatMap((i) => [...load(16 * i), ...mix(2 + i)]),
    0x20,
    0,
    0x41,
    0xc0,
    0,
    0x6a,
    0x22,
    0, // at += 64
    0x20,
    1,
    0x49,
    0x0d,
    0, // again if at < end
    0x0b,
  ];
  const result = [0x20, 2, 0x20, 3, 0xfd, 0x51, 0x20, 4, 0xfd, 0x51, 0x20, 5, 0xfd, 0x51, 0xfd, 0x1b, 0];
  // Parameters: at, end. Four locals of v128.
  const body = [1, 4, 0x7b, ...loop, ...result, 0x0b];
  return Uint8Array.from([
    0,
    0x61,
    0x73,
    0x6d,
    1,
    0,
    0,
    0,
    ...section(1, [1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f]),
    ...section(3, [1, 0]),
    ...section(5, [1, 0, ...leb(pages)]),
    ...section(7, [
      2,
      4,
      ...[...'read'].map((c) => c.charCodeAt(0)),
      0,
      0,
      3,
      ...[...'mem'].map((c) => c.charCodeAt(0)),
      2,
      0,
    ]),
    ...section(10, [1, ...leb(body.length), ...body]),
  ]);
}

/** A memory of at least so many bytes, each page of it written, and what reads all of it once. */
export async function reader(bytes: number): Promise<{ bytes: number; read: () => void }> {
  const size = Math.max(STRIDE, Math.ceil(bytes / STRIDE) * STRIDE);
  const { instance } = await WebAssembly.instantiate(readingModule(Math.ceil(size / PAGE)));
  const { mem, read } = instance.exports as { mem: WebAssembly.Memory; read: (at: number, end: number) => number };
  // Pages that were never written are all one page of zeros to some systems.
  new Uint32Array(mem.buffer).fill(0x9e37_79b9);
  return { bytes: size, read: () => void read(0, size) };
}
