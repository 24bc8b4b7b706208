/** The caller's listeners. */

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

interface Listeners {
  onProgress?: (value: never) => void;
  onNotice?: (value: never) => void;
  onLost?: (value: never) => void;
}

/** The same options, with listeners that may throw. */
export function heard<T extends Listeners>(options: T): T {
  const heard = { ...options };
  for (const name of ['onProgress', 'onNotice', 'onLost'] as const) {
    const listener = options[name];
    if (listener) heard[name] = listening(listener);
  }
  return heard;
}

function report(error: unknown): void {
  const { reportError } = globalThis as { reportError?: (error: unknown) => void };
  if (reportError) reportError(error);
  else queueMicrotask(() => { throw error; }); // Node
}
