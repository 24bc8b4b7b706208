/** The conversation in view. It follows an answer to its end, unless its reader has scrolled away. */

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { running } from '../state/answer.js';
import { current, isNew } from '../state/conversations.js';
import { MessageView } from './message.js';
import { Welcome } from './welcome.js';

/** Pixels from the end that still count as the end. */
const NEAR = 60;

export function ConversationView() {
  const view = useRef<HTMLElement>(null);
  const follows = useRef(true);
  const { id, messages } = current.value;
  const live = running.value;
  useLayoutEffect(() => {
    follows.current = true;
  }, [id, messages.length]);
  const follow = () => {
    // The words of welcome are read from their beginning.
    if (view.current && follows.current) view.current.scrollTop = isNew.value ? 0 : view.current.scrollHeight;
  };
  useLayoutEffect(follow);
  // The end stays in view also when the room for it changes.
  useEffect(() => {
    const observer = new ResizeObserver(follow);
    observer.observe(view.current!);
    return () => observer.disconnect();
  }, []);
  const onScroll = () => {
    const { scrollHeight, scrollTop, clientHeight } = view.current!;
    follows.current = scrollHeight - scrollTop - clientHeight < NEAR;
  };
  return (
    <section
      id="conversation"
      ref={view}
      tabIndex={0}
      aria-label="Conversation"
      aria-busy={live !== undefined}
      onScroll={onScroll}
    >
      <div class="column">
        {isNew.value ? (
          <Welcome />
        ) : (
          messages.map((message) => {
            const shown = live?.id === message.id ? live : message;
            return <MessageView key={message.id} message={shown} live={shown === live} />;
          })
        )}
      </div>
    </section>
  );
}
