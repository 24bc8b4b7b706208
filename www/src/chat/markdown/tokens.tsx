/** Tokens of Markdown to elements. Text becomes text: nothing of an answer is ever read as HTML, and nothing is fetched. */

import type { ComponentChildren, JSX } from 'preact';
import type { Token, Tokens } from 'marked';
import { Code } from './code.js';
import { decoded } from './entities.js';
import { safeAddress } from './link.js';

/** What is nested deeper is shown as it is. */
const DEEPEST = 24;

export function nodes(tokens: readonly Token[] | undefined, depth: number): ComponentChildren {
  return (tokens ?? []).map((token, i) => <TokenView key={i} token={token} depth={depth + 1} />);
}

/** An element for a token; `open` where more of it may come. */
export function TokenView({
  token,
  depth = 0,
  open = false,
}: {
  token: Token;
  depth?: number;
  open?: boolean;
}): JSX.Element | null {
  if (depth > DEEPEST) return <>{token.raw}</>;
  const inside = () => nodes((token as Tokens.Generic).tokens, depth);
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'paragraph':
      return <p dir="auto">{inside()}</p>;
    case 'heading':
      return <Heading level={(token as Tokens.Heading).depth}>{inside()}</Heading>;
    case 'code':
      return (
        <Code
          text={(token as Tokens.Code).text}
          language={(token as Tokens.Code).lang ?? ''}
          open={open && !closed(token.raw)}
        />
      );
    case 'blockquote':
      return <blockquote dir="auto">{inside()}</blockquote>;
    case 'list':
      return <List list={token as Tokens.List} depth={depth} />;
    case 'table':
      return <Table table={token as Tokens.Table} depth={depth} />;
    case 'hr':
      return <hr />;
    case 'formulaBlock':
      return (
        <pre class="formula" dir="ltr" tabIndex={0}>
          {(token as Tokens.Generic)['text']}
        </pre>
      );
    case 'formula':
      return (
        <span class="formula" dir="ltr">
          {(token as Tokens.Generic)['text']}
        </span>
      );
    case 'strong':
      return <strong>{inside()}</strong>;
    case 'em':
      return <em>{inside()}</em>;
    case 'del':
      return <del>{inside()}</del>;
    case 'codespan':
      return <code dir="ltr">{(token as Tokens.Codespan).text}</code>;
    case 'br':
      return <br />;
    case 'link':
      return <Link link={token as Tokens.Link} depth={depth} />;
    case 'image':
      return <>{imageText(token as Tokens.Image)}</>;
    case 'escape':
      return <>{(token as Tokens.Escape).text}</>;
    case 'checkbox':
      return null; // its list item has one
    case 'text':
      return <>{(token as Tokens.Text).tokens ? inside() : decoded((token as Tokens.Text).text)}</>;
    case 'html':
      return depth <= 1 && (token as Tokens.HTML).block ? (
        <p class="raw" dir="auto">
          {token.raw.trimEnd()}
        </p>
      ) : (
        <>{token.raw}</>
      );
    default:
      return <>{token.raw}</>;
  }
}

/** Whether a fence has ended. */
function closed(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  return fence === undefined || new RegExp(`\\n {0,3}${fence[0]}{${fence.length},}[ \\t]*\\n*$`).test(raw);
}

/** The page itself has headings of the first and second level. */
function Heading({ level, children }: { level: number; children: ComponentChildren }) {
  const Tag = `h${Math.min(6, level + 2)}` as 'h3';
  return <Tag dir="auto">{children}</Tag>;
}

function List({ list, depth }: { list: Tokens.List; depth: number }) {
  const items = list.items.map((item, i) => (
    <li key={i} dir="auto" class={item.task ? 'task' : undefined}>
      {item.task && (
        <input
          type="checkbox"
          checked={item.checked ?? false}
          disabled
          aria-label={item.checked ? 'Done' : 'Not done'}
        />
      )}
      {nodes(item.tokens, depth)}
    </li>
  ));
  return list.ordered ? <ol start={typeof list.start === 'number' ? list.start : 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ table, depth }: { table: Tokens.Table; depth: number }) {
  const side = (align: Tokens.TableCell['align']) => (align ? `align-${align}` : undefined);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {table.header.map((cell, i) => (
              <th key={i} scope="col" dir="auto" class={side(cell.align)}>
                {nodes(cell.tokens, depth)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j} dir="auto" class={side(cell.align)}>
                  {nodes(cell.tokens, depth)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Link({ link, depth }: { link: Tokens.Link; depth: number }) {
  const address = safeAddress(link.href);
  if (address === undefined) return <>{link.raw}</>;
  return (
    <a href={address} title={address} target="_blank" rel="noopener noreferrer">
      <bdi>{nodes(link.tokens, depth)}</bdi>
    </a>
  );
}

/** Images are not fetched: who reads an answer would be known to whoever the model names. */
function imageText({ text, href }: Tokens.Image): string {
  return text ? `${text} (image: ${href})` : `image: ${href}`;
}
