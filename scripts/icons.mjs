// Draws the demo's icons of pixels from www/app/icon.svg, by the Chromium that the tests have. Run by hand where the
// picture changes; the files are tracked.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch } from '../tests/browser/harness.mjs';
import { inRoot, main } from './lib/tools.mjs';

const folder = inRoot('www', 'app');

await main(async () => {
  const svg = readFileSync(join(folder, 'icon.svg'), 'utf8');
  // What a launcher cuts to its own shape: the ground reaches the edges, the picture stays in the middle four fifths.
  const square = svg.replace(' rx="112"', '').replace(/(<path[^]*)<\/svg>/, '<g transform="translate(51 51) scale(.8)">$1</g></svg>');
  const browser = await launch({ webgpu: false });
  const page = await browser.newPage();
  for (const [name, size, picture] of [['icon-192', 192, svg], ['icon-512', 512, svg], ['icon-maskable-512', 512, square]]) {
    await page.setViewportSize({ width: size, height: size });
    await page.setContent(`<style>body { margin: 0 } svg { display: block; width: ${size}px }</style>${picture}`);
    writeFileSync(join(folder, `${name}.png`), await page.screenshot({ omitBackground: true }));
  }
  await browser.close();
});
