/** The page. */

import { signal } from '@preact/signals';
import { Composer } from './chat/composer.js';
import { ConversationView } from './chat/conversation.js';
import { ConversationsList } from './chat/conversations_list.js';
import { Heard } from './chat/heard.js';
import { Status } from './chat/status.js';
import { listen } from './models/drop.js';
import { Progress } from './models/progress.js';
import { current } from './state/conversations.js';
import { loaded, loading } from './state/engine.js';
import { Dialog } from './ui/dialog.js';
import { FailureView } from './ui/failure_view.js';
import { Icon } from './ui/icons.js';
import { lazy } from './ui/lazy.js';
import { NewsView } from './ui/news_view.js';
import { viewShown } from './views.js';

const SettingsDrawer = lazy(async () => (await import('./chat/settings_drawer.js')).default);
const ModelsDialog = lazy(async () => (await import('./models/models_dialog.js')).default);

/** What lies over the page. */
const over = signal<'conversations' | 'settings' | 'models' | undefined>(undefined);
/** Whether there is room for the list of conversations beside the chat. */
const wide = signal(true);
const room = matchMedia('(min-width: 60rem)');
const measure = () => (wide.value = room.matches);
room.addEventListener('change', measure);
measure();
/** Whether files are being dragged over the page. */
const dragged = signal(false);
listen((over) => (dragged.value = over));

export function App() {
  const name = loaded.value?.source.name ?? loading.value?.source.name ?? 'No model';
  const close = () => (over.value = undefined);
  const view = viewShown();
  if (view) {
    return (
      <>
        <view.Component />
        <NewsView />
      </>
    );
  }
  return (
    <>
      {wide.value && (
        <nav class="panel" aria-label="Chats">
          <h1>RLX</h1>
          <ConversationsList />
        </nav>
      )}
      <div class="main">
        <header class="bar">
          {!wide.value && (
            <>
              <button
                type="button"
                class="quiet"
                aria-label="Chats"
                title="Chats"
                onClick={() => (over.value = 'conversations')}
              >
                <Icon name="menu" />
              </button>
              <h1 class="hidden">RLX</h1>
            </>
          )}
          <button
            id="models"
            type="button"
            class="quiet model"
            aria-haspopup="dialog"
            title="Choose a model"
            onClick={() => (over.value = 'models')}
          >
            <span class="hidden">Model: </span>
            <bdi>{name}</bdi>
            <Icon name="down" />
          </button>
          <button
            id="settings"
            type="button"
            class="quiet"
            aria-haspopup="dialog"
            aria-label="Settings of this chat"
            title="Settings of this chat"
            onClick={() => (over.value = 'settings')}
          >
            <Icon name="settings" />
          </button>
        </header>
        <main>
          <Progress />
          <FailureView />
          <ConversationView />
          <Composer />
        </main>
        <Status />
      </div>
      <Heard />
      <NewsView />
      {dragged.value && (
        <div id="drop" aria-hidden="true">
          <p>Drop a model to load it, or text files to ask about them</p>
        </div>
      )}
      {over.value === 'conversations' && !wide.value && (
        <Dialog title="Chats" kind="left" onClose={close}>
          <ConversationsList onDone={close} />
        </Dialog>
      )}
      {over.value === 'settings' && <SettingsDrawer key={current.value.id} onClose={close} />}
      {over.value === 'models' && <ModelsDialog onClose={close} />}
    </>
  );
}
