/**
 * Names of a listing by keyboard. A listing has thousands of names and is one stop of Tab: arrows lead a cursor from
 * name to name, Enter chooses the one that it is on. Only that one can have the focus, and is a button while it has it.
 */

const NAMES = '[data-name], [data-label]';

/** The first name that is in view. */
function firstIn(pane: HTMLElement): HTMLElement | undefined {
  const { top } = pane.getBoundingClientRect();
  for (const line of pane.querySelectorAll<HTMLElement>('.line')) {
    if (line.getBoundingClientRect().bottom <= top) continue;
    const name = line.querySelector<HTMLElement>(NAMES);
    if (name) return name;
  }
  return undefined;
}

/** The name of another line that stands most nearly above or below. */
function inLine(pane: HTMLElement, from: HTMLElement, step: 1 | -1): HTMLElement | undefined {
  const lines = [...pane.querySelectorAll('.line')];
  const middle = (of: HTMLElement) => of.offsetLeft + of.offsetWidth / 2;
  for (let i = lines.indexOf(from.closest('.line')!) + step; i >= 0 && i < lines.length; i += step) {
    const names = [...lines[i]!.querySelectorAll<HTMLElement>(NAMES)];
    const [nearest] = names.sort((a, b) => Math.abs(middle(a) - middle(from)) - Math.abs(middle(b) - middle(from)));
    if (nearest) return nearest;
  }
  return undefined;
}

function beside(pane: HTMLElement, from: HTMLElement, step: 1 | -1): HTMLElement | undefined {
  const all = [...pane.querySelectorAll<HTMLElement>(NAMES)];
  return all[all.indexOf(from) + step];
}

function point(name: HTMLElement): void {
  name.tabIndex = -1;
  name.setAttribute('role', 'button');
  name.addEventListener(
    'blur',
    () => {
      name.removeAttribute('tabindex');
      name.removeAttribute('role');
    },
    { once: true },
  );
  name.focus();
}

/** What a key does in a listing: `follow` is given the name that is chosen, `stop` ends following and says whether it did. */
export function pressed(
  event: KeyboardEvent,
  pane: HTMLElement,
  { follow, stop }: { follow: (name: HTMLElement) => void; stop: () => boolean },
): void {
  const target = event.target as HTMLElement;
  const from = target.matches(NAMES) ? target : undefined;
  if (event.ctrlKey || event.metaKey || event.altKey || (!from && target !== pane)) return;
  let next: HTMLElement | undefined;
  switch (event.key) {
    case 'ArrowRight':
      next = from ? beside(pane, from, 1) : firstIn(pane);
      break;
    case 'ArrowLeft':
      next = from ? beside(pane, from, -1) : firstIn(pane);
      break;
    case 'ArrowDown':
    case 'ArrowUp':
      if (!from) return; // scrolls
      next = inLine(pane, from, event.key === 'ArrowDown' ? 1 : -1);
      break;
    case 'Enter':
    case ' ':
      if (!from) return;
      follow(from);
      break;
    case 'Escape':
      if (!stop() && from) pane.focus();
      break;
    default:
      return;
  }
  event.preventDefault();
  if (next) point(next);
}
