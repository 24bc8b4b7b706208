// `npm run picture`: the pictures that README and docs/views.md show, taken from the built demo in Chromium, and the
// chart beside them. Run it after the page has changed, and look at what it made.
//
// The page asks the built-in model on the CPU at temperature 0, so its words are the same each time. Speeds are a
// machine's own, and are not shown.

import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { startDemo } from '../tests/browser/demo_pages.mjs';
import { writeCharts } from './chart.mjs';
import { print } from './lib/output.mjs';
import { inRoot, main, say, Stop } from './lib/tools.mjs';

const FOLDER = inRoot('docs', 'images');
const VIEWS = join(FOLDER, 'views');
const PAGE = inRoot('docs', 'views.md');

const SCHEMES = ['light', 'dark'];
const SCREENS = [
  { width: 360, height: 740 },
  { width: 768, height: 1024 },
  { width: 1440, height: 900 },
];
const HERO = { width: 1120, height: 700 };
const HERO_BYTES = 150_000;
const VIEWS_BYTES = 2_000_000;
/** Of WebP, from 0 to 1: README's picture, and views, which are many. */
const QUALITY = { hero: 0.8, view: 0.4 };

/** Asked in chats of their own; the last is the one in view. */
const QUESTIONS = ['What is ownership?', 'How do I read a file to a string?', 'Show an example of Option::map.'];

/** What views wait for before their picture, by their address; the others only for quiet. */
const SHOWN = { '#inspect': (page) => page.locator('.stage').nth(2).waitFor() };
/** What else of a view has a picture, by the view's address: a name, a heading, and how to get there. */
const PARTS = {
  '#inspect': [
    [
      'inspect-memory',
      'Inspect: memory',
      async (page) => {
        await page.getByRole('button', { name: 'Memory', exact: true }).click();
        await page.locator('.picture').first().waitFor();
      },
    ],
  ],
};

/** Nothing blinks, moves or depends on the machine's speed. */
const STILL = `
  *, ::before, ::after { caret-color: transparent !important; animation: none !important; transition: none !important; }
  .speed { visibility: hidden; }
`;

/** A visitor's page with the built-in model, whose styles a policy of the page does not keep out. */
async function visit(demo, options) {
  const opened = await demo.open('?device=cpu', { bypassCSP: true, serviceWorkers: 'block', reducedMotion: 'reduce', ...options });
  await opened.page.addStyleTag({ content: STILL });
  return opened;
}

/** Asks the questions, each in a chat of its own. */
async function converse({ page, ready, ask }, wide) {
  await ready();
  for (const [i, question] of QUESTIONS.entries()) {
    if (i > 0) {
      if (!wide) await page.getByRole('button', { name: 'Chats' }).click();
      await page.getByRole('button', { name: 'New chat' }).click();
      await page.locator('#welcome').waitFor();
    }
    await ask(question);
  }
  await page.locator('.code-keyword').first().waitFor();
}

/** A picture of a page in WebP, once it is quiet. Chromium's own canvas makes WebP of what it gives as PNG. */
async function shoot(page, path, quality) {
  await page.mouse.move(0, 0);
  await page.waitForLoadState('networkidle');
  await page.evaluate(() => document.fonts.ready);
  const png = await page.screenshot();
  const encode = async ([png, quality]) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    canvas.getContext('2d').drawImage(bitmap, 0, 0);
    const blob = await canvas.convertToBlob({ type: 'image/webp', quality });
    return [...new Uint8Array(await blob.arrayBuffer())];
  };
  writeFileSync(path, Buffer.from(await page.evaluate(encode, [png.toString('base64'), quality])));
}

/** README's picture: an answer at a desk's width, sharp on screens with twice the pixels. */
async function hero(demo, colorScheme) {
  const opened = await visit(demo, { colorScheme, viewport: HERO, deviceScaleFactor: 2 });
  await converse(opened, true);
  const path = join(FOLDER, `demo-${colorScheme}.webp`);
  await shoot(opened.page, path, QUALITY.hero);
  const { size } = statSync(path);
  if (size > HERO_BYTES) throw new Stop(`${relative(FOLDER, path)} has ${size} bytes, of ${HERO_BYTES} allowed`);
  await opened.context.close();
}

/** Pictures of all views on one screen; their names and headings in the order of the page's links. */
async function views(demo, colorScheme, viewport) {
  const wide = viewport.width >= 960;
  const opened = await visit(demo, { colorScheme, viewport });
  const { page } = opened;
  const taken = [];
  const take = async (name, heading) => {
    await shoot(page, join(VIEWS, `${name}-${viewport.width}-${colorScheme}.webp`), QUALITY.view);
    taken.push({ name, heading });
  };
  await opened.ready();
  await take('welcome', 'Welcome');
  await converse(opened, wide);
  await take('chat', 'Chat');
  for (const [name, heading] of [['models', 'Models'], ['settings', 'Settings of a chat']]) {
    await page.locator(`#${name}`).click();
    if (name === 'models') await page.locator('#stored li').first().waitFor();
    await page.locator('dialog h2').waitFor();
    await take(name, heading);
    await page.keyboard.press('Escape');
  }
  const links = await page.locator('nav.views a').evaluateAll((all) => all.map((link) => [link.getAttribute('href'), link.textContent]));
  for (const [href, text] of links.filter(([href]) => href !== '#')) {
    await page.locator(`nav.views a[href="${href}"]`).click();
    await page.locator('.view h1').waitFor();
    await SHOWN[href]?.(page);
    await take(href.slice(1), text);
    for (const [name, heading, show] of PARTS[href] ?? []) {
      await show(page);
      await take(name, heading);
    }
  }
  await opened.context.close();
  return taken;
}

/** The page of all views. */
function pageOf(all) {
  const lines = [
    '# The views of the demo',
    '',
    `Made by \`npm run picture\` from the built page, in Chromium without a GPU, at ${SCREENS.map(({ width }) => width).join(', ')} pixels of width. Speeds are left out.`,
    '',
  ];
  for (const { name, heading } of all) {
    lines.push(`## ${heading}`, '', `| | ${SCREENS.map(({ width }) => `${width} px`).join(' | ')} |`, `|---|${SCREENS.map(() => '---').join('|')}|`);
    for (const scheme of SCHEMES) {
      const cells = SCREENS.map(({ width }) => `[![${heading}, ${width} px, ${scheme}](images/views/${name}-${width}-${scheme}.webp)](images/views/${name}-${width}-${scheme}.webp)`);
      lines.push(`| ${scheme} | ${cells.join(' | ')} |`);
    }
    lines.push('');
  }
  return lines.join('\n');
}

await main(async () => {
  writeCharts();
  rmSync(VIEWS, { recursive: true, force: true });
  mkdirSync(VIEWS, { recursive: true });
  const demo = await startDemo();
  try {
    let all;
    for (const scheme of SCHEMES) {
      await hero(demo, scheme);
      for (const screen of SCREENS) {
        all = await views(demo, scheme, screen);
        say(`${all.length} views at ${screen.width} pixels, ${scheme}`);
      }
    }
    writeFileSync(PAGE, pageOf(all));
  } finally {
    await demo.close();
  }
  const sizes = readdirSync(VIEWS).map((name) => statSync(join(VIEWS, name)).size);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  print(`${sizes.length} pictures of views, ${total} bytes of ${VIEWS_BYTES} allowed`);
  if (total > VIEWS_BYTES) throw new Stop(`the pictures of the views have ${total - VIEWS_BYTES} bytes more than allowed`);
});
