// A reporter for node's test runner: one line for each test that was skipped, in the form that Rust's
// tests use (tests/support/skip.rs). scripts/lib/tally.mjs reads it.

export default async function* skips(events) {
  for await (const { type, data } of events) {
    if (type === 'test:pass' && data.skip !== undefined) yield `rlx-skip: ${data.name}: ${data.skip || 'no reason given'}\n`;
  }
}
