/** An answer as Markdown. Blocks that are complete are drawn once. */

import { Component } from 'preact';
import { useRef } from 'preact/hooks';
import { lex } from './lex.js';
import type { Block, Lexed } from './lex.js';
import { TokenView } from './tokens.js';

export function Markdown({ text, open }: { text: string; open: boolean }) {
  const before = useRef<Lexed | undefined>(undefined);
  const { blocks } = (before.current = lex(text, before.current));
  return (
    <div class="markdown">
      {blocks.map((block, i) => (
        <BlockView key={i} block={block} open={open && i === blocks.length - 1} />
      ))}
    </div>
  );
}

class BlockView extends Component<{ block: Block; open: boolean }> {
  override shouldComponentUpdate({ block, open }: { block: Block; open: boolean }): boolean {
    return block.raw !== this.props.block.raw || open !== this.props.open || !block.token !== !this.props.block.token;
  }

  override render({ block, open }: { block: Block; open: boolean }) {
    if (!block.token)
      return (
        <p class="raw" dir="auto">
          {block.raw}
        </p>
      );
    return <TokenView token={block.token} open={open} />;
  }
}
