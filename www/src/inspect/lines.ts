/** The lines of a program's text: the names in them, what they are about, and the layer they belong to. */

/** A part of a line; one with a name can be followed. */
export interface Piece {
  text: string;
  name?: string;
}

export interface Line {
  /** Its number in the text, from 0. */
  at: number;
  pieces: readonly Piece[];
  /** What the model's author calls it: `blk.0.attn_q`. Empty where it has no such name. */
  label: string;
  /** `blk.0` in a layer; empty elsewhere. */
  layer: string;
}

/** Lines of one layer that stand together, or lines outside of layers. */
export interface Section {
  layer: string;
  lines: readonly Line[];
}

/** Values, weights, states, places in the arena. */
const NAME = /%"[^"]*"|%[\w.]+|arena\+\d+|(?:weight|state|input)\[\d+\]/g;
const LAYER = /(?:^|[\s%".])((?:[a-z_]+\.)*(?:blk|layers?|h|block)\.\d+)\./i;

/** The layer of a label; empty outside of layers. */
export const layerOf = (label: string): string => LAYER.exec(`${label}.`)?.[1] ?? '';

export function linesOf(text: string): Line[] {
  return text
    .replace(/\n$/, '')
    .split('\n')
    .map((whole, at) => {
      const found = /^(.*?)\s\/\/ ([^/]*)$/.exec(whole);
      // A comment at the begin of a line is no label.
      const [code, label] = found && found[1]!.trim() !== '' ? [found[1]!, found[2]!] : [whole, ''];
      const layer = label !== '' ? layerOf(label) : (LAYER.exec(code)?.[1] ?? '');
      return { at, pieces: piecesOf(code), label, layer };
    });
}

function piecesOf(code: string): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const found of code.matchAll(NAME)) {
    if (found.index > from) pieces.push({ text: code.slice(from, found.index) });
    pieces.push({ text: found[0], name: found[0] });
    from = found.index + found[0].length;
  }
  if (from < code.length) pieces.push({ text: code.slice(from) });
  return pieces;
}

export function sectionsOf(lines: readonly Line[]): Section[] {
  const sections: { layer: string; lines: Line[] }[] = [];
  for (const line of lines) {
    const last = sections.at(-1);
    if (last && last.layer === line.layer) last.lines.push(line);
    else sections.push({ layer: line.layer, lines: [line] });
  }
  return sections;
}

/** Whether a line has a text, whatever its case. */
export function has({ pieces, label }: Line, query: string): boolean {
  const wanted = query.toLowerCase();
  return wanted !== '' && `${pieces.map(({ text }) => text).join('')} ${label}`.toLowerCase().includes(wanted);
}

/** Whether a line is about what is followed: it has that name, or that label. */
export function follows(line: Line, stage: string, followed: Followed | undefined): boolean {
  if (!followed) return false;
  if (followed.label) return followed.label === line.label;
  return followed.stage === stage && line.pieces.some(({ name }) => name === followed.name);
}

/** What is followed: a name inside one stage, or a label through all of them. */
export type Followed = { label: string; stage?: never; name?: never } | { stage: string; name: string; label?: never };
