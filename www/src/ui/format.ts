/** Bytes, times and speeds in words. */

export function bytes(count: number): string {
  if (count < 1000) return `${count} bytes`;
  const [unit, size] =
    count < 999_950 ? (['kB', 1e3] as const) : count < 999_950_000 ? (['MB', 1e6] as const) : (['GB', 1e9] as const);
  return `${(count / size).toFixed(unit === 'GB' ? 2 : 1)} ${unit}`;
}

/** A size that is known about: no digit behind the point. */
export const about = (count: number): string => `about ${bytes(count).replace(/\.\d+/, '')}`;

/** About how long something takes yet. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return 'a long time';
  if (seconds < 1) return 'less than a second';
  if (seconds < 90) return plural(Math.round(seconds), 'second');
  if (seconds < 90 * 60) return plural(Math.round(seconds / 60), 'minute');
  return plural(Math.round(seconds / 3600), 'hour');
}

export const plural = (count: number, noun: string): string =>
  `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;

/** Milliseconds to two digits, as seconds from a second on. */
export function milliseconds(ms: number): string {
  return ms < 999.5 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
}

export function rate(perSecond: number): string {
  return perSecond.toFixed(perSecond < 99.95 ? 1 : 0);
}

/** When something was used, as far as it matters. */
export function when(time: number, now = Date.now()): string {
  const days = Math.floor((now - time) / 86_400_000);
  if (days < 1) return new Date(time).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  return days < 7 ? `${plural(days, 'day')} ago` : new Date(time).toLocaleDateString();
}
