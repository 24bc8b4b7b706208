/** What views beside the chat have in common: a bar with the view's heading and links to the others. */

import type { ComponentChildren } from 'preact';
import { ViewLinks } from '../views.js';

interface Frame {
  /** The class of the view, for its styles. */
  name: string;
  heading: ComponentChildren;
  children: ComponentChildren;
}

export function ViewFrame({ name, heading, children }: Frame) {
  return (
    <div class={`main view ${name}`}>
      <header class="bar">
        <h1>{heading}</h1>
        <ViewLinks />
      </header>
      <main class="inside">{children}</main>
    </div>
  );
}
