// The pages' Content-Security-Policy: a meta element in each, so that every static server has it. A page that needs
// another one writes it itself.

const POLICY = {
  'default-src': "'none'",
  'script-src': "'self' 'wasm-unsafe-eval'",
  'style-src': "'self'",
  'img-src': "'self' data: blob:",
  // Engines run in workers of the page's own files.
  'worker-src': "'self'",
  // Another engine, which the benchmark may load, has a page with a policy of its own.
  'frame-src': "'self'",
  'manifest-src': "'self'",
  // A model may be at any address that its user names, or on a server of the user's machine; the page itself asks no
  // other server for anything. `blob:` is a file that was chosen.
  'connect-src': "'self' blob: https: http://localhost:* http://127.0.0.1:*",
  'base-uri': "'none'",
  'object-src': "'none'",
  'form-action': "'none'",
  // What makes scripts or markup of a string goes through the policies of src/trusted.ts.
  'require-trusted-types-for': "'script'",
  'trusted-types': 'default rlx-picture',
};

/** Vite's development server writes style elements, shows errors by markup and tells of changes by a socket. */
const DEVELOPMENT = {
  ...POLICY,
  'style-src': `${POLICY['style-src']} 'unsafe-inline'`,
  'connect-src': `${POLICY['connect-src']} ws:`,
  'require-trusted-types-for': undefined,
  'trusted-types': undefined,
};

export function policy() {
  let directives = POLICY;
  return {
    name: 'rlx-policy',
    configResolved: ({ command }) => void (directives = command === 'serve' ? DEVELOPMENT : POLICY),
    // Behind the encoding, which must be first, and before anything that is fetched.
    transformIndexHtml: {
      order: 'pre',
      handler: (html) => {
        if (html.includes('http-equiv="Content-Security-Policy"')) return html; // a page with its own
        const content = Object.entries(directives).flatMap(([name, value]) => (value ? [`${name} ${value}`] : [])).join('; ');
        const charset = /<meta charset="utf-8" \/>/;
        if (!charset.test(html)) throw new Error('a page has no place for its policy: it begins with <meta charset="utf-8" />');
        return html.replace(charset, (all) => `${all}\n    <meta http-equiv="Content-Security-Policy" content="${content}" />`);
      },
    },
  };
}
