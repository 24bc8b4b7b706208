/** Text of files: what is taken, what is refused and why, and HTML as the text that it shows. */

import { decoded } from '../chat/markdown/entities.js';

/** Bounds, which the view tells. */
export const MOST_FILES = 2000;
export const MOST_BYTES = 1_000_000;
export const MOST_PASSAGES = 20_000;

/** A file that somebody chose, with its path inside of what was chosen. */
export interface Given {
  path: string;
  file: Blob;
}

/** A file's text. */
export interface TextFile {
  path: string;
  text: string;
  /** What stands in it: headings begin with `#` in Markdown, and in the text of HTML. */
  kind: 'text' | 'markdown' | 'html';
}

/** Whether what lies in a chosen folder is not meant to be read: hidden folders and files, and fetched packages. */
export const isPassedOver = (path: string): boolean => /\/(\.[^/]|node_modules\/|__MACOSX\/)/.test(path);

/** The text of a file, or why it has none, as the end of a sentence about it. */
export function textOf(path: string, bytes: Uint8Array): TextFile | string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return 'is not text in UTF-8';
  }
  if (isBinary(text)) return 'is not text';
  text = text.replace(/\r\n?/g, '\n');
  const kind = /\.(html?|xhtml)$/i.test(path) ? 'html' : /\.(md|markdown|mdx)$/i.test(path) ? 'markdown' : 'text';
  if (kind === 'html') text = htmlText(text);
  if (!/[\p{L}\p{N}]/u.test(text)) return 'has no words';
  return { path, text, kind };
}

/** Control characters that no text has. */
function isBinary(text: string): boolean {
  // eslint-disable-next-line no-control-regex
  return /[\0-\x08\x0e-\x1a\x1c-\x1f]/.test(text);
}

const NOT_SHOWN = new Set(['script', 'style', 'template', 'noscript', 'svg']);
/** What stands in place of a tag: of most that are blocks an empty line. */
const BREAKS: { [tag: string]: string } = { br: '\n', li: '\n- ', tr: '\n', td: '\t', th: '\t' };
const BLOCKS =
  /^(address|article|aside|blockquote|body|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|header|hr|html|li|main|nav|ol|p|pre|section|summary|table|title|tr|ul)$/;

/**
 * The text that HTML shows, with `#` before headings. It is read once from front to back, whatever stands in it, and
 * nothing is made of it but text.
 */
export function htmlText(html: string): string {
  const lower = html.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
  const parts: string[] = [];
  let pre = 0;
  const write = (from: number, to: number) => {
    const text = decoded(html.slice(from, to));
    parts.push(pre > 0 ? text : text.replace(/[\s\u00a0]+/g, ' '));
  };
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf('<', at);
    if (open < 0) break;
    write(at, open);
    if (html.startsWith('<!--', open)) {
      const end = html.indexOf('-->', open + 4);
      at = end < 0 ? html.length : end + 3;
      continue;
    }
    const [, closing, tag = ''] = /^<(\/?)([a-z][a-z0-9]*)/.exec(lower.slice(open, open + 20)) ?? [];
    if (tag === '' && !/^<[/!?]/.test(lower.slice(open, open + 2))) {
      parts.push('<'); // it begins no tag
      at = open + 1;
      continue;
    }
    const end = html.indexOf('>', open);
    if (end < 0) return tidy(parts); // a tag that nothing ends
    at = end + 1;
    if (NOT_SHOWN.has(tag) && !closing) {
      const close = lower.indexOf(`</${tag}`, at);
      if (close < 0) return tidy(parts);
      at = close;
    }
    if (tag === 'pre') pre = Math.max(0, pre + (closing ? -1 : 1));
    if (BLOCKS.test(tag) || tag in BREAKS) parts.push((!closing && BREAKS[tag]) || (tag in BREAKS ? '' : '\n\n'));
    if (!closing && /^h[1-6]$/.test(tag)) parts.push(`${'#'.repeat(Number(tag[1]))} `);
  }
  write(at, html.length);
  return tidy(parts);
}

const tidy = (parts: readonly string[]) =>
  parts
    .join('')
    .split('\n')
    .map((line) => line.trimEnd().replace(/^ (?! )/, ''))
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();

/** All files of what was dropped, with their paths, up to a bound. */
export async function givenByDrop(dropped: readonly (FileSystemEntry | File)[]): Promise<Given[]> {
  const found: Given[] = [];
  const walk = async (entry: FileSystemEntry | File): Promise<void> => {
    // What is passed over is not walked through; one more than the bound says that there were more.
    if (found.length > MOST_FILES) return;
    if (entry instanceof File) return void found.push({ path: entry.name, file: entry });
    const path = entry.fullPath.replace(/^\//, '');
    if (isPassedOver(entry.isDirectory ? `${path}/` : path)) return;
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      found.push({ path, file });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    // A reader gives some at a time, and none at the end.
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const each of some) await walk(each);
    }
  };
  for (const each of dropped) await walk(each);
  return found;
}

/** Files that a field gave, of a folder with their paths. */
export const givenByField = (files: readonly File[]): Given[] =>
  files.map((file) => ({ path: file.webkitRelativePath || file.name, file }));
