// Programs that serve on a port of this machine.

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';

/** A port that nobody listens on. */
export const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** Starts a program that serves; `ends` gets what ends it. Resolves when the address answers. */
export async function start(command, args, options, url, ends) {
  let said = '';
  const child = spawn(command, args, options);
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => { said += text; });
  ends.push(() => child.kill());
  for (let tries = 0; tries < 300; tries += 1) {
    if (child.exitCode !== null) break;
    if (await fetch(url).then(() => true, () => false)) return child;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${command} does not answer: ${said}`);
}
