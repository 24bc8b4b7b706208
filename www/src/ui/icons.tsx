/** The page's icons, drawn in lines of the text's colour. What they mean is said by the button that has one. */

const PATHS = {
  menu: 'M4 7h16M4 12h16M4 17h16',
  plus: 'M12 5v14M5 12h14',
  close: 'M6 6l12 12M18 6L6 18',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  done: 'M5 12.5l4.5 4.5L19 7.5',
  retry: 'M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4',
  edit: 'M5 19l1-4L16 5l3 3L9 18z',
  delete: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  settings: 'M4 8h9M19 8h1M4 16h1M11 16h9M13 8a3 3 0 1 0 6 0 3 3 0 1 0-6 0M5 16a3 3 0 1 0 6 0 3 3 0 1 0-6 0',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  down: 'M7 10l5 5 5-5',
  export: 'M12 4v11M8 11l4 4 4-4M5 20h14',
  import: 'M12 15V4M8 8l4-4 4 4M5 20h14',
  attach: 'M8 12l5.5-5.5a3 3 0 0 1 4.2 4.2l-7.6 7.6a5 5 0 0 1-7-7L10 4.5',
} as const;

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 24 24"
      width="20"
      height="20"
      fill={name === 'stop' ? 'currentColor' : 'none'}
      stroke="currentColor"
      stroke-width="1.7"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
