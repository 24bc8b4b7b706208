/**
 * The views beside the chat. The address's fragment says which is shown, so that each can be linked to and gone back
 * from. The script of a view is fetched when it is first shown.
 */

import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { lazy } from './ui/lazy.js';

interface View {
  /** What its link says. */
  readonly link: string;
  readonly Component: ComponentType<object>;
}

const VIEWS: { readonly [fragment: string]: View } = {
  '#inspect': { link: 'Inspect', Component: lazy(async () => (await import('./inspect/view.js')).default) },
  '#search': { link: 'Search', Component: lazy(async () => (await import('./search/view.js')).default) },
  '#talk': { link: 'Talk', Component: lazy(async () => (await import('./talk/view.js')).default) },
  '#cut': { link: 'Cut', Component: lazy(async () => (await import('./cut/view.js')).default) },
  '#draw': { link: 'Draw', Component: lazy(async () => (await import('./draw/view.js')).default) },
  '#try': { link: 'Try', Component: lazy(async () => (await import('./try/view.js')).default) },
  '#benchmark': { link: 'Benchmark', Component: lazy(async () => (await import('./benchmark/view.js')).default) },
};

const fragment = signal(location.hash);
addEventListener('hashchange', () => (fragment.value = location.hash));

/** The view that is shown in place of the chat. */
export const viewShown = (): View | undefined => VIEWS[fragment.value];

/** Links to the chat and to all views. */
export function ViewLinks() {
  const shown = viewShown();
  return (
    <nav class="views" aria-label="Views">
      <ViewLink href="#" link="Chat" shown={!shown} />
      {Object.entries(VIEWS).map(([href, view]) => (
        <ViewLink key={href} href={href} link={view.link} shown={view === shown} />
      ))}
    </nav>
  );
}

function ViewLink({ href, link, shown }: { href: string; link: string; shown: boolean }) {
  return (
    <a href={href} {...(shown && { 'aria-current': 'page' })}>
      {link}
    </a>
  );
}
