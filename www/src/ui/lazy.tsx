/** A component whose script is fetched when it is first shown. */

import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { say } from '../state/news.js';

export function lazy<P extends object>(fetch: () => Promise<ComponentType<P>>): ComponentType<P> {
  let found: ComponentType<P> | undefined;
  return function Lazy(properties: P) {
    const [, setFetched] = useState(found !== undefined);
    useEffect(() => {
      if (found) return;
      fetch().then(
        (component) => {
          found = component;
          setFetched(true);
        },
        () => say('A part of the page could not be fetched. Load the page again.'),
      );
    }, []);
    const Found = found;
    return Found ? <Found {...properties} /> : null;
  };
}
