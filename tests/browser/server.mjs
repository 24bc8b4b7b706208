// A static server that can be slow, stop half way, fall silent, fail for a while, answer 404, send elsewhere, forget
// ranges, and tell what it was asked and what it sent.

import { createReadStream, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { gzipSync } from 'node:zlib';

const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.mjs': 'text/javascript',
  '.css': 'text/css', '.wasm': 'application/wasm', '.json': 'application/json',
  '.svg': 'image/svg+xml', '.png': 'image/png', '.webmanifest': 'application/manifest+json',
};

/** With these a page may share memory with its workers. */
const ISOLATED = { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp' };

/**
 * Serves `mounts` (URL prefix → folder) and `files` (URL path → bytes as Buffer, or
 * `{ bytes, read(from, to) }` for bytes made on the way).
 *
 * `behave[path]`, changeable at any time: `bytesPerSecond`, `stopAfter` (bytes, then the socket is
 * cut), `status`, `etag` (null: none), `lastModified`, `ranges` (default true), `head` (a status), `length` (default true),
 * `gzip` (whole answers are compressed for who takes it), `exposed` (pages of other origins may read the file, and
 * these headers beside those that CORS always shows), `redirect` (an address), `fails` (so many requests are answered
 * 503 first), `retryAfter` (seconds, said with those), `stallAfter` (bytes, then nothing comes; `stalls` says how often,
 * default always), `type` (of the content), `linked` (X-Linked-ETag).
 * `isolated`: pages are cross-origin isolated. `headers` go with every answer.
 */
export async function startServer({ mounts = {}, files = {}, behave = {}, isolated = false, headers: always = {} } = {}) {
  const requests = [];
  const sent = {};
  const sockets = new Set();
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://x').pathname);
    requests.push({ method: request.method, path, range: request.headers.range ?? null });
    const how = behave[path] ?? {};
    const inMemory = files[path];
    let file = inMemory ? fromMemory(inMemory) : fromMounts(mounts, path);
    const failing = how.fails > 0;
    if (failing) how.fails -= 1;
    const status = failing ? 503 : how.status ?? (file ? 200 : 404);
    const shown = how.exposed && { 'access-control-allow-origin': '*', 'access-control-expose-headers': how.exposed.join(', ') };
    if (how.redirect && !failing) {
      response.writeHead(302, { location: how.redirect, ...shown }).end();
      return;
    }
    if (request.method === 'OPTIONS') {
      response.writeHead(204, { ...shown, 'access-control-allow-headers': 'range' }).end();
      return;
    }
    if (status !== 200 || (request.method === 'HEAD' && how.head)) {
      response.writeHead(status !== 200 ? status : how.head, { ...shown, ...(failing && how.retryAfter && { 'retry-after': how.retryAfter }) }).end();
      return;
    }
    const headers = { 'content-type': how.type ?? TYPES[path.endsWith('/') ? '.html' : extname(path)] ?? 'application/octet-stream', 'cache-control': 'no-cache', ...shown, ...always };
    if (isolated) Object.assign(headers, ISOLATED);
    if (how.etag !== null) headers.etag = how.etag ?? `"${file.bytes}-${file.version ?? 0}"`;
    if (how.linked) headers['x-linked-etag'] = how.linked;
    if (how.lastModified) headers['last-modified'] = how.lastModified;
    if (how.gzip && /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')) {
      headers['content-encoding'] = 'gzip';
      // As nginx does: what is compressed on the way is the same in meaning and not in bytes.
      if (headers.etag && !headers.etag.startsWith('W/')) headers.etag = `W/${headers.etag}`;
      file = fromMemory(gzipSync(readWhole(file), { level: 1 }));
    }
    let from = 0;
    const range = (how.ranges ?? true) && /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
    if (range) {
      from = Number(range[1]);
      headers['content-range'] = `bytes ${from}-${file.bytes - 1}/${file.bytes}`;
    }
    if (how.length ?? true) headers['content-length'] = file.bytes - from;
    response.writeHead(range ? 206 : 200, headers);
    if (request.method === 'HEAD') response.end();
    else send(response, file, from, how, (bytes) => (sent[path] = (sent[path] ?? 0) + bytes)).catch(() => response.destroy());
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    /** Bytes of bodies, by path. */
    sent,
    behave,
    /** Requests for paths that end in `suffix`, since the last `requests.length = 0`. */
    asked: (suffix) => requests.filter(({ path }) => path.endsWith(suffix)),
    close: () => new Promise((resolve) => {
      server.close(resolve);
      for (const socket of sockets) socket.destroy();
    }),
  };
}

function fromMemory(file) {
  if (file.read) return file;
  return { bytes: file.length, read: (from, to) => file.subarray(from, to) };
}

function fromMounts(mounts, path) {
  const prefix = Object.keys(mounts).filter((mount) => path.startsWith(mount)).sort((a, b) => b.length - a.length)[0];
  if (prefix === undefined) return undefined;
  let name = join(mounts[prefix], normalize(`/${path.slice(prefix.length)}`));
  if (path.endsWith('/')) name = join(name, 'index.html');
  try {
    const { size, mtimeMs } = statSync(name);
    return { bytes: size, version: mtimeMs, name, stream: (from) => createReadStream(name, { start: from }) };
  } catch {
    return undefined;
  }
}

const readWhole = (file) => (file.name ? readFileSync(file.name) : file.read(0, file.bytes));

const CHUNK = 64 * 1024;

async function* chunksOf(file, from) {
  if (file.stream) yield* file.stream(from);
  else for (let at = from; at < file.bytes; at += CHUNK) yield file.read(at, Math.min(at + CHUNK, file.bytes));
}

async function send(response, file, from, how, note) {
  const { bytesPerSecond, stopAfter } = how;
  const silent = how.stalls === 0 ? undefined : how.stallAfter;
  const start = performance.now();
  let sent = 0;
  for await (let chunk of chunksOf(file, from)) {
    if (response.destroyed) return;
    const left = stopAfter === undefined ? Infinity : stopAfter - from - sent;
    chunk = chunk.subarray(0, Math.max(0, left));
    if (!response.write(chunk)) await drained(response);
    sent += chunk.length;
    note(chunk.length);
    if (from + sent >= silent) {
      if (how.stalls) how.stalls -= 1;
      return;
    }
    if (left <= chunk.length) {
      // Let what was written arrive before the connection breaks.
      await new Promise((resolve) => setTimeout(resolve, 100));
      response.destroy();
      return;
    }
    if (bytesPerSecond) {
      const ahead = (sent / bytesPerSecond) * 1000 - (performance.now() - start);
      if (ahead > 1) await new Promise((resolve) => setTimeout(resolve, ahead));
    }
  }
  response.end();
}

/** Resolves when the response takes more, or is gone. */
function drained(response) {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done);
      resolve();
    };
    response.on('drain', done).on('close', done);
  });
}
