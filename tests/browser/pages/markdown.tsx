// A page that draws answers as the demo does, for tests which have no model that would write them.

import { render } from 'preact';
import { Markdown } from '../../../www/src/chat/markdown/markdown.js';

Object.assign(globalThis, {
  show(text: string, open = false) {
    render(<Markdown text={text} open={open} />, document.getElementById('app')!);
  },
});
