/** The caller's `onProgress` and `onNotice`. */

/**
 * A listener that throws does not end what it listens to: its error is the page's own, and is reported as
 * one that nobody caught, as browsers do with listeners of events.
 */
export function listening<T>(listener: (value: T) => void): (value: T) => void {
  return (value) => {
    try {
      listener(value);
    } catch (error) {
      report(error);
    }
  };
}

type Listener = (value: never) => void;

/** The same options, whose listeners may throw. */
export function heard<T extends { onProgress?: Listener; onNotice?: Listener }>(options: T): T {
  const { onProgress, onNotice } = options;
  return { ...options, ...(onProgress && { onProgress: listening(onProgress) }), ...(onNotice && { onNotice: listening(onNotice) }) };
}

function report(error: unknown): void {
  const { reportError } = globalThis as { reportError?: (error: unknown) => void };
  if (reportError) reportError(error);
  else queueMicrotask(() => { throw error; }); // Node
}
