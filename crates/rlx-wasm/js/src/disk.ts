/** Files of Node, Deno and Bun, read where they lie: only one chunk is in memory, whatever the file's length. */

import { builtin } from './address.js';
import { RlxError, throwIfAborted } from './error.js';
import { files } from './listing.js';
import type { Listing } from './listing.js';
import { missingError } from './source.js';
import type { Opened, Source, Version } from './source.js';

interface Stats {
  dev: bigint;
  ino: bigint;
  size: bigint;
  mtimeNs: bigint;
  isDirectory(): boolean;
}

interface FileHandle {
  stat(options: { bigint: true }): Promise<Stats>;
  read(into: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
  close(): Promise<void>;
}

interface Entry {
  name: string;
  isDirectory(): boolean;
}

interface Fs {
  open(file: URL, flags: 'r'): Promise<FileHandle>;
  stat(file: URL, options: { bigint: true }): Promise<Stats>;
  readdir(folder: URL, options: { withFileTypes: true }): Promise<Entry[]>;
}

const CHUNK_BYTES = 256 * 1024;

const fs = (): Fs => builtin<Fs>('node:fs/promises')!;

function failure(cause: unknown, at: string): RlxError {
  const { code, message } = cause as { code?: string; message?: string };
  if (code === 'ENOENT') return missingError(at, 'there is no such file');
  return new RlxError('io', `the file cannot be read: ${message ?? String(cause)}`, { at, cause });
}

/** The bytes of an open file from an offset on. The file is closed at the end. */
function streamFrom(handle: FileHandle, offset: number): ReadableStream<Uint8Array> {
  let at = offset;
  return new ReadableStream({
    type: 'bytes',
    async pull(out) {
      // The request's view cannot be filled from another thread, and has the size that the reader wants.
      const wanted = out.byobRequest?.view?.byteLength ?? CHUNK_BYTES;
      const bytes = new Uint8Array(wanted);
      const { bytesRead } = await handle.read(bytes, 0, wanted, at);
      if (bytesRead > 0) {
        at += bytesRead;
        out.enqueue(bytes.subarray(0, bytesRead));
        return;
      }
      await handle.close();
      out.close();
      out.byobRequest?.respond(0);
    },
    cancel: () => handle.close(),
  }, { highWaterMark: 0 });
}

/** A file at a `file:` address. */
export class DiskSource implements Source {
  readonly kind = 'file';
  readonly name: string;

  constructor(private readonly url: URL) {
    this.name = decodeURIComponent(url.pathname);
  }

  async open(signal?: AbortSignal, rest?: { offset: number; of: Version }): Promise<Opened> {
    throwIfAborted(signal);
    try {
      const handle = await fs().open(this.url, 'r');
      const { dev, ino, size, mtimeNs } = await handle.stat({ bigint: true });
      const validator = `etag:"${dev}-${ino}-${size}-${mtimeNs}"`;
      const at = rest?.of.validator === validator ? rest.offset : 0;
      return { stream: streamFrom(handle, at), at, bytes: Number(size), validator };
    } catch (cause) {
      throw failure(cause, this.name);
    }
  }
}

/** What is in a folder, with the folders inside it; undefined if the address is a file's. */
export async function folderOnDisk(url: URL): Promise<Listing | undefined> {
  const name = decodeURIComponent(url.pathname);
  try {
    if (!(await fs().stat(url, { bigint: true })).isDirectory()) return undefined;
    const root = new URL(url);
    if (!root.pathname.endsWith('/')) root.pathname += '/';
    const found = await files(root, name, async (folder) => {
      const entries = await fs().readdir(folder, { withFileTypes: true });
      return entries.map((entry) => {
        const at = new URL(encodeURIComponent(entry.name), folder);
        const isFolder = entry.isDirectory();
        if (isFolder) at.pathname += '/';
        return { name: entry.name, isFolder, at };
      });
    });
    return { name, ...found };
  } catch (cause) {
    throw cause instanceof RlxError ? cause : failure(cause, name);
  }
}
