/** What a chat shows before its first question. */

import { ask, canAsk } from '../state/answer.js';
import { BUILT_IN } from '../state/built_in.js';
import { loaded, loading } from '../state/engine.js';

export function Welcome() {
  const source = loaded.value?.source ?? loading.value?.source ?? BUILT_IN;
  const { questions = [] } = source;
  return (
    <section id="welcome">
      {source.model === BUILT_IN.model ? (
        <>
          <h2>Ask about the Rust standard library</h2>
          <p>
            This small model has 29 million parameters and knows little else. It can be wrong. It runs in this page, and
            nothing you write leaves it.
          </p>
        </>
      ) : (
        <>
          <h2>Ask {source.name}</h2>
          <p>The model runs in this page, and nothing you write leaves it. It can be wrong.</p>
        </>
      )}
      {questions.length > 0 && (
        <div id="questions" role="group" aria-label="Questions it knows">
          {questions.map((question) => (
            <button key={question} type="button" disabled={!canAsk.value} onClick={() => void ask(question)}>
              {question}
            </button>
          ))}
        </div>
      )}
    </section>
  );
}
