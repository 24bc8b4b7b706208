/** The caller's `onProgress` and `onNotice`. */

/**
 * A listener that throws does not end the load: its error is reported as uncaught, as browsers do for
 * listeners of events.
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

/** The same options, with listeners that may throw. */
export function heard<T extends { onProgress?: Listener; onNotice?: Listener }>(options: T): T {
  const { onProgress, onNotice } = options;
  return { ...options, ...(onProgress && { onProgress: listening(onProgress) }), ...(onNotice && { onNotice: listening(onNotice) }) };
}

function report(error: unknown): void {
  const { reportError } = globalThis as { reportError?: (error: unknown) => void };
  if (reportError) reportError(error);
  else queueMicrotask(() => { throw error; }); // Node
}
