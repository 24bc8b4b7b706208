// Exports that nobody calls.

import { readFileSync, writeFileSync } from 'node:fs';

/**
 * Takes the exports of llguidance's interface for C out of a module: rustc exports whatever a library marks for C, and
 * wasm-opt keeps what an export needs.
 */
export async function withoutCInterface(file) {
  const bytes = readFileSync(file);
  const names = WebAssembly.Module.exports(new WebAssembly.Module(bytes)).map(({ name }) => name);
  const ofC = names.filter((name) => name.startsWith('llg_'));
  if (ofC.length === 0) return;
  const { default: binaryen } = await import('binaryen');
  const module = binaryen.readBinary(bytes);
  for (const name of ofC) module.removeExport(name);
  writeFileSync(file, module.emitBinary());
  module.dispose();
}
