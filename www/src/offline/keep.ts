/**
 * Has a service worker keep the page, once the first model is there: until then the network is the model's. Where a
 * browser has none for this page, such as in a private window, the page needs the network, as any page does.
 */

import { effect } from '@preact/signals';
import { busy, stop } from '../state/answer.js';
import { stored } from '../state/conversations.js';
import { failure, loaded } from '../state/engine.js';
import { say } from '../state/news.js';
import { remember } from '../state/resume.js';

/** Milliseconds between two questions whether there is a newer version, where a page stays open. */
const ASK_EVERY = 3_600_000;

export function keepOffline(): void {
  // The development server's page changes under the hands of who writes it.
  const { serviceWorker } = navigator;
  if (!import.meta.env.PROD || !serviceWorker) return;
  let begun = false;
  effect(() => {
    if (begun || (!loaded.value && !failure.value)) return;
    begun = true;
    void keep(serviceWorker);
  });
}

async function keep(workers: ServiceWorkerContainer): Promise<void> {
  let controlled = workers.controller !== null;
  workers.addEventListener('controllerchange', () => {
    if (controlled) say('A newer version of this page is there.', { label: 'Load again', run: () => void loadAgain() });
    controlled = true;
  });
  try {
    const registration = await workers.register('./sw.js', { scope: './', updateViaCache: 'none' });
    let asked = Date.now();
    document.addEventListener('visibilitychange', () => {
      if (document.hidden || Date.now() - asked < ASK_EVERY) return;
      asked = Date.now();
      registration.update().catch(() => {}); // there is no network
    });
  } catch {
    // Not in this browser, or not in this window.
  }
}

/** Loads the page again, and comes back to what was said and written. */
async function loadAgain(): Promise<void> {
  stop();
  await new Promise<void>((done) => {
    const end = effect(() => {
      if (!busy.value) queueMicrotask(() => (end(), done()));
    });
  });
  await stored();
  remember();
  location.reload();
}
