/** The question and what is found: arrows go through the passages, Enter opens one. */

import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { attach } from '../state/attachments.js';
import { plural } from '../ui/format.js';
import { answer, MOST_LETTERS, query } from './query.js';
import type { Answer, Result } from './query.js';
import { placeOf, Reading } from './reading.js';
import { marked } from './score.js';
import { indexing } from './state.js';

/** How many passages go with a question of the chat. */
const FOR_CHAT = 3;
const SHOWN_LETTERS = 420;

/** The passage that the arrows are at; -1 is none. */
const active = signal(-1);

export function Finder() {
  const [open, setOpen] = useState<Result>();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus({ preventScroll: true }), []);
  const found = answer.value;
  const results = found?.results ?? [];
  const at = Math.min(active.value, results.length - 1);
  const move = (to: number) => {
    active.value = Math.max(-1, Math.min(results.length - 1, to));
    document.getElementById(`result-${active.value}`)?.scrollIntoView({ block: 'nearest' });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 5, PageUp: at - 5 }[event.key];
    if (to !== undefined) move(to);
    else if (event.key === 'Enter' && results[Math.max(0, at)]) setOpen(results[Math.max(0, at)]);
    else return;
    event.preventDefault();
  };
  return (
    <section class="finder" aria-label="Search">
      <input
        id="search-query"
        ref={field}
        type="search"
        list={undefined}
        role="combobox"
        aria-label="What are you looking for?"
        aria-controls="search-results"
        aria-expanded={results.length > 0}
        aria-autocomplete="none"
        {...(at >= 0 && { 'aria-activedescendant': `result-${at}` })}
        placeholder="What are you looking for?"
        autocomplete="off"
        maxLength={MOST_LETTERS}
        value={query.value}
        onInput={(event) => {
          active.value = -1;
          query.value = event.currentTarget.value;
        }}
        onKeyDown={onKeyDown}
      />
      <div class="row">
        <p id="search-told" class="hint grow" role="status">
          {told(found)}
        </p>
        {found && results.length > 0 && <ToChat found={found} />}
      </div>
      <ol
        id="search-results"
        role="listbox"
        aria-label="Passages"
        aria-busy={(found?.query ?? '') !== query.value.trim()}
      >
        {results.map((result, i) => (
          <ResultView
            key={`${result.passage.file.path} ${result.passage.start}`}
            id={`result-${i}`}
            result={result}
            query={found!.query}
            active={i === at}
            onOpen={() => {
              active.value = i;
              setOpen(result);
            }}
          />
        ))}
      </ol>
      {open && <Reading result={open} onClose={() => setOpen(undefined)} />}
    </section>
  );
}

function told(found: Answer | undefined): string {
  if (!found) return query.value.trim() === '' ? 'Ask a question, or say what the passage is about.' : 'Searching';
  if (found.results.length === 0) return 'There is nothing to search yet.';
  const all = `${plural(found.of, 'passage')}${indexing.value ? ' that are read so far' : ''}`;
  return `The nearest ${found.results.length} of ${all}. Arrows choose one, Enter opens it.`;
}

/** Takes the best passages to the chat, where a question about them can be asked. */
function ToChat({ found }: { found: Answer }) {
  const take = async () => {
    await attach(
      found.results.slice(0, FOR_CHAT).map(({ passage }) => {
        const { file, start, end } = passage;
        return new File([file.text.slice(start, end)], `${file.path}, ${placeOf(passage)}`);
      }),
    );
    location.hash = '';
  };
  return (
    <button id="search-chat" type="button" onClick={() => void take()}>
      Ask the chat about the first {Math.min(FOR_CHAT, found.results.length)}
    </button>
  );
}

interface Properties {
  id: string;
  result: Result;
  query: string;
  active: boolean;
  onOpen: () => void;
}

function ResultView({ id, result: { passage, score }, query, active, onOpen }: Properties) {
  const { file, start, end } = passage;
  const text = file.text.slice(start, Math.min(end, start + SHOWN_LETTERS)).replace(/\n{2,}/g, '\n');
  return (
    <li id={id} class={active ? 'result active' : 'result'} role="option" aria-selected={active} onClick={onOpen}>
      <div class="place">
        <bdi class="path">{file.path}</bdi>
        <small>
          <bdi>{placeOf(passage)}</bdi>
        </small>
        <Score score={score} />
      </div>
      <p dir="auto">
        <Marked text={text} query={query} />
        {start + SHOWN_LETTERS < end && ' …'}
      </p>
    </li>
  );
}

function Score({ score }: { score: number }) {
  const part = Math.max(0, Math.min(1, score));
  return (
    <span class="score">
      <span class="hidden">nearness </span>
      <svg viewBox="0 0 40 4" width="40" height="4" aria-hidden="true" preserveAspectRatio="none">
        <rect class="whole" width="40" height="4" rx="2" />
        <rect width={40 * part} height="4" rx="2" />
      </svg>
      {score.toFixed(2)}
    </span>
  );
}

export const Marked = ({ text, query }: { text: string; query: string }) => (
  <>{marked(text, query).map(({ text: piece, marked: is }, i) => (is ? <mark key={i}>{piece}</mark> : piece))}</>
);
