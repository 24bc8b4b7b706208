/** Service workers may not import while they run: what the package imports so must be what `static.ts` brings along. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const src = new URL('../../src/', import.meta.url);

test('modules are imported on the way in four places alone', () => {
  const found = readdirSync(src).filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts') && /(?<!typeof )\bimport\(/.test(readFileSync(new URL(name, src), 'utf8')));
  assert.deepEqual(found.sort(), ['grammar_module.ts', 'graphs_module.ts', 'lazy.ts', 'lazy_here.ts']);
});
