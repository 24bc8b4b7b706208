// Where output goes: to the terminal, or, while several stages run beside each other, to the stage's own log.

import { AsyncLocalStorage } from 'node:async_hooks';

const streams = new AsyncLocalStorage();

/** Runs `work` with everything that it and the commands it runs print given to `write`. */
export const withOutput = (write, work) => streams.run(write, work);

/** The function that takes output, or undefined when it goes to the terminal. */
export const output = () => streams.getStore();

/** Prints a line. */
export function print(line) {
  const write = output();
  if (write) write(`${line}\n`);
  else console.log(line);
}
