// The chart beside the peers says what was measured.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { chart, chartPath, panels } from '../../scripts/chart.mjs';

for (const scheme of ['light', 'dark']) {
  test(`the tracked chart (${scheme}) is made of the newest results`, () => {
    assert.equal(readFileSync(chartPath(scheme), 'utf8'), chart(scheme), 'make it again: node scripts/chart.mjs');
  });
}

test('bars begin at zero: their lengths are as the numbers, in each column', () => {
  const svg = chart('light');
  const bars = [...svg.matchAll(/<rect x="(\d+)" y="(\d+)" width="([\d.]+)" height="9"/g)].map(([, x, y, width]) => ({ x, y: Number(y), width: Number(width) }));
  let at = 0;
  for (const { rows } of panels()) {
    for (const key of ['prefill', 'decode']) {
      const values = rows.flatMap((row) => row[key]);
      const widths = bars.slice(at, (at += values.length)).map(({ width }) => width);
      const most = Math.max(...values);
      values.forEach((value, i) => assert.ok(Math.abs(widths[i] / Math.max(...widths) - value / most) < 1e-3, `${value} of ${most}`));
    }
  }
  assert.equal(at, bars.length);
});
