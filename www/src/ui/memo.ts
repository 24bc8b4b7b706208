/** A component that is drawn again only if one of its properties is another. */

import { Component, h } from 'preact';
import type { ComponentType, FunctionComponent } from 'preact';

export function memo<P extends object>(component: FunctionComponent<P>): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return (Object.keys(next) as (keyof P)[]).some((key) => next[key] !== (this.props as P)[key]);
    }

    override render() {
      return h(component, this.props as P);
    }
  };
}
