/** SHA-256 (FIPS 180-4) of bytes as they arrive: the browser's own digest takes a whole file at once. */

/** The first 32 bits of the fractional parts of roots of the first primes: square roots, then cube roots. */
const [STATE, K] = (() => {
  const bits = (x: number) => (x - Math.floor(x)) * 2 ** 32;
  const primes: number[] = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((p) => n % p !== 0)) primes.push(n);
  return [Int32Array.from(primes.slice(0, 8), (p) => bits(Math.sqrt(p))), Int32Array.from(primes, (p) => bits(Math.cbrt(p)))];
})();

export class Sha256 {
  #state = STATE.slice();
  #block = new Uint8Array(64);
  #words = new Int32Array(64);
  #filled = 0;
  #bytes = 0;

  update(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    let at = 0;
    if (this.#filled > 0) {
      at = Math.min(64 - this.#filled, bytes.length);
      this.#block.set(bytes.subarray(0, at), this.#filled);
      this.#filled += at;
      if (this.#filled < 64) return;
      this.#mix(this.#block, 0);
      this.#filled = 0;
    }
    for (; at + 64 <= bytes.length; at += 64) this.#mix(bytes, at);
    this.#block.set(bytes.subarray(at));
    this.#filled = bytes.length - at;
  }

  /** The hash of all bytes, as hexadecimal digits; the end of it. */
  hex(): string {
    const bits = this.#bytes * 8;
    const end = new Uint8Array((this.#filled < 56 ? 64 : 128) - this.#filled);
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(end.length - 4, bits >>> 0);
    this.update(end);
    return [...this.#state].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }

  #mix(bytes: Uint8Array, at: number): void {
    const w = this.#words;
    for (let i = 0, j = at; i < 16; i += 1, j += 4) {
      w[i] = (bytes[j]! << 24) | (bytes[j + 1]! << 16) | (bytes[j + 2]! << 8) | bytes[j + 3]!;
    }
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15]!;
      const y = w[i - 2]!;
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16]! + s0 + w[i - 7]! + s1) | 0;
    }
    const state = this.#state;
    let a = state[0]!, b = state[1]!, c = state[2]!, d = state[3]!, e = state[4]!, f = state[5]!, g = state[6]!, h = state[7]!;
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t = (h + s1 + ((e & f) ^ (~e & g)) + K[i]! + w[i]!) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const u = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + t) | 0; d = c; c = b; b = a; a = (t + u) | 0;
    }
    state[0]! += a; state[1]! += b; state[2]! += c; state[3]! += d;
    state[4]! += e; state[5]! += f; state[6]! += g; state[7]! += h;
  }
}

/** The hash that `integrity` means: hexadecimal digits, or `sha256-` and base64 as in HTML; undefined if it is none. */
export function hexOf(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  if (/^[0-9a-f]{64}$/i.test(text)) return text.toLowerCase();
  const base64 = /^sha256-([A-Za-z0-9+/]{43}=)$/.exec(text)?.[1];
  return base64 && [...atob(base64)].map((char) => char.charCodeAt(0).toString(16).padStart(2, '0')).join('');
}
