// Runs one record on one executor, and says what came of it.

import { spawn } from 'node:child_process';
import { basename } from 'node:path';
import { root } from './tools.mjs';

/** Most of an error that is kept. */
const MOST_SAID = 160;

/** A command's output and status; `late` where it was ended because it took longer than `limit` seconds. */
export function ended(command, args, { env = {}, limit }) {
  return new Promise((resolve) => {
    // A group of its own: compilers and emulators that it began end with it.
    const child = spawn(command, args, { cwd: root, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let [stdout, stderr, late] = ['', '', false];
    const timer = setTimeout(() => {
      late = true;
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        child.kill('SIGKILL'); // the group is gone, or the system has none
      }
    }, limit * 1000);
    child.stdout.setEncoding('utf8').on('data', (part) => (stdout += part));
    child.stderr.setEncoding('utf8').on('data', (part) => (stderr += part));
    child.on('error', (error) => {
      clearTimeout(timer);
      resolve({ code: null, stdout, stderr: `error: ${error.message}`, late });
    });
    child.on('close', (code) => {
      clearTimeout(timer);
      resolve({ code, stdout, stderr, late });
    });
  });
}

/** The first line of an error, without the path of the record. */
export function said(stderr, path = '') {
  const line = stderr.split('\n').find((one) => one.startsWith('error: ')) ?? stderr.trim().split('\n').at(-1) ?? '';
  const text = line.replace(/^error: /, '').replaceAll(path, basename(path)).replaceAll(root, '.').trim();
  return text.length > MOST_SAID ? `${text.slice(0, MOST_SAID)} …` : text;
}

/** Exit codes of `rlx`. */
const [CHECK, BAD] = [1, 3];

/**
 * What `rlx verify --json` came to: `agrees`; `part`, where some outputs are of no program of the model and the others
 * agree; `differs`; `refused`, where the executor does not take the model; `failed`; `timeout`.
 */
export function verdict({ code, stdout, stderr, late }, path) {
  if (late) return { verdict: 'timeout', says: '' };
  let report = null;
  try {
    report = JSON.parse(stdout.trim().split('\n').at(-1));
  } catch {
    // It failed before it compared.
  }
  if (report && (code === 0 || code === CHECK)) {
    const { outputs, adapter } = report;
    const compared = outputs.filter(({ skipped }) => !skipped);
    const differ = compared.filter(({ ok }) => !ok);
    const worst = Math.max(0, ...compared.map(({ relative }) => relative ?? Infinity));
    const found = { adapter, outputs: outputs.length, compared: compared.length, worst: Number.isFinite(worst) ? Number(worst.toPrecision(3)) : null };
    if (differ.length > 0) return { ...found, verdict: 'differs', says: differ.map(({ name }) => name).join(', ') };
    if (compared.length === 0) return { ...found, verdict: 'failed', says: 'nothing was compared' };
    const skipped = outputs.filter((output) => output.skipped).map((output) => output.name);
    return { ...found, verdict: skipped.length > 0 ? 'part' : 'agrees', says: skipped.length > 0 ? `not compared: ${skipped.join(', ')}` : '' };
  }
  const says = said(stderr, path);
  if (code === BAD) return { verdict: 'refused', says };
  return { verdict: 'failed', says: says || `exit ${code}` };
}
