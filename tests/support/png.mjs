// Images as files, for tests that give them to somebody else.

import { crc32, deflateSync } from 'node:zlib';

/** A PNG file (W3C Portable Network Graphics, third edition) of red, green and blue bytes. */
export function png(width, height, rgb) {
  const chunk = (type, body) => {
    const bytes = Buffer.concat([Buffer.from(type, 'latin1'), body]);
    const out = Buffer.alloc(bytes.length + 8);
    out.writeUInt32BE(body.length, 0);
    bytes.copy(out, 4);
    out.writeUInt32BE(crc32(bytes), bytes.length + 4);
    return out;
  };
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0]);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  const rows = Array.from({ length: height }, (_, y) => Buffer.concat([Buffer.of(0), rgb.subarray(y * width * 3, (y + 1) * width * 3)]));
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', header), chunk('IDAT', deflateSync(Buffer.concat(rows))), chunk('IEND', Buffer.alloc(0))]);
}
