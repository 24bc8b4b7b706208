/** Characters that Markdown may write by their names or numbers: `&lt;`, `&#60;`, `&#x3c;`. */

const NAMES: { [name: string]: string } = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

export function decoded(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(
    /&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]{2,4}));/gi,
    (whole: string, hex?: string, number?: string, name?: string) => {
      if (name !== undefined) return NAMES[name] ?? whole;
      const code = hex === undefined ? Number(number) : parseInt(hex, 16);
      return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    },
  );
}
