// A worker in workerd, Cloudflare's runtime, that has installed the packed package.

import { build } from 'esbuild';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, start } from './programs.mjs';
import { project, write } from './project.mjs';

let projects = 0;

/**
 * Starts `main.js` of `files`, bundled; it imports the module as `rlx.wasm` and has the copied files at its binding
 * `files`. Its address and process; `ends` gets what ends it.
 */
export async function workerd(files, copied, ends) {
  const folder = project(`workerd-${projects += 1}`, files, ['@cloudflare/workerd-linux-64@1.20261117.1']);
  await build({ absWorkingDir: folder, entryPoints: ['main.js'], outfile: 'worker.mjs', bundle: true, format: 'esm', external: ['rlx.wasm'], logLevel: 'warning' });
  cpSync(join(folder, 'node_modules/rlx-wasm/dist/rlx.wasm'), join(folder, 'rlx.wasm'));
  mkdirSync(join(folder, 'files'));
  for (const [from, name] of copied) cpSync(from, join(folder, 'files', name));
  const port = await freePort();
  write(folder, {
    'config.capnp': `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker), (name = "files", disk = (path = "files"))],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [(name = "worker.mjs", esModule = embed "worker.mjs"), (name = "rlx.wasm", wasm = embed "rlx.wasm")],
  bindings = [(name = "files", service = "files")],
  compatibilityDate = "2026-01-01",
);`,
  });
  const url = `http://127.0.0.1:${port}/`;
  const { pid } = await start(join(folder, 'node_modules/@cloudflare/workerd-linux-64/bin/workerd'), ['serve', 'config.capnp'], { cwd: folder }, url, ends);
  return { url, pid };
}
