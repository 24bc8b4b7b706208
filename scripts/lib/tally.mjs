// Counts what test runners say they did, and knows which tests may be skipped.

import { existsSync, readFileSync } from 'node:fs';
import { STOPPED } from '../../tests/support/stopped.mjs';
import { inRoot } from './tools.mjs';

/** Tests that may be skipped: the beginning of `NAME: REASON`, one a line. */
const ALLOWED = 'tests/skips.txt';

export class Tally {
  passed = 0;
  failed = 0;
  /** `NAME: REASON` of each test that did not do what its name says. */
  skipped = [];
  /** Whether a page of a browser stopped answering. */
  stopped = false;
  /** Names of node's tests that failed. */
  failures = new Set();
  /** What failed, and passed when it ran once more. */
  unsteady = [];
  /** How long parts of a stage took: `what`, `ms`. */
  times = [];

  /**
   * Adds up what cargo's and node's test runners print. A Rust test that skips itself is one of those that
   * passed for cargo, so it is taken off again; `skips` has the lines that say so.
   */
  add(text, skips = '') {
    for (const [, ok, bad] of text.matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed/gm)) {
      this.passed += Number(ok);
      this.failed += Number(bad);
    }
    for (const [, name, reason] of text.matchAll(/^test (\S+)(?: - [^.]*)? \.\.\. ignored(?:, (.*))?$/gm)) {
      this.skipped.push(`${name}: ${reason ?? 'ignored'}`);
    }
    // In node's order: pass, fail, cancelled (a failure too).
    for (const [, word, n] of text.matchAll(/^(?:#|ℹ) (pass|fail|cancelled) (\d+)$/gm)) {
      this[word === 'pass' ? 'passed' : 'failed'] += Number(n);
    }
    for (const [, name] of text.matchAll(/^✖ (.+) \([\d.]+ms\)$/gm)) this.failures.add(name);
    this.stopped ||= text.includes(STOPPED);
    const ok = new Set(Array.from(text.matchAll(/^test (\S+) \.\.\. ok$/gm), ([, name]) => name));
    for (const [, skip] of skips.matchAll(/^rlx-skip: (.*)$/gm)) {
      this.skipped.push(skip);
      if (ok.delete(skip.slice(0, skip.indexOf(': ')))) this.passed -= 1;
    }
  }

  /** Adds another's counts. */
  merge({ passed, failed, skipped, unsteady, times }) {
    this.passed += passed;
    this.failed += failed;
    this.skipped.push(...skipped);
    this.unsteady.push(...unsteady);
    this.times.push(...times);
  }

  /** Whether a file of browser tests may run once more: a page stopped answering, or no more than two tests failed. */
  mayRunAgain() {
    return this.stopped || (this.failed > 0 && this.failed <= 2);
  }

  /** Skips that tests/skips.txt does not allow. */
  unexpected(allowed = allowedSkips()) {
    return this.skipped.filter((skip) => !allowed.some((beginning) => skip.startsWith(beginning)));
  }

  toString() {
    return `${this.passed} passed, ${this.failed} failed, ${this.skipped.length} skipped`;
  }
}

function allowedSkips() {
  if (!existsSync(inRoot(ALLOWED))) return [];
  return readFileSync(inRoot(ALLOWED), 'utf8').split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}
