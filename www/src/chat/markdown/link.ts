/** Which links of an answer may be followed. */

const SCHEMES = new Set(['http:', 'https:', 'mailto:']);

/** The address of a link if it is one of the web or of mail, and whole; no other is a link. */
export function safeAddress(href: string): string | undefined {
  try {
    const url = new URL(href);
    return SCHEMES.has(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}
