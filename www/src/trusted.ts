/**
 * What the page's policy (`plugins/policy.js`) lets become a script: files of the page's own origin, as workers. The
 * package and the page name theirs as strings, and browsers ask this for each.
 */

/** What TypeScript's types of pages lack. */
export interface TrustedTypes {
  createPolicy<Rules extends object>(name: string, rules: Rules): Rules;
}
export const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };

trustedTypes?.createPolicy('default', {
  createScriptURL: (address: string) => {
    if (new URL(address, location.href).origin === location.origin) return address;
    throw new TypeError(`a worker of another origin: ${address}`);
  },
});
