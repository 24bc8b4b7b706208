// README's table of families and executors, made of what a run of scripts/proof.mjs wrote, and of nothing else.

export const START = '<!-- proof: made by scripts/proof.mjs from its newest result; `node scripts/proof.mjs --table` writes it -->\n';
export const END = '<!-- end of proof -->\n';

/** Executors, in the table's order. */
export const DEVICES = ['reference', 'cpu', 'webgpu', 'cuda', 'rocm', 'metal', 'mlx', 'xla-cpu', 'tpu'];

/** What a device was. */
const KINDS = {
  card: 'a card', cpu: '', library: 'its maker’s library on a CPU', software: 'a GPU in software', emulator: 'emulated', compiled: 'compiled alone',
};

/** Families that are alike, by their names in `rlx_core::models::FAMILIES`. */
export const GROUPS = [
  ['dense decoders', ['llama32', 'mistral', 'granite', 'minicpm', 'smollm3', 'olmo2', 'phi3', 'qwen2', 'qwen3', 'gemma', 'gemma2', 'gemma3', 'gemma4']],
  ['latent attention', ['minicpm3', 'deepseek']],
  ['experts', ['mixtral', 'gpt_oss', 'qwen3_moe']],
  ['recurrences and convolutions', ['qwen3_next', 'qwen35', 'lfm2']],
  ['block diffusion', ['llada', 'llada_moe', 'llada2']],
  ['vectors of texts', ['bert', 'nomic_bert', 'modernbert']],
  ['vectors of images', ['vit', 'dinov2']],
  ['masks', ['sam', 'sam2', 'sam3']],
  ['speech', ['wav2vec2']],
  ['pictures', ['flux2', 'flux2_vae']],
];

/** Verdicts of a record, the worst first, with their marks. */
const MARKS = [
  ['differs', '≠'], ['failed', '!'], ['timeout', '…'], ['refused', '✗'], ['compiled', 'c'], ['part', '✓'], ['agrees', '✓'],
];
const worst = (verdicts) => MARKS.find(([verdict]) => verdicts.includes(verdict));

/** Each family's mark on a device; families without a result are absent. */
function marks(result, device, families) {
  const of = (family) => result.cells.filter((cell) => cell.device === device && cell.family === family).map((cell) => cell.verdict);
  return families.map(of).filter((verdicts) => verdicts.length > 0).map((verdicts) => worst(verdicts)[1]);
}

/** `✓ 7, ✗ 2`: how many families have which mark. */
function cell(result, device, families) {
  const found = marks(result, device, families);
  const kinds = [...new Set(MARKS.map(([, mark]) => mark))].reverse();
  return kinds.map((mark) => [mark, found.filter((own) => own === mark).length]).filter(([, count]) => count > 0)
    .map(([mark, count]) => `${mark} ${count}`).join(', ');
}

/** What a device does not take, by reason: `mlx: qwen3_next (…)`. */
function refusals(result, device) {
  const reasons = new Map();
  for (const { family, says } of result.cells.filter((own) => own.device === device && own.verdict === 'refused')) {
    reasons.set(says, (reasons.get(says) ?? new Set()).add(family));
  }
  return [...reasons].map(([says, families]) => `- ${device}: ${[...families].sort().join(', ')}: ${says.replaceAll('|', '/')}`);
}

/** The table of a result. */
export function table(result) {
  const there = DEVICES.filter((device) => device in result.devices);
  const header = (device) => {
    const { kind } = result.devices[device];
    return KINDS[kind] ? `${device} (${KINDS[kind]})` : device;
  };
  const commits = [...new Set(result.cells.map((own) => own.commit))].sort();
  const lines = [
    `Of ${result.date}, ${commits.length > 1 ? 'commits' : 'commit'} ${commits.join(', ')}: how many families agree with their records on each executor (${result.records} records: what PyTorch and llama.cpp computed).`,
    '',
    `| families | ${there.map(header).join(' | ')} |`,
    `| --- |${there.map(() => ' --- |').join('')}`,
    ...GROUPS.map(([name, families]) => `| ${name}: ${families.join(', ')} | ${there.map((device) => cell(result, device, families)).join(' | ')} |`),
    '',
    `✓ agrees, ✗ refused, c compiled and not run, … not done within ${result.limit_s} s, ≠ differs, ! failed; the worst of a family's records counts, and empty cells were not tried.`,
  ];
  const count = (device) => result.cells.filter((own) => own.device === device).length;
  const on = there.map((device) => `${device}: ${[result.devices[device].on, `${count(device)} records`].filter(Boolean).join(', ')}`);
  lines.push(`Run on ${on.join('; ')}.`);
  const refused = there.flatMap((device) => refusals(result, device));
  if (refused.length > 0) lines.push('', 'Refused:', '', ...refused);
  return `${lines.join('\n')}\n`;
}

/** The page with the table in its place; null where it has no place for it. */
export function withTable(page, text) {
  const [from, to] = [page.indexOf(START), page.indexOf(END)];
  if (from < 0 || to < from) return null;
  return page.slice(0, from + START.length) + text + page.slice(to);
}
