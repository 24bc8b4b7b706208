/** Short news at the edge of the page. */

import { dismiss, news } from '../state/news.js';
import { Icon } from './icons.js';

export function NewsView() {
  return (
    <div id="notice" role="status">
      {news.value.map(({ id, text, action }) => (
        <p key={id}>
          <span>{text}</span>
          {action && (
            <button
              type="button"
              onClick={() => {
                action.run();
                dismiss(id);
              }}
            >
              {action.label}
            </button>
          )}
          <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(id)}>
            <Icon name="close" />
          </button>
        </p>
      ))}
    </div>
  );
}
