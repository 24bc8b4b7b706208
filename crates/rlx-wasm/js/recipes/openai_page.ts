/** A page's side of `openai_service_worker.ts`: OpenAI's own client, whose requests the service worker answers. */

import OpenAI from 'openai';

export async function clientHere(): Promise<OpenAI> {
  const { serviceWorker } = navigator;
  // The script is at the origin's root, so that it answers for all of it.
  await serviceWorker.register('/openai_service_worker.js', { type: 'module' });
  if (!serviceWorker.controller) {
    await new Promise((resolve) => serviceWorker.addEventListener('controllerchange', resolve, { once: true }));
  }
  // Nothing leaves the browser: there is no key to keep.
  return new OpenAI({ apiKey: '-', baseURL: new URL('/v1', location.href).href, dangerouslyAllowBrowser: true });
}
