/** The little of Markdown that the model writes: fenced code, `code`, paragraphs. Nodes, never HTML text. */

export function render(text: string): DocumentFragment {
  const out = document.createDocumentFragment();
  // Odd parts are inside a fence; one that is still open reaches to the end.
  text.split('```').forEach((part, i) => {
    if (i % 2 === 1) {
      const pre = document.createElement('pre');
      const code = document.createElement('code');
      pre.tabIndex = 0; // long lines scroll, by keyboard too
      code.textContent = part.replace(/^[^\n]*\n/, '').replace(/\n$/, '');
      pre.append(code);
      out.append(pre);
      return;
    }
    for (const paragraph of part.split(/\n{2,}/)) {
      if (paragraph.trim() === '') continue;
      const p = document.createElement('p');
      paragraph.trim().split('`').forEach((piece, j) => {
        if (j % 2 === 0) p.append(piece);
        else p.append(Object.assign(document.createElement('code'), { textContent: piece }));
      });
      out.append(p);
    }
  });
  return out;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
