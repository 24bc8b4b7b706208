// The parts that a GGUF file's header is written of.

export const STRING = 8, ARRAY = 9, U32 = 4, I32 = 5, F32 = 6;
export const TYPE_F32 = 0, TYPE_F16 = 1;
export const ALIGNMENT = 32;

export const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
export const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
export const f32 = (x) => Buffer.from(Float32Array.of(x).buffer);
export const string = (text) => Buffer.concat([u64(Buffer.byteLength(text)), Buffer.from(text)]);
export const entry = (key, type, ...value) => Buffer.concat([string(key), u32(type), ...value]);
export const array = (key, type, values, write) => entry(key, ARRAY, u32(type), u64(values.length), ...values.map(write));

/** The characters that stand for the 256 bytes in a byte-level vocabulary. */
export function byteTokens() {
  const plain = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(plain(b) ? b : next++));
}

/** Everything before the tensors' bytes, filled up to their alignment, and how many bytes these take. */
export function header(metadata, tensors) {
  let offset = 0;
  const infos = tensors.map(({ name, shape, type }) => {
    const info = Buffer.concat([string(`${name}.weight`), u32(shape.length), ...shape.map(u64), u32(type), u64(offset)]);
    const size = shape.reduce((n, d) => n * d, 1) * (type === TYPE_F32 ? 4 : 2);
    offset += Math.ceil(size / ALIGNMENT) * ALIGNMENT;
    return info;
  });
  const head = Buffer.concat([Buffer.from('GGUF'), u32(3), u64(infos.length), u64(metadata.length), ...metadata, ...infos]);
  return { head: Buffer.concat([head, Buffer.alloc(-head.length & (ALIGNMENT - 1))]), tensorBytes: offset };
}
