// Firefox and WebKit as Debian has them, by WebDriver. A browser that is not installed has a reason to be skipped, `skip`.
//
// Each is opened with `open(ends)`, whose page has: `go(url)`, `title()`, `evaluate(fn, ...values)`, `type(selector, text)`
// by keys, `click(selector)` by the mouse, `picture()` as PNG, `close()`.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { freePort, start } from './programs.mjs';
import { project, space } from './project.mjs';

const SIZE = { width: 1100, height: 760 };

const firefoxPath = ['/usr/bin/firefox-esr', '/usr/bin/firefox'].find(existsSync);

export const firefox = {
  name: 'Firefox',
  skip: !firefoxPath && 'no Firefox: apt-get install firefox-esr',
  async open() {
    const folder = project('firefox-driver', {}, ['puppeteer-core@24']);
    const entry = createRequire(join(folder, 'package.json')).resolve('puppeteer-core');
    const { default: puppeteer } = await import(pathToFileURL(entry).href);
    const home = join(space, 'firefox-home');
    mkdirSync(home);
    const env = { ...process.env, HOME: home };
    const browser = await puppeteer.launch({ browser: 'firefox', executablePath: firefoxPath, headless: true, env });
    const page = await browser.newPage();
    await page.setViewport(SIZE);
    return {
      go: (url) => page.goto(url),
      title: () => page.title(),
      evaluate: (fn, ...values) => page.evaluate(fn, ...values),
      type: (selector, text) => page.type(selector, text),
      click: (selector) => page.click(selector),
      picture: () => page.screenshot(),
      close: () => browser.close(),
    };
  },
};

/** Debian has it in a folder of the machine's architecture and WebKit's version. */
const webkitPath = readdirSync('/usr/lib')
  .flatMap((name) => ['4.0', '4.1'].map((version) => `/usr/lib/${name}/webkit2gtk-${version}/MiniBrowser`))
  .find(existsSync);
const hasWebKit = webkitPath && existsSync('/usr/bin/WebKitWebDriver') && existsSync('/usr/bin/Xvfb');

/** What WebDriver calls the member of its answers that names an element. */
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';

export const webkit = {
  name: 'WebKit',
  skip: !hasWebKit && 'no WebKit: apt-get install webkit2gtk-driver xvfb',
  async open(ends) {
    const display = `:${90 + (process.pid % 900)}`;
    const screen = spawn('Xvfb', [display, '-screen', '0', `${SIZE.width}x${SIZE.height}x24`], { stdio: 'ignore' });
    ends.push(() => screen.kill());
    const port = await freePort();
    const driver = `http://127.0.0.1:${port}`;
    const env = { ...process.env, DISPLAY: display, WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1' };
    await start('/usr/bin/WebKitWebDriver', [`--port=${port}`], { env }, `${driver}/status`, ends);
    const send = async (method, path, body) => {
      const response = await fetch(`${driver}${path}`, { method, ...(body && { body: JSON.stringify(body) }) });
      const { value } = await response.json();
      if (!response.ok) throw new Error(JSON.stringify(value));
      return value;
    };
    const options = { binary: webkitPath, args: ['--automation'] };
    const { sessionId } = await send('POST', '/session', {
      capabilities: { alwaysMatch: { browserName: 'MiniBrowser', 'webkitgtk:browserOptions': options } },
    });
    const ask = (method, path, body) => send(method, `/session/${sessionId}${path}`, body);
    const element = async (selector) => (await ask('POST', '/element', { using: 'css selector', value: selector }))[ELEMENT];
    return {
      go: (url) => ask('POST', '/url', { url }),
      title: () => ask('GET', '/title'),
      evaluate: (fn, ...values) => ask('POST', '/execute/sync', { script: `return (${fn})(...arguments)`, args: values }),
      type: async (selector, text) => ask('POST', `/element/${await element(selector)}/value`, { text }),
      click: async (selector) => ask('POST', `/element/${await element(selector)}/click`, {}),
      picture: async () => Buffer.from(await ask('GET', '/screenshot'), 'base64'),
      close: () => send('DELETE', `/session/${sessionId}`),
    };
  },
};

/** Waits until `fn`, asked in the page or here, gives something. */
export async function until(fn, what) {
  for (const begun = Date.now(); ; await new Promise((resolve) => setTimeout(resolve, 100))) {
    const found = await fn();
    if (found) return found;
    if (Date.now() - begun > 60_000) throw new Error(`not within a minute: ${what}`);
  }
}
