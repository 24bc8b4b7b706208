/** What a benchmark found: two charts, a table with the same numbers, what was not measured, and all of it as JSON. */

import { DataTable } from '../ui/data_table.js';
import { bytes, milliseconds, plural } from '../ui/format.js';
import { Chart } from './chart.js';
import type { Bar } from './chart.js';
import { ceiling, decodeRate, firstToken, grouped as rate, promptRate } from './figures.js';
import type { Spread } from './figures.js';
import { Share } from './share.js';
import { NAMES } from './types.js';
import type { Benchmark, Measured } from './types.js';

/** With the threads that it had. */
const nameOf = ({ executor, threads }: Measured) =>
  threads && threads > 1
    ? `${executor.startsWith('wllama') ? 'wllama' : 'CPU'}, ${plural(threads, 'thread')}`
    : NAMES[executor];
const isPeer = ({ executor }: Measured) => executor.startsWith('wllama');

/** `62 % of what its memory allows`. */
function share(each: Measured, value: number): string {
  const most = ceiling(each);
  return most ? `${Math.round((100 * value) / most)} % of what this memory allows (${rate(most)})` : '';
}

function bars({ measured, plan }: Benchmark, of: (each: Measured) => Spread | undefined, decode: boolean): Bar[] {
  return measured.flatMap((each) => {
    const found = of(each);
    if (!found) return [];
    const spread = `${rate(found.least)} to ${rate(found.most)}`;
    return {
      name: nameOf(each),
      value: found.median,
      most: decode ? ceiling(each) : undefined,
      peer: isPeer(each),
      note: (decode && share(each, found.median)) || `${plan.rounds} rounds: ${spread}`,
    };
  });
}

const cell = (found: Spread | undefined, show: (value: number) => string) =>
  found ? (
    <>
      {show(found.median)}{' '}
      <small>
        {show(found.least)} – {show(found.most)}
      </small>
    </>
  ) : (
    '–'
  );

export function Results({ benchmark }: { benchmark: Benchmark }) {
  const { model, plan, measured, missing } = benchmark;
  const longest = plan.prompts.at(-1)!;
  return (
    <section class="report" aria-label="Results" id="benchmark-results" tabIndex={-1}>
      <h2>
        <bdi>{model.name}</bdi>
      </h2>
      {measured.length > 0 && (
        <>
          <div class="charts">
            <Chart
              title="Writing: tokens of an answer per second"
              bars={bars(benchmark, (each) => decodeRate(each, plan.prompts), true)}
            />
            <Chart
              title={`Reading: tokens per second of a prompt of ${longest}`}
              bars={bars(benchmark, (each) => promptRate(each, longest), false)}
            />
          </div>
          <p class="hint">
            The line is what memory allows: every weight is read once for each token, as fast as{' '}
            {measured.some(({ executor }) => executor === 'webgpu') &&
              'the GPU copies memory (reads and writes counted), or '}
            the processor reads so many bytes with as many threads. Models with experts, or with a table of tokens that
            is not their head, read less than all weights and may come above it.
          </p>
          <DataTable
            named
            caption={`Medians, with the least and the most of ${plan.rounds} rounds`}
            head={[
              'Executor',
              'Writing, tokens/s',
              'Share of memory’s speed',
              ...plan.prompts.map((each) => `Prompt of ${each}, tokens/s`),
              'First token',
              'Load',
              'Memory',
            ]}
            rows={measured.map((each) => {
              const decode = decodeRate(each, plan.prompts);
              const most = ceiling(each);
              return [
                <>
                  {nameOf(each)} <small>{each.adapter}</small>
                </>,
                cell(decode, rate),
                decode && most
                  ? `${Math.round((100 * decode.median) / most)} % of ${rate(each.bandwidth!.bytes_per_s / 1e9)} GB/s`
                  : '–',
                ...plan.prompts.map((prompt) => cell(promptRate(each, prompt), rate)),
                cell(firstToken(each, plan.prompts), milliseconds),
                milliseconds(each.load_ms),
                each.memory_bytes === null ? '–' : bytes(each.memory_bytes),
              ];
            })}
          />
        </>
      )}
      {missing.length > 0 && (
        <ul class="missing" aria-label="Not measured">
          {missing.map(({ executor, why }) => (
            <li key={executor}>
              <strong>{NAMES[executor]}</strong> was not measured. {why}
            </li>
          ))}
        </ul>
      )}
      <Share label="The result" id="benchmark-json" file="benchmark.json" value={benchmark} />
    </section>
  );
}
