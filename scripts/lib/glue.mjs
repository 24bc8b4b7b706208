// What becomes of wasm-bindgen's glue before it is shipped.

import { Stop } from './tools.mjs';

/** Replaces a line that must be there once: another version of wasm-bindgen may write another. */
function replaceOnce(text, from, to) {
  if (text.split(from).length !== 2) throw new Stop(`wasm-bindgen's glue does not have "${from}" once: scripts/lib/glue.mjs must learn how it looks now`);
  return text.replace(from, to);
}

/**
 * Makes one function of the glue's text: each call of it gives an instance of the module with variables of
 * its own. As it comes, the glue is a JavaScript module, so that a page has one instance for good: a trap in
 * it would be the end of every engine in the page, of those not yet loaded too.
 *
 * The function takes `guard`, which the module's exports pass on their way to the glue, and `panicked`,
 * which Rust calls by that name (crates/rlx-wasm/src/panic.rs). What it returns is typed in
 * crates/rlx-wasm/js/src/rlx_wasm.d.ts.
 */
export function asFactory(glue) {
  const names = [];
  let text = glue.replace(/^export (class|function) (\w+)/gm, (_, kind, name) => {
    names.push(name);
    return `${kind} ${name}`;
  });
  text = replaceOnce(text, 'export { initSync, __wbg_init as default };', '');
  text = replaceOnce(text, 'wasm = instance.exports;', 'wasm = guard(instance.exports);');
  if (/^(?:import|export)\b/m.test(text)) throw new Stop("wasm-bindgen's glue imports or exports what scripts/lib/glue.mjs does not know");
  return `export default function instantiate({ guard, panicked }) {\n${text}\nreturn { init: __wbg_init, ${names.join(', ')} };\n}\n`;
}
